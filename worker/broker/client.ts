// A broker in some dialect: finds or opens each account's session and each application's market, keeps their call
// budgets, bounds the number of connections, and closes unused ones.

import type { CallRecords } from '../../db/platform/call-records.ts'
import type { Dialect, Place } from './dialects/dialect.ts'
import { MarketData } from './market.ts'
import type { BrokerLog, Unreachable } from './port.ts'
import { type Broker, type BrokerAccount, BrokerError, type Market, type Session } from './port.ts'
import type { BrokerTicks } from './ticks.ts'
import type { CallLimits } from './transport/call-window.ts'
import { Gate } from './transport/gate.ts'
import { Line } from './transport/line.ts'
import { Budget } from './transport/quota.ts'
import { Reachability } from './transport/reachability.ts'
import { AccountSession } from './transport/session.ts'
import { Connection, type FrameCounters } from './transport/sockets.ts'

export interface ClientOptions {
  log: BrokerLog
  /** Time-out of a response (15 s); buys and sells get a little longer. */
  answerTimeoutMs?: number
  /** How long a connection without calls and streams stays open (60 s). */
  idleCloseMs?: number
  connectTimeoutMs?: number
  maxConnections?: number
  /** How long a contract's stream may be missing before `lost` is called on its listener (60 s). */
  lostAfterMs?: number
  /** What a contract must have until its end to be without a stream meanwhile (30 s), and when that is opened (10 s before). */
  restFromMs?: number
  restAheadMs?: number
  /** How long an asset's ticks go on without a subscriber (10 s). */
  ticksKeptMs?: number
  /** Wall clock, ms. */
  now?: () => number
  /** Where accounts' calls are recorded, so that their quotas hold over processes. */
  records?: CallRecords | undefined
}

interface ConnectionEntry {
  line: Line
  session: AccountSession | null
  /** Of market data. */
  ticks: BrokerTicks | null
  /** The latest way to the account's token. */
  account: BrokerAccount | null
  /** Whose it is, where the dialect counts connections by user. */
  user: string | null
  /** Aborted when the next, or present, opening is urgent. */
  hurry: AbortController
}

const maxHandshakes = 64
/** Contracts parked for less keep their connection: they would be back at once. */
const MIN_REST_MS = 20_000
const maxBlankBudgets = 2_000

/** A Broker with the dialect. Opens nothing until it is used. */
export function createClient(dialect: Dialect, options: ClientOptions): Broker {
  return new Client(dialect, options)
}

class Client implements Broker {
  readonly #dialect: Dialect
  readonly #options: Required<Omit<ClientOptions, 'records'>> & Pick<ClientOptions, 'records'>
  readonly #sessions = new Map<string, ConnectionEntry & { session: AccountSession }>()
  readonly #markets = new Map<string, { entry: ConnectionEntry; market: MarketData }>()
  readonly #connected = new Set<ConnectionEntry>()
  readonly #budgets = new Map<string, Budget>()
  readonly #pipSizes = new Map<string, number>()
  readonly #counters: FrameCounters = { invalid: 0, stray: 0, unreadable: 0 }
  readonly #handshakes = new Gate(maxHandshakes)
  readonly #sweeper: NodeJS.Timeout
  readonly #reachability: Reachability
  #lastAppId = ''
  #limits: CallLimits
  #closed = false

  constructor(dialect: Dialect, options: ClientOptions) {
    this.#dialect = dialect
    this.#limits = dialect.limits
    this.#options = {
      answerTimeoutMs: 15_000,
      idleCloseMs: 60_000,
      connectTimeoutMs: 10_000,
      maxConnections: 5_000,
      lostAfterMs: 60_000,
      restFromMs: 30_000,
      restAheadMs: 10_000,
      ticksKeptMs: 10_000,
      now: Date.now,
      ...options
    }
    this.#reachability = new Reachability({
      what: new URL(dialect.probeAddress('')).origin,
      log: this.#options.log,
      probe: () => this.#probe()
    })
    this.#sweeper = setInterval(() => this.#sweep(), Math.max(50, this.#options.idleCloseMs / 4))
    this.#sweeper.unref()
  }

  async session(account: BrokerAccount, { anew = false } = {}): Promise<Session> {
    if (this.#closed) throw closed()
    const key = `${account.appId} ${account.accountId} ${account.credentialId ?? ''}`
    let entry = this.#sessions.get(key)
    if (entry === undefined) {
      entry = this.#newSession(account)
      this.#sessions.set(key, entry)
    }
    entry.account = account
    if (account.leisurely !== true && entry.line.current === null) entry.hurry.abort()
    if (anew && entry.line.current !== null) entry.line.retire(entry.line.current, replaced())
    if (entry.line.current === null) await entry.line.connect()
    return entry.session
  }

  market(appId: string): Market {
    return this.#market(appId)
  }

  async reachable(appId: string): Promise<boolean> {
    const { connectTimeoutMs, log } = this.#options
    try {
      this.#market(appId)
      await this.#markets.get(appId)!.entry.line.read('ping', { ping: 1 }, { timeoutMs: connectTimeoutMs })
      return true
    } catch (error) {
      log.info({ err: error }, 'the broker cannot be reached')
      return false
    }
  }

  unreachable(): Unreachable[] {
    const { down } = this.#reachability
    return [...(down === null ? [] : [down]), ...(this.#dialect.unreachable?.() ?? [])]
  }

  /** Opens a socket and closes it: any response shows that the broker can be reached. */
  async #probe(): Promise<void> {
    const { connectTimeoutMs, log } = this.#options
    const url = this.#dialect.probeAddress(this.#lastAppId)
    const counters: FrameCounters = { invalid: 0, stray: 0, unreadable: 0 }
    const connection = await Connection.open({ url, connectTimeoutMs, log, counters, onClose: () => {} })
    connection.close()
  }

  accounts(): string[] {
    return [...this.#sessions.values()].flatMap(({ account }) => (account === null ? [] : [account.accountId]))
  }

  async leave(accountIds: string[]): Promise<void> {
    const left = new Set(accountIds)
    for (const [key, entry] of this.#sessions) {
      if (entry.account === null || !left.has(entry.account.accountId) || !isIdle(entry)) continue
      this.#hangUp(entry)
      this.#sessions.delete(key)
    }
    const budgets = [...this.#budgets].filter(([key]) => left.has(key.slice(key.indexOf(' ') + 1)))
    await Promise.all(budgets.map(([, budget]) => budget.settle()))
  }

  budget(): Record<string, number> {
    const least: Record<string, number> = {}
    for (const budget of this.#budgets.values()) {
      for (const [name, left] of Object.entries(budget.left())) least[name] = Math.min(least[name] ?? 1, left)
    }
    return least
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#sweeper)
    this.#reachability.close()
    this.#dialect.close?.()
    for (const { line, session } of this.#sessions.values()) {
      line.close()
      session.follows.close(closed())
    }
    for (const { entry, market } of this.#markets.values()) {
      market.ticks.close()
      entry.line.close()
    }
    // Those whose entry was swept while their session was still in use.
    for (const entry of [...this.#connected]) entry.line.close()
    // The next worker that serves these accounts reads what was spent; where that fails, it counts on more.
    await Promise.allSettled([...[...this.#budgets.values()].map(budget => budget.settle()), this.#dialect.settle?.()])
  }

  #market(appId: string): MarketData {
    const known = this.#markets.get(appId)
    if (known !== undefined) return known.market
    const budget = this.#budget(appId, '')
    const entry: ConnectionEntry = {
      line: this.#newLine(() => entry, { appId, budget }),
      session: null,
      ticks: null,
      account: null,
      user: null,
      hurry: new AbortController()
    }
    const { log, now, ticksKeptMs } = this.#options
    const { line } = entry
    const market = new MarketData({ line, dialect: this.#dialect, log, now, pipSizes: this.#pipSizes, ticksKeptMs })
    entry.ticks = market.ticks
    this.#markets.set(appId, { entry, market })
    return market
  }

  #newSession(account: BrokerAccount): ConnectionEntry & { session: AccountSession } {
    const { accountId, appId } = account
    const { log, answerTimeoutMs, lostAfterMs, restFromMs, restAheadMs, now } = this.#options
    const line: Line = this.#newLine(() => entry, { appId, budget: this.#budget(appId, accountId) })
    const session = new AccountSession({
      accountId,
      line,
      dialect: this.#dialect,
      pipSizeOf: asset => this.#pipSizes.get(asset),
      log,
      answerTimeoutMs,
      lostAfterMs,
      restFromMs,
      restAheadMs,
      now,
      secondsUntilReopening: (asset, openings) => this.#market(appId).secondsUntilReopening(asset, openings)
    })
    const entry = { line, session, ticks: null, account, user: null, hurry: new AbortController() }
    return entry
  }

  #newLine(entryOf: () => ConnectionEntry, { appId, budget }: { appId: string; budget: Budget }): Line {
    const { log, answerTimeoutMs } = this.#options
    return new Line({
      budget,
      log,
      answerTimeoutMs,
      classOf: call => this.#dialect.classOf(call),
      onDown: connection => {
        const entry = entryOf()
        if (entry.line.current === null) this.#connected.delete(entry)
        entry.session?.follows.down(connection)
        entry.ticks?.down(connection)
      },
      open: onClose => this.#open(entryOf(), { appId, budget, onClose })
    })
  }

  async #open(
    entry: ConnectionEntry,
    opening: { appId: string; budget: Budget; onClose: (cause: BrokerError) => void }
  ): Promise<Connection> {
    if (this.#closed) throw closed()
    const { connectTimeoutMs, answerTimeoutMs, log } = this.#options
    const { appId, budget, onClose } = opening
    this.#lastAppId = appId
    const forgets = this.#dialect.classOf('forget')
    const forgetBudget = { take: () => budget.take(forgets), backOff: () => budget.backOff(forgets) }
    this.#makeRoom(this.#connected, this.#options.maxConnections)
    this.#connected.add(entry)
    const place: Place = {
      appId,
      budget,
      log,
      answerTimeoutMs,
      hurry: entry.hurry.signal,
      learnLimits: limits => {
        this.#limits = limits
        budget.setLimits(limits)
      },
      connect: url =>
        this.#handshakes.run(connectTimeoutMs, () =>
          this.#reachability.guard(() =>
            Connection.open({ url, connectTimeoutMs, log, counters: this.#counters, forgetBudget, onClose })
          )
        ),
      claimSeat: (user, most) => {
        entry.user = user
        this.#makeRoom(new Set([...this.#connected].filter(each => each !== entry && each.user === user)), most)
      }
    }
    try {
      const { account } = entry
      return await (account === null ? this.#dialect.openMarket(place) : this.#dialect.openAccount(place, account))
    } catch (error) {
      this.#connected.delete(entry)
      throw error
    } finally {
      entry.hurry = new AbortController()
    }
  }

  /**
   * At the bound, the longest unused connections of these make room, a hundredth at once; of the application that has
   * most of them, so that one partner's many accounts do not close the connections of others. Where all are in use, the
   * one whose contracts are parked longest does; they are subscribed to again before they end.
   */
  #makeRoom(among: ReadonlySet<ConnectionEntry>, most: number): void {
    if (among.size < most) return
    const byApp = [...Map.groupBy(among, ({ account }) => account?.appId).values()]
    byApp.sort((a, b) => b.length - a.length)
    const idle = byApp.map(entries => entries.filter(isIdle)).find(entries => entries.length > 0)
    const resting = idle ? undefined : longestAtRest([...among])
    const leaving = idle?.sort((a, b) => a.line.usedAt - b.line.usedAt).slice(0, Math.ceil(most / 100)) ?? [resting]
    if (leaving[0] === undefined) {
      throw new BrokerError('BROKER_UPSTREAM', 'There are too many connections to the broker.', {
        brokerCode: 'TooManyConnections',
        ran: 'no'
      })
    }
    resting?.session?.follows.giveWay()
    for (const entry of leaving) if (entry) this.#hangUp(entry)
  }

  #sweep(): void {
    const since = performance.now() - this.#options.idleCloseMs
    for (const entry of this.#connected) if (isIdle(entry) && entry.line.usedAt < since) this.#hangUp(entry)
    for (const [key, entry] of this.#sessions) {
      if (entry.line.current === null && isIdle(entry) && entry.line.usedAt < since) this.#sessions.delete(key)
    }
    if (this.#budgets.size <= maxBlankBudgets) return
    for (const [key, budget] of this.#budgets) if (budget.blank) this.#budgets.delete(key)
  }

  #hangUp(entry: ConnectionEntry): void {
    this.#connected.delete(entry)
    entry.line.hangUp()
  }

  #budget(appId: string, accountId: string): Budget {
    const key = `${appId} ${accountId}`
    let budget = this.#budgets.get(key)
    if (budget === undefined) {
      const scope = `${this.#dialect.name} ${appId} ${accountId}`
      // Market data comes over connections of this process alone.
      const records = accountId === '' ? undefined : this.#options.records?.of(scope)
      budget = new Budget(this.#limits, { records })
      this.#budgets.set(key, budget)
    }
    return budget
  }
}

function isIdle({ line, session, ticks }: ConnectionEntry): boolean {
  return !line.busy && (session === null || session.follows.size === 0) && ticks?.busy !== true
}

/** Of connections without a call under way, the one whose contracts are all parked, for the longest time. */
function longestAtRest(entries: ConnectionEntry[]): ConnectionEntry | undefined {
  let longest: ConnectionEntry | undefined
  let longestMs = MIN_REST_MS
  for (const entry of entries) {
    const restMs = entry.line.busy ? 0 : (entry.session?.follows.restMs ?? 0)
    if (restMs <= longestMs) continue
    longest = entry
    longestMs = restMs
  }
  return longest
}

function replaced(): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The connection to the broker was replaced.', {
    brokerCode: 'Disconnected',
    ran: 'no'
  })
}

function closed(): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The connection to the broker was closed.', {
    brokerCode: 'Disconnected',
    ran: 'no'
  })
}

// A broker in some dialect: finds or opens each account's session and each application's market, keeps their call
// budgets, bounds the number of connections, and closes unused ones.

import type { CallRecords } from '../../db/platform/call-records.ts'
import { BrokerError, closed } from './broker-error.ts'
import { Budgets } from './budgets.ts'
import { type ConnectionEntry, claimSeat, isIdle, makeRoom } from './connections.ts'
import type { Dialect, DialectContext } from './dialects/dialect.ts'
import { MarketData } from './market.ts'
import { type MarkupReport, type ReportAccess, reporterOf } from './markup-report.ts'
import type { Broker, BrokerAccount, BrokerLog, Market, MarketSymbol, Session, Unreachable } from './port.ts'
import { Gate } from './transport/gate.ts'
import type { Budget } from './transport/quota.ts'
import { Reachability } from './transport/reachability.ts'
import { ReconnectingConnection } from './transport/reconnecting.ts'
import { AccountSession } from './transport/session.ts'
import { BrokerConnection, type FrameCounters } from './transport/sockets.ts'

export interface ClientOptions {
  log: BrokerLog
  /** How the broker is called where it cannot be reached; its address unless given. */
  what?: string
  /** Time-out of a response (15 s); buys and sells get a little longer. */
  responseTimeoutMs?: number
  /** How long a connection without calls and streams stays open (60 s). */
  idleCloseMs?: number
  connectTimeoutMs?: number
  maxConnections?: number
  /** How long a contract's stream may be missing before `lost` is called on its listener (60 s). */
  lostAfterMs?: number
  /** What a contract must have until its end to be without a stream meanwhile (30 s), and when that is opened (10 s before). */
  parkFromMs?: number
  unparkAheadMs?: number
  /** How long an asset's ticks go on without a subscriber (10 s). */
  ticksKeptMs?: number
  /** Wall clock, ms. */
  now?: () => number
  /** Where accounts' calls are recorded, so that their quotas hold over processes. */
  records?: CallRecords | undefined
}

const HANDSHAKES = { least: 64 }
// Openings at a time that serve subscriptions to contracts only. When a worker takes over hundreds of accounts, these would fill
// its processor and the broker's queues: an order's opening would end with the last of them, and with time-outs the broker would
// be taken for unreachable. While openings are quick, more run at a time.
const LEISURELY = { least: 8, most: 24 }
const LEISURELY_WAIT_MS = 60_000

/** A Broker with the dialect. Opens nothing until it is used. */
export function createClient(dialect: Dialect, options: ClientOptions): Broker {
  return new BrokerClient(dialect, options)
}

class BrokerClient implements Broker {
  readonly #dialect: Dialect
  readonly #options: Required<Omit<ClientOptions, 'records' | 'what'>> & Pick<ClientOptions, 'records'>
  readonly #sessions = new Map<string, ConnectionEntry & { session: AccountSession }>()
  readonly #markets = new Map<string, { entry: ConnectionEntry; market: MarketData }>()
  readonly #connected = new Set<ConnectionEntry>()
  readonly #budgets: Budgets
  readonly #pipSizes = new Map<string, number>()
  readonly #counters: FrameCounters = { invalid: 0, stray: 0, unreadable: 0 }
  readonly #handshakes = new Gate(HANDSHAKES)
  readonly #leisurely = new Gate(LEISURELY)
  readonly #sweeper: NodeJS.Timeout
  readonly #reachability: Reachability
  #lastAppId = ''
  #closed = false

  constructor(dialect: Dialect, options: ClientOptions) {
    this.#dialect = dialect
    this.#options = {
      responseTimeoutMs: 15_000,
      idleCloseMs: 60_000,
      connectTimeoutMs: 10_000,
      maxConnections: 5_000,
      lostAfterMs: 60_000,
      parkFromMs: 30_000,
      unparkAheadMs: 10_000,
      ticksKeptMs: 10_000,
      now: Date.now,
      ...options
    }
    const { records, log } = this.#options
    this.#budgets = new Budgets({ dialect: dialect.name, limits: dialect.limits, records, log })
    this.#reachability = new Reachability({
      what: options.what ?? new URL(dialect.probeAddress('')).origin,
      log,
      probe: () => this.#probe()
    })
    this.#sweeper = setInterval(() => this.#sweep(), Math.max(50, this.#options.idleCloseMs / 4))
    this.#sweeper.unref()
  }

  async session(account: BrokerAccount, { anew = false } = {}): Promise<Session> {
    if (this.#closed) throw closed()
    const key = keyOf(account)
    let entry = this.#sessions.get(key)
    if (entry === undefined) {
      entry = this.#newSession(account)
      this.#sessions.set(key, entry)
    }
    entry.account = account
    if (account.leisurely !== true && entry.reconnecting.current === null) entry.hurry.abort()
    if (anew && entry.reconnecting.current !== null) entry.reconnecting.retire(entry.reconnecting.current, replaced())
    if (entry.reconnecting.current === null) await entry.reconnecting.connect()
    return entry.session
  }

  unsubscribe(account: Pick<BrokerAccount, 'appId' | 'accountId' | 'credentialId'>, contractId: string): void {
    this.#sessions.get(keyOf(account))?.session.unsubscribe(contractId)
  }

  market(appId: string): Market {
    return this.#market(appId)
  }

  async markupReport(access: ReportAccess, day: string): Promise<MarkupReport> {
    if (this.#closed) throw closed()
    const { appId } = access
    const reporter = reporterOf(access)
    this.#lastAppId = appId
    const budget = this.#budgets.of(appId, reporter)
    // Never aborted: orders and watched contracts always go before a report.
    const hurry = new AbortController().signal
    try {
      return await this.#dialect.reportMarkup(this.#place({ appId, budget, hurry, onClose: () => {} }), access, day)
    } finally {
      // The next report is read by whichever worker takes the job.
      await this.#settle(new Set([reporter])).catch((error: unknown) =>
        this.#options.log.warn({ err: error }, 'the calls of a report could not be recorded')
      )
    }
  }

  async reachable(appId: string): Promise<boolean> {
    const { connectTimeoutMs, log } = this.#options
    try {
      this.#market(appId)
      await this.#markets.get(appId)!.entry.reconnecting.read('ping', { ping: 1 }, { timeoutMs: connectTimeoutMs })
      return true
    } catch (error) {
      log.info({ err: error }, 'the broker cannot be reached')
      return false
    }
  }

  unreachable(): Unreachable[] {
    const { unreachable } = this.#reachability
    return [...(unreachable === null ? [] : [unreachable]), ...(this.#dialect.unreachable?.() ?? [])]
  }

  reachedAt(): number | null {
    const isOpen = [...this.#connected].some(entry => entry.reconnecting.current !== null)
    return isOpen ? Date.now() : this.#reachability.reachedAt
  }

  lastSymbols(): { symbols: MarketSymbol[]; at: number } | null {
    const seen = [...this.#markets.values()].flatMap(({ market }) => market.lastSymbols ?? [])
    return seen.sort((a, b) => b.at - a.at)[0] ?? null
  }

  /** Opens a socket, sends a ping and closes it: any response to that, a refusal too, shows that the broker can be reached. */
  async #probe(): Promise<void> {
    const { connectTimeoutMs, log } = this.#options
    const url = this.#dialect.probeAddress(this.#lastAppId)
    const counters: FrameCounters = { invalid: 0, stray: 0, unreadable: 0 }
    const connection = await BrokerConnection.open({ url, connectTimeoutMs, log, counters, onClose: () => {} })
    try {
      await connection.call({ ping: 1 }, { responseKey: 'ping', timeoutMs: connectTimeoutMs })
    } finally {
      connection.close()
    }
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
    await this.#settle(left)
  }

  counted(): string[] {
    return this.#budgets.counted()
  }

  /** Publishes what accounts and reports spent; until all of it is, they are counted. */
  async #settle(spenders: ReadonlySet<string>): Promise<void> {
    await this.#dialect.settle?.(spenders)
    await this.#budgets.settle(spenders)
  }

  budget(): Record<string, number> {
    return this.#budgets.left()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearInterval(this.#sweeper)
    this.#leisurely.close()
    this.#handshakes.close()
    this.#reachability.close()
    this.#dialect.close?.()
    for (const { reconnecting, session } of this.#sessions.values()) {
      reconnecting.close()
      session.subscriptions.close(closed())
    }
    for (const { entry, market } of this.#markets.values()) {
      market.ticks.close()
      entry.reconnecting.close()
    }
    // Entries that were removed from the list while their session was still in use.
    for (const entry of [...this.#connected]) entry.reconnecting.close()
    // The next worker of these accounts reads what was spent here; if it is not published, that worker assumes more.
    await Promise.allSettled([this.#budgets.settle(), this.#dialect.settle?.()])
  }

  #market(appId: string): MarketData {
    const known = this.#markets.get(appId)
    if (known !== undefined) return known.market
    const budget = this.#budgets.of(appId, '')
    const entry: ConnectionEntry = {
      reconnecting: this.#newConnection(() => entry, { appId, budget }),
      session: null,
      ticks: null,
      account: null,
      user: null,
      owner: undefined,
      hurry: new AbortController()
    }
    const { log, now, ticksKeptMs } = this.#options
    const { reconnecting } = entry
    const market = new MarketData({
      reconnecting,
      dialect: this.#dialect,
      log,
      now,
      pipSizes: this.#pipSizes,
      ticksKeptMs
    })
    entry.ticks = market.ticks
    this.#markets.set(appId, { entry, market })
    return market
  }

  #newSession(account: BrokerAccount): ConnectionEntry & { session: AccountSession } {
    const { accountId, appId } = account
    const { log, responseTimeoutMs, lostAfterMs, parkFromMs, unparkAheadMs, now } = this.#options
    const reconnecting: ReconnectingConnection = this.#newConnection(() => entry, {
      appId,
      budget: this.#budgets.of(appId, accountId)
    })
    const session = new AccountSession({
      accountId,
      reconnecting,
      dialect: this.#dialect,
      pipSizeOf: asset => this.#pipSizes.get(asset),
      log,
      responseTimeoutMs,
      lostAfterMs,
      parkFromMs,
      unparkAheadMs,
      now,
      secondsUntilReopening: (asset, openings) => this.#market(appId).secondsUntilReopening(asset, openings)
    })
    const whose = { account, user: null, owner: undefined }
    const entry = { reconnecting, session, ticks: null, ...whose, hurry: new AbortController() }
    return entry
  }

  #newConnection(
    entryOf: () => ConnectionEntry,
    { appId, budget }: { appId: string; budget: Budget }
  ): ReconnectingConnection {
    const { log, responseTimeoutMs } = this.#options
    return new ReconnectingConnection({
      budget,
      log,
      responseTimeoutMs,
      classOf: call => this.#dialect.classOf(call),
      onDown: connection => {
        const entry = entryOf()
        // A session that was given up may end while the next one is being opened.
        if (entry.reconnecting.current === null && !entry.reconnecting.busy) this.#connected.delete(entry)
        entry.session?.subscriptions.down(connection)
        entry.ticks?.down(connection)
      },
      open: onClose => this.#openInTurn(entryOf(), { appId, budget, onClose })
    })
  }

  /** Opens at once for an order or another request, even if the opening was already waiting for its turn. */
  async #openInTurn(
    entry: ConnectionEntry,
    opening: { appId: string; budget: Budget; onClose: (cause: BrokerError) => void }
  ): Promise<BrokerConnection> {
    // Callers wait for market data: it is always opened at once.
    if (entry.account === null) return await this.#open(entry, opening)
    const { signal: hurry } = entry.hurry
    return await this.#leisurely.run({ withinMs: LEISURELY_WAIT_MS, hurry }, () => this.#open(entry, opening))
  }

  async #open(
    entry: ConnectionEntry,
    opening: { appId: string; budget: Budget; onClose: (cause: BrokerError) => void }
  ): Promise<BrokerConnection> {
    if (this.#closed) throw closed()
    this.#lastAppId = opening.appId
    makeRoom(this.#connected, this.#options.maxConnections, each => this.#hangUp(each))
    this.#connected.add(entry)
    const place: DialectContext = {
      ...this.#place({ ...opening, hurry: entry.hurry.signal }),
      claimSeat: (user, most) => {
        entry.user = user
        entry.owner = entry.account?.owner?.()
        const others = [...this.#connected].filter(each => each !== entry)
        claimSeat(entry, others, most, each => this.#hangUp(each))
      }
    }
    const { account } = entry
    try {
      if (account === null) return await this.#dialect.openMarket(place)
      const connection = await this.#dialect.openAccount(place, account)
      connection.tokenVersion = account.version?.()
      return connection
    } catch (error) {
      this.#connected.delete(entry)
      if (error instanceof BrokerError && error.rejected) error.tokenVersion = account?.version?.()
      throw error
    } finally {
      entry.hurry = new AbortController()
    }
  }

  /** What a dialect opens a connection with that counts for no user. */
  #place({
    appId,
    budget,
    hurry,
    onClose
  }: Pick<DialectContext, 'appId' | 'budget' | 'hurry'> & { onClose: (cause: BrokerError) => void }): DialectContext {
    const { connectTimeoutMs, responseTimeoutMs, log } = this.#options
    const { callsPerSecond } = this.#dialect
    const forgets = this.#dialect.classOf('forget')
    const forgetBudget = { take: () => budget.take(forgets), backOff: () => budget.backOff(forgets) }
    return {
      appId,
      budget,
      log,
      responseTimeoutMs,
      hurry,
      learnLimits: limits => {
        this.#budgets.setLimits(limits)
        budget.setLimits(limits)
      },
      connect: url =>
        this.#handshakes.run({ withinMs: connectTimeoutMs }, () =>
          this.#reachability.guard(() =>
            BrokerConnection.open({
              ...{ url, connectTimeoutMs, log, counters: this.#counters, reachability: this.#reachability },
              ...{ callsPerSecond, forgetBudget, onClose }
            })
          )
        ),
      claimSeat: () => {}
    }
  }

  #sweep(): void {
    const since = performance.now() - this.#options.idleCloseMs
    for (const entry of this.#connected) if (isIdle(entry) && entry.reconnecting.usedAt < since) this.#hangUp(entry)
    for (const [key, entry] of this.#sessions) {
      if (entry.reconnecting.current === null && isIdle(entry) && entry.reconnecting.usedAt < since)
        this.#sessions.delete(key)
    }
    this.#budgets.sweep(() => [
      ...[...this.#sessions.values()].flatMap(({ account }) =>
        account === null ? [] : [{ appId: account.appId, spender: account.accountId }]
      ),
      ...[...this.#markets.keys()].map(appId => ({ appId, spender: '' }))
    ])
  }

  #hangUp(entry: ConnectionEntry): void {
    this.#connected.delete(entry)
    entry.reconnecting.hangUp()
  }
}

function keyOf({
  appId,
  accountId,
  credentialId
}: Pick<BrokerAccount, 'appId' | 'accountId' | 'credentialId'>): string {
  return `${appId} ${accountId} ${credentialId ?? ''}`
}

function replaced(): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The connection to the broker was replaced.', {
    brokerCode: 'Disconnected',
    ran: 'no'
  })
}

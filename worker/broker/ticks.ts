// Live prices over the market connection of one application: a subscription at the broker for each wanted asset. A
// subscription ends with its connection and is opened again on the next one.
import Big from 'big.js'
import { pauseAfter } from '../platform/pauses.ts'
import { BrokerError } from './broker-error.ts'
import { bodyOf, decimalOf, integerOf, optionalInteger, textOf } from './dialects/reading.ts'
import type { BrokerLog, Market, Tick, TickStreams } from './port.ts'
import { type ReconnectingConnection, readResponse } from './transport/reconnecting.ts'
import type { BrokerConnection, Frame, Stream } from './transport/sockets.ts'

interface TicksOptions {
  reconnecting: ReconnectingConnection
  market: Pick<Market, 'symbols'>
  log: BrokerLog
  /** Subscriptions that a connection may have. */
  mostStreams: number
  /** Asset → decimals of its printed price. */
  pipSizes: ReadonlyMap<string, number>
  /** How long an asset may bring no tick before its subscription is opened again (60 s). */
  silentMs?: number
  /** How long a subscription is kept after its asset is no longer wanted, so that a client that subscribes again costs few calls. */
  keptMs: number
}

interface SubscribedTicks {
  stream: Stream<BrokerConnection>
  /** null until the broker has accepted it. */
  connection: BrokerConnection | null
  lastAt: number
}

const OPENED_AT_ONCE = 10
// While half of the call budget is used, subscriptions are opened one by one.
const SHORT_OF_CALLS_MS = 1000
const PAUSES = { firstMs: 500, mostMs: 15_000 }
// How often the list of symbols is read while markets of wanted assets are closed.
const CLOSED_MS = 10_000
const MOST_DECIMALS = 12

export class BrokerTicks implements TickStreams {
  readonly #options: TicksOptions
  readonly #silentMs: number
  readonly #listeners = new Set<(tick: Tick) => void>()
  readonly #subscriptions = new Map<string, SubscribedTicks>()
  /** Since when a subscribed asset is not wanted, monotonic ms. */
  readonly #unwanted = new Map<string, number>()
  /** Assets whose last subscription the broker has not ended yet: another one would be refused. */
  readonly #leaving = new Set<string>()
  /** Assets that cannot be subscribed to yet: when to try again, monotonic ms. */
  readonly #later = new Map<string, number>()
  /** The newest tick of each asset: the first response of a new subscription repeats it. */
  readonly #newest = new Map<string, Tick>()
  #wanted: ReadonlySet<string> = new Set()
  #unknown: ReadonlySet<string> = new Set()
  #running = false
  #again = false
  #failures = 0
  #timer: NodeJS.Timeout | undefined
  #reviewing: NodeJS.Timeout | undefined

  constructor(options: TicksOptions) {
    this.#options = options
    this.#silentMs = options.silentMs ?? 60_000
  }

  get unknown(): ReadonlySet<string> {
    return this.#unknown
  }

  /** Attempts to subscribe that failed in a row. */
  get failures(): number {
    return this.#failures
  }

  /** Whether the connection is needed. */
  get busy(): boolean {
    return this.#wanted.size > 0 || this.#subscriptions.size > 0
  }

  listen(listener: (tick: Tick) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  want(assets: ReadonlySet<string>): void {
    this.#wanted = new Set(assets)
    this.#unknown = new Set([...this.#unknown].filter(asset => assets.has(asset)))
    for (const asset of this.#later.keys()) if (!assets.has(asset)) this.#later.delete(asset)
    for (const asset of this.#newest.keys()) if (!assets.has(asset)) this.#newest.delete(asset)
    this.#review()
    this.#fill()
  }

  /** Ends what has been unwanted or silent for long. */
  #review(): void {
    const now = performance.now()
    for (const [asset, { lastAt, connection }] of this.#subscriptions) {
      if (this.#wanted.has(asset)) {
        this.#unwanted.delete(asset)
        if (connection !== null && lastAt < now - this.#silentMs) this.#end(asset)
      } else {
        const since = this.#unwanted.get(asset) ?? now
        this.#unwanted.set(asset, since)
        if (since <= now - this.#options.keptMs) this.#end(asset)
      }
    }
    if (this.#unwanted.size === 0 || this.#reviewing !== undefined) return
    this.#reviewing = setTimeout(() => {
      this.#reviewing = undefined
      this.#review()
    }, this.#options.keptMs)
    this.#reviewing.unref()
  }

  /** A connection is gone, and its subscriptions with it. */
  down(connection: BrokerConnection): void {
    for (const [asset, subscription] of this.#subscriptions)
      if (subscription.connection === connection) this.#subscriptions.delete(asset)
    this.#fill()
  }

  close(): void {
    clearTimeout(this.#timer)
    clearTimeout(this.#reviewing)
    this.#wanted = new Set()
    for (const asset of this.#subscriptions.keys()) this.#end(asset)
  }

  #end(asset: string): void {
    const subscription = this.#subscriptions.get(asset)
    this.#subscriptions.delete(asset)
    this.#unwanted.delete(asset)
    if (subscription?.connection) this.#forget(asset, subscription.connection, subscription.stream)
  }

  #forget(asset: string, connection: BrokerConnection, stream: Stream<BrokerConnection>): void {
    this.#leaving.add(asset)
    void connection.forget(stream).then(() => {
      this.#leaving.delete(asset)
      this.#fill()
    })
  }

  /** Opens the subscriptions that are missing, unless that is under way. */
  #fill(): void {
    if (this.#running) {
      this.#again = true
      return
    }
    clearTimeout(this.#timer)
    this.#running = true
    void this.#open()
      .then(
        () => {
          this.#failures = 0
          return this.#nextPauseMs()
        },
        (error: unknown) => {
          this.#failures += 1
          const pauseMs = pauseAfter(this.#failures, PAUSES)
          this.#options.log.info({ err: error, pauseMs }, 'ticks could not be subscribed to, trying again')
          return pauseMs
        }
      )
      .then(pauseMs => {
        this.#running = false
        if (this.#again && this.#failures === 0) {
          this.#again = false
          this.#fill()
        } else if (pauseMs !== null && this.#wanted.size > 0) {
          this.#timer = setTimeout(() => this.#fill(), pauseMs)
          this.#timer.unref()
        }
      })
  }

  #nextPauseMs(): number | null {
    if (this.#later.size === 0) return null
    return Math.max(100, Math.min(...this.#later.values()) - performance.now())
  }

  #missing(): string[] {
    const now = performance.now()
    return [...this.#wanted].filter(asset => {
      if (this.#subscriptions.has(asset) || this.#leaving.has(asset) || this.#unknown.has(asset)) return false
      return (this.#later.get(asset) ?? 0) <= now
    })
  }

  async #open(): Promise<void> {
    for (let missing = this.#missing(); missing.length > 0; missing = this.#missing()) {
      // Names that the broker does not list cost it no call.
      const listed = new Map((await this.#options.market.symbols()).map(symbol => [symbol.asset, symbol]))
      const unknown = missing.filter(asset => !listed.has(asset) && this.#wanted.has(asset))
      if (unknown.length > 0) this.#unknown = new Set([...this.#unknown, ...unknown])
      const plenty = this.#options.reconnecting.plenty('ticks')
      const room = this.#options.mostStreams - this.#subscriptions.size - this.#leaving.size
      const known = missing.filter(asset => listed.get(asset)?.open)
      for (const asset of missing) if (listed.get(asset)?.open === false) this.#waitForOpening(asset)
      const some = known.slice(0, Math.max(0, Math.min(room, plenty ? OPENED_AT_ONCE : 1)))
      if (room <= 0) {
        this.#options.log.warn({ assets: known.length }, 'a connection to the broker carries no more ticks')
        for (const asset of known) this.#later.set(asset, performance.now() + PAUSES.mostMs)
      }
      await Promise.all(some.map(asset => this.#subscribe(asset)))
      if (!plenty) await new Promise(resolve => setTimeout(resolve, SHORT_OF_CALLS_MS))
    }
  }

  /** Subscribes to one asset; rejects where the broker cannot be reached. */
  async #subscribe(asset: string): Promise<void> {
    if (!this.#wanted.has(asset)) return
    const { reconnecting, log } = this.#options
    const subscription: SubscribedTicks = {
      connection: null,
      lastAt: performance.now(),
      stream: { receive: (frame, connection) => this.#receive(asset, { frame, connection, subscription }) }
    }
    this.#subscriptions.set(asset, subscription)
    try {
      await reconnecting.call(
        'ticks',
        { ticks: asset, subscribe: 1 },
        { responseKey: 'tick', stream: subscription.stream }
      )
      this.#later.delete(asset)
    } catch (error) {
      if (this.#subscriptions.get(asset) === subscription) this.#subscriptions.delete(asset)
      reconnecting.leaveDoubled(error)
      if (!(error instanceof BrokerError)) throw error
      if (error.code === 'MARKET_CLOSED') this.#waitForOpening(asset)
      else if (error.code === 'INVALID_CONTRACT') {
        log.info({ asset, brokerCode: error.brokerCode }, 'the broker has no ticks of an asset')
        this.#unknown = new Set([...this.#unknown, asset])
      } else throw error
    }
  }

  #waitForOpening(asset: string): void {
    this.#later.set(asset, performance.now() + CLOSED_MS)
  }

  /** Returns whether the frame was of use. */
  #receive(
    asset: string,
    { frame, connection, subscription }: { frame: Frame; connection: BrokerConnection; subscription: SubscribedTicks }
  ): boolean {
    if (this.#subscriptions.get(asset) !== subscription) {
      // Given up while it was being opened; the broker's id of it is known only now.
      this.#forget(asset, connection, subscription.stream)
      return false
    }
    // Also for an unusable frame: the subscription ends with its connection.
    const first = subscription.connection === null
    subscription.connection = connection
    if (frame.error !== undefined) {
      this.#end(asset)
      this.#fill()
      return true
    }
    const tick = readResponse(frame, each => readTick(each, asset, this.#options.pipSizes))
    if (tick.asset !== asset) return false
    subscription.lastAt = performance.now()
    if (!this.#wanted.has(asset)) return true
    const newest = this.#newest.get(asset)
    if (newest && (tick.epoch < newest.epoch || (first && tick.epoch === newest.epoch))) return true
    this.#newest.set(asset, tick)
    for (const listener of this.#listeners) listener(tick)
    return true
  }
}

/** A tick of the asset's stream, which it need not name: no schema requires that. */
function readTick(frame: Frame, streamed: string, pipSizes: ReadonlyMap<string, number>): Tick {
  const body = bodyOf(frame.tick, 'tick')
  const asset = body.symbol === undefined ? streamed : textOf(body, 'symbol')
  const decimals = optionalInteger(body, 'pip_size') ?? pipSizes.get(asset)
  const quote = decimalOf(body, 'quote')
  const printed = decimals !== undefined && decimals >= 0 && decimals <= MOST_DECIMALS
  return { asset, epoch: integerOf(body, 'epoch'), price: new Big(quote).toFixed(printed ? decimals : undefined) }
}

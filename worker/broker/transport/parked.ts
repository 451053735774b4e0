// Contracts that need no stream for now. A stream sends the price at every tick, a contract of an hour 1,800 times, and
// nothing of it matters before the end, which is known. Until shortly before it such a contract is parked: one stream
// of the account's transactions reports a sale, ours or another program's, of any of them.

import { bodyOf, Fields } from '../dialects/reading.ts'
import type { BrokerLog } from '../port.ts'
import type { ReconnectingConnection } from './reconnecting.ts'
import type { BrokerConnection, Frame, Stream } from './sockets.ts'

export interface ParkedOptions {
  reconnecting: ReconnectingConnection
  log: BrokerLog
  /** Wall clock, ms. A wrong clock wakes early or late, by its error. */
  now(): number
  /** The least time for which a contract may be parked, and how long before its end its stream is opened. */
  parkFromMs: number
  unparkAheadMs: number
  /** The account's open contracts. */
  openContracts(): Promise<Set<string>>
  /** Parking is over: the time is up, or (`sold`) the contract seems to have ended. */
  onOver(contractId: string, sold: boolean): void
  /** Sales may be missed: `catchUp` is to be called until it succeeds. */
  onBehind(): void
}

// However far the end, a parked contract is read at least this often.
const MAX_PARK_MS = 60 * 60_000
const OPEN_AGAIN_MS = 60_000
const movement = 'transaction'

export class ParkedContracts {
  readonly #options: ParkedOptions
  readonly #timers = new Map<string, { timer: NodeJS.Timeout; endsAt: number }>()
  #source: { connection: BrokerConnection; stream: Stream } | null = null
  #opening: Promise<void> | null = null
  #openAgainAt = 0
  #behindSince: number | null = null

  constructor(options: ParkedOptions) {
    this.#options = options
  }

  has(contractId: string): boolean {
    return this.#timers.has(contractId)
  }

  /** Parked contracts. */
  ids(): string[] {
    return [...this.#timers.keys()]
  }

  /** How much longer a contract is parked, in ms; 0 when it is not parked. */
  leftOf(contractId: string): number {
    const endsAt = this.#timers.get(contractId)?.endsAt
    return endsAt === undefined ? 0 : Math.max(0, endsAt - performance.now())
  }

  /** For how long sales may have been missed, in ms; null when they are received, or no contract is parked. */
  get behindMs(): number | null {
    if (this.#behindSince === null) return null
    return performance.now() - this.#behindSince
  }

  /**
   * For how long a contract that ends at `endsAt` (epoch seconds) may be parked; 0 when it may not, or while sales are not
   * received: then their stream is opened, so that the next call may return more.
   */
  lengthOf(endsAt: number | null): number {
    if (endsAt === null) return 0
    const { now, parkFromMs, unparkAheadMs, reconnecting } = this.#options
    // Spread, so that contracts that end together are not all read together.
    const ms = endsAt * 1000 - now() - unparkAheadMs * (1 + Math.random() / 2)
    // A parked contract costs a call at its end, while a stream comes with the purchase.
    if (ms < parkFromMs || !reconnecting.plenty('proposal_open_contract')) return 0
    if (this.#receiving) return Math.min(ms, MAX_PARK_MS)
    this.#listen()
    return 0
  }

  begin(contractId: string, ms: number): void {
    this.end(contractId)
    const timer = setTimeout(() => this.#over(contractId, false), ms)
    this.#timers.set(contractId, { timer: timer.unref(), endsAt: performance.now() + ms })
  }

  end(contractId: string): void {
    clearTimeout(this.#timers.get(contractId)?.timer)
    this.#timers.delete(contractId)
    // Whatever is parked next is parked while sales are received: it has missed none.
    if (this.#timers.size === 0) this.#behindSince = null
  }

  /** A connection is gone. */
  down(connection: BrokerConnection): void {
    if (this.#source?.connection === connection) this.#lost()
  }

  /** Subscribes to sales again, and finds those missed meanwhile. Rejects with BrokerError. */
  async catchUp(): Promise<void> {
    await this.#open()
    // Sales of contracts parked from here on are received.
    const parked = this.ids()
    const open = await this.#options.openContracts()
    if (this.#receiving) this.#behindSince = null
    for (const contractId of parked) if (!open.has(contractId)) this.#over(contractId, true)
  }

  get #receiving(): boolean {
    return this.#source !== null && this.#source.connection === this.#options.reconnecting.current
  }

  #listen(): void {
    if (this.#opening !== null || performance.now() < this.#openAgainAt) return
    this.#open().catch((error: unknown) => {
      this.#openAgainAt = performance.now() + OPEN_AGAIN_MS
      this.#options.log.info(
        { err: error },
        'sales of an account cannot be subscribed to; its contracts keep their streams'
      )
    })
  }

  #open(): Promise<void> {
    if (this.#receiving) return Promise.resolve()
    this.#opening ??= this.#subscribe().finally(() => {
      this.#opening = null
    })
    return this.#opening
  }

  async #subscribe(): Promise<void> {
    const { reconnecting } = this.#options
    const stream: Stream<BrokerConnection> = {
      receive: (frame, connection) => this.#receive(frame, { connection, stream })
    }
    try {
      await reconnecting.read(movement, { transaction: 1, subscribe: 1 }, { stream })
    } catch (error) {
      reconnecting.leaveDoubled(error)
      throw error
    }
  }

  #receive(frame: Frame, source: { connection: BrokerConnection; stream: Stream }): boolean {
    if (frame.error !== undefined) {
      if (this.#source?.stream === source.stream) this.#lost()
      return true
    }
    if (frame.subscription !== undefined && source.connection.usable) this.#source = source
    if (frame.transaction === undefined) return frame.subscription !== undefined
    const fields = new Fields(bodyOf(frame.transaction, movement))
    const action = fields.text('action')
    if (action === 'buy' || Object.keys(frame.transaction as object).length === 0) return true
    // No schema requires a field of a movement: what may be a sale is taken for one, and the contract's state shows whether it was.
    const contractId = fields.id('contract_id')
    if (contractId !== null) this.#over(contractId, true)
    else if (action === null || action === 'sell') this.#missed()
    return true
  }

  #lost(): void {
    this.#source = null
    this.#missed()
  }

  /** A sale may not have been received: the list of open contracts shows which contracts are left. */
  #missed(): void {
    if (this.#timers.size === 0) return
    this.#behindSince ??= performance.now()
    this.#options.onBehind()
  }

  #over(contractId: string, sold: boolean): void {
    if (!this.#timers.has(contractId)) return
    this.end(contractId)
    this.#options.onOver(contractId, sold)
  }
}

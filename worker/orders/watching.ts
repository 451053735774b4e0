// The contracts that a worker watches: their streams from purchase or take-over to the end, the values they report, and what is
// done when a stream is silent or lost.
import { type LeasedOrder, type Mark, markValues, releaseOrders } from '../../db/orders/leases.ts'
import { backOff } from '../../db/platform/back-off.ts'
import { batch } from '../../db/postgres/batch.ts'
import { openBoughtSession } from '../accounts/accounts.ts'
import { BrokerError } from '../broker/broker-error.ts'
import type { ContractListener } from '../broker/port.ts'
import { Pauses } from '../platform/pauses.ts'
import type { WorkerServices } from '../services.ts'
import type { Closing } from './closing.ts'
import { markOf } from './outcome.ts'
import { refOf } from './terms.ts'
import { leasedOrderOf, type WatchedContract } from './watched.ts'

// A contract whose stream cannot be opened is handed back; the pause before it is taken again grows.
export const RETRY_PAUSES = { firstMs: 1500, mostMs: 30_000 }
const REJECTED_RETRY_MS = 60_000
// A stream may fall silent without ending, as one does whose market is closed. A contract without updates for so long
// is polled, then less and less often, a few in a round: the calls cost the account's budget.
const SILENCE = { firstMs: 30_000, mostMs: 15 * 60_000 }
const POLLED_AT_ONCE = 20
// Values written in a round; beyond that a contract's turn comes in one of the next.
const MARKED_AT_ONCE = 500

/** Watches contracts, which it keeps in `watched`; `closing` has their ends. */
export class Watching {
  readonly #services: WorkerServices
  readonly #watched: Map<string, WatchedContract>
  readonly #closing: Closing
  readonly #pauses = new Pauses(RETRY_PAUSES)
  readonly #release: (released: { id: string; retryMs: number }) => Promise<unknown>
  #markedUpTo = 0

  constructor(
    services: WorkerServices,
    { watched, closing }: { watched: Map<string, WatchedContract>; closing: Closing }
  ) {
    this.#services = services
    this.#watched = watched
    this.#closing = closing
    // Many accounts' contracts may be handed back at the same moment: when the broker disappears, all that are being opened.
    this.#release = batch(async released => {
      await releaseOrders(services.db, services.worker, released)
      return released
    })
  }

  /** Begins to watch the contract of an order that is not open yet; its listener receives what comes. */
  listen(id: string): WatchedContract {
    const { clock, log } = this.#services
    const listener: ContractListener = {
      update: state => {
        // The settlement is final; later frames are ignored.
        if (entry.last?.settled) return
        this.#closing.take(entry, state)
        this.#closing.settle(id, entry)
      },
      parked: ms => {
        entry.lastUpdateAt = clock.now() + ms
      },
      lost: cause => {
        if (entry.closing || this.#watched.get(id) !== entry) return
        this.drop(id)
        log.info({ err: cause, orderId: id }, 'lost the stream of a contract')
        this.handBack([id], cause instanceof BrokerError ? (cause.retryMs ?? 0) : 0)
      }
    }
    const entry: WatchedContract = {
      order: undefined,
      appId: undefined,
      last: undefined,
      lastOpen: undefined,
      marked: false,
      closing: false,
      lastUpdateAt: clock.now(),
      polls: 0,
      rechecks: 0,
      cancelRecheck: undefined,
      pricesUntil: undefined,
      inReview: false,
      closesCopies: false,
      requested: undefined,
      storingLimits: false,
      listener
    }
    this.#watched.set(id, entry)
    return entry
  }

  /** The order of a watched contract is open. */
  own(entry: WatchedContract, order: LeasedOrder): void {
    entry.order = leasedOrderOf(order)
    entry.inReview = order.error_code === 'REVIEW_REQUIRED'
    // Another worker has read the contract before.
    if (entry.inReview) entry.rechecks = 1
  }

  /** Watches an open order's contract; the lease is held already. Never rejects: an order that cannot be watched is handed back. */
  async watch(order: LeasedOrder): Promise<void> {
    // An entry without a row belongs to a purchase that waits for its response: adoption was faster.
    if (this.#watched.get(order.id)?.order) return
    const entry = this.listen(order.id)
    const { listener } = entry
    const { log } = this.#services
    const contractId = order.broker_order_id as string
    this.own(entry, order)
    try {
      const { session, appId } = await openBoughtSession(this.#services, refOf(order), { leisurely: true })
      entry.appId = appId
      // Its account may have been given to another worker meanwhile: here it would keep its connection until the contract ends.
      if (!this.#watched.has(order.id)) return
      const state = await session.subscribe(contractId, listener)
      if (this.#watched.has(order.id)) listener.update(state)
      else session.unsubscribe(contractId)
      this.#pauses.succeeded(order.id)
    } catch (error) {
      if (this.#watched.get(order.id) === entry) this.drop(order.id)
      const unknown = error instanceof BrokerError && error.code === 'INVALID_CONTRACT'
      log.warn({ err: error, orderId: order.id }, 'a contract cannot be watched now')
      if (unknown)
        await this.#closing
          .review(order, ['the broker does not know this contract'])
          .catch((cause: unknown) =>
            log.warn({ err: cause, orderId: order.id }, 'an unknown contract could not be marked')
          )
      const rejected = unknown || !(error instanceof BrokerError) || error.rejected
      this.handBack([order.id], rejected ? REJECTED_RETRY_MS : this.#pauses.failed(order.id))
    }
  }

  drop(id: string): void {
    this.#watched.get(id)?.cancelRecheck?.()
    this.#watched.delete(id)
  }

  /** Drops a contract that was sold, or that another worker took over meanwhile, and unsubscribes from it. */
  forget(id: string): void {
    const { order, closing, appId } = this.#watched.get(id) ?? {}
    if (!order || closing) return
    this.drop(id)
    const { accountRowId, dialect, ...account } = refOf({ ...order, app_id: appId ?? order.app_id })
    const { brokers } = this.#services
    if (!brokers.speaks(dialect)) return
    brokers.of(dialect).unsubscribe({ ...account, credentialId: accountRowId }, order.broker_order_id as string)
  }

  /** Lets go of orders, so that another worker takes them over, after `retryMs`. */
  handBack(ids: string[], retryMs: number): void {
    // If this fails, the lease check finds after two rounds that no worker watches them.
    Promise.all(ids.map(id => this.#release({ id, retryMs }))).catch((error: unknown) =>
      this.#services.log.warn({ err: error }, 'orders could not be let go')
    )
  }

  /** Writes the values received since the last time, of some contracts at once; an unchanged one costs nothing. */
  async markUpdated(): Promise<void> {
    const marks: Mark[] = []
    const entries = [...this.#watched.values()]
    for (let checked = 0; checked < entries.length && marks.length < MARKED_AT_ONCE; checked++) {
      const entry = entries[this.#markedUpTo++ % entries.length] as WatchedContract
      const { order, last, marked, closing } = entry
      if (!order || !last || closing || marked) continue
      entry.marked = true
      const found = markOf(order, last)
      if (found) marks.push(found)
    }
    if (marks.length > 0) await markValues(this.#services.db, marks)
  }

  /** Polls contracts whose streams have been silent for too long. */
  pollSilent(): void {
    const { clock, log } = this.#services
    const now = clock.now()
    let room = POLLED_AT_ONCE
    for (const [id, entry] of this.#watched) {
      const silentMs = now - entry.lastUpdateAt
      if (!entry.order || entry.closing || entry.cancelRecheck || silentMs < backOff(entry.polls, SILENCE)) continue
      if (--room < 0) return
      entry.lastUpdateAt = now
      entry.polls += 1
      this.#poll(id, entry, entry.order).catch((error: unknown) =>
        log.info({ err: error, orderId: id }, 'a silent contract could not be polled')
      )
    }
  }

  async #poll(id: string, entry: WatchedContract, order: LeasedOrder): Promise<void> {
    const { session } = await openBoughtSession(this.#services, refOf(order), { leisurely: true })
    const state = await session.contract(order.broker_order_id as string)
    if (!state.settled || entry.last?.settled || entry.closing) return
    this.#closing.take(entry, state)
    this.#closing.settle(id, entry)
  }
}

// The contracts that a worker watches: their streams from purchase or take-over to the end, the values they report, and what is
// done when a stream is silent or lost.
import { type LeasedOrder, type Mark, markValues, releaseOrders } from '../../db/orders/leases.ts'
import { backOff } from '../../db/platform/back-off.ts'
import { openSession } from '../accounts/accounts.ts'
import { BrokerError, type ContractListener } from '../broker/port.ts'
import { Pauses } from '../platform/pauses.ts'
import type { WorkerServices } from '../services.ts'
import type { Closing } from './closing.ts'
import { markOf } from './outcome.ts'
import { refOf } from './terms.ts'
import { leasedOrderOf, type WatchedContract } from './watched.ts'

// A contract whose stream cannot be had is offered to others again after a pause that grows each time.
export const RETRY_PAUSES = { firstMs: 1500, mostMs: 30_000 }
const REJECTED_RETRY_MS = 60_000
// A stream may fall silent without ending, as one does whose market is closed. A contract without updates for so long
// is polled, then less and less often, a few in a round: the calls cost the account's budget.
const SILENCE = { firstMs: 30_000, mostMs: 15 * 60_000 }
const POLLED_AT_ONCE = 20
// Values written in a round; beyond that a contract's turn comes in one of the next.
const MARKED_AT_ONCE = 500

export interface Watching {
  /** Begins to watch the contract of an order that is not open yet; its listener receives what comes. */
  listen(id: string): WatchedContract
  /** The order of a watched contract is open. */
  own(entry: WatchedContract, order: LeasedOrder): void
  /** Watches an open order's contract; the lease is held already. */
  watch(order: LeasedOrder): Promise<void>
  drop(id: string): void
  /** Drops a contract that is not this worker's any more, and unsubscribes from it. */
  forget(id: string): void
  /** Lets go of orders, so that another worker takes them over, after `retryMs`. */
  handBack(ids: string[], retryMs: number): void
  markUpdated(): Promise<void>
  pollSilent(): void
}

/** Watches contracts, which it keeps in `watched`; `closing` has their ends. */
export function openWatching(
  services: WorkerServices,
  { watched, closing }: { watched: Map<string, WatchedContract>; closing: Closing }
): Watching {
  const { db, log, worker, clock } = services
  const { take, settle, review } = closing
  const pauses = new Pauses(RETRY_PAUSES)
  let markedUpTo = 0

  function listen(id: string): WatchedContract {
    const listener: ContractListener = {
      update(state) {
        // The settlement is final; later frames are ignored.
        if (entry.last?.settled) return
        take(entry, state)
        settle(id, entry)
      },
      parked(ms) {
        entry.lastUpdateAt = clock.now() + ms
      },
      lost(cause) {
        if (entry.closing || watched.get(id) !== entry) return
        drop(id)
        log.info({ err: cause, orderId: id }, 'lost the stream of a contract')
        handBack([id], cause instanceof BrokerError ? (cause.retryMs ?? 0) : 0)
      }
    }
    const entry: WatchedContract = {
      order: undefined,
      last: undefined,
      marked: false,
      closing: false,
      lastUpdateAt: clock.now(),
      polls: 0,
      rechecks: 0,
      cancelRecheck: undefined,
      pricesUntil: undefined,
      inReview: false,
      storingLimits: false,
      listener
    }
    watched.set(id, entry)
    return entry
  }

  function own(entry: WatchedContract, order: LeasedOrder): void {
    entry.order = leasedOrderOf(order)
    entry.inReview = order.error_code === 'REVIEW_REQUIRED'
    // Another worker has read it before.
    if (entry.inReview) entry.rechecks = 1
  }

  function drop(id: string): void {
    watched.get(id)?.cancelRecheck?.()
    watched.delete(id)
  }

  function handBack(ids: string[], retryMs: number): void {
    // Should this fail, two rounds of the lease find that no worker leases them.
    releaseOrders(db, worker, ids, retryMs).catch((error: unknown) =>
      log.warn({ err: error }, 'orders could not be let go')
    )
  }

  /** Closed by a sale, or taken over while we were away: not ours to watch any more. */
  function forget(id: string): void {
    const { order, closing } = watched.get(id) ?? {}
    if (!order || closing) return
    drop(id)
    const { accountRowId, dialect, ...account } = refOf(order)
    if (!services.brokers.speaks(dialect)) return
    services.brokers
      .of(dialect)
      .unsubscribe({ ...account, credentialId: accountRowId }, order.broker_order_id as string)
  }

  async function watch(order: LeasedOrder): Promise<void> {
    // An entry without its row belongs to a buy that is still waiting for its response: adoption overtook it.
    if (watched.get(order.id)?.order) return
    const entry = listen(order.id)
    const { listener } = entry
    own(entry, order)
    try {
      const session = await openSession(services, refOf(order), { leisurely: true })
      listener.update(await session.subscribe(order.broker_order_id as string, listener))
      pauses.succeeded(order.id)
    } catch (error) {
      if (watched.get(order.id) === entry) drop(order.id)
      const unknown = error instanceof BrokerError && error.code === 'INVALID_CONTRACT'
      if (unknown) await review(order, ['the broker does not know this contract'])
      const rejected = unknown || !(error instanceof BrokerError) || error.rejected
      log.warn({ err: error, orderId: order.id }, 'a contract cannot be watched now')
      handBack([order.id], rejected ? REJECTED_RETRY_MS : pauses.failed(order.id))
    }
  }

  /** Writes the values received since the last time, of some contracts at once; an unchanged one costs nothing. */
  async function markUpdated(): Promise<void> {
    const marks: Mark[] = []
    const entries = [...watched.values()]
    for (let checked = 0; checked < entries.length && marks.length < MARKED_AT_ONCE; checked++) {
      const entry = entries[markedUpTo++ % entries.length] as WatchedContract
      const { order, last, marked, closing } = entry
      if (!order || !last || closing || marked) continue
      entry.marked = true
      const found = markOf(order, last)
      if (found) marks.push(found)
    }
    if (marks.length > 0) await markValues(db, marks)
  }

  /** Polls contracts whose streams have been silent for too long. */
  function pollSilent(): void {
    const now = clock.now()
    let room = POLLED_AT_ONCE
    for (const [id, entry] of watched) {
      if (
        !entry.order ||
        entry.closing ||
        entry.cancelRecheck ||
        now - entry.lastUpdateAt < backOff(entry.polls, SILENCE)
      )
        continue
      if (--room < 0) return
      entry.lastUpdateAt = now
      entry.polls += 1
      poll(id, entry, entry.order).catch((error: unknown) =>
        log.info({ err: error, orderId: id }, 'a silent contract could not be polled')
      )
    }
  }

  async function poll(id: string, entry: WatchedContract, order: LeasedOrder): Promise<void> {
    const session = await openSession(services, refOf(order), { leisurely: true })
    const state = await session.contract(order.broker_order_id as string)
    if (!state.settled || entry.last?.settled || entry.closing) return
    take(entry, state)
    settle(id, entry)
  }

  return { listen, own, watch, drop, forget, handBack, markUpdated, pollSilent }
}

// Ends of contracts: what an update of a contract changes here, and how a plausible end is written to the order.
import { closeCopiesAhead } from '../../db/copy/closing.ts'
import { type Closed, closeOrders, type LeasedOrder, type Settlement } from '../../db/orders/leases.ts'
import { REVIEW_MESSAGE, resolveSettledBreaks, unmarkUnsettled } from '../../db/orders/review.ts'
import { WORK } from '../../db/platform/bus.ts'
import { notifiesItself, withRoom } from '../../db/platform/hints.ts'
import { countUnreadable } from '../../db/platform/metrics.ts'
import { BrokerError } from '../broker/broker-error.ts'
import type { ContractState } from '../broker/port.ts'
import { openLimitStore } from '../copy/limits.ts'
import type { WorkerServices } from '../services.ts'
import { groupOrders } from './grouping.ts'
import { notifyCallers } from './notify.ts'
import { settlementOf, wasSold } from './outcome.ts'
import { persist } from './persist.ts'
import { contradictions, lacksPrices } from './plausible.ts'
import { openRechecks } from './rechecks.ts'
import type { WatchedContract } from './watched.ts'

// How long a plausible settlement waits for an entry or exit price that is missing.
const PRICES_MS = 60_000

export interface Closing {
  /** Takes a state of a watched contract: its values, its limits, whether it is plausible again. */
  take(entry: WatchedContract, state: ContractState): void
  /** Writes the end of a watched contract once its state shows one; what is not plausible is read again. */
  settle(id: string, entry: WatchedContract): void
  /** Writes an end of which nothing contradicts the order; undefined when the order was closed before. */
  write(order: LeasedOrder, state: ContractState): Promise<Closed | undefined>
  /**
   * As `write`, with what earlier states had, where the contract is watched here. Where the state contradicts the order or
   * itself, the order is marked and BROKER_UPSTREAM thrown.
   */
  close(order: LeasedOrder, state: ContractState): Promise<Closed | undefined>
  /** Marks an order whose settlement cannot be booked; returns false when it is not open any more. */
  review(order: LeasedOrder, why: string[]): Promise<boolean>
  /** Resolves once the ends under way are written. */
  written(): Promise<void>
}

/** Writes the ends of the contracts in `watched`, and takes them out of it. */
export function openClosing(services: WorkerServices, watched: Map<string, WatchedContract>): Closing {
  const { db, queue, bus, log, clock } = services
  const closings = new Set<Promise<unknown>>()
  const { doubt, recheck, review } = openRechecks(services, { watched, take, settle })
  const storeLimits = openLimitStore(services)

  const saveClosed = groupOrders(async (settlements: Settlement[]) => {
    const end = (notify: boolean) => closeOrders(db, queue, settlements, { notify })
    const itself = notifiesItself(bus, settlements.length)
    const orders = await persist(services, () => withRoom(itself, end))
    notifyCallers(services, orders)
    if (orders.some(({ closes_copies }) => closes_copies)) bus.publish(WORK, 'copy.close', 'new')
    const byId = new Map(orders.map(order => [order.id, order]))
    return settlements.map(({ id }) => byId.get(id))
  })

  const write = (order: LeasedOrder, state: ContractState) =>
    saveClosed(settlementOf(order, state), { app_id: order.app_id, isCopy: order.follow_id !== null })

  async function close(order: LeasedOrder, state: ContractState): Promise<Closed | undefined> {
    const why = contradictions(order, state)
    if (why.length === 0) return write(order, withKnown(state, watched.get(order.id)?.lastOpen))
    if (!(await review(order, why))) return undefined
    throw new BrokerError('BROKER_UPSTREAM', REVIEW_MESSAGE, { brokerCode: 'Implausible' })
  }

  function settle(id: string, entry: WatchedContract): void {
    const { order, last } = entry
    if (watched.get(id) !== entry || !order || !last?.settled || entry.closing) return
    const why = contradictions(order, last)
    if (why.length > 0) {
      doubt(id, entry, why)
      return
    }
    if (lacksPrices(last)) {
      entry.pricesUntil ??= clock.now() + PRICES_MS
      if (clock.now() < entry.pricesUntil) {
        closeCopies(entry, order, last)
        recheck(id, entry)
        return
      }
    }
    entry.cancelRecheck?.()
    entry.closing = true
    const closing = write(order, last).then(
      () => {
        watched.delete(id)
        if (entry.inReview)
          resolveSettledBreaks(db).catch((error: unknown) =>
            log.warn({ err: error }, 'breaks of settled orders could not be resolved')
          )
      },
      (error: unknown) => {
        // The order still names this worker; the lease check finds it unwatched, and its contract is read again.
        watched.delete(id)
        log.error({ err: error, orderId: id }, 'a settlement could not be written')
      }
    )
    closings.add(closing)
    void closing.then(() => closings.delete(closing))
  }

  /** Copies of a contract that ended early are closed at once, without waiting for the leader's prices: they have their own. */
  function closeCopies(entry: WatchedContract, { id, kind }: LeasedOrder, state: ContractState): void {
    // A multiplier has no end of its own.
    if (entry.closesCopies || !(kind === 'MULTIPLIER' || wasSold(state))) return
    entry.closesCopies = true
    closeCopiesAhead(db, queue, id).then(
      some => {
        if (some) bus.publish(WORK, 'copy.close', 'new')
      },
      (error: unknown) => {
        // The next state of the contract tries again.
        entry.closesCopies = false
        log.warn({ err: error, orderId: id }, 'the copies of a contract that is over could not be closed yet')
      }
    )
  }

  function take(entry: WatchedContract, state: ContractState): void {
    entry.last = withKnown(state, entry.last ?? entry.lastOpen)
    if (!state.settled) entry.lastOpen = entry.last
    entry.marked = false
    entry.lastUpdateAt = clock.now()
    entry.polls = 0
    for (const field of state.unreadable ?? []) countUnreadable(field)
    storeLimits(entry)
    if (state.settled || !entry.inReview || !entry.order || contradictions(entry.order, state).length > 0) return
    entry.inReview = false
    unmarkUnsettled(db, entry.order.id).catch((error: unknown) => {
      entry.inReview = true
      log.warn({ err: error }, 'a mark could not be taken back')
    })
  }

  return {
    take,
    settle,
    write,
    close,
    review,
    async written() {
      await Promise.all(closings)
    }
  }
}

/** A state, with fields that it lacks taken from the previous one where they do not change: no field of a state is required. */
function withKnown(state: ContractState, before: ContractState | undefined): ContractState {
  if (before === undefined || before.contractId !== state.contractId) return state
  const { entryPrice, commission, markup } = before
  return {
    ...state,
    entryPrice: state.entryPrice ?? entryPrice,
    commission: state.commission ?? commission,
    markup: state.markup ?? markup
  }
}

// Settled contracts that cannot be booked yet: each is read again, with growing pauses, until its state is plausible. A
// state that is implausible twice marks the order REVIEW_REQUIRED and notifies the operator.

import type { LeasedOrder } from '../../db/orders/leases.ts'
import { markUnsettled } from '../../db/orders/review.ts'
import { backOff } from '../../db/platform/back-off.ts'
import { countImplausible } from '../../db/platform/metrics.ts'
import { openBoughtSession } from '../accounts/accounts.ts'
import type { ContractState } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import { notifyCallers } from './notify.ts'
import { contradictions } from './plausible.ts'
import { refOf } from './terms.ts'
import type { WatchedContract } from './watched.ts'

// Pauses between reads.
const RECHECKS = { firstMs: 1000, mostMs: 15 * 60_000 }

interface Rechecks {
  /** A settled state contradicts the order or itself: it is forgotten, and the contract read again. */
  doubt(id: string, entry: WatchedContract, why: string[]): void
  /** Reads a contract again after a pause, unless that is due already. */
  recheck(id: string, entry: WatchedContract): void
  /** Marks an order whose settlement cannot be booked; false when it is not open any more. */
  review(order: LeasedOrder, why: string[]): Promise<boolean>
}

export function openRechecks(
  services: WorkerServices,
  on: {
    watched: ReadonlyMap<string, WatchedContract>
    take(entry: WatchedContract, state: ContractState): void
    settle(id: string, entry: WatchedContract): void
  }
): Rechecks {
  const { db, log, clock } = services
  const { watched, take, settle } = on

  async function review(order: LeasedOrder, why: string[]): Promise<boolean> {
    const marked = await markUnsettled(db, { id: order.id, why })
    if (marked?.news) {
      log.error({ orderId: order.id, contractId: order.broker_order_id, why }, 'a settlement needs a review')
      notifyCallers(services, [{ id: order.id, reply_channel: marked.reply_channel }])
    }
    return marked !== undefined
  }

  function doubt(id: string, entry: WatchedContract, why: string[]): void {
    entry.last = undefined
    if (entry.cancelRecheck) return
    countImplausible()
    log.warn({ orderId: id, why, rechecks: entry.rechecks }, 'a settlement is not plausible')
    // A contract may show as half settled for a moment: only a second such state is reported to the operator.
    if (entry.rechecks > 0) markInReview(entry, why)
    recheck(id, entry)
  }

  function markInReview(entry: WatchedContract, why: string[]): void {
    const order = entry.order as LeasedOrder
    entry.inReview = true
    review(order, why).catch((error: unknown) => {
      entry.inReview = false
      log.error({ err: error, orderId: order.id, why }, 'a settlement in doubt could not be marked')
    })
  }

  function recheck(id: string, entry: WatchedContract): void {
    if (entry.cancelRecheck) return
    const pauseMs = backOff(entry.rechecks++, RECHECKS)
    entry.cancelRecheck = clock.after(pauseMs, () => {
      entry.cancelRecheck = undefined
      readAgain(id, entry).catch((error: unknown) => {
        log.info({ err: error, orderId: id }, 'a contract could not be read again')
        if (watched.get(id) !== entry || entry.closing) return
        if (entry.last?.settled) settle(id, entry)
        else recheck(id, entry)
      })
    })
  }

  async function readAgain(id: string, entry: WatchedContract): Promise<void> {
    const order = entry.order as LeasedOrder
    const contractId = order.broker_order_id as string
    const { session } = await openBoughtSession(services, refOf(order))
    const state = await session.contract(contractId)
    if (watched.get(id) !== entry || entry.closing) return
    const why = contradictions(order, state)
    if (why.length > 0) return doubt(id, entry, why)
    if (state.settled || !entry.last?.settled) take(entry, state)
    settle(id, entry)
    // Its subscription ended with the implausible state.
    if (entry.last?.settled) return
    await session.subscribe(contractId, entry.listener)
    if (!watched.has(id)) session.unsubscribe(contractId)
  }

  return { doubt, recheck, review }
}

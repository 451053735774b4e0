// The operator's decision about an order whose evidence fits two readings, or could not be read.
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Bus } from '../platform/bus.ts'
import type { Queue } from '../platform/queue.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { dismissUnowned } from '../postgres/lineage.ts'
import { absentMessageOf, markFailed, openOrders } from './placing.ts'
import { findOrders, type OrderRow } from './reading.ts'
import { resolveBreaks } from './reconciliation.ts'
import { type ArrivalTimes, findDoubt } from './resolving.ts'

/** A contract at the broker that could be an order's, as a worker found it. */
export interface Candidate {
  source: string
  contractId: string
  transactionId: string | null
  appId: string | null
  /** null, like the time, where the broker does not show it. */
  buyPrice: string | null
  /** null also where what the broker shows cannot be true. */
  payout: string | null
  purchaseTime: number | null
  shortcode: string
}

/** Whether the broker shows the contract's id; where it does not, a worker names its row, by no number. */
export const hasId = ({ contractId }: Pick<Candidate, 'contractId'>): boolean => /^\d+$/.test(contractId)

/**
 * The order, if the operator may decide it now: in review, or in doubt for longer than the protocol needs to
 * decide by itself. Throws NOT_FOUND or CONFLICT.
 */
export async function getDoubtful(db: Db, orderId: string, reconcileAfterMs: number): Promise<OrderRow> {
  const [order] = await findOrders(db, [orderId])
  if (!order) throw new ApiError('NOT_FOUND', `There is no order ${orderId}.`)
  if (order.phase === 'review') return order
  const [due] = await rows(
    db,
    `select 1 from orders where id = :orderId and phase = 'sending'
        and clock_timestamp() > permit_until + 2 * :reconcileAfterMs * interval '1 millisecond'`,
    { orderId, reconcileAfterMs }
  )
  if (due) return order
  const inDoubt = order.phase === 'sending' ? ' and still being looked up; wait a minute' : ''
  throw new ApiError('CONFLICT', `The order is ${order.status}${inDoubt}; there is nothing to decide.`)
}

/**
 * Makes the contract the order's own; a worker takes its lease from there. A price that the broker does not show is taken to be the
 * stake; where the contract's end shows another one, the order is reviewed. Throws CONFLICT when another decision was first.
 */
export async function adoptByHand(trx: Db, queue: Queue, order: OrderRow, found: Candidate): Promise<OrderRow> {
  const receipt = {
    id: order.id,
    attempt: order.attempt,
    brokerOrderId: found.contractId,
    transactionId: found.transactionId,
    buyPrice: found.buyPrice ?? order.stake_in_account ?? order.stake,
    payout: found.payout ?? '0',
    currency: order.currency,
    openedAt: found.purchaseTime ?? (order.sent_at ?? order.queued_at).getTime() / 1000,
    expiryAt: null,
    // Copies of a contract decided by hand would be bought far too late.
    hasFollowers: false
  }
  const { orders } = await openOrders(trx, queue, [receipt], null)
  if (orders.length === 0) throw decidedMeanwhile()
  await resolveBreaks(trx, {
    accountId: order.account_id,
    contractId: found.contractId,
    resolution: `adopted by ${order.id}`
  })
  return (await findOrders(trx, [order.id]))[0] as OrderRow
}

/**
 * Declares that the broker did not buy the order: it fails, and the same clientOrderId may try again. Throws CONFLICT
 * when another decision was first, or while its purchase may still be executed: then the same id would buy twice.
 */
export async function declareAbsent(trx: Db, order: OrderRow, times: ArrivalTimes): Promise<OrderRow> {
  const doubt = await findDoubt(trx, order.id, times)
  const until = doubt ? doubt.arrival_from_ms + doubt.arrival_ms : 0
  if (doubt?.attempt === order.attempt && ['sending', 'review'].includes(doubt.phase) && doubt.read_ms < until) {
    throw new ApiError(
      'CONFLICT',
      `What was sent for the order may still be bought until ${new Date(until).toISOString()}: wait for that.`
    )
  }
  const refusal = { code: 'BROKER_UPSTREAM', message: absentMessageOf(order) } as const
  const [failed] = await markFailed(trx, [{ id: order.id, attempt: order.attempt, ...refusal }])
  if (!failed) throw decidedMeanwhile()
  // The operator has seen the evidence: the same contracts must not hold the order up again.
  await dismissUnowned(trx, order.account_id, contractIdsOf(order.evidence))
  return failed
}

/** Notifies the processes that wait for the order. */
export function announce(bus: Bus, order: OrderRow): void {
  if (order.reply_channel) bus.publish(order.reply_channel, 'order', order.id)
}

function decidedMeanwhile(): ApiError {
  return new ApiError('CONFLICT', 'The order was decided meanwhile; show it and look again.')
}

function contractIdsOf(evidence: unknown): string[] {
  if (!Array.isArray(evidence)) return []
  return evidence.map(({ contractId }: { contractId?: unknown }) => contractId).filter(id => typeof id === 'string')
}

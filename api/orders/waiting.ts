// The wait of a request for its order: until it is decided or settled, or time is up, and what is thrown when there is no contract then.

import { expireOrders, type Outcome, outcomeOf } from '../../db/orders/reading.ts'
import type { StoredOrder } from '../../db/orders/storing.ts'
import { atCommonMoment, backOff } from '../../db/platform/back-off.ts'
import { ApiError, type ErrorCode } from '../../schemas/errors/errors.ts'
import { type HaltFacts, tradingHalted } from '../../schemas/halts.ts'
import type { ApiServices, OperationRequest } from '../operation.ts'

// How long a waiter sleeps without a wake-up before it reads the row again; longer each time, since many may wait.
const REREADS = { firstMs: 1000, mostMs: 4000 }
// How often a waiter tries to fail an order whose time is over by its own count.
const EXPIRE_EVERY_MS = 200

/** How long a waiter sleeps before it reads the row for the first time, ms, when nothing wakes it. */
export function firstRereadMs(): number {
  const now = performance.now()
  return atCommonMoment(now + REREADS.firstMs) - now
}

const isWaiting = (phase: Outcome['phase']): boolean => phase === 'queued' || phase === 'unproven'
const isUnbought = (phase: Outcome['phase']): boolean => isWaiting(phase) || phase === 'sending'

const isDecided = (row: Outcome, settle: boolean): boolean =>
  row.phase === 'failed' ||
  row.phase === 'closed' ||
  row.phase === 'review' ||
  (row.phase === 'open' && !settle) ||
  isSettlementInReview(row)

/** Whether the order's contract is over and its settlement is under review. */
export const isSettlementInReview = ({ phase, error_code }: Outcome): boolean =>
  phase === 'open' && error_code === 'REVIEW_REQUIRED'

/** The error of an order whose settlement is under review, for a request that waits for that settlement. */
export function settlementReviewError(row: Outcome, headers: Record<string, string> = {}): ApiError {
  return new ApiError('BROKER_UPSTREAM', row.error_message ?? undefined, {
    extras: { orderId: row.id, status: 'OPEN' },
    headers
  })
}

export type OrderPartner = Pick<OperationRequest<object>['partner'], 'partnerId'>

/** Who waits for an order, and until when. */
export interface OrderWait {
  partner: OrderPartner
  signal: AbortSignal
  /** The wait that began before the order was stored; undefined for an order that was there already. */
  firstHint: Promise<string | undefined> | undefined
}

/** Waits until the order is decided or settled, or time is up; returns its state then. */
export async function awaitOutcome(
  services: ApiServices,
  first: StoredOrder,
  { settle, partner, signal, firstHint }: { settle: boolean } & OrderWait
): Promise<Outcome> {
  const { bus, batched, config, db, backlog } = services
  const deadline = performance.now() + config.settleWaitMs
  // The first wait began before the order was stored and usually ends with the outcome. Only a repeat reads the row at once.
  if (firstHint !== undefined) {
    // The row is read below if the hint was lost or carries no final outcome.
    const carried = outcomeOf(first.id, await firstHint)
    if (carried && isDecided(carried, settle)) return carried
  }
  let expireAt = performance.now() + Math.max(0, first.ttl_left_ms)
  let leave: (() => void) | undefined
  try {
    for (let { phase } = first, reads = 0; ; reads++) {
      // Listen first, read then, sleep last: no wake-up is lost between them.
      const until = Math.min(
        atCommonMoment(performance.now() + backOff(reads, REREADS)),
        deadline,
        isWaiting(phase) ? expireAt : deadline
      )
      const woken = bus.wait('order', first.id, until - performance.now(), signal)
      const row = await batched.order(first.id)
      if (!row) throw new Error(`order ${first.id} was stored and is not there`)
      phase = row.phase
      if (isDecided(row, settle) || performance.now() >= deadline || signal.aborted) return row
      // A wait was over before this read.
      if (isUnbought(phase) && (firstHint !== undefined || reads > 0)) leave ??= backlog.add(partner.partnerId, 'place')
      else leave?.()
      await woken
      // With no worker running, a queued order is failed here when its time to live is over.
      if (isWaiting(phase) && performance.now() >= expireAt) {
        const [expired] = await expireOrders(db, [row.id], first.ends_ms)
        if (expired) return expired
        expireAt = performance.now() + EXPIRE_EVERY_MS
      }
    }
  } finally {
    leave?.()
  }
}

/** The error of an order without a contract, or whose outcome is not known yet. */
export function noContractError(row: Outcome, headers: Record<string, string>): ApiError {
  if (row.phase === 'failed') {
    if (row.error_code === 'TRADING_HALTED') return tradingHalted(row.error_extras as HaltFacts, row.id)
    const upstream = row.error_code === 'BROKER_UPSTREAM'
    const extras = { ...row.error_extras, ...(upstream ? { orderId: row.id, status: 'FAILED' as const } : {}) }
    return new ApiError((row.error_code as ErrorCode | null) ?? 'BROKER_UPSTREAM', row.error_message ?? undefined, {
      extras,
      headers
    })
  }
  const message =
    row.phase === 'review'
      ? 'Whether the broker bought this order is being reviewed; repeat the request with the same clientOrderId to read the result.'
      : "The broker's response is not known yet; repeat the request with the same clientOrderId, it never buys twice."
  return new ApiError('BROKER_UPSTREAM', message, { extras: { orderId: row.id, status: 'PENDING' }, headers })
}

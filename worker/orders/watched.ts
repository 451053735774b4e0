// What a worker keeps of a contract that it watches.
import type { LeasedOrder } from '../../db/orders/leases.ts'
import type { ContractLimits } from '../../schemas/market.ts'
import type { ContractListener, ContractState } from '../broker/port.ts'

export interface WatchedContract {
  order: LeasedOrder | undefined
  /** The application that its stream is open under, where that need not be the order's. */
  appId: string | undefined
  last: ContractState | undefined
  /** The last state of the open contract, which is kept where the one of its end is not plausible. */
  lastOpen: ContractState | undefined
  /** Whether the last update's value is stored as the order's current value. */
  marked: boolean
  closing: boolean
  /** When it was last updated or read, or is no longer parked, by the monotonic clock. */
  lastUpdateAt: number
  /** How often it was polled since its last update. */
  polls: number
  /** Reads of the contract after a settled state that could not be booked, and the one that is due. */
  rechecks: number
  cancelRecheck: (() => void) | undefined
  /** Until when a settlement without its prices is held back. */
  pricesUntil: number | undefined
  /** Its copies were marked for closing although its end is not written yet. */
  closesCopies: boolean
  /** The row is marked REVIEW_REQUIRED. */
  inReview: boolean
  /** The limits that its purchase requested, until a state shows those that it got. */
  requested: ContractLimits | undefined
  /** Changed limits are being stored. */
  storingLimits: boolean
  listener: ContractListener
}

/** The part of an order's row that is kept while its contract is open. */
export function leasedOrderOf(order: LeasedOrder): LeasedOrder {
  const { id, kind, broker_order_id, buy_price, payout, currency, multiplier, broker_account_id, account_id } = order
  const { app_id, dialect, follow_id, stop_loss, take_profit, error_code } = order
  return {
    id,
    kind,
    broker_order_id,
    buy_price,
    payout,
    currency,
    multiplier,
    broker_account_id,
    account_id,
    app_id,
    dialect,
    follow_id,
    stop_loss,
    take_profit,
    error_code
  }
}

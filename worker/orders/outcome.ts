// What a contract's state means for its order's row: the result of one that is over, the value of one that is open.
import { Big } from 'big.js'
import type { Mark, Settlement } from '../../db/orders/leases.ts'
import type { OrderRow } from '../../db/orders/reading.ts'
import type { ContractState } from '../broker/port.ts'
import { isPossiblePayout } from './plausible.ts'

/**
 * The result of a settled contract whose state is plausible. The profit is what it paid back less what it cost, in exact
 * decimals. Throws when what it paid is missing: `contradictions` finds that before.
 */
export function settlementOf(
  order: Pick<OrderRow, 'id' | 'kind' | 'buy_price' | 'payout' | 'follow_id'>,
  state: ContractState
): Settlement {
  if (state.sellPrice === null) throw new Error(`what the contract of ${order.id} paid is not known`)
  const early = wasSold(state)
  return {
    id: order.id,
    payout: missingPayout(order, state),
    pnl: new Big(state.sellPrice).minus(order.buy_price ?? state.buyPrice ?? '').toFixed(),
    entryPrice: state.entryPrice,
    // A contract sold early has no exit tick: the spot it was sold at decided.
    exitPrice: state.exitPrice ?? (early ? state.currentSpot : null),
    commission: chargeOf('commission', order, state),
    markup: chargeOf('markup', order, state),
    closedAt: state.sellTime,
    copied: order.follow_id !== null,
    early
  }
}

/** Whether a contract was sold, or called off, before its own end. */
export const wasSold = ({ status }: Pick<ContractState, 'status'>): boolean =>
  status === 'sold' || status === 'cancelled'

/** What an open contract is worth by this state; undefined where the broker gave no price. */
export function markOf(
  order: Pick<OrderRow, 'id' | 'kind' | 'broker_order_id' | 'buy_price' | 'payout'>,
  state: ContractState
): Mark | undefined {
  const cost = order.buy_price ?? state.buyPrice
  if (state.settled || state.bidPrice === null || cost === null) return undefined
  if (state.contractId !== order.broker_order_id) return undefined
  return {
    id: order.id,
    payout: missingPayout(order, state),
    currentValue: state.bidPrice,
    unrealizedPnl: new Big(state.bidPrice).minus(cost).toFixed(),
    commission: chargeOf('commission', order, state),
    markup: chargeOf('markup', order, state),
    // By the broker a multiplier ends about a century ahead: that is no expiry.
    expiryAt: order.kind === 'MULTIPLIER' ? null : state.expiryTime
  }
}

/** What an option pays if it wins, where the order does not know it: its receipt showed none that can be true. Nor must its state. */
function missingPayout(
  { kind, payout, buy_price }: Pick<OrderRow, 'kind' | 'payout' | 'buy_price'>,
  state: ContractState
): string | null {
  const cost = buy_price ?? state.buyPrice
  if (kind !== 'BINARY' || Number(payout) > 0 || state.payout === null || cost === null) return null
  return isPossiblePayout(state.payout, cost) ? state.payout : null
}

/**
 * What is charged on the contract, from its state: the broker's commission or the application's markup. An amount above the contract's price
 * cannot be one, and an unknown amount is better than a wrong one: null is returned.
 */
function chargeOf(
  charge: 'commission' | 'markup',
  order: Pick<OrderRow, 'buy_price'>,
  state: ContractState
): string | null {
  const [amount, cost] = [state[charge], order.buy_price ?? state.buyPrice]
  if (amount === null || (cost !== null && new Big(amount).gt(cost))) return null
  return amount
}

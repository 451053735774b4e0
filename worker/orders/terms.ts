// The order as the broker port takes it: the account it is on, and the contract it is for.

import type { OrderRow } from '../../db/orders/reading.ts'
import type { MultiplierDirection } from '../../schemas/orders.ts'
import type { Contract } from '../broker/port.ts'

/** Where an order's account is. */
export function refOf(order: Pick<OrderRow, 'broker_account_id' | 'account_id' | 'app_id' | 'dialect'>) {
  return {
    accountRowId: order.broker_account_id,
    accountId: order.account_id,
    appId: order.app_id,
    dialect: order.dialect
  }
}

type TermColumn =
  | 'kind'
  | 'asset'
  | 'stake'
  | 'stake_in_account'
  | 'currency'
  | 'contract_type'
  | 'direction'
  | 'multiplier'
  | 'duration'
  | 'duration_unit'
  | 'barrier'
  | 'stop_loss'
  | 'take_profit'

/** The contract that an order is for, in the port's terms and the account's currency. */
export function contractOf(order: Pick<OrderRow, TermColumn>): Contract {
  const shared = { asset: order.asset, stake: order.stake_in_account ?? order.stake, currency: order.currency ?? '' }
  if (order.kind === 'MULTIPLIER') {
    return {
      ...shared,
      kind: 'MULTIPLIER',
      direction: order.direction as MultiplierDirection,
      multiplier: Number(order.multiplier),
      stopLoss: order.stop_loss,
      takeProfit: order.take_profit
    }
  }
  return {
    ...shared,
    kind: 'BINARY',
    contractType: order.contract_type as never,
    duration: order.duration as number,
    durationUnit: order.duration_unit as 't',
    barrier: order.barrier
  }
}

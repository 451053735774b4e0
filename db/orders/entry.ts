// An order's row as lists show it, to partners over HTTP and to the operator.
import type { OrderRow } from './reading.ts'

/** A numeric column as a JSON number. */
export const number = (value: string | null): number | null => (value === null ? null : Number(value))
/** A timestamp column as ISO 8601. */
export const time = (value: Date | null): string | null => value?.toISOString() ?? null

/** What the stake came to on an account in another currency; nothing on one in USD. */
export function presentConverted(row: Pick<OrderRow, 'stake_in_account' | 'exchange_rate'>) {
  if (row.stake_in_account === null || row.exchange_rate === null) return {}
  return { stakeInAccount: Number(row.stake_in_account), exchangeRate: Number(row.exchange_rate) }
}

/** The columns of an order that its entry in a list is made of. */
export const entryColumns = [
  'id',
  'broker_order_id',
  'status',
  'stake',
  'stake_in_account',
  'exchange_rate',
  'payout',
  'buy_price',
  'opened_at',
  'pnl',
  'entry_price',
  'exit_price',
  'closed_at',
  'kind',
  'client_order_id',
  'trader_external_id',
  'account_id',
  'account_mode',
  'currency',
  'asset',
  'contract_type',
  'direction',
  'multiplier',
  'duration',
  'duration_unit',
  'barrier',
  'stop_loss',
  'take_profit',
  'commission',
  'markup',
  'created_at',
  'copied_from',
  'raised_to_minimum',
  'error_code',
  'error_message'
] as const

/** An order in a list: every field, null while unknown. */
export function presentEntry(row: Pick<OrderRow, (typeof entryColumns)[number]>) {
  return {
    orderId: row.id,
    brokerOrderId: row.broker_order_id,
    status: row.status,
    stake: Number(row.stake),
    stakeInAccount: number(row.stake_in_account),
    exchangeRate: number(row.exchange_rate),
    potentialPayout: number(row.payout),
    buyPrice: number(row.buy_price),
    openedAt: time(row.opened_at),
    pnl: number(row.pnl),
    entryPrice: number(row.entry_price),
    exitPrice: number(row.exit_price),
    closedAt: time(row.closed_at),
    kind: row.kind,
    clientOrderId: row.client_order_id,
    traderExternalId: row.trader_external_id,
    accountId: row.account_id,
    accountMode: row.account_mode,
    currency: row.currency,
    asset: row.asset,
    contractType: row.contract_type,
    direction: row.direction,
    multiplier: number(row.multiplier),
    duration: row.duration,
    durationUnit: row.duration_unit,
    barrier: row.barrier,
    stopLoss: number(row.stop_loss),
    takeProfit: number(row.take_profit),
    commission: number(row.commission),
    markup: number(row.markup),
    createdAt: row.created_at.toISOString(),
    copiedFrom: row.copied_from,
    raisedToMinimum: row.raised_to_minimum,
    error: row.error_code === null ? null : { error: row.error_code, message: row.error_message ?? '' }
  }
}

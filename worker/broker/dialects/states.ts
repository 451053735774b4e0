// A contract's state as both dialects send it. One field that cannot be read makes that field null, never the state
// unusable: a contract whose commission is garbage must still settle.
import Big from 'big.js'
import type { ContractLimits } from '../../../schemas/market.ts'
import type { ContractState } from '../port.ts'
import type { Fields } from './reading.ts'

const statuses = ['open', 'won', 'lost', 'sold', 'cancelled'] as const

/** What each dialect reads in its own way. */
interface SpotPrices {
  entryPrice: string | null
  exitPrice: string | null
  currentSpot: string | null
}

/** A contract's state from the body of a frame. Never throws for a field. */
export function readContractState(fields: Fields, spots: SpotPrices): ContractState {
  const sold = fields.flag('is_sold')
  const status = fields.oneOf('status', statuses)
  const settled = sold === true || (status !== null && status !== 'open')
  const buyPrice = fields.amount('buy_price')
  const payout = fields.amount('payout')
  const profit = fields.signedAmount('profit')
  const sellPrice = settled ? (fields.signedAmount('sell_price') ?? impliedPrice()) : null
  const limits = readLimits(fields.inside('limit_order'))
  return {
    contractId: fields.id('contract_id'),
    status: statusOf({ settled, status, sellPrice, expired: fields.flag('is_expired') }),
    settled,
    reported: { sold, status },
    buyPrice,
    payout,
    bidPrice: fields.amount('bid_price'),
    profit,
    sellPrice,
    ...spots,
    commission: fields.amount('commission') ?? fields.amount('commision'),
    markup: fields.amount('app_markup_amount'),
    purchaseTime: fields.time('purchase_time'),
    sellTime: fields.time('sell_time'),
    expiryTime: fields.time('date_expiry') ?? fields.time('expiry_time'),
    sellable: fields.flag('is_valid_to_sell') === true,
    shortcode: fields.text('shortcode'),
    currency: fields.text('currency'),
    ...(limits === undefined ? {} : { limits }),
    unreadable: fields.unreadable
  }

  /** What a contract paid whose state leaves that out, as the schemas allow: by its status, where its profit confirms it. */
  function impliedPrice(): string | null {
    const paid = status === 'lost' ? '0' : status === 'won' ? payout : null
    if (paid === null || buyPrice === null || profit === null || fields.unreadable.includes('sell_price')) return null
    return new Big(paid).minus(buyPrice).eq(profit) ? paid : null
  }
}

/** A contract's limits; undefined where one of them cannot be read, which must not be taken for none. */
function readLimits(orders: Fields | null): ContractLimits | undefined {
  if (orders === null) return
  const stopLoss = readLimit(orders, 'stop_loss')
  const takeProfit = readLimit(orders, 'take_profit')
  return stopLoss === undefined || takeProfit === undefined ? undefined : { stopLoss, takeProfit }
}

/** A limit without its sign: the broker states a stop loss as a negative amount. */
function readLimit(orders: Fields, name: string): string | null | undefined {
  const order = orders.inside(name)
  if (order === null) return orders.unreadable.includes(name) ? undefined : null
  const amount = order.signedAmount('order_amount') ?? order.signedAmount('display_order_amount')
  // The schemas let an order leave its amount out and have the price at which it closes the contract alone.
  if (amount === null) return order.text('value') !== null || order.unreadable.length > 0 ? undefined : null
  const size = amount.replace(/^-/, '')
  return Number(size) === 0 ? null : size
}

/** The broker sends no status at times; a contract that was sold before its end is known by that, another by what it paid. */
function statusOf(facts: {
  settled: boolean
  status: ContractState['status'] | null
  sellPrice: string | null
  expired: boolean | null
}): ContractState['status'] {
  if (!facts.settled) return 'open'
  if (facts.status !== null && facts.status !== 'open') return facts.status
  if (facts.expired === false) return 'sold'
  return Number(facts.sellPrice ?? 0) > 0 ? 'won' : 'lost'
}

// A contract's state as both dialects send it. One field that cannot be read makes that field null, never the state
// unusable: a contract whose commission is garbage must still settle.
import type { ContractState } from '../port.ts'
import type { Fields } from './reading.ts'

const statuses = ['open', 'won', 'lost', 'sold', 'cancelled'] as const

/** What each dialect reads in its own way. */
export interface SpotPrices {
  entryPrice: string | null
  exitPrice: string | null
  currentSpot: string | null
}

/** A contract's state from the body of a frame. Never throws for a field. */
export function readContractState(fields: Fields, spots: SpotPrices): ContractState {
  const sold = fields.flag('is_sold')
  const status = fields.oneOf('status', statuses)
  const settled = sold === true || (status !== null && status !== 'open')
  const sellPrice = settled ? fields.signedAmount('sell_price') : null
  return {
    contractId: fields.id('contract_id'),
    status: statusOf({ settled, status, sellPrice }),
    settled,
    said: { sold, status },
    buyPrice: fields.amount('buy_price'),
    payout: fields.amount('payout'),
    bidPrice: fields.amount('bid_price'),
    profit: fields.signedAmount('profit'),
    sellPrice,
    ...spots,
    commission: fields.amount('commission') ?? fields.amount('commision'),
    markup: fields.amount('app_markup_amount'),
    purchaseTime: fields.time('purchase_time'),
    sellTime: fields.time('sell_time'),
    expiryTime: fields.time('date_expiry') ?? fields.time('expiry_time'),
    sellable: fields.flag('is_valid_to_sell') === true,
    shortcode: fields.text('shortcode'),
    unreadable: fields.unreadable
  }
}

/** The broker sends no status at times; a settled contract then counts by what it paid. */
function statusOf(told: {
  settled: boolean
  status: ContractState['status'] | null
  sellPrice: string | null
}): ContractState['status'] {
  if (!told.settled) return 'open'
  if (told.status !== null && told.status !== 'open') return told.status
  return Number(told.sellPrice ?? 0) > 0 ? 'won' : 'lost'
}

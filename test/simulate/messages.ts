// Deals of the books in the words of both dialects, as their frames carry them.
import type { DialectName } from '../support/dialects.ts'
import type { Deal, WorldBooks } from './books.ts'

type SpeechBody = Record<string, unknown>

const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const

/** Amounts: numbers in the first dialect, text in the newer one. */
const amount = (dialect: DialectName, value: string) => (dialect === 'v3' ? Number(value) : value)

export function shortcodeOf({ contract, boughtEpoch, payout, readable }: Deal): string {
  if (!readable) return `UNREADABLE ${boughtEpoch}`
  const asset = contract.asset.toUpperCase()
  if (contract.kind === 'MULTIPLIER') {
    const type = contract.direction === 'up' ? 'MULTUP' : 'MULTDOWN'
    return `${type}_${asset}_${contract.stake}_${contract.multiplier}_${boughtEpoch}_4999999999_60m_0.00_N1`
  }
  const { contractType, duration, durationUnit, barrier } = contract
  const end = durationUnit === 't' ? `${duration}T` : `${boughtEpoch + duration * SECONDS[durationUnit]}`
  return `${contractType}_${asset}_${payout}_${boughtEpoch}_${end}_${barrier ?? 'S0P'}_0`
}

/** The contract as it is. */
export function stateOf(books: WorldBooks, deal: Deal, dialect: DialectName): SpeechBody {
  const state = books.state(deal)
  const money = (value: string | null) => (value === null ? undefined : amount(dialect, value))
  const price = (field: string, value: string | null) =>
    value === null
      ? {}
      : { [field]: amount(dialect, value), ...(dialect === 'v3' ? { [`${field}_display_value`]: value } : {}) }
  return {
    contract_id: Number(deal.id),
    is_sold: state.settled ? 1 : 0,
    status: state.status,
    buy_price: money(state.buyPrice),
    payout: money(state.payout),
    bid_price: money(state.bidPrice ?? state.sellPrice),
    profit: money(state.profit),
    ...(state.settled ? { sell_price: money(state.sellPrice), sell_time: state.sellTime } : {}),
    ...price(dialect === 'v3' ? 'entry_tick' : 'entry_spot', state.entryPrice),
    ...price(dialect === 'v3' ? 'exit_tick' : 'exit_spot', state.exitPrice),
    ...price('current_spot', state.currentSpot),
    purchase_time: state.purchaseTime,
    ...(state.expiryTime === null ? {} : { date_expiry: state.expiryTime, expiry_time: state.expiryTime }),
    is_valid_to_sell: state.sellable ? 1 : 0,
    shortcode: shortcodeOf(deal),
    [dialect === 'v3' ? 'underlying' : 'underlying_symbol']: deal.contract.asset
  }
}

/** The receipt of a purchase. */
export function receiptOf(deal: Deal, dialect: DialectName): SpeechBody {
  return {
    contract_id: Number(deal.id),
    transaction_id: Number(`${deal.id}1`),
    buy_price: amount(dialect, deal.contract.stake),
    payout: amount(dialect, deal.payout),
    purchase_time: deal.boughtEpoch,
    start_time: deal.boughtEpoch,
    shortcode: shortcodeOf(deal),
    longcode: ''
  }
}

/** A row of a list of the account's. */
export function rowOf(
  list: 'portfolio' | 'statement' | 'profit_table',
  deal: Deal,
  { showsApps }: WorldBooks
): SpeechBody {
  const dialect = showsApps ? 'v3' : 'next'
  const row = {
    contract_id: Number(deal.id),
    transaction_id: Number(`${deal.id}1`),
    payout: amount(dialect, deal.payout),
    shortcode: shortcodeOf(deal),
    ...(showsApps ? { app_id: Number(deal.appId) } : {})
  }
  const { stake } = deal.contract
  if (list === 'statement')
    return { ...row, action_type: 'buy', amount: amount(dialect, `-${stake}`), transaction_time: deal.boughtEpoch }
  const bought = { ...row, buy_price: amount(dialect, stake), purchase_time: deal.boughtEpoch }
  return list === 'portfolio' ? bought : { ...bought, sell_price: amount(dialect, deal.sale?.price ?? '0') }
}

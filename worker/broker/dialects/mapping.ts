// The mapping common to both dialects: the terms of a requested contract, and the rows of an account's lists.

import type { Contract, Evidence } from '../port.ts'
import type { Request } from './dialect.ts'
import { type Body, Fields, idOf, optionalText, timeOf } from './reading.ts'
import { parseShortcode } from './shortcode.ts'

/** The terms of a contract; the dialects differ in what they call its asset. */
export function termsOfRequest(contract: Contract, assetField: 'symbol' | 'underlying_symbol'): Request {
  const { asset, currency } = contract
  const common = { [assetField]: asset, currency, amount: Number(contract.stake), basis: 'stake' }
  if (contract.kind === 'MULTIPLIER') {
    const contract_type = contract.direction === 'up' ? 'MULTUP' : 'MULTDOWN'
    const orders: Request = {}
    if (contract.stopLoss !== null) orders.stop_loss = Number(contract.stopLoss)
    if (contract.takeProfit !== null) orders.take_profit = Number(contract.takeProfit)
    const limit_order = Object.keys(orders).length === 0 ? {} : { limit_order: orders }
    return { ...common, contract_type, multiplier: contract.multiplier, ...limit_order }
  }
  const { contractType: contract_type, duration, durationUnit: duration_unit } = contract
  const barrier = contract.barrier === null ? {} : { barrier: contract.barrier }
  return { ...common, contract_type, duration, duration_unit, ...barrier }
}

/** A row of a list; `time` names the field of the purchase's time, `app` that of its application where it is named as with us. */
export function readEvidence(
  source: Evidence['source'],
  row: Body,
  { time, price, app }: { time: string; price: string; app?: string }
): Evidence {
  const shortcode = optionalText(row, 'shortcode') ?? ''
  // One figure that cannot be read must not hide the contract, nor the rows around it.
  const fields = new Fields(row)
  const terms = parseShortcode(shortcode)
  return {
    source,
    contractId: idOf(row, 'contract_id'),
    transactionId: fields.id('transaction_id'),
    appId: app === undefined ? null : fields.id(app),
    buyPrice: price,
    payout: fields.amount('payout'),
    ...(source === 'profit_table'
      ? { sellPrice: fields.amount('sell_price'), sellTime: fields.time('sell_time') }
      : {}),
    // A contract of these kinds starts with its purchase.
    purchaseTime: row[time] == null && terms !== null ? terms.startTime : timeOf(row, time),
    terms,
    shortcode
  }
}

/** Statements show a purchase as a negative amount. */
export function unsigned(amount: string): string {
  return amount.startsWith('-') ? amount.slice(1) : amount
}

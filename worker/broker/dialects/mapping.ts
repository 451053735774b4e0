// The mapping common to both dialects: the terms of a requested contract, and the rows of an account's lists.

import { createHash } from 'node:crypto'
import type { Contract, Evidence } from '../port.ts'
import type { Request } from './dialect.ts'
import { type Body, Fields, optionalText } from './reading.ts'
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

/**
 * A row of a list. `time` names the field of the purchase's time, `price` that of what it cost (which a statement shows as a negative
 * amount), `app` that of its application where it is named as with us. What cannot be read is null: the row still shows a purchase.
 */
export function readEvidence(
  source: Evidence['source'],
  row: Body,
  { time, price, app }: { time: string; price: string; app?: string }
): Evidence {
  const shortcode = optionalText(row, 'shortcode') ?? ''
  const fields = new Fields(row)
  const terms = parseShortcode(shortcode)
  const transactionId = fields.id('transaction_id')
  return {
    source,
    contractId: fields.id('contract_id') ?? `${UNNAMED}${transactionId ?? digestOf(row)}`,
    transactionId,
    appId: app === undefined ? null : fields.id(app),
    buyPrice: fields.signedAmount(price)?.replace('-', '') ?? null,
    payout: fields.amount('payout'),
    ...(source === 'profit_table'
      ? { sellPrice: fields.amount('sell_price'), sellTime: fields.time('sell_time') }
      : {}),
    // A contract of these kinds starts with its purchase.
    purchaseTime: fields.time(time) ?? terms?.startTime ?? null,
    terms,
    shortcode
  }
}

// No id of a contract begins so.
const UNNAMED = 'unnamed-'

/** Whether the broker showed the id of the contract; where it did not, `contractId` is a name of ours for the row. */
export function isNamed({ contractId }: Pick<Evidence, 'contractId'>): boolean {
  return !contractId.startsWith(UNNAMED)
}

function digestOf(row: Body): string {
  return createHash('sha256').update(JSON.stringify(row)).digest('hex').slice(0, 16)
}

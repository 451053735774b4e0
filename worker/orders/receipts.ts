// The broker's receipt of a purchase, as the order's row takes it, and in what it differs from the order's terms. The money is spent:
// whatever the receipt shows, the contract is the order's. What differs is stored with it for the operator.
import { Big } from 'big.js'
import type { Claimed } from '../../db/orders/claiming.ts'
import type { Receipt } from '../../db/orders/placing.ts'
import { isPrintedAs, matches, parseShortcode } from '../broker/dialects/shortcode.ts'
import type { Bought, Contract } from '../broker/port.ts'
import { isPossiblePayout } from './plausible.ts'
import { ceilingOf, digitsOf } from './stake.ts'

/** The receipt for an order's attempt to buy the contract. */
export function receiptOf(order: Claimed, bought: Bought, contract: Contract): Receipt {
  return {
    id: order.id,
    attempt: order.attempt,
    brokerOrderId: bought.contractId,
    transactionId: bought.transactionId,
    buyPrice: bought.buyPrice,
    payout: payoutOf(bought, contract),
    currency: contract.currency,
    openedAt: bought.purchaseTime,
    expiryAt: bought.expiryTime,
    hasFollowers: order.has_followers,
    differs: differencesOf(bought, contract)
  }
}

/**
 * What the contract pays if it wins, by the receipt or the row of a list, and by its code: '0', unknown, when neither can be true or they
 * contradict each other. Then the contract's state shows it; a wrong one would keep the contract from its settlement.
 */
export function payoutOf(
  { buyPrice, payout, shortcode }: Pick<Bought, 'buyPrice' | 'payout' | 'shortcode'>,
  contract: Contract
): string {
  if (contract.kind === 'MULTIPLIER') return '0'
  const canBeTrue = (amount: string) => isPossiblePayout(amount, buyPrice)
  const shown = new Big(payout).round(digitsOf(contract)).toFixed()
  const printed = parseShortcode(shortcode)?.payout ?? shown
  if (!canBeTrue(printed)) return canBeTrue(shown) ? shown : '0'
  if (!canBeTrue(shown)) return printed
  return isPrintedAs(printed, shown) ? shown : '0'
}

/**
 * What the order requested and what the broker bought instead: null where they agree, as far as the receipt shows it. It has the price,
 * an option's payout, and a code with that, type, asset, length, barrier and multiplier; a code that cannot be read shows nothing.
 */
function differencesOf(bought: Bought, contract: Contract): Receipt['differs'] {
  const { buyPrice, payout, shortcode } = bought
  const price = new Big(buyPrice)
  const ceiling = ceilingOf(contract)
  const terms = parseShortcode(shortcode)
  const differs: NonNullable<Receipt['differs']> = {}
  if (price.gt(ceiling)) differs.buyPrice = [`${ceiling} at most`, buyPrice]
  else if (price.lt(contract.stake)) differs.buyPrice = [`${contract.stake} at least`, buyPrice]
  if (contract.kind === 'BINARY' && !new Big(payout).eq(payoutOf(bought, contract)))
    differs.payout = [`more than ${buyPrice}, as in ${shortcode}`, payout]
  if (terms !== null && !matches(terms, contract)) differs.terms = [wordsFor(contract), shortcode]
  return Object.keys(differs).length > 0 ? differs : null
}

function wordsFor(contract: Contract): string {
  const { asset, stake } = contract
  if (contract.kind === 'MULTIPLIER') return `${contract.direction} ${asset} ${stake} x${contract.multiplier}`
  const { contractType, duration, durationUnit, barrier } = contract
  return `${contractType} ${asset} ${duration}${durationUnit}${barrier === null ? '' : ` ${barrier}`}`
}

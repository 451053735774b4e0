// An order's stake in the currency of its account, and the most that its purchase may cost.
import { Big } from 'big.js'
import type { Claimed } from '../../db/orders/claiming.ts'
import { type ConvertedStake, commitStakes } from '../../db/orders/placing.ts'
import { batch } from '../../db/postgres/batch.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Contract, type Market, stakeCurrency } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'

// The most an application may charge by the broker's documents (June 2026): percent of an option's payout, of a
// multiplier's stake.
const MAX_MARKUP_PCT = 3

/** A stake in the account's currency, with all decimals of the currency, and the units of it that one USD was worth. */
type AccountStake = Pick<ConvertedStake, 'stakeInAccount' | 'exchangeRate'>

/**
 * Converts a stake in USD at the broker's present rate, rounded down to the currency's decimals; null for a currency
 * that needs no conversion. Throws INVALID_CONTRACT where there is no rate or nothing is left of the stake, BrokerError
 * when the rate cannot be read.
 */
export async function convertStake(
  market: Pick<Market, 'exchange'>,
  stakeUsd: string,
  currency: string
): Promise<AccountStake | null> {
  if (currency === stakeCurrency) return null
  const exchange = await market.exchange(currency)
  if (!exchange) {
    const message = `The broker has no exchange rate from ${stakeCurrency} to ${currency}, the currency of the account; nothing was bought.`
    throw new ApiError('INVALID_CONTRACT', message)
  }
  const amount = new Big(stakeUsd).times(exchange.rate).round(exchange.digits, Big.roundDown)
  if (amount.lte(0)) {
    const message = `The stake of ${stakeUsd} ${stakeCurrency} is less than the smallest amount of ${currency}; nothing was bought.`
    throw new ApiError('INVALID_CONTRACT', message)
  }
  return { stakeInAccount: amount.toFixed(exchange.digits), exchangeRate: exchange.rate }
}

/** Converts the stakes of claimed orders and commits the results before anything may be sent. */
export function openStakes(services: Pick<WorkerServices, 'db' | 'brokers' | 'worker'>) {
  const commit = batch(async (stakes: ConvertedStake[]) => {
    const committed = new Set(await commitStakes(services.db, stakes, services.worker))
    return stakes.map(({ id }) => committed.has(id))
  })

  /** The order's amounts in the currency of its account. Throws as `convertStake`, and when the claim is another's by now. */
  return async (order: Claimed, currency: string): Promise<{ stake_in_account: string | null }> => {
    const market = services.brokers.of(order.dialect).market(order.app_id)
    const converted = await convertStake(market, order.stake, currency)
    if (!converted) return { stake_in_account: null }
    const { id, attempt } = order
    if (!(await commit({ id, attempt, currency, ...converted })))
      throw new Error('the claim was decided by somebody else while its stake was converted')
    return { stake_in_account: converted.stakeInAccount }
  }
}

/**
 * The most a contract of this stake may cost, in the account's currency. The broker lets the partner's markup be paid
 * beside the stake: a share of the payout, which is never more than fair odds would pay. Rounded up to the currency's
 * decimals, and one smallest unit more, since the broker rounds payout and markup.
 */
export function ceilingOf(contract: Contract): string {
  const fair = contract.kind === 'MULTIPLIER' ? 1 : new Big(10).div(tenthsOf(contract))
  const digits = digitsOf(contract)
  const markup = new Big(contract.stake).times(fair).times(MAX_MARKUP_PCT).div(100)
  const unit = new Big(10).pow(-digits)
  return new Big(contract.stake).plus(markup).round(digits, Big.roundUp).plus(unit).toFixed()
}

/** The decimals of an amount in the contract's currency: a converted stake has them all. */
export function digitsOf({ currency, stake }: Contract): number {
  return [stakeCurrency, ''].includes(currency) ? 2 : (stake.split('.')[1]?.length ?? 0)
}

/** How many of ten even outcomes win. */
function tenthsOf({ contractType, barrier }: Extract<Contract, { kind: 'BINARY' }>): number {
  const digit = Number(barrier ?? 5)
  switch (contractType) {
    case 'DIGITMATCH':
      return 1
    case 'DIGITDIFF':
      return 9
    case 'DIGITOVER':
      return Math.max(1, 9 - digit)
    case 'DIGITUNDER':
      return Math.max(1, digit)
    default:
      return 5
  }
}

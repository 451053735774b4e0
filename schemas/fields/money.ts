// Amounts in USD: decimal strings with two digits, exact from end to end. They become numbers only where a response is
// presented.
import Big from 'big.js'
import { ApiError } from '../errors/errors.ts'

/** What no amount reaches, on either side of zero. */
export const AMOUNT_LIMIT = '1000000000000000'

const canonical = /^-?\d{1,15}(\.\d{1,2})?$/

/** An amount on the command line: above zero, at most two decimals. */
export const amountArgument = {
  type: 'string',
  pattern: '^(?!0+(\\.0+)?$)\\d{1,10}(\\.\\d{1,2})?$',
  description: 'USD, above zero, with up to two decimals.',
  examples: ['500', '49.90']
} as const

/** The amount as '12.30'. Throws a RangeError for anything finer than a cent or out of bounds: a bug, not a request. */
export function usd(value: string | Big): string {
  const text = typeof value === 'string' ? value : value.toFixed()
  if (!canonical.test(text)) throw new RangeError(`Not an amount in whole cents: ${text.slice(0, 40)}`)
  return new Big(text).toFixed(2)
}

/** A number of a request body as an exact amount. Throws VALIDATION_FAILED at `path` when it is finer than a cent. */
export function usdOf(value: number, path: string): string {
  const exact = new Big(value)
  if (!exact.eq(exact.round(2)) || exact.abs().gte(AMOUNT_LIMIT)) {
    const details = [{ path, message: 'must be an amount in USD with at most two decimals' }]
    throw new ApiError('VALIDATION_FAILED', `${path} must have at most two decimals`, { extras: { details } })
  }
  return exact.toFixed(2)
}

/** The number shown in a response. */
export function shown(amountUsd: string): number {
  return Number(amountUsd)
}

export function sum(amounts: readonly string[]): string {
  return usd(amounts.reduce((total, amount) => total.plus(amount), new Big(0)))
}

export function negated(amountUsd: string): string {
  return usd(new Big(amountUsd).neg().plus(0))
}

/** Whether `a` is less than `b`. */
export function isLess(a: string, b: string): boolean {
  return new Big(a).lt(b)
}

/** What `have` lacks of `need`; '0.00' when nothing. */
export function lacking(have: string, need: string): string {
  const gap = new Big(need).minus(have)
  return usd(gap.gt(0) ? gap : new Big(0))
}

/**
 * A sale's price in two parts: the platform's share, rounded half up to the cent, and all the rest. The
 * parts always add up to the price.
 */
export function splitSale(priceUsd: string, feePct: string): { feeUsd: string; netUsd: string } {
  const fee = new Big(priceUsd).times(feePct).div(100).round(2, Big.roundHalfUp)
  return { feeUsd: usd(fee), netUsd: usd(new Big(priceUsd).minus(fee)) }
}

// Amounts as whole numbers of 0.00000001, as lists of closes and running totals store them: integers are read and added several
// times as fast as numeric. An amount that is not a whole number of units, or is too large, stays numeric.

/** How many units one of a currency has, and the value of one unit, as SQL. */
export const UNITS = '100000000::numeric'
export const UNIT = '0.00000001::numeric'

/** Whether an amount can be in units, as SQL: small enough that the sum of ninety thousand of them fits a bigint. */
export const isInUnits = (amount: string): string =>
  `(abs(${amount}) < 1000000 and ${amount} * ${UNITS} = trunc(${amount} * ${UNITS}))`

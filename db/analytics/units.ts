// Amounts as whole numbers of 0.00000001, as lists of closes and running totals have them: numbers of a fixed length are read and added several
// times as fast as numeric ones. An amount that is no whole number of units, or too large, stays numeric.

/** Units in one of a currency, and what one unit is, as SQL. */
export const UNITS = '100000000::numeric'
export const UNIT = '0.00000001::numeric'

/** Whether an amount can be in units, as SQL: so small that a sum of ninety thousand of them is still a bigint. */
export const isInUnits = (amount: string): string =>
  `(abs(${amount}) < 1000000 and ${amount} * ${UNITS} = trunc(${amount} * ${UNITS}))`

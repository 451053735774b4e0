// Requests about the market, as workers serve them and api requests use them.

/** Prices of one stretch of time; `epoch` is its start, in seconds. */
export interface Candle {
  epoch: number
  open: number
  high: number
  low: number
  close: number
}

/** The limits of a multiplier contract: positive amounts of the account's currency as decimal text, null where there is none. */
export interface ContractLimits {
  stopLoss: string | null
  takeProfit: string | null
}

/** What the broker offers of multipliers on an asset; money as decimal text. */
export interface MultiplierSpec {
  asset: string
  currency: string
  multipliers: number[]
  minStake: string
  maxStake: string | null
  /** Percent of stake × multiplier. */
  commissionPct: string | null
  cancellation: string[]
  marketOpen: boolean
  secondsUntilOpen: number | null
}

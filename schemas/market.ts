// What is asked of the broker about the market, as workers answer it and requests use it.

/** Prices of one stretch of time; `epoch` is its start, in seconds. */
export interface Candle {
  epoch: number
  open: number
  high: number
  low: number
  close: number
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

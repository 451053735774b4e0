// Candles for tests of the readings: paths of closes, one candle a minute.
import type { Candle } from '../../schemas/market.ts'

export const START = 1_795_248_000

/** Candles that follow a path of closes, one a minute. */
export function candlesOf(closes: number[], { spread = 0.2 } = {}): Candle[] {
  return closes.map((close, index) => {
    const open = closes[index - 1] ?? close
    return {
      epoch: START + index * 60,
      open,
      close,
      high: Math.max(open, close) + spread,
      low: Math.min(open, close) - spread
    }
  })
}

// Rises or falls in waves, so that neither RSI nor the bands are at their limits.
export const waves = (count: number, slope: number) =>
  candlesOf(Array.from({ length: count }, (_, n) => 1000 + slope * n + 3 * Math.sin(n / 2.5)))

/** The body of a bot analysis over a hundred rising candles. */
export const request = (changes: object = {}) => ({
  symbol: 'R_100',
  currentPrice: 1150,
  recentCandles: waves(100, 1.5),
  ...changes
})

// A seed whose simulated market leans. Prices are a function of seed and time, so no fixed seed leans at every hour.
import { decideSignal } from '../../api/ai/signal.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import { SimulatedMarket } from '../../worker/simulator/engine/market.ts'
import { symbols } from '../../worker/simulator/engine/symbols.ts'

const MAX_SEEDS = 200
const LEAST_CONFIDENCE = 0.2
/** The readings are taken at these moments from now on (not at once: a market forced open has no tick yet), for longer than tests take on any machine. */
const MOMENTS_SECONDS = Array.from({ length: 31 }, (_, half) => 1 + half * 30)

/**
 * The first seed with which the readings of `asset` lean clearly for a quarter of an hour from now, at ticks of `tickMs`.
 * Throws when none of many does: then it is the readings that are wrong.
 */
export function findLeaningSeed({ asset, tickMs }: { asset: string; tickMs: number }): number {
  const symbol = symbols.get(asset)
  if (!symbol) throw new Error(`the simulated broker has no ${asset}`)
  for (let seed = 1; seed <= MAX_SEEDS; seed++) {
    const market = new SimulatedMarket(systemClock, { seed, tickMs })
    market.sessions.force(symbol, true)
    // Of each seed anew: a market that the calendar has closed has no tick before it was forced open.
    const now = Date.now()
    const leans = (seconds: number) => {
      const endMs = now + seconds * 1000
      const candles = market.candles(symbol, { startMs: 0, endMs, count: 200, granularitySeconds: 60 })
      const { direction, confidence } = decideSignal({ asset, candles, purse: undefined, now: endMs / 1000 })
      return direction !== 'NEUTRAL' && confidence >= LEAST_CONFIDENCE
    }
    if (MOMENTS_SECONDS.every(leans)) return seed
  }
  throw new Error(`with none of ${MAX_SEEDS} seeds does ${asset} lean either way`)
}

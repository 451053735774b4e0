// Backtest of the signal's rules on past candles: at each candle the rules decide from the earlier ones, and the close
// some candles later shows whether they were right. A tie loses, as it does with a rise or fall contract.
import { setImmediate } from 'node:timers/promises'
import type { Backtest } from '../../schemas/ai.ts'
import type { Candle } from '../../schemas/market.ts'
import { cleanCandles, hundredths, openReadings } from './indicators.ts'
import { CANDLE_SECONDS, leaningOf, MIN_CANDLES } from './signal.ts'

// A thousand candles take about 80 ms of CPU; after this many, other requests are served.
const AT_ONCE = 50
const REMEMBERED = 500

const remembered = new Map<string, Promise<Backtest>>()

/** The same as `backtest`, computed once for each newest candle; `key` names asset and source. */
export function backtestOnce(key: string, candles: readonly Candle[], contractCandles: number): Promise<Backtest> {
  const whole = `${key} ${contractCandles} ${candles.at(-1)?.epoch}`
  const known = remembered.get(whole)
  if (known !== undefined) return known
  if (remembered.size >= REMEMBERED) remembered.clear()
  const computed = backtest(candles, contractCandles)
  remembered.set(whole, computed)
  return computed
}

/** Runs the rules over closed candles, oldest first; each contract lasts `contractCandles` candles. */
export async function backtest(given: readonly Candle[], contractCandles: number): Promise<Backtest> {
  const candles = cleanCandles(given)
  const readings = openReadings()
  let signals = 0
  let wins = 0
  for (const [index, candle] of candles.entries()) {
    readings.add(candle)
    if (index % AT_ONCE === AT_ONCE - 1) await setImmediate()
    const end = candles[index + contractCandles]
    if (index + 1 < MIN_CANDLES || !end) continue
    // Candles are missing in between (a night, a weekend): no contract would have run.
    if (end.epoch - candle.epoch !== contractCandles * CANDLE_SECONDS) continue
    const { direction } = leaningOf(readings.at(candle.close))
    if (direction === 'NEUTRAL') continue
    signals += 1
    if (direction === 'CALL' ? end.close > candle.close : end.close < candle.close) wins += 1
  }
  return {
    candles: candles.length,
    signals,
    wins,
    winRatePct: signals === 0 ? null : hundredths((wins / signals) * 100)
  }
}

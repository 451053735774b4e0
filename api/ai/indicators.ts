// Candles to indicators: pure, the same numbers for the same candles, and never anything but finite numbers
// or null, whatever the candles are like.
import { createRequire } from 'node:module'
import type { Indicators } from '../../schemas/ai.ts'
import type { Candle } from '../../schemas/market.ts'

// Loaded at its first use, not at the start of every process: it is an eighth of all modules an api process loads.
const require = createRequire(import.meta.url)
const loadLibrary = () => require('trading-signals') as typeof import('trading-signals')

/**
 * The candles one can compute with, oldest first: those with a price that is not finite and positive are left
 * out, of two with the same epoch the later entry counts, and high and low span open and close.
 */
export function cleanCandles(candles: readonly Candle[]): Candle[] {
  const byEpoch = new Map<number, Candle>()
  for (const { epoch, open, high, low, close } of candles) {
    const prices = [open, high, low, close]
    if (!Number.isFinite(epoch) || !prices.every(price => Number.isFinite(price) && price > 0)) continue
    byEpoch.set(epoch, { epoch, open, close, high: Math.max(...prices), low: Math.min(...prices) })
  }
  return [...byEpoch.values()].sort((a, b) => a.epoch - b.epoch)
}

/** The indicators of clean candles, as of `lastPrice`. */
export function computeIndicators(candles: readonly Candle[], lastPrice: number | null): Indicators {
  const readings = openReadings()
  for (const candle of candles) readings.add(candle)
  return readings.at(lastPrice)
}

/** Indicators that follow candles one by one, oldest first: the same as of all candles so far. */
export function openReadings(): { add(candle: Candle): void; at(lastPrice: number | null): Indicators } {
  const { ATR, BollingerBands, EMA, MACD, RSI } = loadLibrary()
  const rsi = new RSI(14)
  const macd = new MACD(new EMA(12), new EMA(26), new EMA(9))
  const bands = new BollingerBands(20, 2)
  const emaFast = new EMA(9)
  const emaSlow = new EMA(21)
  const atr = new ATR(14)
  // Without a single fall the index is 100 by definition, and so it would be in a market that does not move.
  const newest: number[] = []
  return {
    add(candle) {
      for (const line of [rsi, macd, bands, emaFast, emaSlow]) line.add(candle.close)
      atr.add(candle)
      newest.push(candle.close)
      if (newest.length > FLAT_CANDLES) newest.shift()
    },
    at(lastPrice) {
      const crossing = macd.isStable ? macd.getResult() : null
      const band = bands.getResult()
      const flat = newest.length === FLAT_CANDLES && newest.every(close => close === newest[0])
      return {
        rsi: flat ? 50 : finite(rsi.getResult()),
        macd: finite(crossing?.macd),
        macdSignal: finite(crossing?.signal),
        macdHistogram: finite(crossing?.histogram),
        bollingerUpper: finite(band?.upper),
        bollingerMiddle: finite(band?.middle),
        bollingerLower: finite(band?.lower),
        emaFast: emaFast.isStable ? finite(emaFast.getResult()) : null,
        emaSlow: emaSlow.isStable ? finite(emaSlow.getResult()) : null,
        atr: finite(atr.getResult()),
        lastPrice: finite(lastPrice)
      }
    }
  }
}

const FLAT_CANDLES = 15

// Ten digits: more than any price is printed with, and no noise of floating point in the response.
function finite(value: number | null | undefined): number | null {
  return value === null || value === undefined || !Number.isFinite(value) ? null : Number(value.toPrecision(10))
}

/** `value` kept between -1 and 1; 0 when it is no number. */
export function unit(value: number): number {
  return Number.isNaN(value) ? 0 : Math.max(-1, Math.min(1, value))
}

/** Two decimals, and no minus zero. */
export function hundredths(value: number): number {
  return Math.round(value * 100) / 100 + 0
}

/** A price or reading as text, without needless digits. */
export function show(value: number): string {
  return String(Number(value.toPrecision(7)))
}

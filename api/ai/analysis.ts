// Analyses the candles that a bot sends, without I/O: trend, volatility, the levels around the price, and how the common
// strategies read them.
import type { BotAnalysis, Indicators, Strategy } from '../../schemas/ai.ts'
import type { Candle } from '../../schemas/market.ts'
import { cleanCandles, computeIndicators, hundredths, unit } from './indicators.ts'

// With so many each indicator has a value; the slowest is MACD.
const INDICATOR_CANDLES = 26
const LEVEL_CANDLES = 100
const BREAKOUT_CANDLES = 20

type Analysis = Pick<
  BotAnalysis,
  'trend' | 'volatilityPct' | 'support' | 'resistance' | 'indicators' | 'strategies' | 'risks'
>

/** Analyses the candles at `currentPrice`. The hint may change the order of the strategies and nothing else. */
export function analyseBot(given: {
  currentPrice: number
  recentCandles: readonly Candle[]
  strategyHint?: string | undefined
}): Analysis {
  const candles = cleanCandles(given.recentCandles)
  const indicators = computeIndicators(candles, given.currentPrice)
  const volatilityPct = volatility(candles)
  const lean = leanOf(indicators)
  const strategies = [
    trendFollowing(lean, indicators),
    meanReversion(indicators, given.currentPrice),
    breakout(candles, given.currentPrice)
  ].sort((a, b) => b.confidence - a.confidence)
  return {
    trend: Math.abs(lean) < 0.25 ? 'SIDEWAYS' : lean > 0 ? 'UP' : 'DOWN',
    volatilityPct,
    ...levels(candles, given.currentPrice),
    indicators,
    strategies: bringForward(strategies, given.strategyHint ?? ''),
    risks: risksOf(candles, given.currentPrice, indicators, volatilityPct)
  }
}

/** From -1 (down) to 1 (up): the distance of the averages in the average true range. */
function leanOf({ emaFast, emaSlow, atr }: Indicators): number {
  return emaFast === null || emaSlow === null || !atr ? 0 : unit((emaFast - emaSlow) / atr)
}

// Percent, from close to close; three closes make the first deviation.
function volatility(candles: readonly Candle[]): number | null {
  if (candles.length < 3) return null
  const changes = candles.slice(1).map(({ close }, index) => Math.log(close / (candles[index] as Candle).close))
  const mean = changes.reduce((sum, change) => sum + change, 0) / changes.length
  const variance = changes.reduce((sum, change) => sum + (change - mean) ** 2, 0) / (changes.length - 1)
  return Number((100 * Math.sqrt(variance)).toPrecision(4))
}

/** The nearest turning points on both sides of the price; failing those, the lowest low and the highest high. */
function levels(all: readonly Candle[], price: number): { support: number | null; resistance: number | null } {
  const candles = all.slice(-LEVEL_CANDLES)
  const turns = (pick: (candle: Candle) => number, beyond: (a: number, b: number) => boolean) =>
    candles
      .filter((candle, at) =>
        [at - 2, at - 1, at + 1, at + 2].every(other => {
          const neighbour = candles[other]
          return neighbour !== undefined && !beyond(pick(neighbour), pick(candle))
        })
      )
      .map(pick)
  const lows = [
    ...turns(
      ({ low }) => low,
      (a, b) => a < b
    ),
    ...extreme(
      candles.map(({ low }) => low),
      Math.min
    )
  ]
  const highs = [
    ...turns(
      ({ high }) => high,
      (a, b) => a > b
    ),
    ...extreme(
      candles.map(({ high }) => high),
      Math.max
    )
  ]
  return {
    support:
      extreme(
        lows.filter(low => low < price),
        Math.max
      )[0] ?? null,
    resistance:
      extreme(
        highs.filter(high => high > price),
        Math.min
      )[0] ?? null
  }
}

function extreme(values: number[], pick: (...values: number[]) => number): number[] {
  return values.length === 0 ? [] : [pick(...values)]
}

function trendFollowing(lean: number, { emaSlow }: Indicators): Strategy {
  const name = 'Trend following'
  if (emaSlow === null)
    return { name, direction: 'NEUTRAL', confidence: 0, why: 'There are too few candles to know the averages.' }
  const clear = Math.abs(lean) >= 0.25
  return {
    name,
    direction: !clear ? 'NEUTRAL' : lean > 0 ? 'CALL' : 'PUT',
    confidence: hundredths(Math.abs(lean)),
    why: clear
      ? `The short average runs ${lean > 0 ? 'above' : 'below'} the long one, far enough to call it a trend.`
      : 'The averages run too close together to call it a trend.'
  }
}

function meanReversion({ rsi, bollingerUpper, bollingerLower }: Indicators, price: number): Strategy {
  const name = 'Mean reversion'
  if (rsi === null || bollingerUpper === null || bollingerLower === null)
    return { name, direction: 'NEUTRAL', confidence: 0, why: 'There are too few candles to know the mean.' }
  // Each half of the vote: how far the index is beyond its bounds, and whether the price is beyond the band.
  const index = rsi > 70 ? -(rsi - 70) / 30 : rsi < 30 ? (30 - rsi) / 30 : 0
  const band = price > bollingerUpper ? -1 : price < bollingerLower ? 1 : 0
  const vote = unit((index + band) / 2)
  return {
    name,
    direction: vote === 0 ? 'NEUTRAL' : vote > 0 ? 'CALL' : 'PUT',
    confidence: hundredths(Math.abs(vote)),
    why:
      vote === 0
        ? 'The price is inside its usual range.'
        : `The price has run ${vote > 0 ? 'down' : 'up'} further than usual and may come back.`
  }
}

function breakout(candles: readonly Candle[], price: number): Strategy {
  const name = 'Breakout'
  const recent = candles.slice(-BREAKOUT_CANDLES)
  if (recent.length < BREAKOUT_CANDLES)
    return { name, direction: 'NEUTRAL', confidence: 0, why: 'There are too few candles to know the range.' }
  const high = Math.max(...recent.map(candle => candle.high))
  const low = Math.min(...recent.map(candle => candle.low))
  const beyond = price > high ? price - high : price < low ? price - low : 0
  const vote = unit((2 * beyond) / (high - low || price))
  return {
    name,
    direction: vote === 0 ? 'NEUTRAL' : vote > 0 ? 'CALL' : 'PUT',
    confidence: hundredths(Math.abs(vote)),
    why:
      vote === 0
        ? `The price is within the range of the last ${BREAKOUT_CANDLES} candles.`
        : `The price has left the range of the last ${BREAKOUT_CANDLES} candles ${vote > 0 ? 'upwards' : 'downwards'}.`
  }
}

const hints: [RegExp, string][] = [
  [/trend|momentum|follow/i, 'Trend following'],
  [/rever|mean|range|oversold|overbought/i, 'Mean reversion'],
  [/break/i, 'Breakout']
]

function bringForward(strategies: Strategy[], hint: string): Strategy[] {
  const name = hints.find(([words]) => words.test(hint))?.[1]
  return [
    ...strategies.filter(strategy => strategy.name === name),
    ...strategies.filter(strategy => strategy.name !== name)
  ]
}

function risksOf(candles: Candle[], price: number, { atr }: Indicators, volatilityPct: number | null): string[] {
  const risks: string[] = []
  if (candles.length < INDICATOR_CANDLES)
    risks.push(`Only ${candles.length} candles: some indicators need ${INDICATOR_CANDLES}.`)
  const steps = candles.slice(1).map(({ epoch }, index) => epoch - (candles[index] as Candle).epoch)
  const step = Math.min(...steps)
  if (steps.some(each => each > step * 1.5)) risks.push('The candles have gaps; what happened there is not known.')
  const last = candles.at(-1)
  if (last && atr !== null && Math.abs(price - last.close) > Math.max(10 * atr, price / 100))
    risks.push('The current price is far from the last close: check that both are of the same market and moment.')
  if (atr === 0) risks.push('The price does not move at all; the feed may have stopped.')
  if (volatilityPct !== null && volatilityPct > 1) risks.push('The price moves by more than one percent a candle.')
  risks.push('Past prices do not show the next one; a contract can lose its whole stake.')
  return risks
}

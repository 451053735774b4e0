// A signal from candles: pure. Four readings vote, the votes decide direction and confidence, the balance decides the
// stake. It describes the recent past; the next tick cannot be predicted.
import type { Backtest, Direction, Indicators, Signal } from '../../schemas/ai.ts'
import type { Candle } from '../../schemas/market.ts'
import { cleanCandles, computeIndicators, hundredths, show, unit } from './indicators.ts'

/** Length of a candle. */
export const CANDLE_SECONDS = 60
/** Candles requested from the broker: the rules are back-tested on all of them. */
export const CANDLE_COUNT = 1000
/** With fewer candles no signal is given. */
export const MIN_CANDLES = 30
// How many of the newest candles the indicators are computed from.
const READ_CANDLES = 200
const MIN_SCORE = 0.15
const MIN_STAKE = 0.35
const MAX_STAKE = 1000
// A minimum stake above this share of the balance is not suggested.
const MAX_SHARE = 0.1
// A newest candle older than this does not describe the present: the market is closed or its feed has stopped.
const STALE_SECONDS = 600

/** The balance that limits a stake. Stakes are in USD, whatever the currency of the account. */
export interface Purse {
  /** In the currency. */
  amount: number
  currency: string
  /** What one USD is worth in the currency; null where that is not known. */
  rate: number | null
  /** The least stake in the currency, where the broker states one. */
  least: number | null
}

type SignalDecision = Pick<Signal, 'direction' | 'confidence' | 'suggestion' | 'rationale' | 'indicators'>

/**
 * What the candles suggest. The newest of them is still forming: it gives the price, the others the
 * indicators. `purse` is undefined when no balance is known; `now` is in epoch seconds.
 */
export function decideSignal(given: {
  asset: string
  candles: readonly Candle[]
  purse: Purse | undefined
  now: number
}): SignalDecision {
  const candles = cleanCandles(given.candles).slice(-READ_CANDLES)
  const newest = candles.at(-1)
  const indicators = computeIndicators(candles.slice(0, -1), newest?.close ?? null)
  const nothing = (reason: string): SignalDecision => ({
    direction: 'NEUTRAL',
    confidence: 0,
    suggestion: null,
    rationale: isSynthetic(given.asset) ? [reason, NO_MEMORY] : [reason],
    indicators
  })
  if (!newest || candles.length <= MIN_CANDLES) return nothing('There are too few candles for a reading.')
  if (given.now - newest.epoch > CANDLE_SECONDS + STALE_SECONDS)
    return nothing('The newest candle is not from now: the market seems to be closed.')

  const { votes, direction, confidence } = leaningOf(indicators)
  const { suggestion, remark } = suggest(given.asset, direction, confidence, given.purse)
  const verdict = {
    CALL: 'Taken together the readings lean upwards.',
    PUT: 'Taken together the readings lean downwards.',
    NEUTRAL: 'Taken together the readings do not lean either way.'
  }[direction]
  const rationale = [...votes.map(({ why }) => why), verdict, remark].filter(text => text !== '')
  return { direction, confidence, suggestion, rationale, indicators }
}

/** In which direction the readings point, how strongly, and why. */
export function leaningOf(indicators: Indicators): { votes: Vote[]; direction: Direction; confidence: number } {
  const votes = voteOn(indicators)
  const score = votes.reduce((sum, { vote, weight }) => sum + vote * weight, 0)
  const direction: Direction = Math.abs(score) < MIN_SCORE ? 'NEUTRAL' : score > 0 ? 'CALL' : 'PUT'
  return { votes, direction, confidence: hundredths(Math.abs(unit(score))) }
}

/** Length of a suggested contract in candles: currency pairs are offered from a quarter of an hour, others from less. */
export function contractCandles(asset: string): number {
  return asset.startsWith('frx') ? 15 : 5
}

// The families of the broker's synthetic indices: made by a generator of random numbers, by the broker's own account.
const SYNTHETIC = /^(R_|1HZ|JD|BOOM|CRASH|stpRNG|RD|RB|DEX|DSI)/i

/** Whether an asset's prices are drawn at random, so that past ones do not predict the next. */
export function isSynthetic(asset: string): boolean {
  return SYNTHETIC.test(asset)
}

/** Part of every signal on a synthetic index, with built-in or model words. */
export const NO_MEMORY =
  'The prices of this index are random and have no memory: the past does not show the next one, so no stake is suggested.'

/** The win rate that the suggested contract needs, and the one that the rules had in the back-test: one sentence each. */
export function trackRecord({ breakEvenPct, record }: { breakEvenPct: number | null; record: Backtest }): string[] {
  const { candles, signals, wins, winRatePct } = record
  const done =
    winRatePct === null
      ? `On the last ${candles} candles these rules gave no signal.`
      : `On the last ${candles} candles these rules were right in ${wins} of ${signals} signals (${show(winRatePct)} %).`
  const needed =
    breakEvenPct === null
      ? 'The broker gave no price to compute a break-even rate from.'
      : `The suggested contract breaks even when it wins ${show(breakEvenPct)} % of the time.`
  return [needed, done]
}

interface Vote {
  /** From -1 (down) to 1 (up). */
  vote: number
  weight: number
  why: string
}

/** How each reading leans; distances are measured in the average true range, so that every market is alike. */
function voteOn(indicators: Indicators): Vote[] {
  const { emaFast, emaSlow, atr, macdHistogram, rsi, bollingerUpper, bollingerLower, lastPrice } = indicators
  if (emaFast === null || emaSlow === null || atr === null || macdHistogram === null || rsi === null) return []
  if (bollingerUpper === null || bollingerLower === null || lastPrice === null) return []
  if (atr === 0) return [{ vote: 0, weight: 1, why: 'The market does not move.' }]
  const trend = unit((emaFast - emaSlow) / atr)
  const momentum = unit((4 * macdHistogram) / atr)
  // A strong move counts for its direction, except in the extremes.
  const strength = rsi > 80 || rsi < 20 ? 0 : unit((rsi - 50) / 25)
  const outside = lastPrice > bollingerUpper ? -1 : lastPrice < bollingerLower ? 1 : 0
  const place = outside < 0 ? 'above its upper' : outside > 0 ? 'below its lower' : 'inside its'
  return [
    {
      vote: trend,
      weight: 0.4,
      why: `The average of 9 candles (${show(emaFast)}) is ${trend === 0 ? 'at' : trend > 0 ? 'above' : 'below'} that of 21 (${show(emaSlow)}).`
    },
    {
      vote: momentum,
      weight: 0.25,
      why: `MACD is ${macdHistogram >= 0 ? 'above' : 'below'} its signal line by ${show(Math.abs(macdHistogram))}.`
    },
    {
      vote: strength,
      weight: 0.2,
      why: `RSI is ${show(Number(rsi.toFixed(1)))}: ${rsi > 80 ? 'overbought' : rsi < 20 ? 'oversold' : rsi > 55 ? 'strong' : rsi < 45 ? 'weak' : 'balanced'}.`
    },
    { vote: outside, weight: 0.15, why: `The price (${show(lastPrice)}) is ${place} Bollinger band.` }
  ]
}

function suggest(
  asset: string,
  direction: Direction,
  confidence: number,
  purse: Purse | undefined
): { suggestion: Signal['suggestion']; remark: string } {
  if (isSynthetic(asset)) return { suggestion: null, remark: NO_MEMORY }
  if (direction === 'NEUTRAL') return { suggestion: null, remark: '' }
  const duration = contractCandles(asset)
  const order = (stake: number) => ({ contractType: direction, duration, durationUnit: 'm' as const, stake })
  if (!purse) return { suggestion: order(MIN_STAKE), remark: 'No balance is known, so the stake is the minimum.' }
  const { amount, currency, rate, least } = purse
  if (rate === null) {
    const remark = `No stake is suggested: stakes are in USD, and the broker gave no exchange rate to ${currency}, the currency of the account.`
    return { suggestion: null, remark }
  }
  const balance = amount / rate
  // A cent of room for the rate of the purchase.
  const minimum =
    rate === 1 || least === null ? MIN_STAKE : Math.max(MIN_STAKE, Math.ceil((least / rate) * 100 + 1) / 100)
  if (balance * MAX_SHARE < minimum)
    return { suggestion: null, remark: 'The balance is too small for the minimum stake.' }
  const share = 0.01 * (0.5 + confidence / 2)
  const stake = Math.floor(balance * share * 100) / 100
  const size =
    stake < minimum
      ? `The stake is the minimum, ${show(hundredths((100 * minimum) / balance))} % of the balance.`
      : 'The stake is about one percent of the balance, less where the readings disagree.'
  const converted = rate === 1 ? '' : ` It is in USD: one is worth ${show(rate)} ${currency} now.`
  return {
    suggestion: order(Math.max(minimum, Math.min(MAX_STAKE, stake))),
    remark: `${size}${converted}`
  }
}

// The arithmetic behind signals and analyses, on kind and unkind candles.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { analyseBot } from '../../api/ai/analysis.ts'
import { backtest } from '../../api/ai/backtest.ts'
import { cleanCandles, computeIndicators } from '../../api/ai/indicators.ts'
import { BUILT_IN } from '../../api/ai/language.ts'
import { decideSignal, leaningOf, type Purse } from '../../api/ai/signal.ts'
import { BotAnalysis } from '../../schemas/ai.ts'
import { violations } from '../../schemas/checks/validator.ts'
import type { Candle } from '../../schemas/market.ts'
import { candlesOf, request, START, waves } from '../support/candles.ts'

/** A balance in USD. */
const usd = (amount: number): Purse => ({ amount, currency: 'USD', rate: 1, least: null })
const signalOf = (candles: Candle[], purse?: Purse) =>
  decideSignal({ asset: 'OTC_NDX', candles, purse, now: (candles.at(-1)?.epoch ?? 0) + 30 })

const deciding = suite('a signal')

deciding('leans with a clear trend nearly always and against it never, and the other way in its mirror', () => {
  let leaning = 0
  for (let count = 60; count < 160; count++) {
    const rising = waves(count, 1)
    const falling = rising.map(({ epoch, open, high, low, close }) => ({
      epoch,
      open: 3000 - open,
      high: 3000 - low,
      low: 3000 - high,
      close: 3000 - close
    }))
    const [up, down] = [signalOf(rising), signalOf(falling)]
    assert.is.not(up.direction, 'PUT', `${count} candles`)
    assert.is.not(down.direction, 'CALL', `${count} candles`)
    assert.ok(Math.abs(down.confidence - up.confidence) <= 0.011)
    assert.ok(up.confidence > 0 && up.confidence <= 1)
    if (up.direction === 'CALL') leaning += 1
  }
  assert.ok(leaning >= 90, `${leaning} of 100`)
})

deciding('is the same for the same candles, in whatever order they come', () => {
  const candles = waves(100, 0.7)
  assert.equal(signalOf(candles), signalOf([...candles].reverse().sort((a, b) => a.epoch - b.epoch)))
  const shuffled = candles.filter((_, n) => n % 2).concat(candles.filter((_, n) => n % 2 === 0))
  const now = (candles.at(-1) as Candle).epoch
  const given = { asset: 'R_100', purse: undefined, now }
  assert.equal(decideSignal({ ...given, candles: shuffled }), decideSignal({ ...given, candles }))
})

deciding('is NEUTRAL with a reason for few, flat, old and useless candles', () => {
  const cases: [string, Candle[], number?][] = [
    ['none', []],
    ['one', waves(1, 1)],
    ['thirty', waves(30, 1)],
    ['flat', candlesOf(Array(100).fill(1000), { spread: 0 })],
    ['old', waves(120, 1.5), START + 120 * 60 + 700],
    ['not numbers', waves(120, 1).map(candle => ({ ...candle, close: Number.NaN }))],
    ['negative', waves(120, 1).map(candle => ({ ...candle, low: -1 }))]
  ]
  for (const [name, candles, now] of cases) {
    const decision = decideSignal({
      asset: 'R_100',
      candles,
      purse: usd(1000),
      now: now ?? (candles.at(-1)?.epoch ?? 0) + 30
    })
    assert.is(decision.direction, 'NEUTRAL', name)
    assert.is(decision.confidence, 0, name)
    assert.is(decision.suggestion, null, name)
    assert.ok(decision.rationale.length >= 1, name)
  }
})

deciding('suggests the minimum stake without a balance, about one percent with one, and never more than 1000', () => {
  const candles = waves(120, 1.5)
  const stake = (purse?: Purse) => signalOf(candles, purse).suggestion?.stake
  assert.is(stake(), 0.35)
  assert.is(stake(usd(20)), 0.35)
  const hundred = stake(usd(10_000)) as number
  assert.ok(hundred > 50 && hundred <= 100)
  assert.is(stake(usd(1e300)), 1000)
})

deciding('suggests nothing that the balance cannot carry or the currency cannot measure', () => {
  const candles = waves(120, 1.5)
  for (const purse of [usd(0), usd(3.49), { amount: 5, currency: 'BTC', rate: null, least: null }]) {
    const decision = signalOf(candles, purse)
    assert.is(decision.direction, 'CALL')
    assert.is(decision.suggestion, null, JSON.stringify(purse))
  }
})

deciding('says what share of a small balance the minimum stake is', () => {
  const candles = waves(120, 1.5)
  const { suggestion, rationale } = signalOf(candles, usd(5))
  assert.is(suggestion?.stake, 0.35)
  assert.match(rationale.join(' '), 'The stake is the minimum, 7 % of the balance.')
  assert.match(signalOf(candles, usd(1000)).rationale.join(' '), 'about one percent of the balance')
})

deciding('suggests a stake in USD by the rate of the account’s currency, and no less than is taken there', () => {
  const candles = waves(120, 1.5)
  const stake = (purse: Purse) => signalOf(candles, purse).suggestion?.stake
  const inUsd = stake(usd(10_000)) as number
  assert.is(stake({ amount: 5000, currency: 'GBP', rate: 0.5, least: 0.35 }), inUsd)
  assert.is(stake({ amount: 0.1, currency: 'BTC', rate: 0.00001, least: null }), inUsd)
  assert.is(stake({ amount: 1_000_000, currency: 'JPY', rate: 100, least: 35 }), inUsd)
  // 0.35 of it, and a cent.
  assert.is(stake({ amount: 10, currency: 'GBP', rate: 0.5, least: 0.35 }), 0.71)
  assert.is(stake({ amount: 3.5, currency: 'GBP', rate: 0.5, least: 0.35 }), undefined)
  assert.is(stake({ amount: 1e300, currency: 'GBP', rate: 0.5, least: 0.35 }), 1000)
  const { rationale } = signalOf(candles, { amount: 5, currency: 'BTC', rate: null, least: null })
  assert.match(rationale.join(' '), 'no exchange rate to BTC')
})

deciding('suggests currency pairs for a quarter of an hour, other assets for five minutes', () => {
  const candles = waves(120, 1.5)
  const given = { candles, purse: undefined, now: (candles.at(-1) as Candle).epoch }
  assert.is(decideSignal({ ...given, asset: 'frxEURUSD' }).suggestion?.duration, 15)
  assert.is(decideSignal({ ...given, asset: 'OTC_NDX' }).suggestion?.duration, 5)
})

deciding('suggests no stake on a synthetic index, whose prices have no memory, with that reason', () => {
  const candles = waves(120, 1.5)
  const purse = usd(1000)
  const given = { candles, purse, now: (candles.at(-1) as Candle).epoch }
  for (const asset of ['R_50', '1HZ100V', 'JD25', 'BOOM500', 'CRASH1000', 'stpRNG', 'RDBULL', 'DEX600UP', 'DSI10']) {
    const { direction, suggestion, rationale } = decideSignal({ ...given, asset })
    assert.is(direction, 'CALL')
    assert.is(suggestion, null, asset)
    assert.match(rationale.join(' '), 'no memory')
    // Also where there is nothing to read: too few candles, or none from now.
    for (const unread of [{ candles: [] }, { now: given.now + 3600 }]) {
      const { rationale: why } = decideSignal({ ...given, asset, ...unread })
      assert.match(why.join(' '), 'no memory', why[0])
    }
  }
  assert.ok(decideSignal({ ...given, asset: 'frxEURUSD' }).suggestion)
})

const trying = suite('the rules on past candles')

trying('are right in every signal on a market that goes one way', async () => {
  const rising = candlesOf(Array.from({ length: 400 }, (_, n) => 1000 + n + 3 * Math.sin(n / 2.5)))
  const { candles, signals, wins, winRatePct } = await backtest(rising, 15)
  assert.is(candles, 400)
  assert.ok(signals > 300, `${signals} signals`)
  assert.is(wins, signals)
  assert.is(winRatePct, 100)
})

trying('count ties as lost, and nothing over a gap or at the end', async () => {
  const flat = candlesOf(Array.from({ length: 200 }, (_, n) => 1000 + Math.min(n, 100)))
  const { signals, wins } = await backtest(flat, 5)
  assert.ok(wins < signals, 'the last closes are all alike')
  const torn = waves(100, 1.5).map((candle, n) => ({ ...candle, epoch: candle.epoch + (n >= 50 ? 86_400 : 0) }))
  const whole = await backtest(waves(100, 1.5), 15)
  assert.ok((await backtest(torn, 15)).signals <= whole.signals - 15)
  assert.equal(await backtest([], 5), { candles: 0, signals: 0, wins: 0, winRatePct: null })
})

trying('decide as the signal does, from what was known then', async () => {
  const candles = waves(150, 0.7)
  for (const count of [60, 90, 120]) {
    const known = candles.slice(0, count)
    const { direction } = leaningOf(computeIndicators(known, (known.at(-1) as Candle).close))
    const [before, after] = await Promise.all([
      backtest(candles.slice(0, count + 4), 5),
      backtest(candles.slice(0, count + 5), 5)
    ])
    assert.is(after.signals - before.signals, direction === 'NEUTRAL' ? 0 : 1, `${count} candles`)
  }
})

const computing = suite('indicators')

computing('are null until there are enough candles for them', () => {
  const { rsi, macd, bollingerUpper, emaFast, emaSlow, atr } = computeIndicators(waves(10, 1), 1000)
  assert.equal(
    { rsi, macd, bollingerUpper, emaSlow, atr },
    { rsi: null, macd: null, bollingerUpper: null, emaSlow: null, atr: null }
  )
  assert.type(emaFast, 'number')
})

computing('agree with figures worked out by hand', () => {
  const closes = Array.from({ length: 40 }, (_, n) => 100 + n)
  const rising = closes.map((close, n) => ({ epoch: n * 60, open: close - 1, high: close, low: close - 1, close }))
  const found = computeIndicators(rising, 139)
  assert.is(found.rsi, 100)
  assert.is(found.atr, 1)
  assert.is(found.bollingerMiddle, 129.5)
  // The population's deviation of 20 consecutive whole numbers is the root of (20² - 1) / 12.
  assert.ok(Math.abs((found.bollingerUpper as number) - (129.5 + 2 * Math.sqrt(399 / 12))) < 1e-6)
})

computing('call a market that does not move neither strong nor weak', () => {
  const found = computeIndicators(candlesOf(Array(60).fill(7), { spread: 0 }), 7)
  assert.is(found.rsi, 50)
  assert.is(found.atr, 0)
  assert.is(found.macdHistogram, 0)
})

computing('clean candles: in order, one an epoch, high and low around open and close', () => {
  const cleaned = cleanCandles([
    { epoch: 120, open: 5, high: 4, low: 6, close: 7 },
    { epoch: 60, open: 1, high: 2, low: 1, close: 2 },
    { epoch: 60, open: 1, high: 3, low: 1, close: 3 },
    { epoch: 180, open: Number.POSITIVE_INFINITY, high: 1, low: 1, close: 1 },
    { epoch: 240, open: 0, high: 1, low: 0, close: 1 }
  ])
  assert.equal(cleaned, [
    { epoch: 60, open: 1, high: 3, low: 1, close: 3 },
    { epoch: 120, open: 5, high: 7, low: 4, close: 7 }
  ])
})

const analysing = suite('an analysis')

analysing('warns of gaps, of a price from elsewhere and of a feed that stops', () => {
  const gapped = waves(60, 1).filter((_, n) => n % 20 !== 3)
  assert.match(analyseBot(request({ recentCandles: gapped })).risks.join(' '), 'gaps')
  assert.match(analyseBot(request({ currentPrice: 5000 })).risks.join(' '), 'far from the last close')
  const still = candlesOf(Array(60).fill(1150), { spread: 0 })
  assert.match(analyseBot(request({ recentCandles: still })).risks.join(' '), 'does not move')
})

analysing('says what too few candles leave unknown, and warns as long as something is', () => {
  for (let count = 0; count < 40; count++) {
    const { indicators, risks, strategies } = analyseBot(request({ recentCandles: waves(count, 1) }))
    const unknown = Object.values(indicators).includes(null)
    assert.is(risks.join(' ').includes(`Only ${count} candles`), unknown, `${count} candles`)
    const trend = strategies.find(({ name }) => name === 'Trend following')
    assert.is(trend?.why.includes('too few candles'), indicators.emaSlow === null, `${count} candles`)
  }
})

analysing('stays within its schema for the wildest candles the schema lets in', () => {
  const extremes = [1e-9, 1e12, 1, 1e-9, 0.5, 1e12]
  for (let seed = 0; seed < 300; seed++) {
    const count = (seed * 7) % 120
    const recentCandles = Array.from({ length: count }, (_, n) => {
      const pick = (k: number) => extremes[(seed * 31 + n * 17 + k * 13 + ((n * n) % 7)) % extremes.length] as number
      return { epoch: (n * 977) % 50, open: pick(0), high: pick(1), low: pick(2), close: pick(3) }
    })
    const currentPrice = extremes[seed % extremes.length] as number
    const analysis = analyseBot({ currentPrice, recentCandles })
    const response = { symbol: 'x', ...analysis, model: BUILT_IN, generatedAt: new Date().toISOString() }
    assert.equal(violations(BotAnalysis, JSON.parse(JSON.stringify(response))), [], `seed ${seed}`)
  }
})

deciding.run()
trying.run()
computing.run()
analysing.run()

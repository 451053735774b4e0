// The simulated market on a virtual clock: contracts in time, multipliers, and the prices themselves.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { PurchaseTerms } from '../../worker/simulator/engine/contracts.ts'
import { lastDigit, type MarketTick } from '../../worker/simulator/engine/market.ts'
import { symbols } from '../../worker/simulator/engine/symbols.ts'
import { refusal, stage, symbolOf } from '../support/market-stage.ts'

const timed = suite('contracts in time')

timed('exit is the last tick at or before the expiry', () => {
  const { buy, script, clock } = stage()
  script(Array.from({ length: 10 }, (_, i) => 100 + i))
  const contract = buy({ duration: 15, unit: 's' })
  clock.pass(14_500)
  assert.equal([contract.status, contract.ended], ['open', false])
  clock.pass(200)
  assert.is(contract.status, 'won')
  assert.equal([contract.entry?.quote, contract.exit?.quote], [100, 106])
  assert.is(contract.exit!.epoch - contract.startEpoch, 14)
  assert.match(contract.shortcode, /^CALL_R_100_19\.53_\d+_\d+_S0P_0$/)
})

timed('a tick at the second of the expiry is the exit', () => {
  const { buy, script, clock } = stage()
  script(Array.from({ length: 10 }, (_, i) => 100 - i))
  const contract = buy({ type: 'PUT', duration: 16, unit: 's' })
  clock.pass(16_000)
  assert.equal([contract.status, contract.exit?.quote], ['won', 93])
})

timed('lives of a day and of a year pass without a tick being made', () => {
  const { buy, clock } = stage()
  const day = buy({ duration: 1, unit: 'd' })
  const year = buy({ duration: 365, unit: 'd' })
  assert.is(clock.waiting, 1)
  clock.pass(86_400_000)
  assert.is.not(day.status, 'open')
  clock.pass(364 * 86_400_000)
  assert.is.not(year.status, 'open')
  assert.is(clock.waiting, 0)
})

timed('a contract that saw no tick gives its stake back', () => {
  const { buy, engine, account, clock } = stage()
  engine.market.sessions.freeze([symbolOf('R_100')])
  const contract = buy({ duration: 15, unit: 's' })
  clock.pass(15_000)
  assert.equal([contract.status, account.balanceCents], ['cancelled', 1_000_000])
})

timed('scaled time shortens the wait and not the terms', () => {
  const { buy, clock } = stage({ tickMs: 10, timeScale: 60 })
  const contract = buy({ duration: 1, unit: 'm' })
  assert.is(contract.expiryEpoch - contract.startEpoch, 60)
  clock.pass(990)
  assert.is(contract.ended, false)
  clock.pass(11)
  assert.is(contract.ended, true)
})

const multipliers = suite('multipliers')
const up: Partial<PurchaseTerms> = { type: 'MULTUP', multiplier: 100 }

/** A multiplier bought at 1000.00 on a stage of its own. */
function bought(terms: Partial<PurchaseTerms>) {
  const played = stage()
  played.script([1000])
  played.clock.pass(2_000)
  return { ...played, contract: played.buy(terms) }
}

multipliers('gain and lose by the price, less commission', () => {
  const { contract, script, clock, engine } = bought(up)
  assert.equal([contract.entry?.quote, contract.commissionCents], [1000, 50])
  assert.is(engine.value(contract).bidCents, 950)
  script([1005, 995])
  clock.pass(2_000)
  assert.is(engine.value(contract).bidCents, 1_450)
  clock.pass(2_000)
  assert.is(engine.value(contract).bidCents, 450)
})

multipliers('the other direction is the mirror', () => {
  const { contract, script, clock, engine } = bought({ type: 'MULTDOWN', multiplier: 100 })
  script([995])
  clock.pass(2_000)
  assert.is(engine.value(contract).bidCents, 1_450)
})

multipliers('are stopped out when the loss reaches the stake, and never lose more', () => {
  const { contract, script, clock, account } = bought(up)
  script([990.51, 980])
  clock.pass(2_000)
  assert.is(contract.status, 'open')
  clock.pass(2_000)
  assert.equal([contract.status, contract.sellCents, contract.sellAppId], ['lost', 0, 2])
  assert.is(account.balanceCents, 999_000)
})

multipliers('close at take profit and stop loss with the price that crossed it', () => {
  const taken = bought({ ...up, takeProfit: 3 })
  taken.script([1003.4, 1004])
  taken.clock.pass(2_000)
  assert.is(taken.contract.status, 'open')
  taken.clock.pass(2_000)
  assert.equal([taken.contract.status, taken.contract.sellCents], ['won', 1_350])
  const stopped = bought({ ...up, stopLoss: 4 })
  stopped.script([996.4])
  stopped.clock.pass(2_000)
  assert.equal([stopped.contract.status, stopped.contract.sellCents], ['lost', 590])
})

multipliers('change their limits, at most once a second', () => {
  const { contract, script, clock, engine, account } = bought({ ...up, takeProfit: 3 })
  const update = (limits: { takeProfit?: number | null; stopLoss?: number }) =>
    engine.update(account, contract.id, limits)
  assert.is(
    refusal(() => update({ takeProfit: null })),
    'ContractUpdateTooFrequent'
  )
  clock.pass(1_000)
  update({ takeProfit: null, stopLoss: 2 })
  assert.equal([contract.offer.takeProfitCents, contract.offer.stopLossCents], [null, 200])
  script([1030, 998])
  clock.pass(2_000)
  assert.is(contract.status, 'open')
  clock.pass(2_000)
  assert.is(contract.status, 'lost')
  assert.is(
    refusal(() => update({ stopLoss: 3 })),
    'ContractUpdateNotAllowed'
  )
})

multipliers('are sold at any time, by hand', () => {
  const { contract, script, clock, engine, account } = bought(up)
  script([1002])
  clock.pass(2_000)
  engine.sell(account, { appId: 7, contractId: contract.id, floorCents: 0 })
  assert.equal([contract.status, contract.sellCents], ['sold', 1_150])
  assert.match(contract.shortcode, /^MULTUP_R_100_10\.00_100_\d+_\d+_0_0\.00_N1$/)
})

const market = suite('the market')

market('prices repeat with the seed and differ without', () => {
  const quotes = (seed: number, code: string) => {
    const { engine, clock } = stage({ seed })
    const seen: number[] = []
    engine.market.watch(symbolOf(code), tick => seen.push(tick.pips))
    clock.pass(60_000)
    return seen
  }
  for (const code of symbols.keys()) {
    assert.equal(quotes(1, code), quotes(1, code))
    assert.is.not(quotes(1, code).join(), quotes(2, code).join())
  }
})

market('2 s indices tick on even seconds, 1 s indices on every second', () => {
  const { engine, clock } = stage()
  const epochs: Record<string, number[]> = { R_100: [], '1HZ100V': [] }
  for (const [code, seen] of Object.entries(epochs)) {
    engine.market.watch(symbolOf(code), (tick: MarketTick) => seen.push(tick.epoch))
  }
  clock.pass(10_000)
  assert.ok(epochs.R_100!.length === 5 && epochs.R_100!.every(epoch => epoch % 2 === 0))
  assert.is(epochs['1HZ100V']!.length, 10)
})

market('every last digit comes up about as often, 0 among them', () => {
  const { engine, clock } = stage()
  for (const code of ['R_10', 'R_25', 'R_50', 'R_75', 'R_100', '1HZ10V', '1HZ100V', 'JD10']) {
    const ticks = engine.market.history(symbolOf(code), { startMs: 0, endMs: clock.wall(), count: 5_000 })
    const counts = Array.from({ length: 10 }, (_, digit) => ticks.filter(tick => lastDigit(tick) === digit).length)
    assert.ok(
      counts.every(count => count > 400 && count < 600),
      `${code} ${counts}`
    )
  }
})

market('rises about as often as it falls', () => {
  const { engine, clock } = stage()
  const ticks = engine.market.history(symbolOf('R_100'), { startMs: 0, endMs: clock.wall(), count: 5_000 })
  const rises = ticks.filter((tick, i) => i > 0 && tick.pips > ticks[i - 1]!.pips).length
  assert.ok(rises > 2_300 && rises < 2_700, String(rises))
})

market('history is what was seen live', () => {
  const { engine, clock } = stage()
  const seen: number[] = []
  engine.market.watch(symbolOf('R_50'), tick => seen.push(tick.quote))
  clock.pass(20_000)
  const history = engine.market.history(symbolOf('R_50'), { startMs: 0, endMs: clock.wall(), count: 10 })
  assert.equal(
    history.map(tick => tick.quote),
    seen
  )
})

market('candles agree between calls, and minutes with their ticks', () => {
  const { engine, clock } = stage()
  const R_100 = symbolOf('R_100')
  const range = { startMs: 0, endMs: clock.wall(), count: 100, granularitySeconds: 60 }
  const candles = engine.market.candles(R_100, range)
  clock.pass(3_600_000)
  const later = engine.market.candles(R_100, { ...range, endMs: clock.wall() })
  for (const candle of candles.slice(-40, -1))
    assert.equal(
      later.find(({ epoch }) => epoch === candle.epoch),
      candle
    )
  const { epoch, open, high, low, close } = candles.at(-2)!
  const startMs = epoch * 1000
  const quotes = engine.market
    .history(R_100, { startMs, endMs: startMs + 59_999, count: 100 })
    .map(({ quote }) => quote)
  assert.equal([open, high, low, close], [quotes[0], Math.max(...quotes), Math.min(...quotes), quotes.at(-1)])
  assert.equal([candles.length, quotes.length], [100, 30])
})

market('forex is closed at the weekend and its last price stays', () => {
  const { engine, clock } = stage({ at: '2026-03-06T20:54:00.000Z' })
  const euro = symbolOf('frxEURUSD')
  let seen = 0
  engine.market.watch(euro, () => seen++)
  clock.pass(60_000)
  assert.is(seen, 59)
  const last = engine.market.latest(euro)
  clock.pass(2 * 86_400_000)
  assert.equal([seen, engine.market.latest(euro).quote], [59, last.quote])
  clock.pass(86_400_000)
  assert.ok(seen > 59)
  const weekend = {
    startMs: Date.parse('2026-03-06T20:00:00Z'),
    endMs: clock.wall(),
    count: 1000,
    granularitySeconds: 3_600
  }
  const candles = engine.market.candles(euro, weekend)
  assert.equal(
    candles.slice(0, 2).map(({ epoch }) => new Date(epoch * 1000).toISOString()),
    ['2026-03-06T20:00:00.000Z', '2026-03-09T00:00:00.000Z']
  )
})

market('without subscribers there is no timer', () => {
  const { engine, clock, buy } = stage()
  assert.is(clock.waiting, 0)
  const stop = engine.market.watch(symbolOf('R_100'), () => {})
  assert.is(clock.waiting, 1)
  stop()
  assert.is(clock.waiting, 0)
  buy()
  clock.pass(4_000)
  assert.is(clock.waiting, 0)
})
timed.run()
multipliers.run()
market.run()

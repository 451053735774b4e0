// test in a process of its own
// test once for each dialect
// What an account and the market show through the port, in each dialect, and how connections are kept.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { symbols } from '../../worker/simulator/engine/symbols.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, dialect, frontOf } from '../support/dialects.ts'
import { upTo } from '../support/turns.ts'
import {
  buyOptions,
  clientOf,
  closeClients,
  even,
  lines,
  newAccount,
  newRecorder,
  quick,
  relay,
  simulator,
  up
} from './broker-port.ts'
import { openRelay } from './broker-relay.ts'
import { failure } from './broker-script.ts'

const lists = suite('what an account shows')
const market = suite('market data')
const care = suite('connections')

// --- lists

lists('open contracts are in the portfolio, closed ones in the profit table, purchases in the statement', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const before = Math.floor(Date.now() / 1000) - 2
  const recorder = newRecorder()
  const tick = await session.buy(even, { ...buyOptions, listener: recorder.listener })
  const held = await session.buy(up, buyOptions)
  await recorder.settled()
  const portfolio = await session.portfolio()
  assert.equal(
    portfolio.map(each => each.contractId),
    [held.contractId]
  )
  assert.is(portfolio[0]!.terms!.multiplier, 40)
  const closed = await session.profitTable({ from: before })
  assert.equal(
    closed.map(each => each?.contractId),
    [tick.contractId]
  )
  const statement = await session.statement({ from: before, limit: 999 })
  assert.equal(statement.map(each => each?.contractId).sort(), [tick.contractId, held.contractId].sort())
  for (const each of [...portfolio, ...closed, ...statement]) {
    assert.ok(each)
    assert.is(Number(each.buyPrice), 10)
    assert.is(each.appId, dialect === 'v3' ? '7' : null)
    assert.ok(Number(each.purchaseTime) >= before)
    assert.ok(each.terms !== null)
  }
  assert.is(statement.find(each => each?.contractId === tick.contractId)!.transactionId, tick.transactionId)
  assert.is((await session.statement({ from: before, limit: 1 })).length, 1)
  assert.is((await session.statement({ from: before, limit: 1, offset: 2 })).length, 0)
  assert.is((await session.statement({ from: before - 60, to: before - 30 })).length, 0)
  assert.is((await session.profitTable({ from: before, to: before + 3_600, limit: 5, offset: 1 })).length, 0)
  const { balance, currency } = await session.balance()
  assert.is(currency, 'USD')
  assert.ok(Number(balance) < 10_000)
})

lists('are read again when a response is lost or refused as one too many', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  simulator.faults.add({ effect: 'drop-before', call: 'portfolio', loginid: account.accountId, times: 1 })
  assert.equal(await session.portfolio(), [])
  simulator.faults.add({ effect: 'error', code: 'RateLimit', call: 'portfolio', loginid: account.accountId, times: 1 })
  assert.equal(await session.portfolio(), [])
})

// --- market

const data = clientOf().market('7')

market('has no multipliers for an asset that is not there', async () => {
  const error = await failure(data.multiplierSpec('NOPE', 'USD'))
  assert.is(error.code, 'NOT_FOUND')
  assert.is((await failure(data.candles('NOPE', { granularitySeconds: 60, count: 5 }))).code, 'INVALID_CONTRACT')
  assert.is(await data.secondsUntilOpen('NOPE'), null)
})

market('lists symbols with the decimals of their prices', async () => {
  const list = await data.symbols()
  const r100 = list.find(each => each.asset === 'R_100')!
  assert.equal([r100.pipSize, r100.open, r100.suspended, r100.market], [2, true, false, 'synthetic_index'])
  assert.is(list.find(each => each.asset === 'frxEURUSD')!.pipSize, 5)
})

market('returns candles, oldest first', async () => {
  const candles = await data.candles('R_100', { granularitySeconds: 60, count: 30 })
  assert.is(candles.length, 30)
  for (const [at, candle] of candles.entries()) {
    assert.ok(candle.low <= candle.open && candle.open <= candle.high)
    if (at > 0) assert.is(candle.epoch - candles[at - 1]!.epoch, 60)
  }
})

market('returns candles, oldest first, whatever order they come in', async () => {
  const reversing = await openRelay(simulator, frame =>
    Array.isArray(frame.candles) ? { ...frame, candles: frame.candles.toReversed() } : frame
  )
  const candles = await clientOf({}, reversing).market('7').candles('R_100', { granularitySeconds: 60, count: 30 })
  assert.is(candles.length, 30)
  assert.ok(candles.every(({ epoch }, index) => index === 0 || epoch > candles[index - 1]!.epoch))
  reversing.close()
})

market('returns what multipliers cost and whether they trade', async () => {
  const spec = await data.multiplierSpec('R_100', 'USD')
  assert.equal(spec.multipliers, [40, 100, 200, 300, 400])
  // The limits of the quote; contracts_for has no limits of multipliers.
  assert.equal([spec.minStake, spec.maxStake], ['1.00', '2000.00'])
  assert.ok(Number(spec.commissionPct) > 0 && Number(spec.commissionPct) < 5, String(spec.commissionPct))
  assert.is(spec.marketOpen, true)
  assert.is(spec.secondsUntilOpen, 0)
})

// The newer dialect has no such mode.
if (dialect === 'v3')
  market('shows an asset in close-only mode as one that does not trade', async () => {
    const closing = await openRelay(simulator, frame =>
      Array.isArray(frame.active_symbols)
        ? { ...frame, active_symbols: frame.active_symbols.map(row => ({ ...row, close_only: 1 })) }
        : frame
    )
    const spec = await clientOf({}, closing).market('7').multiplierSpec('R_50', 'USD')
    assert.equal([spec.marketOpen, spec.secondsUntilOpen], [false, null])
    assert.equal(closing.complaints, [])
    closing.close()
  })

market(
  'shows the limits of a multiplier that may not be bought for the stake first quoted, and of one closed meanwhile',
  async () => {
    const own = await startSimulator({ limits: 'off' })
    const there = clientOf({}, own).market(appIds[dialect])
    own.faults.add({
      effect: 'error',
      call: 'proposal',
      code: 'ContractBuyValidationError',
      message: 'Too high.',
      times: 1
    })
    const open = await there.multiplierSpec('R_50', 'USD')
    assert.equal([open.minStake, open.maxStake], ['1.00', '2000.00'])
    own.engine.market.sessions.force(symbols.get('R_50')!, false)
    const closed = await there.multiplierSpec('R_50', 'USD')
    assert.equal([closed.maxStake, closed.commissionPct], [open.maxStake, open.commissionPct])
    // Nothing is known of what was never quoted.
    own.engine.market.sessions.force(symbols.get('R_75')!, false)
    const unknown = await there.multiplierSpec('R_75', 'USD')
    assert.equal([unknown.minStake, unknown.maxStake, unknown.commissionPct], ['1', null, null])
    await own.close()
  }
)

market('returns the least amounts of a contract from quotes of it, and sends no more for a while', async () => {
  const own = await startSimulator({ limits: 'off' })
  const there = clientOf({}, own).market(appIds[dialect])
  const multiplier = { ...up, asset: '1HZ25V', multiplier: 1600, stake: '1000' } as const
  // The commission of the least stake is 0.50, which a stop loss has to be above.
  assert.equal(await there.leastOf(multiplier), { stake: '2.50', stopLoss: '0.51', takeProfit: '0.50' })
  assert.equal(await there.leastOf(even), { stake: '0.35', stopLoss: null, takeProfit: null })
  own.faults.add({ effect: 'error', call: 'proposal', code: 'ContractBuyValidationError', message: 'No.' })
  assert.is((await there.leastOf({ ...multiplier, stake: '10' })).stake, '2.50')
  assert.is((await failure(there.leastOf(up))).code, 'INVALID_CONTRACT')
  await own.close()
})

market('returns when a closed market opens', async () => {
  const own = await startSimulator({ limits: 'off' })
  const closed = clientOf({}, own).market('7')
  own.engine.market.sessions.force(symbols.get('R_50')!, false)
  const seconds = await closed.secondsUntilOpen('R_50')
  assert.ok(seconds !== null && seconds > 0 && seconds <= 86_400, String(seconds))
  const spec = await closed.multiplierSpec('R_50', 'USD')
  assert.is(spec.marketOpen, false)
  assert.ok(spec.secondsUntilOpen! > 0)
  assert.is(await closed.secondsUntilOpen('R_100'), 0)
  await own.close()
})

market("has the broker's clock", async () => {
  for (const behind of [0, 100]) {
    const there = clientOf({ now: () => Date.now() - behind * 1000 }).market('7')
    const startedAt = performance.now()
    const offset = await there.clockOffset()
    // Of the broker's whole second, and of the way there and back, the half is taken.
    const mostSeconds = 0.51 + (performance.now() - startedAt) / 2000
    assert.ok(Math.abs(offset - behind) <= mostSeconds, `${offset} for ${behind}, at most ${mostSeconds} off`)
  }
})

// --- care

care('shows whether the broker can be reached', async () => {
  const own = await startSimulator({})
  const broker = clientOf(quick, own)
  assert.is(await broker.reachable('7'), true)
  own.faults.set({ down: true })
  assert.is(await broker.reachable('7'), false)
  await own.close()
  assert.is(await clientOf(quick, own).reachable('7'), false)
})

care('closes connections nobody uses, keeps those that stream, and opens them again when needed', async () => {
  const own = await startSimulator({ limits: 'off', tickMs: 20 })
  const broker = clientOf({ idleCloseMs: 100 }, own)
  const [idle, busy] = [await broker.session(newAccount()), await broker.session(newAccount())]
  const { contractId } = await busy.buy(up, { ...buyOptions, listener: newRecorder().listener })
  await upTo(() => frontOf(own).connections.size === 1)
  await idle.balance()
  assert.is(frontOf(own).connections.size, 2)
  busy.unsubscribe(contractId)
  await upTo(() => frontOf(own).connections.size === 0)
  await own.close()
})

care('holds no more connections than it may; the longest unused makes room', async () => {
  const own = await startSimulator({ limits: 'off', tickMs: 20 })
  const broker = clientOf({ maxConnections: 2 }, own)
  const first = await broker.session(newAccount())
  const second = await broker.session(newAccount())
  const third = await broker.session(newAccount())
  await upTo(() => frontOf(own).connections.size === 2)
  for (const session of [second, third]) await session.buy(up, { ...buyOptions, listener: newRecorder().listener })
  assert.is((await failure(first.sell('123'))).brokerCode, 'TooManyConnections')
  await own.close()
})

care('makes room among the connections of the application that has most of them', async () => {
  const own = await startSimulator({ limits: 'off', tickMs: 20 })
  const broker = clientOf({ maxConnections: 4 }, own)
  const modest = newAccount('', dialect === 'v3' ? '2' : `${appIds.next}-2`)
  const served = () => new Set([...frontOf(own).connections].flatMap(({ grants }) => [...grants.keys()]))
  await broker.session(modest)
  // The one that is used least lately is the modest one's.
  for (let count = 0; count < 6; count++) await broker.session(newAccount())
  await upTo(() => frontOf(own).connections.size === 4)
  assert.ok(served().has(modest.accountId), [...served()].join())
  await own.close()
})

care('sends only frames the broker accepts, of every call it reads with, and receives only such as it may send', () => {
  assert.equal(relay.complaints, [])
  const calls =
    'buy portfolio statement profit_table balance active_symbols contracts_for ticks_history trading_times time proposal'
  for (const call of calls.split(' ')) assert.ok(relay.calls.has(call), call)
})

care('never writes a token, or what it buys, to the log', () => {
  assert.ok(lines.length > 0)
  for (const line of lines) assert.not.match(line, /sim-VRTC|otp=/)
})

care.after(closeClients)
lists.run()
market.run()
care.run()

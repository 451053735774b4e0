// The v3 dialect, call by call against the simulated broker, and against a scripted one where a broker must behave
// in ways the simulated one does not.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { ClientOptions } from '../worker/broker/client.ts'
import type {
  BinaryContract,
  Broker,
  BrokerAccount,
  BuyOptions,
  ContractListener,
  ContractState,
  MultiplierContract,
  Session
} from '../worker/broker/port.ts'
import type { FaultRule } from '../worker/broker/simulator/faults.ts'
import { startSimulator } from '../worker/broker/simulator/server.ts'
import { symbols } from '../worker/broker/simulator/symbols.ts'
import { createV3Broker } from '../worker/broker/v3.ts'
import { openRelay } from './broker-relay.ts'
import { courteous, failure, keptLog, reply, type Script, scriptedBroker, within } from './broker-script.ts'

const simulator = await startSimulator({ tickMs: 20, limits: 'off' })
const relay = await openRelay(simulator.url)
const { log, lines } = keptLog()
const brokers: Broker[] = []
const quick: Partial<ClientOptions> = { answerTimeoutMs: 400, connectTimeoutMs: 2_000 }

/** A client of the simulated broker, closed at the end. */
function clientOf(options: Partial<ClientOptions> = {}, url = relay.url): Broker {
  const broker = createV3Broker({ url, log, ...options })
  brokers.push(broker)
  return broker
}

let accounts = 0
/** An account nobody has used yet. `flags` as the simulator reads them from a token. */
function newAccount(flags = ''): BrokerAccount & { unsealed: number } {
  const accountId = `VRTC${++accounts + 1_000}`
  const account = {
    accountId,
    appId: '7',
    credentialId: `acc-${accounts}`,
    unsealed: 0,
    async token() {
      account.unsealed += 1
      return `sim-${accountId}${flags}`
    }
  }
  return account
}

const even: BinaryContract = {
  kind: 'BINARY',
  contractType: 'DIGITEVEN',
  asset: 'R_100',
  stake: '10',
  currency: 'USD',
  duration: 3,
  durationUnit: 't',
  barrier: null
}
const up: MultiplierContract = {
  kind: 'MULTIPLIER',
  direction: 'up',
  asset: 'R_100',
  stake: '10',
  currency: 'USD',
  multiplier: 40,
  stopLoss: null,
  takeProfit: null
}
const plainly: BuyOptions = { beforeSend() {}, maxPrice: '10' }

/** A listener that keeps what it hears. */
function ears(): {
  listener: ContractListener
  states: ContractState[]
  settled(): Promise<ContractState>
  lost: Promise<unknown>
} {
  const states: ContractState[] = []
  const settled = Promise.withResolvers<ContractState>()
  const lost = Promise.withResolvers<unknown>()
  const listener: ContractListener = {
    update(state) {
      states.push(state)
      if (state.settled) settled.resolve(state)
    },
    lost: lost.resolve
  }
  return {
    listener,
    states,
    settled: () => within('the settlement', resolve => void settled.promise.then(resolve)),
    lost: lost.promise
  }
}

const ownedBy = ({ accountId }: BrokerAccount) => simulator.ledger().filter(each => each.loginid === accountId)

const opening = suite('opening a session')
const buying = suite('buying')
const following = suite('following a contract')
const selling = suite('selling')
const lists = suite('what an account shows')
const market = suite('market data')
const care = suite('connections and budgets')

// --- opening

opening('is refused with a token that is revoked, disabled or malformed', async () => {
  const broker = clientOf()
  const disabled = await failure(broker.session(newAccount('-disabled')))
  const unknown = await failure(broker.session({ ...newAccount(), token: async () => 'never-issued-to-anybody' }))
  const malformed = await failure(broker.session({ ...newAccount(), token: async () => 'no token, "or": is it' }))
  for (const error of [disabled, unknown, malformed]) {
    assert.is(error.code, 'BROKER_DISCONNECTED')
    assert.ok(error.rejected)
    assert.is(error.ran, 'no')
  }
  assert.is(disabled.brokerCode, 'AccountDisabled')
})

opening("is refused with another account's token", async () => {
  const [mine, theirs] = [newAccount(), newAccount()]
  const error = await failure(clientOf().session({ ...mine, token: theirs.token }))
  assert.is(error.brokerCode, 'WrongAccount')
  assert.ok(error.rejected)
})

opening('does not call the token refused when it is the broker or the application that fails', async () => {
  const broker = clientOf(quick)
  const account = newAccount()
  simulator.faults.add({ effect: 'error', call: 'authorize', code: 'InternalServerError', times: 1 })
  const fault = await failure(broker.session(account))
  assert.is(fault.code, 'BROKER_UPSTREAM')
  assert.is(fault.ran, 'no')
  simulator.faults.add({ effect: 'ignore', call: 'authorize', times: 1 })
  assert.is((await failure(broker.session(account))).brokerCode, 'NoAnswer')
  const unsealing = await failure(broker.session({ ...newAccount(), token: () => Promise.reject(new Error('no key')) }))
  assert.is(unsealing.brokerCode, 'TokenUnreadable')
  assert.is(unsealing.code, 'BROKER_UPSTREAM')
  const application = await failure(broker.session({ ...newAccount(), appId: 'x' }))
  assert.is(application.brokerCode, 'InvalidAppID')
  for (const error of [fault, unsealing, application]) assert.not(error.rejected)
  await broker.session(account)
})

opening('shares one connection and unseals the token once', async () => {
  const broker = clientOf()
  const account = newAccount()
  const before = simulator.v3.connections.size
  const [one, two] = await Promise.all([broker.session(account), broker.session(account)])
  assert.is(one, two)
  assert.is(simulator.v3.connections.size, before + 1)
  assert.is(account.unsealed, 1)
})

opening("never lends one credential's session to another", async () => {
  const broker = clientOf()
  const account = newAccount()
  await broker.session(account)
  const error = await failure(broker.session({ ...account, credentialId: 'other', token: async () => 'made-up-token' }))
  assert.ok(error.rejected)
})

// --- buying

const refusals: [string, BinaryContract | MultiplierContract, Partial<BuyOptions>, string][] = [
  ['a symbol that is not there', { ...even, asset: 'NOPE' }, {}, 'INVALID_CONTRACT'],
  ['a stake below the least', { ...even, stake: '0.10' }, {}, 'INVALID_CONTRACT'],
  ['a digit nothing is above', { ...even, contractType: 'DIGITOVER', barrier: '9' }, {}, 'INVALID_CONTRACT'],
  ['a stake above the price', even, { maxPrice: '5' }, 'INVALID_CONTRACT'],
  ['another currency', { ...even, currency: 'EUR' }, {}, 'INVALID_CONTRACT'],
  ['a multiplier that is not offered', { ...up, multiplier: 41 }, {}, 'INVALID_CONTRACT'],
  ['more than the account holds', { ...even, stake: '20000' }, { maxPrice: '20000' }, 'INSUFFICIENT_BALANCE']
]

buying('is refused, as not run, for what the broker does not offer', async () => {
  const account = newAccount('-poor')
  const rich = newAccount()
  const broker = clientOf()
  for (const [what, contract, options, code] of refusals) {
    const session = await broker.session(code === 'INSUFFICIENT_BALANCE' ? account : rich)
    const stake = code === 'INSUFFICIENT_BALANCE' ? { ...contract, stake: '10' } : contract
    const error = await failure(session.buy(stake, { ...plainly, ...options }))
    assert.is(error.code, code, `${what}: ${error.message}`)
    assert.is(error.ran, 'no', what)
  }
  assert.is(ownedBy(account).length + ownedBy(rich).length, 0)
})

buying('is refused while the market is closed, with the seconds until it opens', async () => {
  const euro = symbols.get('frxEURUSD')!
  const pairs = ['MarketIsClosed', 'ContractBuyValidationError', 'InvalidtoBuy'] as const
  const session = await clientOf().session(newAccount())
  simulator.engine.market.sessions.force(euro, false, Date.now() + 3_600_000)
  for (const marketClosedCode of pairs) {
    simulator.faults.set({ marketClosedCode })
    const contract: BinaryContract = {
      ...even,
      contractType: 'CALL',
      asset: euro.code,
      duration: 30,
      durationUnit: 'm'
    }
    const error = await failure(session.buy(contract, plainly))
    assert.is(error.code, 'MARKET_CLOSED', marketClosedCode)
    assert.is(error.ran, 'no')
    assert.ok(error.secondsUntilOpen! > 0 && error.secondsUntilOpen! <= 8 * 86_400, String(error.secondsUntilOpen))
  }
  simulator.engine.market.sessions.force(euro, null)
})

buying('is refused with a token that may only read, as a token refused', async () => {
  const account = newAccount('-readonly')
  const session = await clientOf().session(account)
  assert.is((await session.balance()).balance, '10000')
  const error = await failure(session.buy(even, plainly))
  assert.is(error.code, 'BROKER_DISCONNECTED')
  assert.ok(error.rejected)
})

buying('sends nothing when the permission is refused', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const late = () => {
    throw new Error('too late')
  }
  const error = await failure(session.buy(even, { ...plainly, beforeSend: late }))
  assert.is(error.brokerCode, 'PermitExpired')
  assert.is(error.ran, 'no')
  assert.is(ownedBy(account).length, 0)
})

const faults: [FaultRule['effect'], Partial<FaultRule>, 'no' | 'unknown' | 'bought', number][] = [
  ['error', { code: 'RateLimit' }, 'no', 0],
  ['error', { code: 'PriceMoved' }, 'no', 0],
  ['error', { code: 'CallError' }, 'unknown', 0],
  ['drop-before', {}, 'unknown', 0],
  ['drop-after', {}, 'unknown', 1],
  ['timeout', {}, 'unknown', 0],
  ['timeout-late', { delayMs: 20 }, 'unknown', 1],
  ['mute', {}, 'unknown', 1],
  ['ignore', {}, 'unknown', 0],
  ['duplicate', {}, 'bought', 1],
  ['reorder', {}, 'bought', 1],
  ['slow', { delayMs: 50 }, 'bought', 1]
]

for (const [effect, more, outcome, contracts] of faults) {
  buying(`ends as ${outcome} when the broker's answer meets: ${effect} ${more.code ?? ''}`, async () => {
    const account = newAccount()
    const session = await clientOf({ answerTimeoutMs: 200 }).session(account)
    simulator.faults.add({ effect, call: 'buy', loginid: account.accountId, times: 1, ...more })
    let sent = 0
    const options = { ...plainly, beforeSend: () => void sent++, listener: ears().listener }
    const ran = await session.buy(even, options).then(
      () => 'bought',
      error => error.ran
    )
    assert.is(ran, outcome)
    assert.is(sent, 1)
    // The conversation goes on, on another connection if need be, and shows what became of it.
    await session.balance()
    await until(() => ownedBy(account).length === contracts)
    assert.is((await session.statement({ from: 0 })).length, contracts)
  })
}

buying('is asked again once, on a fresh authorisation, when the old one was lost', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  simulator.faults.add({
    effect: 'error',
    call: 'buy',
    code: 'AuthorizationRequired',
    loginid: account.accountId,
    times: 1
  })
  await session.buy(even, plainly)
  assert.is(ownedBy(account).length, 1)
  assert.is(account.unsealed, 2)
  simulator.faults.add({
    effect: 'error',
    call: 'buy',
    code: 'AuthorizationRequired',
    loginid: account.accountId,
    times: 2
  })
  const error = await failure(session.buy(even, plainly))
  assert.ok(error.rejected)
  assert.is(ownedBy(account).length, 1)
})

const digits = ['DIGITMATCH', 'DIGITDIFF', 'DIGITOVER', 'DIGITUNDER'] as const
const others = ['CALL', 'PUT', 'DIGITEVEN', 'DIGITODD'] as const

buying('tells every binary type from purchase to settlement, once settled', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const kinds = [...digits.map(type => ({ type, barrier: '5' })), ...others.map(type => ({ type, barrier: null }))]
  await Promise.all(
    kinds.map(async ({ type, barrier }) => {
      const heard = ears()
      const bought = await session.buy(
        { ...even, contractType: type, barrier },
        { ...plainly, listener: heard.listener }
      )
      const end = await heard.settled()
      assert.is(bought.buyPrice, '10')
      assert.is(end.contractId, bought.contractId)
      assert.is(heard.states.filter(each => each.settled).length, 1, type)
      assert.ok(heard.states.every(each => each.contractId === bought.contractId))
      const entry = ownedBy(account).find(each => String(each.contractId) === bought.contractId)!
      assert.is(entry.contractType, type)
      assert.is(end.status, entry.status)
      assert.is(end.entryPrice, entry.entry)
      assert.is(end.exitPrice, entry.exit)
      assert.is(Number(end.profit), Number(entry.profit))
      assert.is(Number(end.sellPrice), Number(entry.sellPrice))
      assert.is(bought.shortcode, entry.shortcode)
    })
  )
  assert.is(ownedBy(account).length, 8)
})

buying('gives multipliers their limits', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const bought = await session.buy({ ...up, direction: 'down', stopLoss: '4', takeProfit: '15.5' }, plainly)
  const [entry] = ownedBy(account)
  assert.is(entry!.contractType, 'MULTDOWN')
  assert.is(Number(entry!.stopLoss), 4)
  assert.is(Number(entry!.takeProfit), 15.5)
  const state = await session.contract(bought.contractId)
  assert.is(state.status, 'open')
  assert.is(Number(state.commission), Number(entry!.commission))
  assert.ok(state.sellable)
  assert.not(state.settled)
})

// --- following

following('is refused for a contract that is not there', async () => {
  const session = await clientOf().session(newAccount())
  for (const contractId of ['1', '99999999999', 'none', '-1', '1e3', '99999999999999999999']) {
    const error = await failure(session.follow(contractId, ears().listener))
    assert.is(error.code, 'INVALID_CONTRACT', `${contractId} ${error.brokerCode} ${error.message}`)
    assert.is((await failure(session.contract(contractId))).code, 'INVALID_CONTRACT', contractId)
  }
})

following('shares one stream between listeners, and ends for all', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const { contractId } = await session.buy({ ...even, duration: 8 }, plainly)
  const [one, two, three] = [ears(), ears(), ears()]
  const [first] = await Promise.all([
    session.follow(contractId, one.listener),
    session.follow(contractId, two.listener)
  ])
  assert.is(first.contractId, contractId)
  assert.ok(one.states.length > 0)
  await session.follow(contractId, three.listener)
  for (const each of [one, two, three]) assert.ok((await each.settled()).settled)
  const after = await session.follow(contractId, ears().listener)
  assert.ok(after.settled)
})

following('goes on over a cut connection', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const heard = ears()
  await session.buy({ ...even, duration: 10 }, { ...plainly, listener: heard.listener })
  assert.is(simulator.v3.cutAll(account.accountId), 1)
  assert.ok((await heard.settled()).settled)
  assert.is(heard.states.filter(each => each.settled).length, 1)
  assert.is(account.unsealed, 2)
})

following('is lost once the token is refused', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const heard = ears()
  const { contractId } = await session.buy(up, { ...plainly, listener: heard.listener })
  simulator.engine.accounts.revoke(account.accountId)
  simulator.v3.cutAll(account.accountId)
  const cause = await within('the loss', resolve => void heard.lost.then(resolve))
  assert.ok((cause as { rejected: boolean }).rejected)
  assert.is(heard.states.at(-1)!.contractId, contractId)
})

following('is lost when the broker stays away, after a bounded time', async () => {
  const own = await startSimulator({ tickMs: 20, limits: 'off' })
  const account = newAccount()
  const session = await clientOf({ lostAfterMs: 300, answerTimeoutMs: 200 }, own.url).session(account)
  const heard = ears()
  await session.buy(up, { ...plainly, listener: heard.listener })
  own.faults.set({ down: true })
  const cause = await within('the loss', resolve => void heard.lost.then(resolve))
  assert.is((cause as { code: string }).code, 'BROKER_UPSTREAM')
  await own.close()
})

following('ends at both sides when it is no longer wanted', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const heard = ears()
  const { contractId } = await session.buy(up, { ...plainly, listener: heard.listener })
  session.unfollow(contractId)
  session.unfollow(contractId)
  const count = heard.states.length
  // Following anew would be refused as doubled if the broker still streamed.
  const again = ears()
  await session.follow(contractId, again.listener)
  await until(() => again.states.length > 2)
  assert.is(heard.states.length, count)
  session.unfollow(contractId)
})

// --- selling

selling('answers what it brought; a second time it is refused', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const heard = ears()
  const { contractId } = await session.buy(up, { ...plainly, listener: heard.listener })
  await until(() => heard.states.at(-1)?.sellable === true)
  const sold = await session.sell(contractId)
  assert.is(sold.contractId, contractId)
  const end = await heard.settled()
  assert.is(end.status, 'sold')
  assert.is(end.sellPrice, sold.soldFor)
  const error = await failure(session.sell(contractId))
  assert.is(error.code, 'INVALID_CONTRACT')
  assert.is(error.ran, 'no')
})

selling('is refused for a tick contract and for none', async () => {
  const session = await clientOf().session(newAccount())
  const { contractId } = await session.buy(even, plainly)
  assert.is((await failure(session.sell(contractId))).code, 'INVALID_CONTRACT')
  assert.is((await failure(session.sell('x'))).code, 'INVALID_CONTRACT')
})

selling('is in doubt when the answer is lost', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const { contractId } = await session.buy(up, plainly)
  await until(async () => (await session.contract(contractId)).sellable)
  simulator.faults.add({ effect: 'drop-after', call: 'sell', loginid: account.accountId, times: 1 })
  assert.is((await failure(session.sell(contractId))).ran, 'unknown')
  assert.is((await session.contract(contractId)).status, 'sold')
})

// --- lists

lists(
  'open contracts stand in the portfolio, closed ones in the profit table, purchases in the statement',
  async () => {
    const account = newAccount()
    const session = await clientOf().session(account)
    const before = Math.floor(Date.now() / 1000) - 2
    const heard = ears()
    const tick = await session.buy(even, { ...plainly, listener: heard.listener })
    const held = await session.buy(up, plainly)
    await heard.settled()
    const portfolio = await session.portfolio()
    assert.equal(
      portfolio.map(each => each.contractId),
      [held.contractId]
    )
    assert.is(portfolio[0]!.terms!.multiplier, 40)
    const closed = await session.profitTable({ from: before })
    assert.equal(
      closed.map(each => each.contractId),
      [tick.contractId]
    )
    const statement = await session.statement({ from: before, limit: 999 })
    assert.equal(statement.map(each => each.contractId).sort(), [tick.contractId, held.contractId].sort())
    for (const each of [...portfolio, ...closed, ...statement]) {
      assert.is(Number(each.buyPrice), 10)
      assert.is(each.appId, '7')
      assert.ok(each.purchaseTime >= before)
      assert.ok(each.terms !== null)
    }
    assert.is(statement.find(each => each.contractId === tick.contractId)!.transactionId, tick.transactionId)
    assert.is((await session.statement({ from: before, limit: 1 })).length, 1)
    assert.is((await session.statement({ from: before, limit: 1, offset: 2 })).length, 0)
    assert.is((await session.statement({ from: before - 60, to: before - 30 })).length, 0)
    assert.is((await session.profitTable({ from: before, to: before + 3_600, limit: 5, offset: 1 })).length, 0)
    const { balance, currency } = await session.balance()
    assert.is(currency, 'USD')
    assert.ok(Number(balance) < 10_000)
  }
)

lists('are read again when an answer is lost or refused as one too many', async () => {
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

market('tells candles, oldest first', async () => {
  const candles = await data.candles('R_100', { granularitySeconds: 60, count: 30 })
  assert.is(candles.length, 30)
  for (const [at, candle] of candles.entries()) {
    assert.ok(candle.low <= candle.open && candle.open <= candle.high)
    if (at > 0) assert.is(candle.epoch - candles[at - 1]!.epoch, 60)
  }
})

market('tells what multipliers cost and whether they trade', async () => {
  const spec = await data.multiplierSpec('R_100', 'USD')
  assert.equal(spec.multipliers, [40, 100, 200, 300, 400])
  assert.ok(Number(spec.minStake) >= 1)
  assert.ok(Number(spec.commissionPct) > 0 && Number(spec.commissionPct) < 5, String(spec.commissionPct))
  assert.is(spec.marketOpen, true)
  assert.is(spec.secondsUntilOpen, 0)
})

market('tells when a closed market opens', async () => {
  const own = await startSimulator({ limits: 'off' })
  const closed = clientOf({}, own.url).market('7')
  own.engine.market.sessions.force(symbols.get('R_50')!, false)
  const seconds = await closed.secondsUntilOpen('R_50')
  assert.ok(seconds !== null && seconds > 0 && seconds <= 86_400, String(seconds))
  const spec = await closed.multiplierSpec('R_50', 'USD')
  assert.is(spec.marketOpen, false)
  assert.ok(spec.secondsUntilOpen! > 0)
  assert.is(await closed.secondsUntilOpen('R_100'), 0)
  await own.close()
})

market("knows the broker's clock", async () => {
  assert.ok(Math.abs(await data.clockOffset()) <= 0.6)
  const away = clientOf({ now: () => Date.now() - 100_000 }).market('7')
  assert.ok(Math.abs((await away.clockOffset()) - 100) <= 0.6)
})

// --- care

care('says whether the broker can be reached', async () => {
  const own = await startSimulator({})
  const broker = clientOf(quick, own.url)
  assert.is(await broker.reachable('7'), true)
  own.faults.set({ down: true })
  assert.is(await broker.reachable('7'), false)
  await own.close()
  assert.is(await clientOf(quick, own.url).reachable('7'), false)
})

care('closes connections nobody uses, keeps those that stream, and opens them again when needed', async () => {
  const own = await startSimulator({ limits: 'off', tickMs: 20 })
  const broker = clientOf({ idleCloseMs: 100 }, own.url)
  const [idle, busy] = [await broker.session(newAccount()), await broker.session(newAccount())]
  const { contractId } = await busy.buy(up, { ...plainly, listener: ears().listener })
  await until(() => own.v3.connections.size === 1)
  await idle.balance()
  assert.is(own.v3.connections.size, 2)
  busy.unfollow(contractId)
  await until(() => own.v3.connections.size === 0)
  await own.close()
})

care('holds no more connections than it may; the longest unused makes room', async () => {
  const own = await startSimulator({ limits: 'off', tickMs: 20 })
  const broker = clientOf({ maxConnections: 2 }, own.url)
  const first = await broker.session(newAccount())
  const second = await broker.session(newAccount())
  const third = await broker.session(newAccount())
  await until(() => own.v3.connections.size === 2)
  for (const session of [second, third]) await session.buy(up, { ...plainly, listener: ears().listener })
  assert.is((await failure(first.sell('123'))).brokerCode, 'TooManyConnections')
  await own.close()
})

care('learns the limits from the broker and stays within them', async () => {
  const window = { minute: 20, hour: 1_000 }
  const own = await startSimulator({
    limits: { pricing: window, outcome: { minute: 4, hour: 100 }, general: window },
    tickMs: 20
  })
  const broker = clientOf({ answerTimeoutMs: 1_000 }, own.url)
  const account = newAccount()
  const session = await broker.session(account)
  const { contractId } = await session.buy(up, plainly)
  await until(() => broker.budget().pricing === 0.95)
  const outcomes = await Promise.allSettled(Array.from({ length: 25 }, () => session.contract(contractId)))
  const refused = outcomes.filter(each => each.status === 'rejected')
  assert.is(outcomes.length - refused.length, 17, 'the last tenth is kept for orders')
  for (const each of refused) assert.is(each.reason.brokerCode, 'QuotaExhausted')
  await session.sell(contractId)
  assert.ok(broker.budget().pricing! < 0.1)
  await own.close()
})

care('starts no purchase while the broker announces that it goes down, and goes on afterwards', async () => {
  const own = await startSimulator({ limits: 'off', tickMs: 20 })
  const account = newAccount()
  const session = await clientOf({}, own.url).session(account)
  const { contractId } = await session.buy(up, plainly)
  await until(() => own.v3.statusListeners.size > 0)
  own.v3.maintain(500)
  let error = null
  await until(async () => {
    error = await session.buy(even, plainly).then(
      () => null,
      each => each
    )
    return error !== null
  })
  assert.is(error!.brokerCode, 'SiteUpdating')
  assert.is(error!.ran, 'no')
  assert.is((await session.contract(contractId)).contractId, contractId)
  await until(() => own.v3.siteStatus === 'up')
  await until(async () => {
    const bought = await session.buy(even, plainly).catch(() => null)
    return bought !== null
  })
  await own.close()
})

/** A session with a scripted broker that authorises everybody. */
async function scripted(
  script: Script,
  options: Partial<ClientOptions> = {}
): Promise<{ session: Session; close: () => Promise<void> }> {
  const broker = await scriptedBroker(courteous(script))
  const session = await clientOf(options, broker.url).session({
    accountId: 'CR1',
    appId: '7',
    token: async () => 'CR1'
  })
  return { session, close: () => broker.close() }
}

care('takes an answer it cannot read for no answer: a purchase is then in doubt', async () => {
  const bodies = [
    7,
    'x',
    [],
    {},
    { contract_id: 'x', transaction_id: 1 },
    { contract_id: 1.5, transaction_id: 1 },
    null
  ]
  for (const buy of bodies) {
    const { session, close } = await scripted((frame, socket) =>
      reply(socket, frame, { buy, balance: { loginid: 'CR2' } })
    )
    const error = await failure(session.buy(even, { ...plainly, listener: ears().listener }))
    assert.is(error.brokerCode, 'BadFrame', JSON.stringify(buy))
    assert.is(error.ran, 'unknown')
    const balance = await failure(session.balance())
    assert.is(balance.brokerCode, 'WrongAccount')
    assert.is(balance.ran, 'no')
    await close()
  }
})

const receipt = {
  contract_id: 5,
  transaction_id: 6,
  buy_price: 10,
  payout: 19.53,
  purchase_time: 1_700_000_000,
  shortcode: 'X'
}
const poc = { contract_id: 5, is_sold: 0, buy_price: 10, purchase_time: 1_700_000_000 }

care('subscribes by itself when a purchase opened no stream', async () => {
  const { session, close } = await scripted((frame, socket) => {
    if (frame.buy !== undefined) reply(socket, frame, { buy: receipt })
    else if (frame.proposal_open_contract !== undefined) {
      reply(socket, frame, {
        proposal_open_contract: { ...poc, is_sold: 1, status: 'lost', sell_price: 0 },
        subscription: { id: 's' }
      })
    }
  })
  const heard = ears()
  await session.buy(even, { ...plainly, listener: heard.listener })
  assert.is((await heard.settled()).status, 'lost')
  await close()
})

care('prints prices as the broker shows them, with every zero', async () => {
  const spots = {
    entry_tick: 1219.6,
    entry_tick_display_value: '1219.60',
    exit_tick: 1219.5,
    exit_tick_display_value: '1219.50',
    current_spot: 1e-7,
    profit: -10,
    payout: 19.5,
    status: null,
    is_sold: 1,
    sell_price: 0
  }
  const { session, close } = await scripted((frame, socket) =>
    reply(socket, frame, { proposal_open_contract: { ...poc, ...spots } })
  )
  const state = await session.contract('5')
  assert.equal([state.entryPrice, state.exitPrice, state.currentSpot], ['1219.60', '1219.50', '0.0000001'])
  assert.equal([state.profit, state.payout, state.sellPrice, state.status], ['-10', '19.5', '0', 'lost'])
  await close()
})

care('hears each frame of a contract once per frame, and none after its settlement', async () => {
  const { session, close } = await scripted((frame, socket) => {
    if (frame.buy === undefined) return
    const update = (fields: object) =>
      reply(socket, frame, { proposal_open_contract: { ...poc, ...fields }, subscription: { id: 'sub' } })
    update({ bid_price: 1 })
    reply(socket, frame, { buy: receipt, subscription: { id: 'sub' } })
    reply(socket, frame, { buy: receipt, subscription: { id: 'sub' } })
    update({ contract_id: 99 })
    update({ is_sold: 'maybe' })
    update({ is_sold: 1, status: 'won', sell_price: 19.53 })
    update({ is_sold: 1, status: 'won', sell_price: 19.53 })
  })
  const heard = ears()
  const bought = await session.buy(even, { ...plainly, listener: heard.listener })
  await heard.settled()
  assert.is(bought.contractId, '5')
  assert.equal(
    heard.states.map(each => each.bidPrice ?? each.status),
    ['1', 'won']
  )
  await close()
})

care('does not write a purchase to a connection that is closing', async () => {
  const { session, close } = await scripted((frame, socket) => {
    if (frame.buy !== undefined) reply(socket, frame, { buy: receipt })
    if (frame.balance === undefined) return
    reply(socket, frame, { balance: { loginid: 'CR1', balance: 1, currency: 'USD' } })
    socket.close(1001)
  })
  for (let round = 0; round < 5; round++) {
    await session.balance()
    assert.is((await session.buy(even, plainly)).contractId, '5')
  }
  await close()
})

care('ends every pending call when it is closed', async () => {
  const broker = await scriptedBroker(courteous(() => undefined))
  const client = createV3Broker({ url: broker.url, log })
  const session = await client.session({ accountId: 'CR1', appId: '7', token: async () => 'CR1' })
  const buy = failure(session.buy(even, plainly))
  const balance = failure(session.balance())
  await broker.got('balance')
  await client.close()
  assert.is((await buy).ran, 'unknown')
  assert.is((await balance).ran, 'no')
  assert.is((await failure(session.buy(even, plainly))).ran, 'no')
  await broker.close()
})

care('sends only frames the broker accepts, of every call it uses', () => {
  assert.equal(relay.complaints, [])
  for (const call of [
    'authorize',
    'buy',
    'sell',
    'proposal_open_contract',
    'portfolio',
    'statement',
    'profit_table',
    'balance'
  ]) {
    assert.ok(relay.calls.has(call), call)
  }
  for (const call of [
    'active_symbols',
    'contracts_for',
    'ticks_history',
    'trading_times',
    'time',
    'proposal',
    'website_status',
    'forget'
  ]) {
    assert.ok(relay.calls.has(call), call)
  }
})

care('never writes a token to the log', () => {
  assert.ok(lines.length > 0)
  for (const line of lines) assert.not.match(line, /sim-VRTC|never-issued|no token/)
})

care('closes', async () => {
  for (const broker of brokers) await broker.close()
  relay.close()
  await simulator.close()
})

/** Resolves when the condition holds, looked at on every turn, within 10 s. */
async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 10_000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`did not come true: ${condition}`)
    await new Promise(resolve => setImmediate(resolve))
  }
}

opening.run()
buying.run()
following.run()
selling.run()
lists.run()
market.run()
care.run()

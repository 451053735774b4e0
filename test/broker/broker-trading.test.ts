// test in a process of its own
// test once for each dialect
// Sessions and purchases through the port, in each dialect, against the simulated broker. What only one dialect has is in broker-v3.test.ts and broker-next.test.ts.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { BinaryContract, BuyOptions, MultiplierContract } from '../../worker/broker/port.ts'
import { symbols } from '../../worker/simulator/engine/symbols.ts'
import type { FaultRule } from '../../worker/simulator/faults.ts'
import { frontOf } from '../support/dialects.ts'
import { upTo } from '../support/turns.ts'
import {
  buyOptions,
  clientOf,
  closeClients,
  even,
  newAccount,
  newRecorder,
  ownedBy,
  quick,
  relay,
  simulator,
  up
} from './broker-port.ts'
import { failure } from './broker-script.ts'

const opening = suite('opening a session')
const buying = suite('buying')

// --- opening

opening('shares one connection and unseals the token once', async () => {
  const broker = clientOf()
  const account = newAccount()
  const before = frontOf(simulator).connections.size
  const [one, two] = await Promise.all([broker.session(account), broker.session(account)])
  assert.is(one, two)
  await upTo(() => frontOf(simulator).connections.size === before + 1)
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
    const error = await failure(session.buy(stake, { ...buyOptions, ...options }))
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
    const error = await failure(session.buy(contract, buyOptions))
    assert.is(error.code, 'MARKET_CLOSED', marketClosedCode)
    assert.is(error.ran, 'no')
    assert.ok(error.secondsUntilOpen! > 0 && error.secondsUntilOpen! <= 8 * 86_400, String(error.secondsUntilOpen))
  }
  simulator.engine.market.sessions.force(euro, null)
})

buying('sends nothing when the permission is refused', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const late = () => {
    throw new Error('too late')
  }
  const error = await failure(session.buy(even, { ...buyOptions, beforeSend: late }))
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
  buying(`ends as ${outcome} when the broker's response meets: ${effect} ${more.code ?? ''}`, async () => {
    const account = newAccount()
    const session = await clientOf(effect === 'mute' || effect === 'ignore' ? quick : {}).session(account)
    simulator.faults.add({ effect, call: 'buy', loginid: account.accountId, times: 1, ...more })
    let sent = 0
    const options = { ...buyOptions, beforeSend: () => void sent++, listener: newRecorder().listener }
    const ran = await session.buy(even, options).then(
      () => 'bought',
      error => error.ran
    )
    assert.is(ran, outcome)
    assert.is(sent, 1)
    // The conversation goes on, on another connection if need be, and shows what became of it.
    await session.balance()
    await upTo(() => ownedBy(account).length === contracts)
    assert.is((await session.statement({ from: 0 })).length, contracts)
  })
}

buying('is sent again once, on a fresh authorisation, when the old one was lost', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  simulator.faults.add({
    effect: 'error',
    call: 'buy',
    code: 'AuthorizationRequired',
    loginid: account.accountId,
    times: 1
  })
  await session.buy(even, buyOptions)
  assert.is(ownedBy(account).length, 1)
  assert.is(account.unsealed, 2)
  simulator.faults.add({
    effect: 'error',
    call: 'buy',
    code: 'AuthorizationRequired',
    loginid: account.accountId,
    times: 2
  })
  const error = await failure(session.buy(even, buyOptions))
  assert.ok(error.rejected)
  assert.is(ownedBy(account).length, 1)
})

buying(
  'is sent again with the token that is stored now, where the one that opened the session is refused',
  async () => {
    const account = newAccount()
    const session = await clientOf().session(account)
    const refusal = { effect: 'error', call: 'buy', code: 'InvalidToken', loginid: account.accountId } as const
    simulator.faults.add({ ...refusal, times: 1 })
    await session.buy(even, buyOptions)
    assert.equal([ownedBy(account).length, account.unsealed], [1, 2])
    simulator.faults.add({ ...refusal, times: 2 })
    assert.ok((await failure(session.buy(even, buyOptions))).rejected)
    assert.is(ownedBy(account).length, 1)
  }
)

buying('is refused once its session cannot be opened again, which is tried once', async () => {
  const account = newAccount()
  let token = account.token
  const session = await clientOf().session({ ...account, token: () => token() })
  let unsealed = 0
  token = async () => `never-issued-to-${++unsealed}`
  simulator.faults.add({ effect: 'error', call: 'buy', code: 'InvalidToken', loginid: account.accountId, times: 1 })
  assert.ok((await failure(session.buy(even, buyOptions))).rejected)
  assert.equal([ownedBy(account).length, unsealed], [0, 1])
})

const digits = ['DIGITMATCH', 'DIGITDIFF', 'DIGITOVER', 'DIGITUNDER'] as const
const others = ['CALL', 'PUT', 'DIGITEVEN', 'DIGITODD'] as const

buying('reports every binary type from purchase to settlement, once settled', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const kinds = [...digits.map(type => ({ type, barrier: '5' })), ...others.map(type => ({ type, barrier: null }))]
  await Promise.all(
    kinds.map(async ({ type, barrier }) => {
      const recorder = newRecorder()
      const bought = await session.buy(
        { ...even, contractType: type, barrier },
        { ...buyOptions, listener: recorder.listener }
      )
      const end = await recorder.settled()
      assert.is(bought.buyPrice, '10')
      assert.is(end.contractId, bought.contractId)
      assert.is(recorder.states.filter(each => each.settled).length, 1, type)
      assert.ok(recorder.states.every(each => each.contractId === bought.contractId))
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
  const bought = await session.buy({ ...up, direction: 'down', stopLoss: '4', takeProfit: '15.5' }, buyOptions)
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

buying('sends only frames the broker accepts, and receives only such as it may send', () => {
  assert.equal(relay.complaints, [])
})

buying.after(closeClients)
opening.run()
buying.run()

// test in a process of its own
// test once for each dialect
// Contracts after their purchase, through the port, in each dialect: followed to their end, and sold.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { startSimulator } from '../../worker/simulator/server.ts'
import { countStreams, frontOf } from '../support/dialects.ts'
import { upTo } from '../support/turns.ts'
import {
  buyOptions,
  clientOf,
  closeClients,
  even,
  newAccount,
  newRecorder,
  quick,
  relay,
  simulator,
  up
} from './broker-port.ts'
import { failure, within } from './broker-script.ts'

const following = suite('following a contract')
const selling = suite('selling')

// --- following

following('is refused for a contract that is not there', async () => {
  const session = await clientOf().session(newAccount())
  for (const contractId of ['1', '99999999999', 'none', '-1', '1e3', '99999999999999999999']) {
    const error = await failure(session.subscribe(contractId, newRecorder().listener))
    assert.is(error.code, 'INVALID_CONTRACT', `${contractId} ${error.brokerCode} ${error.message}`)
    assert.is((await failure(session.contract(contractId))).code, 'INVALID_CONTRACT', contractId)
  }
})

following('shares one stream between listeners, and ends for all', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const { contractId } = await session.buy({ ...even, duration: 8 }, buyOptions)
  const [one, two, three] = [newRecorder(), newRecorder(), newRecorder()]
  const [first] = await Promise.all([
    session.subscribe(contractId, one.listener),
    session.subscribe(contractId, two.listener)
  ])
  assert.is(first.contractId, contractId)
  assert.ok(one.states.length > 0)
  await session.subscribe(contractId, three.listener)
  for (const each of [one, two, three]) assert.ok((await each.settled()).settled)
  const after = await session.subscribe(contractId, newRecorder().listener)
  assert.ok(after.settled)
})

following('takes no more streams than a connection carries, and receives the end of every contract', async () => {
  // Ninety streams at fifty ticks a second are more than a busy machine carries.
  const own = await startSimulator({ tickMs: 200, limits: 'off' })
  const session = await clientOf({}, own).session(newAccount())
  const bought: { contractId: string; recorder: ReturnType<typeof newRecorder> }[] = []
  for (let each = 0; each < 105; each++) {
    const recorder = newRecorder()
    const { contractId } = await session.buy(up, { ...buyOptions, listener: recorder.listener })
    bought.push({ contractId, recorder })
  }
  const late = newRecorder()
  assert.not.ok((await session.subscribe(bought[0]!.contractId, late.listener)).settled)
  await Promise.all(bought.map(({ contractId }) => session.sell(contractId)))
  for (const { recorder } of bought) {
    await recorder.settled()
    assert.is(recorder.states.filter(each => each.settled).length, 1)
  }
  assert.ok((await late.settled()).settled)
  await own.close()
})

following('forgets the streams of ended contracts, so that one connection follows any number of them', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const contracts = 150
  let started = 0
  const lane = async () => {
    while (started++ < contracts) {
      const recorder = newRecorder()
      await session.buy(even, { ...buyOptions, listener: recorder.listener })
      await recorder.settled()
      assert.is(recorder.states.filter(each => each.settled).length, 1)
    }
  }
  await Promise.all(Array.from({ length: 15 }, lane))
  await upTo(() => countStreams(simulator, account.accountId, 'proposal_open_contract') === 0)
  assert.is(account.unsealed, 1, 'connections opened')
})

following('goes on over a cut connection', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const recorder = newRecorder()
  // It ends when it is sold, and not before the connection is cut.
  const { contractId } = await session.buy(up, { ...buyOptions, listener: recorder.listener })
  assert.is(frontOf(simulator).cutAll(account.accountId), 1)
  await upTo(() => account.unsealed === 2 && countStreams(simulator, account.accountId, 'proposal_open_contract') === 1)
  const another = await clientOf().session({ ...account, token: async () => `sim-${account.accountId}` })
  await another.sell(contractId)
  assert.ok((await recorder.settled()).settled)
  assert.is(recorder.states.filter(each => each.settled).length, 1)
  assert.is(account.unsealed, 2)
})

following('is lost once the token is refused', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const recorder = newRecorder()
  const { contractId } = await session.buy(up, { ...buyOptions, listener: recorder.listener })
  simulator.engine.accounts.revoke(account.accountId)
  frontOf(simulator).cutAll(account.accountId)
  const cause = await within('the loss', resolve => void recorder.lost.then(resolve))
  assert.ok((cause as { rejected: boolean }).rejected)
  assert.is(recorder.states.at(-1)!.contractId, contractId)
})

following('is lost when the broker stays away, after a bounded time', async () => {
  const own = await startSimulator({ tickMs: 20, limits: 'off' })
  const account = newAccount()
  const session = await clientOf({ ...quick, lostAfterMs: 300 }, own).session(account)
  const recorder = newRecorder()
  await session.buy(up, { ...buyOptions, listener: recorder.listener })
  own.faults.set({ down: true })
  const cause = await within('the loss', resolve => void recorder.lost.then(resolve))
  assert.is((cause as { code: string }).code, 'BROKER_UPSTREAM')
  await own.close()
})

following('ends at both sides when it is no longer wanted', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const recorder = newRecorder()
  const { contractId } = await session.buy(up, { ...buyOptions, listener: recorder.listener })
  session.unsubscribe(contractId)
  session.unsubscribe(contractId)
  const count = recorder.states.length
  // Subscribing again would be refused as a duplicate if the broker still streamed.
  const again = newRecorder()
  await session.subscribe(contractId, again.listener)
  await upTo(() => again.states.length > 2)
  assert.is(recorder.states.length, count)
  session.unsubscribe(contractId)
})

following('ends at the broker although it was no longer wanted before its first response', async () => {
  const own = await startSimulator({ tickMs: 20, limits: 'off' })
  const account = newAccount()
  const session = await clientOf({}, own).session(account)
  const { contractId } = await session.buy(up, buyOptions)
  own.faults.add({ effect: 'slow', call: 'proposal_open_contract', delayMs: 200, times: 1 })
  const subscribed = session.subscribe(contractId, newRecorder().listener)
  await upTo(() => own.faults.settings.rules.length === 0)
  session.unsubscribe(contractId)
  await subscribed
  await upTo(() => countStreams(own, account.accountId, 'proposal_open_contract') === 0)
  await own.close()
})

following('ends by the account as well, and opens no session for it', async () => {
  const own = await startSimulator({ tickMs: 20, limits: 'off' })
  const account = newAccount()
  const broker = clientOf({}, own)
  const session = await broker.session(account)
  const { contractId } = await session.buy(up, { ...buyOptions, listener: newRecorder().listener })
  broker.unsubscribe(newAccount(), contractId)
  assert.equal(broker.accounts(), [account.accountId])
  // A session in use is kept.
  await broker.leave([account.accountId])
  assert.equal(broker.accounts(), [account.accountId])
  broker.unsubscribe(account, contractId)
  await upTo(async () => {
    await broker.leave([account.accountId])
    return broker.accounts().length === 0
  })
  await own.close()
})

// --- selling

selling('returns what it brought; a second time it is refused', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const recorder = newRecorder()
  const { contractId } = await session.buy(up, { ...buyOptions, listener: recorder.listener })
  await upTo(() => recorder.states.at(-1)?.sellable === true)
  const sold = await session.sell(contractId)
  assert.is(sold.contractId, contractId)
  const end = await recorder.settled()
  assert.is(end.status, 'sold')
  assert.is(Number(end.sellPrice), Number(sold.soldFor))
  const error = await failure(session.sell(contractId))
  assert.is(error.code, 'INVALID_CONTRACT')
  assert.is(error.ran, 'no')
})

selling('is refused for a tick contract and for none', async () => {
  const session = await clientOf().session(newAccount())
  const { contractId } = await session.buy(even, buyOptions)
  assert.is((await failure(session.sell(contractId))).code, 'INVALID_CONTRACT')
  assert.is((await failure(session.sell('x'))).code, 'INVALID_CONTRACT')
})

selling('is in doubt when the response is lost', async () => {
  const account = newAccount()
  const session = await clientOf().session(account)
  const { contractId } = await session.buy(up, buyOptions)
  await upTo(async () => (await session.contract(contractId)).sellable)
  simulator.faults.add({ effect: 'drop-after', call: 'sell', loginid: account.accountId, times: 1 })
  assert.is((await failure(session.sell(contractId))).ran, 'unknown')
  assert.is((await session.contract(contractId)).status, 'sold')
})

selling('sends only frames the broker accepts, and receives only such as it may send', () => {
  assert.equal(relay.complaints, [])
})

selling.after(closeClients)
following.run()
selling.run()

// test in a process of its own
// test once for each dialect
// Parked contracts: without a stream of their own while their end is far, through the port, in each dialect.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { BrokerError } from '../../worker/broker/broker-error.ts'
import type { ClientOptions } from '../../worker/broker/client.ts'
import type { BinaryContract, Broker, BrokerAccount, ContractState } from '../../worker/broker/port.ts'
import { type Simulator, startSimulator } from '../../worker/simulator/server.ts'
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
  simulator
} from './broker-port.ts'
import { openRelay } from './broker-relay.ts'
import { failure, within } from './broker-script.ts'

const resting = suite('a contract whose end is far')

const hour: BinaryContract = { ...even, contractType: 'CALL', duration: 60, durationUnit: 'm' }
const quickly = { parkFromMs: 1_000, unparkAheadMs: 100 }

/** A listener that also receives for how long the contract is parked. */
function newParkedRecorder() {
  const recorder = newRecorder()
  const rests = Promise.withResolvers<number>()
  let count = 0
  const listener = {
    ...recorder.listener,
    parked(ms: number) {
      count += 1
      rests.resolve(ms)
    }
  }
  return {
    ...recorder,
    listener,
    times: () => count,
    rest: () => within<number>('the rest', resolve => void rests.promise.then(resolve))
  }
}

/** An account with a contract of an hour, followed from its purchase on by a client that lets it rest soon. */
const buyHour = (options: Partial<ClientOptions> = {}, at?: Simulator) =>
  buyHourOf(clientOf({ ...quickly, ...options }, at))

async function buyHourOf(client: Broker) {
  const account = newAccount()
  const session = await client.session(account)
  const recorder = newParkedRecorder()
  const bought = await session.buy(hour, { ...buyOptions, listener: recorder.listener })
  return { account, session, recorder, bought, contractId: bought.contractId }
}

const streamsOf = ({ accountId }: BrokerAccount, kind: 'proposal_open_contract' | 'transaction') =>
  countStreams(simulator, accountId, kind)

/** Sold by another program of the trader's. */
function sellElsewhere({ accountId }: BrokerAccount, contractId: string): void {
  const account = simulator.engine.accounts.grant(`sim-${accountId}`).account
  simulator.engine.sell(account, { appId: 2, contractId: Number(contractId), floorCents: 0 })
}

const sellable = (contract: () => Promise<ContractState>) => upTo(async () => (await contract()).sellable)

resting('loses its stream once sales are subscribed to, and gets no more updates', async () => {
  const { account, session, recorder, bought, contractId } = await buyHour()
  assert.is(bought.expiryTime, bought.purchaseTime + 3600)
  assert.ok((await recorder.rest()) > 3_000_000)
  await upTo(() => streamsOf(account, 'proposal_open_contract') === 0)
  assert.is(streamsOf(account, 'transaction'), 1)
  const states = recorder.states.length
  // Ticks went by meanwhile, as another's contract shows.
  const other = newRecorder()
  await (await clientOf().session(newAccount())).buy(
    { ...even, duration: 8 },
    { ...buyOptions, listener: other.listener }
  )
  await other.settled()
  assert.is(recorder.states.length, states)
  session.unsubscribe(contractId)
})

resting('opens no stream with its purchase while sales are subscribed to', async () => {
  const { session, recorder: first } = await buyHour()
  await first.rest()
  const second = newParkedRecorder()
  await session.buy(hour, { ...buyOptions, listener: second.listener })
  await second.rest()
  assert.equal(second.states, [])
  assert.is(second.times(), 1)
})

resting('is reported at once when it is sold elsewhere', async () => {
  const { account, session, recorder, contractId } = await buyHour()
  await recorder.rest()
  await sellable(() => session.contract(contractId))
  sellElsewhere(account, contractId)
  assert.is((await recorder.settled()).status, 'sold')
  assert.is(recorder.states.filter(each => each.settled).length, 1)
})

for (const [what, change] of Object.entries<(movement: Record<string, unknown>) => object>({
  'does not name what it is': ({ action: _, ...movement }) => movement,
  'does not name its contract': movement => ({ ...movement, contract_id: null }),
  'names neither': ({ action: _, contract_id: __, ...movement }) => movement
}))
  resting(`is reported at once when it is sold elsewhere by a movement that ${what}`, async () => {
    const isSale = (movement: unknown) => (movement as { action?: unknown } | undefined)?.action === 'sell'
    const vague = await openRelay(simulator, frame =>
      isSale(frame.transaction) ? { ...frame, transaction: change(frame.transaction as object as never) } : frame
    )
    const { account, session, recorder, contractId } = await buyHourOf(clientOf(quickly, vague))
    await recorder.rest()
    await sellable(() => session.contract(contractId))
    sellElsewhere(account, contractId)
    assert.is((await recorder.settled()).status, 'sold')
    assert.equal(vague.complaints, [])
    vague.close()
  })

resting('is streamed again shortly before its end', async () => {
  // By the client's clock it ends in little more than the shortest rest. What is bought more slowly than that does not rest.
  const skewMs = 3_600_000 - 6_000
  const { session, recorder, contractId } = await buyHour({ unparkAheadMs: 400, now: () => Date.now() + skewMs })
  assert.ok((await recorder.rest()) < 6_000)
  const states = recorder.states.length
  await upTo(() => recorder.states.length > states + 3)
  assert.is(recorder.times(), 1)
  await sellable(() => session.contract(contractId))
  await session.sell(contractId)
  assert.is((await recorder.settled()).status, 'sold')
})

resting('stays parked over a cut connection, and a sale from meanwhile is found', async () => {
  const { account, session, recorder: kept } = await buyHour()
  await kept.rest()
  const sold = newParkedRecorder()
  const { contractId } = await session.buy(hour, { ...buyOptions, listener: sold.listener })
  await sold.rest()
  await sellable(() => session.contract(contractId))
  const states = kept.states.length
  assert.is(frontOf(simulator).cutAll(account.accountId), 1)
  sellElsewhere(account, contractId)
  assert.is((await sold.settled()).status, 'sold')
  await upTo(() => streamsOf(account, 'transaction') === 1 && streamsOf(account, 'proposal_open_contract') === 0)
  assert.is(kept.states.length, states)
})

resting('is lost when the broker stays away, after a bounded time', async () => {
  const own = await startSimulator({ tickMs: 20, limits: 'off' })
  const { recorder } = await buyHour({ ...quick, lostAfterMs: 300 }, own)
  await recorder.rest()
  own.faults.set({ down: true })
  const cause = await within('the loss', resolve => void recorder.lost.then(resolve))
  assert.is((cause as { code: string }).code, 'BROKER_UPSTREAM')
  await own.close()
})

resting('is not lost for a time in which another one missed sales', async () => {
  const own = await startSimulator({ tickMs: 20, limits: 'off' })
  const lostAfterMs = 4_000
  const client = clientOf({ ...quickly, ...quick, lostAfterMs }, own)
  const first = await buyHourOf(client)
  await first.recorder.rest()
  own.faults.set({ down: true })
  const since = performance.now()
  await failure(first.session.balance())
  first.session.unsubscribe(first.contractId)
  // The last attempt to subscribe to sales has ended as well.
  while (performance.now() - since < lostAfterMs) await failure(first.session.balance())
  own.faults.set({ down: false })
  await upTo(() => first.session.balance().then(Boolean, () => false))
  const second = newParkedRecorder()
  await first.session.buy(hour, { ...buyOptions, listener: second.listener })
  await second.rest()
  let lost: unknown
  void second.lost.then(cause => {
    lost = cause
  })
  const { accountId } = first.account
  own.faults.add({ effect: 'error', code: 'InternalServerError', call: 'transaction', loginid: accountId, times: 1 })
  assert.is(frontOf(own).cutAll(accountId), 1)
  await upTo(() => lost !== undefined || countStreams(own, accountId, 'transaction') === 1)
  assert.is(lost, undefined)
  await own.close()
})

resting('keeps its stream where sales cannot be subscribed to', async () => {
  const account = newAccount()
  simulator.faults.add({ effect: 'error', code: 'PermissionDenied', call: 'transaction', loginid: account.accountId })
  const session = await clientOf(quickly).session(account)
  const recorder = newParkedRecorder()
  const { contractId } = await session.buy(hour, { ...buyOptions, listener: recorder.listener })
  await upTo(() => recorder.states.length > 10)
  assert.is(recorder.times(), 0)
  assert.is(streamsOf(account, 'proposal_open_contract'), 1)
  session.unsubscribe(contractId)
})

resting('keeps the stream of its purchase when little is left of the budget for another', async () => {
  const own = await startSimulator({ tickMs: 20 })
  const account = newAccount()
  const client = clientOf(quickly, own)
  const session = await client.session(account)
  const { contractId } = await session.buy({ ...even, duration: 8 }, buyOptions)
  const spare = () => Math.min(...Object.values(client.budget()))
  while (spare() >= 0.5) await session.contract(contractId, { leisurely: true })
  assert.is((await failure(session.contract(contractId, { leisurely: true }))).brokerCode, 'QuotaExhausted')
  const recorder = newParkedRecorder()
  await session.buy(hour, { ...buyOptions, listener: recorder.listener })
  await upTo(() => recorder.states.length > 10)
  assert.is(recorder.times(), 0)
  await own.close()
})

resting('gives its connection to another account, and returns when to come back', async () => {
  const own = await startSimulator({ limits: 'off', tickMs: 20 })
  const client = clientOf({ ...quickly, maxConnections: 1 }, own)
  const hour = await buyHourOf(client)
  await hour.recorder.rest()
  await upTo(() => countStreams(own, hour.account.accountId, 'proposal_open_contract') === 0)
  // The end of the stream has been acknowledged before this is: no call is under way.
  await hour.session.balance()
  const other = await buyHourOf(client)
  const cause = await within<BrokerError>(
    'the loss',
    resolve => void hour.recorder.lost.then(each => resolve(each as BrokerError))
  )
  assert.is(cause.brokerCode, 'GaveWay')
  // It is parked for an hour, and a sale elsewhere is found within ten minutes.
  assert.is(cause.retryMs, 600_000)
  assert.is(frontOf(own).connections.size, 1)
  // A contract that does not rest keeps its connection.
  await other.recorder.rest()
  other.session.unsubscribe(other.contractId)
  await other.session.buy({ ...even, duration: 10 }, { ...buyOptions, listener: newRecorder().listener })
  assert.is((await failure(hour.session.sell(hour.contractId))).brokerCode, 'TooManyConnections')
  await own.close()
})

resting('is not what multipliers and ticks are: their streams stay', async () => {
  const { session, recorder: first } = await buyHour()
  await first.rest()
  const long = newParkedRecorder()
  const multiplier = {
    ...even,
    kind: 'MULTIPLIER',
    direction: 'up',
    multiplier: 40,
    stopLoss: null,
    takeProfit: null
  } as const
  const { contractId, expiryTime } = await session.buy(multiplier, { ...buyOptions, listener: long.listener })
  assert.is(expiryTime, null)
  const ticks = newParkedRecorder()
  await session.buy({ ...even, duration: 10 }, { ...buyOptions, listener: ticks.listener })
  await ticks.settled()
  await upTo(() => long.states.length > 10)
  assert.equal([long.times(), ticks.times()], [0, 0])
  session.unsubscribe(contractId)
})

resting('sends only frames the broker accepts, and receives only such as it may send', () => {
  assert.equal(relay.complaints, [])
})

resting.after(closeClients)
resting.run()

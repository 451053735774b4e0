// A broker that does not respond about one account keeps nobody else waiting: while an order in doubt is looked up, or a contract
// sold, the same worker places the orders, takes over and sells the contracts, and looks up the doubts of other accounts.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { WORK } from '../../db/platform/bus.ts'
import { rows } from '../../db/postgres/connection.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { insertContracts } from '../support/ended-contracts.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

// Much longer than the others may wait.
const RESPONSE_TIMEOUT_MS = 25_000
const OTHERS_MS = 15_000

const simulator = await startSimulator({ tickMs: 20, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator),
    BROKER_ANSWER_TIMEOUT_MS: String(RESPONSE_TIMEOUT_MS),
    ORDER_TTL_MS: '30000',
    PERMIT_MS: '500',
    RECONCILE_AFTER_MS: '1000',
    SWEEP_MS: '100',
    SETTLE_WAIT_MS: '1000'
  }
})
const { db } = harness.services
const worker = await startTestWorker(harness.env)
const partner = await harness.makePartner()

const orderOf = async (trader: TestTrader) => {
  const [order] = await rows<{ id: string; phase: string; holder: string | null }>(
    db,
    'select id, phase, lease_holder as holder from orders where account_id = :accountId',
    { accountId: trader.accountId }
  )
  return order
}

const sales = suite('beside a sale')

sales('that gets no response, others are made', async () => {
  const [mute, other] = [await partner.makeTrader(), await partner.makeTrader()]
  for (const trader of [mute, other])
    await insertContracts({ db, simulator, dialect: 'v3' }, trader, { count: 1, seconds: 600, endedSecondsAgo: -600 })
  const { worker: name, bus } = worker.services
  for (const trader of [mute, other]) await until('its worker', async () => (await orderOf(trader))?.holder === name)
  const sell = async (trader: TestTrader) => {
    await db('orders').where({ account_id: trader.accountId }).update({ close_at: new Date() })
    bus.publish(WORK, 'copy.sell', 'new')
  }
  simulator.faults.add({ effect: 'ignore', call: 'sell', loginid: mute.accountId, times: 1 })
  await sell(mute)
  await until('its sale', () => simulator.faults.settings.rules.length === 0)
  await sell(other)
  await until('the other', async () => (await orderOf(other))?.phase === 'closed', OTHERS_MS)
  assert.is((await orderOf(mute))?.phase, 'open')
})

const beside = suite('beside an order in doubt')

beside('that the broker does not let be looked up, others are placed, looked up and taken over', async () => {
  const doubtful = await partner.makeTrader()
  const { accountId } = doubtful
  simulator.faults.add({ effect: 'ignore', call: 'buy', loginid: accountId, times: 1 })
  // The first call of the look-up.
  simulator.faults.add({ effect: 'ignore', call: 'portfolio', loginid: accountId, times: 1 })
  const { body } = await partner.call(placeBinaryOrder, {
    body: tickOrder(doubtful.traderExternalId, { duration: 10, durationUnit: 'm' })
  })
  assert.is(body.status, 'PENDING')
  await until('the look-up', () => simulator.faults.settings.rules.every(({ loginid }) => loginid !== accountId))

  const [follows, waits] = [await partner.makeTrader(), await partner.makeTrader()]
  await insertContracts({ db, simulator, dialect: 'v3' }, follows, { count: 1, seconds: 600, endedSecondsAgo: -600 })
  // Its job is gone: the sweep finds it.
  await insertOrderRows(db, waits, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const another = await partner.makeTrader()
  simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: another.accountId, times: 1 })
  const placed = partner.call(placeBinaryOrder, {
    body: tickOrder(another.traderExternalId, { duration: 10, durationUnit: 'm' })
  })
  await until(
    'the others',
    async () =>
      (await orderOf(follows))?.holder === worker.services.worker && (await orderOf(waits))?.phase !== 'queued',
    OTHERS_MS
  )
  await until('the other doubt', async () => (await orderOf(another))?.phase === 'open', OTHERS_MS)
  await placed
  assert.is((await orderOf(doubtful))?.phase, 'sending')
  // The calls that are ignored end with their connections.
  simulator.faults.set({ down: true })
})

beside.after(closeAll)
sales.run()
beside.run()

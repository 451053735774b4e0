// test in a process of its own
// What waits on the accounts of a worker that stops is placed by another one at once, without its sweep.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { rows } from '../../db/postgres/connection.ts'
import { channelOf } from '../../db/traders/account-leases.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { brokerEnv } from '../support/dialects.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

// The slow clock does not come up, and orders fail before it would.
const SWEEP_MS = 60_000
const TTL_MS = 50_000
const BUY_MS = 1500

const port = await freePort()
const network = await FaultyNetwork.open(port)
onClose(() => network.close())
const here = `127.0.0.1:${network.port}`
const simulator = await startSimulator({ port, tickMs: 20, seed: 6, limits: 'off', socketBase: `ws://${here}` })
onClose(() => simulator.close())
const { appIdHeader } = simulator
const broker = brokerEnv({ url: `ws://${here}/websockets/v3`, nextUrl: `http://${here}`, appIdHeader })
const harness = await openHarness({
  env: {
    ...broker,
    SWEEP_MS: String(SWEEP_MS),
    ORDER_TTL_MS: String(TTL_MS),
    PERMIT_MS: '10000',
    // Longer than a purchase is held up here on any machine.
    BROKER_ANSWER_TIMEOUT_MS: '60000',
    RECONCILE_AFTER_MS: '60000'
  }
})
const { db } = harness.services
const partner = await harness.makePartner()

/** Places an order that stays open until the tests are over. */
const placeFor = (traderExternalId: string) =>
  partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId, { duration: 10, durationUnit: 'm' }) })

const sendersOf = (accountId: string, phase: string) =>
  rows<{ sender: string }>(db, 'select sender from orders where account_id = :accountId and phase = :phase', {
    accountId,
    phase
  })

/** The worker of this name, once it takes no accounts any more. */
const givenUp = (name: string) =>
  rows(db, 'select from lease_holders where name = :name and not takes_accounts', { name })

const stopping = suite('a worker that stops')

stopping('leaves an order that waits behind one at the broker to another worker, which places it at once', async () => {
  const first = await startTestWorker(harness.env)
  const { traderExternalId, accountId } = await partner.makeTrader()
  const place = () => placeFor(traderExternalId)
  const ordersOf = (phase: string) => sendersOf(accountId, phase)
  assert.is((await place()).status, 200)
  const second = await startTestWorker(harness.env)
  const { release } = network.hold(() => true, 'back')
  const slow = place()
  await until('the slow purchase', async () => (await ordersOf('sending')).length === 1)
  const waiting = place()
  await until('the order behind it', async () => (await ordersOf('queued')).length === 1)
  const begun = performance.now()
  const stopped = first.stop()
  await until('its accounts to be given up', async () => (await givenUp(first.services.worker)).length === 1)
  release()
  await Promise.all([stopped, slow])
  const response = await waiting
  assert.equal([(await slow).status, response.status], [200, 200], JSON.stringify(response.body))
  assert.ok(performance.now() - begun < TTL_MS / 2)
  const senders = (await ordersOf('open')).map(({ sender }) => sender)
  assert.equal(senders.filter(sender => sender === second.services.worker).length, 1)
  await second.stop()
})

stopping('ends only when what it claims at that moment is bought', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const proving = await startTestWorker(harness.env)
  await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  // A contract that is open would be taken over, and its account with it.
  await until('a proven token and no contract', async () => (await sendersOf(accountId, 'closed')).length === 1)
  await proving.stop()
  const placed = placeFor(traderExternalId)
  // Where the test fails first, it ends with the api.
  placed.catch(() => {})
  await until('the order', async () => (await sendersOf(accountId, 'queued')).length === 1)
  // Without its job, only a claim for its account finds it.
  await rows(db, `delete from pgboss.job where name = 'order.place'`)
  const worker = await startTestWorker(harness.env)
  const { worker: name } = worker.services
  simulator.faults.add({ effect: 'slow', call: 'buy', loginid: accountId, times: 1, delayMs: BUY_MS })
  // Its claim takes the account, and waits for this row.
  const other = await db.transaction()
  onClose(() => other.rollback())
  await other.raw(`insert into account_leases (account_id, worker) values (?, 'another')`, [accountId])
  harness.services.bus.publish(channelOf(name), 'claim', accountId)
  await untilLockWaits(db, { text: 'with accounts as (select distinct account_id' })
  const stopped = worker.stop()
  await until('its accounts to be given up', async () => (await givenUp(name)).length === 1)
  await other.rollback()
  await stopped
  const open = (await sendersOf(accountId, 'open')).filter(({ sender }) => sender === name)
  assert.is(open.length, 1)
  assert.is((await placed).status, 200)
})

stopping.after(closeAll)
stopping.run()

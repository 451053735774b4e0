// test in the full run only
// test once for each dialect
// A purchase that is held up on the way while everybody stops waiting for it. From a sender that lives it must
// never arrive once its order counts as absent, however long the network keeps it. A sender that was killed can break
// nothing off: its machine goes on delivering for a while, and until that is over its order does not count as absent.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { findOrders } from '../../db/orders/reading.ts'
import { takeDoubts } from '../../db/orders/resolving.ts'
import { reconcileAccounts } from '../../worker/accounts/reconciliation.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { audit, booksOf, readOrders, readReported } from '../support/auditor.ts'
import { stretched } from '../support/busy.ts'
import { brokerEnv, dialect } from '../support/dialects.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker, startWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const port = await freePort()
const network = await FaultyNetwork.open(port)
onClose(() => network.close())
const here = `127.0.0.1:${network.port}`
const simulator = await startSimulator({ port, tickMs: 10, seed: 8, limits: 'off', socketBase: `ws://${here}` })
onClose(() => simulator.close())
const { appIdHeader } = simulator
const RECONCILE_AFTER_MS = 1000
const TTL_MS = 60_000
// Of a purchase at least: what a busy worker still sends about the account before it, as a ping, is shorter.
const PURCHASE_BYTES = 120
const harness = await openHarness({
  env: {
    ...brokerEnv({ url: `ws://${here}/websockets/v3`, nextUrl: `http://${here}`, appIdHeader }),
    ORDER_TTL_MS: String(TTL_MS),
    PERMIT_MS: '2000',
    // Calls beside those that are held up are in time on a busy machine as well.
    BROKER_ANSWER_TIMEOUT_MS: String(stretched(1500)),
    RECONCILE_AFTER_MS: String(RECONCILE_AFTER_MS),
    SWEEP_MS: '250',
    // A killed worker's accounts are nobody else's until its lease has run out.
    LEASE_MS: '1500',
    SETTLE_WAIT_MS: '60000'
  }
})
const { db, config } = harness.services
const partner = await harness.makePartner()
const withCrashed = (ms: number) => ({ ...harness.env, RECONCILE_CRASHED_MS: String(ms) })

/** A trader whose account the broker has accepted, and whom no worker serves any more. */
async function makeProven() {
  const worker = await startTestWorker(harness.env)
  const trader = await partner.makeTrader()
  assert.is((await partner.call(getBalance, { query: { traderExternalId: trader.traderExternalId } })).status, 200)
  await worker.stop()
  return trader
}

/** Places an order that may not be bought before its time to live is over, which is short. */
async function placeInVain(traderExternalId: string) {
  config.orderTtlMs = 8000
  try {
    return await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId, { duration: 2 }) })
  } finally {
    config.orderTtlMs = TTL_MS
  }
}

/** A trader whose connection to the broker is open and, from now on, brings nothing there. */
async function makeStalled() {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const balance = await partner.call(getBalance, { query: { traderExternalId } })
  assert.is(balance.status, 200)
  const body = tickOrder(traderExternalId, { duration: 2 })
  return {
    accountId,
    ...network.hold(() => true, 'there'),
    place: () => partner.call(placeBinaryOrder, { body }),
    contracts: () => simulator.ledger().filter(({ loginid }) => loginid === accountId)
  }
}

/** A stalled order whose worker was killed once the purchase was on its way; `response` is what its client will receive. */
async function killMidway() {
  const killed = await startWorker(harness.env)
  const stalled = await makeStalled()
  const response = stalled.place()
  const { accountId } = stalled
  await until(
    'the purchase',
    async () =>
      stalled.bytes() >= PURCHASE_BYTES &&
      (await db('orders').where({ account_id: accountId, phase: 'sending' }).first())
  )
  killed.kill('SIGKILL')
  await killed.ended
  return { ...stalled, response }
}

const orderOf = async (accountId: string) => {
  const [{ id }] = await db('orders').where({ account_id: accountId })
  const [order] = await findOrders(db, [id])
  return order!
}

/** The auditor's verdict on one account, with or without the service's own audit. */
async function auditOf(accountId: string, reported?: Set<string>) {
  const orders = (await readOrders(db)).filter(order => order.account_id === accountId)
  const contracts = booksOf(simulator.ledger().filter(({ loginid }) => loginid === accountId))
  return audit({ contracts, orders, reported, lateToleranceMs: 20_000 })
}

const stalled = suite('a purchase held up by the network')

stalled('never arrives once its order was given up, and the same id buys once', async () => {
  const worker = await startTestWorker(harness.env)
  const { place, contracts, release } = await makeStalled()
  const first = await place()
  assert.is(first.status, 502)
  assert.is(first.body.status, 'FAILED')
  release()
  const second = await place()
  assert.is(second.status, 200, JSON.stringify(second.body))
  await until('the contract', () => contracts()[0])
  assert.is(contracts().length, 1)
  await worker.stop()
})

stalled('of a worker that was killed arrives while its order is still in doubt, and is known', async () => {
  const { accountId, contracts, release, response } = await killMidway()
  const worker = await startTestWorker(withCrashed(60_000))
  await until('looks that would have been enough', async () => (await orderOf(accountId)).checks >= 2, 20_000)
  assert.is((await orderOf(accountId)).phase, 'sending')
  release()
  await until('the contract', () => contracts()[0])
  // Where the broker does not report whose it is, one bought too long after it was sent is for the operator.
  const ends = dialect === 'v3' ? ['closed'] : ['closed', 'review']
  await until('a decision', async () => ends.includes((await orderOf(accountId)).phase), 20_000)
  await response
  assert.equal((await auditOf(accountId)).findings, [])
  assert.is(contracts().length, 1)
  await worker.stop()
})

stalled('of a worker that was killed, arriving after all that, is found by the audit', async () => {
  const { accountId, place, contracts, release, response } = await killMidway()
  const worker = await startTestWorker(withCrashed(100))
  assert.is((await response).body.status, 'FAILED')
  assert.is((await place()).status, 200)
  release()
  await until('two contracts', () => contracts()[1])
  assert.is((await auditOf(accountId)).doubled, 1, 'the auditor does not overlook it')
  await reconcileAccounts(worker.services, { everyMinutes: 0 })
  const reported = await readReported(db)
  const order = await orderOf(accountId)
  const [second] = contracts().filter(({ contractId }) => String(contractId) !== order.broker_order_id)
  assert.equal([...reported], [String(second?.contractId)])
  const report = await auditOf(accountId, reported)
  assert.equal(report.findings, [])
  assert.is(report.reported, 1)
  await worker.stop()
})

stalled('of a worker that was killed may arrive at the last moment and still take the broker its time', async () => {
  const { accountId, release, response } = await killMidway()
  const crashedMs = 3000
  const { id } = await orderOf(accountId)
  const times = { crashedMs, reconcileAfterMs: RECONCILE_AFTER_MS }
  const doubt = await until('the order in doubt', async () =>
    (await takeDoubts(db, { worker: 'none', everyMs: 0, limit: 100, ...times })).find(taken => taken.id === id)
  )
  // A busy machine gives the order up later than it may, so the time below alone would not show a shorter bound.
  assert.is(doubt.arrival_ms, crashedMs + RECONCILE_AFTER_MS)
  const worker = await startTestWorker(withCrashed(crashedMs))
  await until('the end', async () => (await orderOf(accountId)).phase === 'failed', 20_000)
  const { rows } = await db.raw(
    'select extract(epoch from clock_timestamp() - permit_until) * 1000 as ms from orders where account_id = ?',
    [accountId]
  )
  assert.ok(Number(rows[0].ms) >= crashedMs + RECONCILE_AFTER_MS, `given up ${rows[0].ms} ms after its permit`)
  assert.is((await response).body.status, 'FAILED')
  release()
  await worker.stop()
})

stalled(
  'whose connection does not open within its permit was never sent, and nobody takes it for in doubt',
  async () => {
    const silent = createServer(() => {}).listen(0, '127.0.0.1')
    onClose(async () => silent.close())
    await once(silent, 'listening')
    const nowhere = `127.0.0.1:${(silent.address() as AddressInfo).port}`
    // An account that the broker has not accepted yet would never be claimed.
    const { traderExternalId, accountId } = await makeProven()
    const worker = await startTestWorker({
      ...harness.env,
      ...brokerEnv({ url: `ws://${nowhere}/websockets/v3`, nextUrl: `http://${nowhere}`, appIdHeader })
    })
    const { body } = await placeInVain(traderExternalId)
    assert.is(body.status, 'FAILED')
    const { checks, attempt } = await orderOf(accountId)
    assert.is(checks, 0)
    assert.ok(attempt > 1, 'given back and claimed again')
    await worker.stop()
  }
)

stalled(
  'executed by the broker after its sender has reset the connection is known before its order is absent',
  async () => {
    // The broker had it all along, and takes its whole time-out, counted from the reset.
    const worker = await startTestWorker({
      ...harness.env,
      PERMIT_MS: '500',
      BROKER_ANSWER_TIMEOUT_MS: '3000',
      RECONCILE_AFTER_MS: '3000'
    })
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'mute', call: 'buy', loginid: accountId, times: 1, delayMs: 5800 })
    const terms = { asset: 'R_100', contractType: 'CALL', stake: 1, duration: 2, durationUnit: 't' }
    const place = () =>
      partner.call(placeBinaryOrder, { body: { traderExternalId, clientOrderId: 'late-arrival', ...terms } })
    const first = await place()
    const second = first.body.status === 'FAILED' ? await place() : first
    const contracts = () => simulator.ledger().filter(({ loginid }) => loginid === accountId)
    await until('the purchase', () => contracts()[0], 20_000)
    // Where the broker does not say whose it is, one bought so long after it was sent is for the operator.
    const ends = dialect === 'v3' ? ['closed'] : ['review']
    await until('a decision', async () => ends.includes((await orderOf(accountId)).phase), 20_000)
    assert.is(contracts().length, 1, JSON.stringify([first.body, second.body]))
    await worker.stop()
  }
)

// The other dialect's budgets are not reported by the broker.
if (dialect === 'v3')
  stalled(
    'that waits for its turn longer than its permit was never sent, and nobody takes it for in doubt',
    async () => {
      const scarce = await startSimulator({ tickMs: 10, limits: { pricing: { minute: 2, hour: 100 } } })
      onClose(() => scarce.close())
      const worker = await startTestWorker({ ...harness.env, ...brokerEnv(scarce) })
      const { traderExternalId, accountId } = await partner.makeTrader()
      const ends: string[] = []
      while (ends.length < 4 && !ends.includes('FAILED')) {
        ends.push((await placeInVain(traderExternalId)).body.status as string)
      }
      assert.is(ends.at(-1), 'FAILED', ends.join())
      assert.is((await db('orders').where({ account_id: accountId }).where('checks', '>', 0)).length, 0)
      assert.is(scarce.ledger().length, ends.length - 1)
      await worker.stop()
    }
  )

stalled.after(closeAll)
stalled.run()

// One worker serves an account: several workers share the accounts, each account's orders, closes and broker requests
// go over one connection, and another worker takes over when that one ends or dies.
// test time-out: 300 s
// test once for each dialect
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getBalance } from '../api/balance.ts'
import { closeOrder, placeBinaryOrder } from '../api/orders.ts'
import { releaseAccounts, serveAccounts } from '../db/account-leases.ts'
import { rows } from '../db/connection.ts'
import { claimOrders } from '../db/orders-claiming.ts'
import { renewLease } from '../db/orders-following.ts'
import { startSimulator } from '../worker/broker/simulator/server.ts'
import { brokerEnv, frontOf } from './dialects.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from './harness.ts'
import { insertOrderRows } from './order-rows.ts'
import { startTestWorker } from './processes.ts'

const simulator = await startSimulator({ tickMs: 40, seed: 3, limits: 'off', latencyMs: 5 })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), LEASE_MS: '3000', SWEEP_MS: '300' } })
const { db } = harness.open
const partner = await harness.makePartner()

let most = new Map<string, number>()
/** Counts, while it runs, how many connections each account has at most. */
const watching = setInterval(() => {
  const now = new Map<string, number>()
  for (const { grants } of frontOf(simulator).connections)
    for (const accountId of grants.keys()) now.set(accountId, (now.get(accountId) ?? 0) + 1)
  for (const [accountId, count] of now) most.set(accountId, Math.max(count, most.get(accountId) ?? 0))
}, 5)
onClose(async () => clearInterval(watching))

async function place({ traderExternalId }: TestTrader, duration = 5, durationUnit = 't') {
  const { status, body } = await partner.call(placeBinaryOrder, {
    body: {
      traderExternalId,
      clientOrderId: randomUUID(),
      asset: 'R_100',
      contractType: durationUnit === 't' ? 'DIGITEVEN' : 'CALL',
      stake: 1,
      duration,
      durationUnit
    }
  })
  assert.is(status, 200, JSON.stringify(body))
  return body as { orderId: string }
}

const serving = suite('an account')

serving('is served by the worker that took it until its lease is over, and by one alone', async () => {
  await renewLease(db, 'one', 60_000)
  await renewLease(db, 'other', 60_000)
  const both = await serveAccounts(db, 'one', ['A1', 'A2'])
  assert.equal(
    both.sort((one, other) => one.accountId.localeCompare(other.accountId)),
    [
      { accountId: 'A1', worker: 'one' },
      { accountId: 'A2', worker: 'one' }
    ]
  )
  assert.equal(await serveAccounts(db, 'other', ['A1']), [{ accountId: 'A1', worker: 'one' }])
  await renewLease(db, 'one', -1)
  assert.equal(await serveAccounts(db, 'other', ['A1']), [{ accountId: 'A1', worker: 'other' }])
  // Back again, it finds that the account has another worker now.
  await renewLease(db, 'one', 60_000)
  assert.equal(await serveAccounts(db, 'one', ['A1']), [{ accountId: 'A1', worker: 'other' }])
  await releaseAccounts(db, 'other')
  assert.equal(await serveAccounts(db, 'one', ['A1']), [{ accountId: 'A1', worker: 'one' }])
})

serving('has its orders left to the worker that serves it, which is named', async () => {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  await renewLease(db, 'one', 60_000)
  await renewLease(db, 'other', 60_000)
  await serveAccounts(db, 'one', [trader.accountId])
  const claimAs = (sender: string) =>
    claimOrders(db, { accountIds: [trader.accountId], sender, claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 })
  const refused = await claimAs('other')
  assert.is(refused.claimed.length, 0)
  assert.equal(refused.elsewhere, [{ accountId: trader.accountId, worker: 'one' }])
  assert.is((await claimAs('one')).claimed.length, 1)
  await rows(db, `delete from orders where account_id = :accountId`, { accountId: trader.accountId })
})

serving('goes to the worker that serves another account of its trader', async () => {
  const externalId = `user-${randomUUID()}`
  const first = await partner.makeTrader({ externalId })
  const second = await partner.makeTrader({ externalId })
  await rows(
    db,
    `update traders t set active_account_id = a.id from broker_accounts a where a.account_id = :accountId and t.id = a.trader_id`,
    {
      accountId: second.accountId
    }
  )
  await insertOrderRows(db, second, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  await renewLease(db, 'one', 60_000)
  await renewLease(db, 'other', 60_000)
  await serveAccounts(db, 'one', [first.accountId])
  assert.equal(await serveAccounts(db, 'other', [second.accountId]), [{ accountId: second.accountId, worker: 'one' }])
  await rows(db, `delete from orders where account_id = :accountId`, { accountId: second.accountId })
})

const together = suite('three workers')

together('place, close and read over one connection an account', async () => {
  await rows(db, 'delete from account_leases')
  const workers = await Promise.all([1, 2, 3].map(() => startTestWorker(harness.env)))
  const traders = await Promise.all(Array.from({ length: 12 }, () => partner.makeTrader()))
  most = new Map()
  await Promise.all(traders.flatMap(trader => [place(trader), place(trader), place(trader)]))
  const long = await Promise.all(traders.map(trader => place(trader, 10, 'm')))
  await Promise.all(
    traders.map(async ({ traderExternalId }) => {
      const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
      assert.is(status, 200, JSON.stringify(body))
    })
  )
  await Promise.all(
    long.map(async ({ orderId }) => {
      const { status, body } = await partner.call(closeOrder, { params: { id: orderId } })
      assert.is(status, 200, JSON.stringify(body))
    })
  )
  for (const { accountId } of traders)
    assert.is(most.get(accountId), 1, `${accountId} has ${most.get(accountId)} connections`)
  const serving = await rows<{ worker: string }>(db, 'select distinct worker from account_leases')
  assert.ok(serving.length > 1, 'every account is served by the same worker')

  // One ends in order: its accounts are served by the others at once.
  await workers[0]!.stop()
  const startedAt = performance.now()
  await Promise.all(traders.map(trader => place(trader)))
  assert.ok(performance.now() - startedAt < 5000)
  const left = await rows<{ worker: string }>(db, 'select distinct worker from account_leases')
  assert.not.ok(left.some(({ worker }) => worker === workers[0]!.open.worker))

  // One dies: its lease is over after LEASE_MS, and then so is its claim to the accounts.
  await renewLease(db, 'dead', 1500)
  await rows(db, `update account_leases set worker = 'dead'`)
  await Promise.all(traders.map(trader => place(trader)))
  await until('its accounts to be served', async () => {
    const accounts = traders.map(({ accountId }) => accountId)
    const found = await rows(db, `select from account_leases where worker = 'dead' and account_id = any(:accounts)`, {
      accounts
    })
    return found.length === 0
  })
  for (const worker of workers) await worker.stop()
})

together.after(closeAll)
for (const tests of [serving, together]) tests.run()

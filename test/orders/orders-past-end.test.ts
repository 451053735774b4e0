// test once for each dialect
// Orders that are open although their contract is over: counted, and reported by the audit with what the broker shows.
// No worker runs here: nobody follows these orders.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listOverdue } from '../../db/orders/past-end.ts'
import { type BreakRecord, listBreaks } from '../../db/orders/reconciliation.ts'
import { countPastEnd } from '../../db/orders/review.ts'
import { reconcileAccounts } from '../../worker/accounts/reconciliation.ts'
import { openBrokers } from '../../worker/broker/brokers.ts'
import { OverdueReads, reconcilePastEnd } from '../../worker/orders/past-end.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { openSignal } from '../../worker/signal.ts'
import type { SimulatedContract } from '../../worker/simulator/engine/records.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, brokerEnv, dialect } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: brokerEnv(simulator) })
const { db, config } = harness.services
const partner = await harness.makePartner()
const brokers = openBrokers(config, harness.services.log)
onClose(() => brokers.close())
const services: WorkerServices = {
  ...harness.services,
  brokers,
  worker: 'test',
  clock: systemClock,
  changes: openSignal()
}

const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000)

/** An open order of half an hour ago. */
async function makeOpen(changes: object = {}, trader?: TestTrader) {
  const whose = trader ?? (await partner.makeTrader())
  await insertOrderRows(db, whose, { phase: 'open', at: minutesAgo(30), brokerOrderId: '123456' })
  const [order] = await db('orders')
    .where({ account_id: whose.accountId })
    .update({ dialect, app_id: appIds[dialect], payout: '19.53', ...changes })
    .returning('*')
  return { trader: whose, order }
}

const sessionOf = (accountId: string) =>
  brokers
    .of(dialect)
    .session({ accountId, appId: appIds[dialect], credentialId: accountId, token: async () => `sim-${accountId}` })

/** A contract that was really bought; `settled` waits for its end. */
async function buy(accountId: string, { settled }: { settled: boolean }): Promise<string> {
  const session = await sessionOf(accountId)
  const duration = settled ? { duration: 1, durationUnit: 't' } : { duration: 1, durationUnit: 'h' }
  const { contractId } = await session.buy(
    {
      kind: 'BINARY',
      contractType: settled ? 'DIGITEVEN' : 'CALL',
      asset: 'R_100',
      stake: '10',
      currency: 'USD',
      barrier: null,
      ...(duration as { duration: number; durationUnit: 't' })
    },
    { beforeSend() {}, maxPrice: '10' }
  )
  if (settled) await until('its end', async () => (await session.contract(contractId)).settled)
  return contractId
}
const refuse = (accountId: string) =>
  db('broker_accounts').where({ account_id: accountId }).update({ status: 'REJECTED' })
// biome-ignore lint/suspicious/noExplicitAny: details are what the test reads
const findingsOf = async ({ accountId }: TestTrader): Promise<(BreakRecord & { details: any })[]> =>
  (await listBreaks(db, 1000)).filter(finding => finding.accountId === accountId)

const counting = suite('orders past their end: the count')

counting('is of open orders whose contract must be over, with the age of the oldest', async () => {
  const before = await countPastEnd(db)
  assert.equal(before, { count: 0, oldestSeconds: 0 })
  await makeOpen({ expiry_at: new Date(Date.now() + 60_000) })
  await makeOpen({ expiry_at: minutesAgo(0.5) })
  await makeOpen({ kind: 'MULTIPLIER' })
  await makeOpen({ duration: 5, duration_unit: 't', opened_at: minutesAgo(5) })
  assert.is((await countPastEnd(db)).count, 0)
  await makeOpen({ duration: 5, duration_unit: 't', opened_at: minutesAgo(11) })
  await makeOpen({ error_code: 'REVIEW_REQUIRED' })
  await makeOpen({ expiry_at: minutesAgo(40) })
  const { count, oldestSeconds } = await countPastEnd(db)
  assert.is(count, 3)
  assert.ok(oldestSeconds >= 2400 && oldestSeconds < 2700, `${oldestSeconds}`)
  await db('orders').delete()
})

const reporting = suite('orders past their end: the audit')
const expired = { expiry_at: minutesAgo(20) }

reporting('reports what is open here and closed there, with what it paid', async () => {
  const trader = await partner.makeTrader()
  const contractId = await buy(trader.accountId, { settled: true })
  const { order } = await makeOpen({ ...expired, broker_order_id: contractId }, trader)
  const { unsettled } = await reconcileAccounts(services, { everyMinutes: 0 })
  assert.is(unsettled, 1)
  const [found, ...more] = await findingsOf(trader)
  assert.equal([found?.kind, found?.orderId, found?.details.broker, more], ['UNSETTLED', order.id, 'closed', []])
  const [booked] = simulator.ledger().filter(({ loginid }) => loginid === trader.accountId)
  assert.is(Number(found?.details.soldFor), Number(booked?.sellPrice))
  assert.ok(Date.parse(found?.details.closedAt) > 0)
  // Once, and not again.
  assert.is((await reconcileAccounts(services, { everyMinutes: 0 })).unsettled, 0)
  await db('orders').where({ id: order.id }).update({ phase: 'closed', pnl: '1', closed_at: new Date() })
  await reconcileAccounts(services, { everyMinutes: 0 })
  assert.equal(
    (await findingsOf(trader)).filter(({ kind }) => kind === 'UNSETTLED'),
    []
  )
})

reporting('leaves a contract of the last two minutes to its worker', async () => {
  const { trader, order } = await makeOpen({ error_code: 'REVIEW_REQUIRED', opened_at: minutesAgo(1) })
  const isDue = async () => (await listOverdue(db, { limit: 99 })).some(({ id }) => id === order.id)
  assert.not(await isDue())
  await db('orders')
    .where({ id: order.id })
    .update({ opened_at: minutesAgo(3) })
  assert.ok(await isDue())
  await db('orders').where({ account_id: trader.accountId }).delete()
})

reporting('reports nothing of a contract that the broker still shows as open', async () => {
  const trader = await partner.makeTrader()
  await makeOpen({ ...expired, broker_order_id: await buy(trader.accountId, { settled: false }) }, trader)
  assert.is((await reconcileAccounts(services, { everyMinutes: 0 })).unsettled, 0)
  assert.equal(await findingsOf(trader), [])
  await db('orders').where({ account_id: trader.accountId }).delete()
})

reporting('reports a contract that the broker does not know', async () => {
  const { trader } = await makeOpen(expired)
  assert.is((await reconcileAccounts(services, { everyMinutes: 0 })).unsettled, 1)
  assert.equal(
    (await findingsOf(trader)).map(({ details }) => details.broker),
    ['unknown contract']
  )
})

reporting('reports what is known of an order whose token was refused', async () => {
  const { trader, order } = await makeOpen({ ...expired, current_value: '12.34' })
  await refuse(trader.accountId)
  assert.is((await reconcileAccounts(services, { everyMinutes: 0 })).unsettled, 1)
  const [found] = await findingsOf(trader)
  assert.equal(
    [found?.details.broker, found?.details.lastValue, found?.details.expiryAt],
    ['token refused', '12.34', order.expiry_at.toISOString()]
  )
})

reporting('reports a multiplier without a token once its trader is erased, as none will come', async () => {
  const { trader } = await makeOpen({ kind: 'MULTIPLIER', multiplier: 40 })
  await refuse(trader.accountId)
  assert.is((await reconcileAccounts(services, { everyMinutes: 0 })).unsettled, 0)
  await db('traders').where({ id: trader.traderId }).update({ connected_at: null })
  assert.is((await reconcileAccounts(services, { everyMinutes: 0 })).unsettled, 1)
  assert.equal(
    (await findingsOf(trader)).map(({ details }) => details.broker),
    ['token refused']
  )
})

reporting('reads the contract with another token of the same account where there is one, multipliers too', async () => {
  const other = await harness.makePartner()
  for (const kind of ['BINARY', 'MULTIPLIER']) {
    const trader = await partner.makeTrader()
    const contractId = await buy(trader.accountId, { settled: true })
    const { order } = await makeOpen({ ...expired, kind, broker_order_id: contractId }, trader)
    await refuse(trader.accountId)
    await other.makeTrader({ accountId: trader.accountId })
    assert.is((await reconcileAccounts(services, { everyMinutes: 0 })).unsettled, 1)
    const [found] = await findingsOf(trader)
    assert.equal([found?.orderId, found?.details.tokenRefused], [order.id, true])
    assert.not.equal(found?.details.soldFor ?? null, null)
  }
})

reporting(
  'reports a multiplier of a dialect that its partner has left, which the token of today does not open',
  async () => {
    const elsewhere = dialect === 'v3' ? 'next' : 'v3'
    const moved = await harness.makePartner()
    const trader = await moved.makeTrader({ token: 'of-another-broker' })
    const { order } = await makeOpen({ kind: 'MULTIPLIER', multiplier: 40 }, trader)
    const isDue = async () => (await listOverdue(db, { limit: 99 })).some(({ id }) => id === order.id)
    assert.not(await isDue())
    await db('partners')
      .where({ id: moved.partnerId })
      .update({ broker_dialect: elsewhere, broker_app_id: appIds[elsewhere] })
    // A worker that watches it since before has a session of the dialect that was left.
    await db('orders').where({ id: order.id }).update({ lease_holder: 'watching' })
    assert.not(await isDue())
    await db('orders').where({ id: order.id }).update({ lease_holder: null })
    await reconcilePastEnd(services, { everyMinutes: 0 })
    const found = (await findingsOf(trader)).filter(({ orderId }) => orderId === order.id)
    assert.equal(
      found.map(({ kind, details }) => [kind, details.broker, details.tokenRefused]),
      [['UNSETTLED', 'token refused', true]]
    )
  }
)

reporting('leaves an order of an account that another living worker serves to that one', async () => {
  const [mine, theirs] = [await makeOpen(expired), await makeOpen(expired)]
  await db('lease_holders').insert({ name: 'other', lease_until: new Date(Date.now() + 600_000) })
  await db('account_leases').insert({ account_id: theirs.trader.accountId, worker: 'other' })
  assert.is(await reconcilePastEnd(services, { everyMinutes: 0 }), 1)
  assert.equal([(await findingsOf(mine.trader)).length, (await findingsOf(theirs.trader)).length], [1, 0])
  // Nobody served it: it is this worker's from now on, so that no other reads it too.
  const { account_id: accountId } = mine.order
  assert.is((await db('account_leases').where({ account_id: accountId }).first('worker'))?.worker, 'test')
  assert.is(await reconcilePastEnd({ ...services, worker: 'other' }, { everyMinutes: 0 }), 1)
})

reporting('takes others the next time where there are more than can be looked up at once', async () => {
  const orders = [await makeOpen(expired), await makeOpen(expired), await makeOpen(expired)]
  const left = new Set(orders.map(({ order }) => order.id))
  for (let round = 0; round < 200 && left.size > 0; round++)
    for (const { id } of await listOverdue(db, { limit: 1 })) left.delete(id)
  assert.is(left.size, 0)
  for (const { trader } of orders) await db('orders').where({ account_id: trader.accountId }).delete()
})

reporting(
  'reads each order once in so many minutes, and one of an account that it has taken over at once',
  async () => {
    const [mine, theirs] = [await partner.makeTrader(), await makeOpen({ ...expired, opened_at: minutesAgo(37) })]
    // The broker shows its contract as open: it is not reported, and stays due.
    const { order } = await makeOpen(
      { ...expired, broker_order_id: await buy(mine.accountId, { settled: false }), opened_at: minutesAgo(37) },
      mine
    )
    await db('account_leases').insert({ account_id: theirs.trader.accountId, worker: 'other' })
    const reads = new OverdueReads()
    const began = systemClock.now()
    assert.is(await reconcilePastEnd(services, { everyMinutes: 15, reads }), 0)
    assert.equal(reads.notDue(began + 14 * 60_000, 15), [order.id])
    await db('account_leases').where({ account_id: theirs.trader.accountId }).update({ worker: 'test' })
    assert.is(await reconcilePastEnd(services, { everyMinutes: 15, reads }), 1)
    assert.equal((await findingsOf(theirs.trader)).length, 1)
    assert.equal(reads.notDue(systemClock.now() + 15 * 60_000, 15), [])
    for (const { accountId } of [mine, theirs.trader]) await db('orders').where({ account_id: accountId }).delete()
  }
)

reporting('reports a contract that is closed in the books of the account, whatever its end was to be', async () => {
  const trader = await partner.makeTrader()
  const { accountId } = trader
  const { engine } = simulator
  // A copy of a contract of another account: the books are in the order of time.
  const other = newAccountId()
  await buy(other, { settled: true })
  const [original] = [...engine.contracts.values()].filter(each => each.account.loginid === other)
  const { account } = engine.accounts.grant(`sim-${accountId}`)
  const { id, buyTransaction } = engine.books.newIds()
  const boughtMs = minutesAgo(10).getTime()
  const copy = {
    ...(original as SimulatedContract),
    account,
    ...(dialect === 'v3' ? { appId: Number(appIds.v3) } : {}),
    id,
    buyTransaction,
    boughtMs,
    startEpoch: Math.floor(boughtMs / 1000)
  }
  engine.books.restorePurchase(copy)
  const transactionId = engine.books.newIds().buyTransaction
  engine.books.restoreSale(copy, { status: 'lost', cents: 0, appId: 2, soldMs: boughtMs + 60_000, transactionId })
  await makeOpen({ broker_order_id: String(id), opened_at: new Date(boughtMs), expiry_at: null }, trader)
  const summary = await reconcileAccounts(services, { everyMinutes: 0 })
  assert.is(summary.unsettled, 1, JSON.stringify(summary))
  assert.equal(
    (await findingsOf(trader))
      .filter(({ contractId }) => contractId === String(id))
      .map(({ kind, details }) => [kind, details.broker, Number(details.soldFor)]),
    [['UNSETTLED', 'closed', 0]]
  )
})

reporting.after(closeAll)
for (const tests of [counting, reporting]) tests.run()

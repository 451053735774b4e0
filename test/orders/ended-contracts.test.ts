// Contracts that ended while no worker followed them: where an account has many, the list of closed contracts settles
// them together, each once and by what the broker paid.
// test once for each dialect
// test time-out: 120 s
import { Big } from 'big.js'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { endLease, findEnded, renewLease, takeEnded, takeOver } from '../../db/orders/leases.ts'
import { rows } from '../../db/postgres/connection.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import type { SimulatedContract } from '../../worker/simulator/engine/records.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { openRelay } from '../broker/broker-relay.ts'
import { appIds, brokerEnv, dialect } from '../support/dialects.ts'
import { insertContracts } from '../support/ended-contracts.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'

// Far fewer reads of single contracts than there are contracts to settle.
const READS = { minute: 15, hour: 15 }
const simulator = await startSimulator({
  tickMs: 20,
  seed: 9,
  timeScale: 1000,
  limits: { pricing: READS, trading: READS }
})
/** Whether every page of the list of closed contracts has others. */
let listsOthers = false
const relay = await openRelay(simulator, frame => {
  if (!listsOthers || frame.profit_table === undefined) return frame
  const { transactions } = frame.profit_table as { transactions: object[] }
  const others = Array.from({ length: 100 }, (_, index) => ({ ...transactions[0], contract_id: 4711 + index }))
  return { ...frame, profit_table: { count: others.length, transactions: others } }
})
onClose(() => {
  relay.close()
  return simulator.close()
})
const harness = await openHarness({ env: { ...brokerEnv(relay), LEASE_MS: '1500', SWEEP_MS: '100' } })
const { db } = harness.services
const partner = await harness.makePartner()
await rows(db, 'update partners set broker_app_id = :appId, broker_dialect = :dialect', {
  appId: appIds[dialect],
  dialect
})

/** Contracts that the broker has settled, with open orders that no worker follows. */
async function makeEnded(trader: TestTrader, count: number): Promise<SimulatedContract[]> {
  const contracts = await insertContracts({ db, simulator, dialect }, trader, { count, endedSecondsAgo: 30 })
  await until('the broker to settle them', () => contracts.every(({ status }) => status !== 'open'))
  return contracts
}

async function closedOf({ accountId }: TestTrader) {
  return rows<{
    broker_order_id: string
    pnl: string
    phase: string
    error_code: string | null
    payout: string
    closed_early: boolean
  }>(
    db,
    'select broker_order_id, pnl, phase, error_code, payout, closed_early from orders where account_id = :accountId',
    { accountId }
  )
}

const ended = suite('contracts that ended while no worker followed them')

ended('are taken from accounts that have many, by one worker each', async () => {
  const [many, few] = [await partner.makeTrader(), await partner.makeTrader()]
  await makeEnded(many, 20)
  await makeEnded(few, 3)
  for (const name of ['one', 'other']) await renewLease(db, name, 60_000)
  const find = (worker: string) => findEnded(db, { worker, least: 10, limit: 10, sample: 1000 })
  const [place, ...more] = await find('one')
  assert.equal(more, [])
  assert.ok(place)
  assert.is(place.accountId, many.accountId)
  // Those of accounts with few are taken one by one, unless the others are still there.
  assert.equal(await takeOver(db, { worker: 'one', limit: 100, ended: false }), [])
  await serveAccounts(db, 'one', [many.accountId])
  assert.equal(await find('other'), [])
  // The list does not show all that these need, or they wait for the operator.
  const others = { has_followers: true, error_code: 'REVIEW_REQUIRED', close_at: new Date() }
  const read = await db('orders').where({ account_id: many.accountId }).limit(3).pluck('id')
  for (const [index, change] of Object.entries(others).entries())
    await db('orders')
      .where({ id: read[index] })
      .update(Object.fromEntries([change]))
  assert.is((await takeEnded(db, { worker: 'one', limit: 15, place })).length, 15)
  assert.is((await takeEnded(db, { worker: 'other', limit: 15, place })).length, 2)
  assert.equal(await find('one'), [])
  for (const name of ['one', 'other']) await endLease(db, name)
  assert.is((await find('one')).length, 1)
  await rows(db, 'delete from orders')
})

ended('are settled together, each once and with what the broker paid', async () => {
  const traders = await Promise.all(Array.from({ length: 3 }, () => partner.makeTrader()))
  // More than a page of the list, on the first account.
  const contracts = (await Promise.all(traders.map((trader, i) => makeEnded(trader, i === 0 ? 620 : 60)))).flat()
  // The receipts of these showed no payout that can be true: the list shows it.
  await rows(db, 'update orders set payout = 0 where account_id = :accountId', { accountId: traders[1]?.accountId })
  const workers = await Promise.all([1, 2].map(() => startTestWorker(harness.env)))
  await until(
    'the orders to be closed',
    async () => (await rows(db, `select from orders where phase = 'open' limit 1`)).length === 0,
    60_000
  )
  const found = (await Promise.all(traders.map(closedOf))).flat()
  const byContract = new Map(found.map(order => [order.broker_order_id, order]))
  assert.is(byContract.size, contracts.length)
  assert.ok(contracts.some(({ status }) => status === 'won') && contracts.some(({ status }) => status === 'lost'))
  for (const { id, buyCents, sellCents, payoutCents } of contracts) {
    const order = byContract.get(String(id))
    assert.equal([Number(order?.payout), order?.closed_early], [payoutCents / 100, false], `contract ${id}`)
    assert.ok(new Big(order?.pnl ?? 'x').eq(new Big((sellCents ?? 0) - buyCents).div(100)), `contract ${id}`)
  }
  await until('each to have its event', async () => {
    const [found] = await rows<{ events: number; orders: number }>(
      db,
      `select count(*)::int as events, count(distinct subject)::int as orders from events where type = 'order.closed'`
    )
    assert.is(found?.events, found?.orders)
    return found?.orders === contracts.length
  })
  for (const worker of workers) await worker.stop()
})

ended('are not booked where the list contradicts the order', async () => {
  const trader = await partner.makeTrader()
  const contracts = await makeEnded(trader, 12)
  const wrong = String((contracts[0] as SimulatedContract).id)
  await rows(db, `update orders set buy_price = buy_price + 1 where broker_order_id = :wrong`, { wrong })
  const worker = await startTestWorker(harness.env)
  await until(
    'the others to be closed, and one to be in review',
    async () => {
      const found = await closedOf(trader)
      const review = found.filter(({ error_code }) => error_code === 'REVIEW_REQUIRED')
      return (
        review.length === 1 &&
        review[0]?.broker_order_id === wrong &&
        found.filter(o => o.phase === 'closed').length === 11
      )
    },
    30_000
  )
  await worker.stop()
})

ended('are watched one by one where the list has more others than are read', async () => {
  listsOthers = true
  const trader = await partner.makeTrader()
  await makeEnded(trader, 12)
  const worker = await startTestWorker(harness.env)
  await until(
    'all of them to be closed',
    async () => (await closedOf(trader)).every(({ phase }) => phase === 'closed'),
    60_000
  )
  await worker.stop()
})

ended.after(closeAll)
ended.run()

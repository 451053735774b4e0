// The copies of a leader with many followers: as many at a time as leave the worker time, all of them bought, and nobody else's
// order waits for them.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { findLeading, type Leading } from '../../db/copy/fanout.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { ORDERS_A_JOB } from '../../schemas/jobs.ts'
import { openBrokers } from '../../worker/broker/brokers.ts'
import { fanOut } from '../../worker/copy/fanout.ts'
import { leastOf } from '../../worker/copy/least.ts'
import { changeLimitsOfCopies } from '../../worker/copy/limits.ts'
import { CopyPace } from '../../worker/copy/pace.ts'
import { CopyPlaces } from '../../worker/copy/places.ts'
import { contractOf } from '../../worker/orders/terms.ts'
import { type Clock, systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { makeFollowedOrder } from '../support/copying.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const FOLLOWERS = 150
const SLOW_MS = 1500

const simulator = await startSimulator({ tickMs: 50, seed: 18, limits: 'off' })
onClose(() => simulator.close())
// Copies wait for each other: their time to live must not be what is tested.
const harness = await openHarness({ env: { ...brokerEnv(simulator), ORDER_TTL_MS: '300000' } })
await startTestWorker(harness.env)
const { db } = harness.services

const place = (partner: TestPartner, traderExternalId: string, changes: object = {}) =>
  partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId, changes) })

const copying = suite('a leader with many followers and a slow broker')

copying('has them all copied, and another one’s order goes between the copies', async () => {
  const [greedy, modest] = [await harness.makePartner(), await harness.makePartner()]
  await db('partners').where({ id: greedy.partnerId }).update({ broker_app_id: '2' })
  const mine = await modest.makeTrader()
  assert.is((await place(modest, mine.traderExternalId)).status, 200)
  const leader = await greedy.makeTrader()
  const followers: string[] = []
  for (let count = 0; count < FOLLOWERS; count++) followers.push((await greedy.makeTrader()).traderId)
  await db.raw(
    `insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     select 'fol_' || substr(t.id, 5), t.partner_id, t.id, t.external_id, ?, 50, 90, 'ACTIVE', 10000
       from traders t where t.id = any(?)`,
    [leader.traderId, followers]
  )
  // As if each had traded before: what is proven first is bounded elsewhere.
  await db.raw('update broker_accounts set proven_version = token_version where partner_id = ?', [greedy.partnerId])
  simulator.faults.add({ effect: 'slow', call: 'buy', appId: 2, delayMs: SLOW_MS })
  const leading = await place(greedy, leader.traderExternalId, { duration: 10, durationUnit: 'm' })
  assert.is(leading.body.status, 'OPEN', JSON.stringify(leading.body))
  const phases = async () => {
    const { rows } = await db.raw('select phase, count(*)::int as count from orders where copied_from = ? group by 1', [
      leading.body.orderId
    ])
    return Object.fromEntries(rows.map(({ phase, count }: { phase: string; count: number }) => [phase, count]))
  }
  await until('copies at the broker', async () => ((await phases()).sending ?? 0) > 0)
  const { status, body } = await place(modest, mine.traderExternalId)
  assert.is(status, 200)
  await until('every copy to be bought', async () => (await phases()).open === FOLLOWERS, 60_000)
  simulator.faults.reset()
  // By the broker's books: this test may be as slow as the worker.
  const { boughtAtMs: placedAt = 0 } =
    simulator.ledger().find(({ contractId }) => String(contractId) === body.brokerOrderId) ?? {}
  assert.ok(placedAt > 0)
  const known = simulator.ledger().filter(({ appId, boughtAtMs }) => appId === 2 && boughtAtMs + SLOW_MS < placedAt)
  assert.ok(known.length < FOLLOWERS, "the other one's order went after all copies")
})

copying('waits for the broker’s minimums for a second at most, and goes on without them', async () => {
  const { log } = harness.services
  const partner = await harness.makePartner()
  const { traderExternalId } = await partner.makeTrader()
  const { body } = await place(partner, traderExternalId, { duration: 10, durationUnit: 'm' })
  const leading = await findLeading(db, body.orderId)
  const brokers = openBrokers(readConfig(harness.env), log)
  simulator.faults.add({ effect: 'ignore', call: 'proposal' })
  const ended: string[] = []
  // Given up by the client of the broker after its own time.
  const read = brokers
    .of('v3')
    .market('1')
    .leastOf(contractOf(leading as Leading))
    .catch(() => ended.push('the read'))
  const services = { brokers, log } as WorkerServices
  const least = await leastOf(services, leading).finally(() => ended.push('copying'))
  assert.equal([least, ended], [{ stake: null, stopLoss: null, takeProfit: null }, ['copying']])
  simulator.faults.reset()
  await Promise.all([read, brokers.close()])
})

copying('asks the broker while no transaction is open, and copies the order as it is afterwards', async () => {
  const { services, leader, orderId, worker } = await makeFollowedOrder(() => minimums())
  for (const name of ['copy.fanout', 'copy.limits'] as const)
    await services.queue.enqueue(services.db, name, [{ orderId }])
  const open: unknown[] = []
  let asked = 0
  async function minimums() {
    asked += 1
    const found = await services.db.raw(
      `select query from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`
    )
    open.push(...found.rows)
    await services.db('orders').where({ id: orderId }).update({ closed_early: true })
    return { stake: null, stopLoss: null, takeProfit: null }
  }
  assert.is(await fanOut(worker, new CopyPace(systemClock)), true)
  assert.is(await changeLimitsOfCopies(worker), true)
  assert.equal([asked, open], [2, []])
  const [{ skipped_reason }] = await services.db('follows').where({ leader_id: leader.traderId })
  assert.is(skipped_reason, 'LEADER_CLOSED')
  assert.is(await changeLimitsOfCopies(worker), false)
})

const pacing = suite('the copies a worker sends at a time')

/** A clock whose timers the test fires. */
function handClock() {
  let now = 0
  const timers: (() => void)[] = []
  const clock: Clock = {
    now: () => now,
    wall: () => now,
    after(_, then) {
      timers.push(then)
      return () => {}
    }
  }
  const pass = (ms: number) => {
    now += ms
    for (const then of timers.splice(0)) then()
  }
  return { clock, pass }
}

pacing(
  'are fewer each time the event loop is late, down to those of a job, and more while it is not, up to a bound',
  () => {
    const { clock, pass } = handClock()
    const places = new CopyPlaces(clock)
    places.add()
    for (let times = 0; times < 20; times++) pass(20)
    const many = places.room + 1
    assert.ok(many > 2 * ORDERS_A_JOB)
    pass(100)
    assert.is(places.room, Math.floor(many / 2) - 1)
    for (let times = 0; times < 5; times++) pass(100)
    assert.is(places.room, ORDERS_A_JOB - 1)
    pass(20)
    assert.ok(places.room >= ORDERS_A_JOB)
    for (let times = 0; times < 200; times++) pass(20)
    assert.is(places.room, 499)
    places.remove()
  }
)

pacing('take their places and give them back, and there is never less room than none', () => {
  const { clock, pass } = handClock()
  const places = new CopyPlaces(clock)
  places.add()
  for (let times = 0; times < 20; times++) pass(20)
  const many = places.room
  for (let count = 0; count < many; count++) places.add()
  assert.is(places.room, 0)
  pass(100)
  assert.is(places.room, 0)
  for (let count = 0; count < many; count++) places.remove()
  assert.is(places.room, Math.floor((many + 1) / 2) - 1)
  places.remove()
})

const yielding = suite('the copies a worker begins a second')

yielding(
  'are fewer while orders are claimed more slowly beside them, down to a bound, and more when they are not',
  () => {
    const { clock, pass } = handClock()
    const pace = new CopyPace(clock)
    for (let count = 0; count < 50; count++) pace.noteOrders(4)
    pass(1000)
    pace.noteOrders(4)
    const waits = (tookMs: number) => {
      pass(100)
      pace.noteCopies(1)
      pace.noteOrders(tookMs)
      pace.noteCopies(1000)
      const { waitMs } = pace
      pass(waitMs)
      return waitMs
    }
    const first = waits(4)
    for (let count = 0; count < 5; count++) waits(9)
    const slower = waits(9)
    assert.ok(first > 200 && slower > 2 * first, `${first}, ${slower}`)
    for (let count = 0; count < 20; count++) waits(9)
    const slowest = waits(9)
    assert.ok(slowest > 1800 && slowest < 2100, `${slowest}`)
    for (let count = 0; count < 10; count++) waits(4)
    assert.ok(waits(4) < slowest / 1.5)
  }
)

yielding('have no pace while no orders come, nor for what may be begun at once', () => {
  const { clock, pass } = handClock()
  const pace = new CopyPace(clock)
  pace.noteCopies(10_000)
  assert.is(pace.waitMs, 0)
  pass(20_000)
  pace.noteOrders(4)
  pace.noteCopies(50)
  assert.is(pace.waitMs, 0)
  pace.noteCopies(50)
  assert.ok(pace.waitMs > 0)
  pass(1001)
  assert.is(pace.waitMs, 0)
})

yielding(
  'wait for their pace before they are stored, are counted for it then, and in parts of which later ones go last',
  async () => {
    // No worker: this test is it.
    const { services, makePartner } = await openHarness()
    const partner = await makePartner()
    const [leader, follower] = [await partner.makeTrader(), await partner.makeTrader()]
    await insertOrderRows(services.db, leader, { phase: 'open' })
    const { id: orderId } = await services.db('orders').where({ trader_id: leader.traderId }).first('id')
    const later = 201
    await services.db.raw(
      `with followers as (
       insert into traders (id, partner_id, external_id, active_account_id, connected_at)
       select left(id, 20) || lpad(n::text, 10, '0'), partner_id, external_id || n, active_account_id, connected_at
         from traders, generate_series(0, ?::int) n where id = ? returning *
     )
     insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     select 'fol_' || substr(id, 5), partner_id, id, external_id, ?, 50, 90, 'ACTIVE', 10000 from followers`,
      [later, follower.traderId, leader.traderId]
    )
    await services.queue.enqueue(services.db, 'copy.fanout', [{ orderId }])
    const jobs = () => services.db('pgboss.job').where({ name: 'copy.fanout', state: 'created' }).pluck('priority')
    const copies = () => services.db('orders').where({ copied_from: orderId }).pluck('id')
    const { clock, pass } = handClock()
    const pace = new CopyPace(clock)
    const open = { ...services, worker: 'worker', clock } as unknown as WorkerServices
    pace.noteOrders(4)
    pace.noteCopies(10_000)
    const early = fanOut(open, pace)
    pass(200)
    assert.equal([await early, (await copies()).length, await jobs()], [true, 0, [0]])
    pass(2200)
    pace.noteOrders(4)
    assert.is(pace.waitMs, 87.5)
    const fanning = fanOut(open, pace)
    pass(100)
    assert.is(await fanning, true)
    assert.equal([(await copies()).length, await jobs()], [200, [-1]])
    assert.ok(pace.waitMs > 0)
  }
)

copying.after(closeAll)
for (const tests of [pacing, yielding, copying]) tests.run()

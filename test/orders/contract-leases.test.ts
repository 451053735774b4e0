// Whose open orders are whose: a worker's one lease covers all of its orders, and none stays with somebody who
// does not follow it.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { anyLeftAlone, endLease, releaseOrders, renewLease, takeOver } from '../../db/orders/leases.ts'
import { openSession } from '../../worker/accounts/accounts.ts'
import { openBrokers } from '../../worker/broker/brokers.ts'
import type { ContractState } from '../../worker/broker/port.ts'
import { openSettling } from '../../worker/orders/settle.ts'
import { refOf } from '../../worker/orders/terms.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { openSignal } from '../../worker/signal.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { countStreams } from '../support/dialects.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { BROKER_URL: simulator.url, LEASE_MS: '600', SWEEP_MS: '100' } })
const { db } = harness.services
const partner = await harness.makePartner()
const LONG_MS = 60_000

/** An open order that names `worker` as its follower. */
async function makeFollowed(worker: string): Promise<string> {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'open' })
  const [{ id }] = await db('orders')
    .where({ account_id: trader.accountId })
    .update({ lease_holder: worker })
    .returning('id')
  return id
}
const taken = async (worker: string) => (await takeOver(db, { worker, limit: 100 })).map(({ id }) => id)

const leases = suite("a worker's lease")

leases('is looked for before orders are taken over: whether any has none, or one that is over', async () => {
  await renewLease(db, 'there', LONG_MS)
  const order = await makeFollowed('there')
  assert.is(await anyLeftAlone(db), false)
  const change = (columns: object) => db('orders').where({ id: order }).update(columns)
  for (const [columns, some] of [
    [{ lease_holder: 'never there' }, true],
    [{ lease_holder: null, lease_until: null }, true],
    [{ lease_until: db.raw(`now() + interval '1 hour'`) }, false],
    [{ lease_until: db.raw('now()') }, true]
  ] as const) {
    await change(columns)
    assert.is(await anyLeftAlone(db), some, Object.keys(columns).join())
  }
  assert.equal(await taken('there'), [order])
  assert.is(await anyLeftAlone(db), false)
})

leases('keeps its orders from others, and without it they are taken over once', async () => {
  await renewLease(db, 'alive', LONG_MS)
  const kept = await makeFollowed('alive')
  const left = await makeFollowed('gone')
  assert.equal(await taken('first'), [left])
  await renewLease(db, 'first', LONG_MS)
  assert.equal(await taken('second'), [])
  assert.equal([...(await renewLease(db, 'alive', LONG_MS))], [kept])
  assert.equal([...(await renewLease(db, 'first', LONG_MS))], [left])
})

leases('ends with the worker, or when its time is over', async () => {
  await renewLease(db, 'stopped', LONG_MS)
  await renewLease(db, 'late', 1)
  const orders = [await makeFollowed('stopped'), await makeFollowed('late')]
  await endLease(db, 'stopped')
  await until('both', async () => {
    for (const id of await taken('heir')) orders.splice(orders.indexOf(id), 1)
    return orders.length === 0
  })
  await renewLease(db, 'heir', LONG_MS)
})

leases('ends at once for contracts that need a worker soon, and later for the others', async () => {
  for (const name of ['restarted', 'next']) await renewLease(db, name, LONG_MS)
  const changed = (columns: string) => (id: string) =>
    db.raw(`update orders set ${columns} where id = ?`, [id]).then(() => id)
  const ending = "expiry_at = now() + interval '2 minutes'"
  const soon = [
    await makeFollowed('restarted').then(changed("expiry_at = now() + interval '1 minute'")),
    await makeFollowed('restarted').then(changed('expiry_at = null')),
    await makeFollowed('restarted').then(changed(`${ending} + interval '1 day', close_at = now()`)),
    await makeFollowed('restarted').then(changed(`${ending} + interval '1 day', has_followers = true`))
  ]
  const later = [
    await makeFollowed('restarted').then(changed(`${ending} + interval '1 minute'`)),
    await makeFollowed('restarted').then(changed("kind = 'MULTIPLIER', multiplier = 100, expiry_at = null"))
  ]
  await endLease(db, 'restarted', LONG_MS)
  assert.equal((await taken('next')).sort(), soon.sort())
  const rest = await db('orders').whereIn('id', later).select(db.raw('lease_holder, lease_until - now() as rest'))
  for (const {
    lease_holder,
    rest: { minutes = 0, seconds = 0 }
  } of rest) {
    assert.equal(lease_holder, null)
    assert.ok(minutes * 60 + seconds > 20 && minutes * 60 + seconds <= 60, `${minutes} min ${seconds} s`)
  }
  await db('orders')
    .whereIn('id', later)
    .update({ lease_until: db.raw('now()') })
  assert.equal((await taken('next')).sort(), later.sort())
})

leases('ends without waiting for a row that is being written; that one is taken over all the same', async () => {
  await renewLease(db, 'leaving', LONG_MS)
  const [busy, idle] = [await makeFollowed('leaving'), await makeFollowed('leaving')] as [string, string]
  const writer = await db.transaction()
  try {
    await writer('orders').where({ id: busy }).forUpdate()
    await endLease(db, 'leaving')
    assert.equal(await taken('follower'), [idle])
    await renewLease(db, 'follower', LONG_MS)
  } finally {
    await writer.rollback()
  }
  assert.equal(await taken('follower'), [busy])
})

leases('of another that took an order meanwhile keeps it', async () => {
  for (const name of ['early', 'slow']) await renewLease(db, name, LONG_MS)
  const order = await makeFollowed('dead')
  // A statement that reads the accounts' leases has begun, and waits there for `holder`.
  const HELD = 4_711
  await db.raw(`alter table account_leases rename to kept_leases`)
  await db.raw(`create view account_leases as select * from kept_leases
    union all select l.* from (select pg_advisory_lock_shared(${HELD})::text as held offset 0) h join kept_leases l on h.held = 'never'`)
  const holder = await db.transaction()
  try {
    await holder.raw(`select pg_advisory_lock(${HELD})`)
    const slow = taken('slow')
    await until('it waits', async () => {
      const { rows } = await db.raw(
        `select from pg_locks where locktype = 'advisory' and objid = ${HELD} and not granted`
      )
      return rows.length > 0
    })
    await db('orders').where({ id: order }).update({ lease_holder: 'early' })
    await holder.raw(`select pg_advisory_unlock(${HELD})`)
    assert.equal(await slow, [])
    assert.ok((await renewLease(db, 'early', LONG_MS)).has(order))
  } finally {
    await holder.rollback()
    await db.raw('drop view account_leases')
    await db.raw('alter table kept_leases rename to account_leases')
  }
})

leases('of another does not keep an order that was let go, once its pause is over', async () => {
  await renewLease(db, 'tired', LONG_MS)
  const [now, later] = [await makeFollowed('tired'), await makeFollowed('tired')] as [string, string]
  await releaseOrders(db, 'another', [{ id: later, retryMs: 0 }])
  assert.equal(await taken('next'), [], 'a worker lets go of its own orders alone')
  await releaseOrders(db, 'tired', [
    { id: now, retryMs: 0 },
    { id: later, retryMs: LONG_MS }
  ])
  assert.equal(await taken('next'), [now])
  await renewLease(db, 'next', LONG_MS)
})

leases('does not keep an order that its worker has not taken', async () => {
  const worker = await startTestWorker(harness.env)
  // As after an update whose acknowledgement was lost. No broker knows this contract, so nobody can follow it for long.
  const id = await makeFollowed(worker.services.worker)
  await until('it was let go', async () => {
    const [order] = await db('orders').where({ id })
    return order.lease_holder === null && order.lease_until !== null
  })
  await worker.stop()
})

const closedState: ContractState = {
  contractId: '1',
  status: 'won',
  settled: true,
  buyPrice: '10',
  payout: '12',
  bidPrice: null,
  profit: '2',
  sellPrice: null,
  entryPrice: '100',
  exitPrice: null,
  currentSpot: null,
  commission: null,
  markup: null,
  purchaseTime: 1_699_999_990,
  sellTime: null,
  expiryTime: null,
  sellable: false,
  shortcode: null
}

const settling = suite('settlements written together')

settling('are written although one of them cannot be', async () => {
  const worker = await startTestWorker(harness.env)
  await renewLease(db, 'settling', LONG_MS)
  const [good, bad] = [await makeFollowed('settling'), await makeFollowed('settling')] as [string, string]
  const { close } = openSettling(worker.services)
  const order = async (id: string) => ({ ...(await db('orders').where({ id }).first()), broker_order_id: '1' })
  const ended = { ...closedState, sellPrice: '12', exitPrice: '101.5', sellTime: 1_700_000_000 }
  const [written, refused] = await Promise.allSettled([
    close(await order(good), ended),
    // More digits than a numeric takes.
    close(await order(bad), { ...ended, exitPrice: '9'.repeat(140_000) })
  ])
  assert.is(written.status, 'fulfilled')
  assert.is(refused.status, 'rejected')
  assert.equal(await db('orders').whereIn('id', [good, bad]).orderBy('phase').pluck('id'), [good, bad])
  assert.is((await db('orders').where({ id: good }).first()).pnl, '2')
  await worker.stop()
})

/** Ends orders as if each had the changes; all begun in one call have come at the same moment. */
async function openEnds(ids: string[]) {
  const worker = await startTestWorker(harness.env)
  await renewLease(db, 'settling', LONG_MS)
  const { close } = openSettling(worker.services)
  const rows = new Map((await db('orders').whereIn('id', ids)).map(order => [order.id, order]))
  const begun: Promise<unknown>[] = []
  return {
    begin(some: string[], changes: object) {
      const ended = { ...closedState, sellPrice: '12', exitPrice: '101.5', sellTime: 1_700_000_000 }
      for (const id of some) begun.push(close({ ...rows.get(id), broker_order_id: '1', ...changes }, ended))
    },
    async finish() {
      await Promise.allSettled(begun)
      await worker.stop()
      assert.equal(await db('orders').whereIn('id', ids).whereNot({ phase: 'closed' }), [])
    }
  }
}

/** A transaction that keeps these orders from being written. */
async function holdOrders(ids: string[]) {
  const trx = await db.transaction()
  await trx('orders').whereIn('id', ids).forUpdate()
  return {
    // In this transaction, which would be ended for its idleness otherwise.
    phaseOf: async (id: string) => (await trx('orders').where({ id }).first()).phase,
    waiting: (count: number) => untilLockWaits(trx, { count }),
    release: () => trx.rollback()
  }
}

settling('are written for a trader’s own order while those of copies wait', async () => {
  const ids = await Promise.all(Array.from({ length: 4 }, () => makeFollowed('settling')))
  const [own, ...copies] = ids as [string, string, ...string[]]
  const ends = await openEnds(ids)
  const held = await holdOrders(copies)
  try {
    ends.begin(copies.slice(0, 1), { follow_id: 'fol_1' })
    await held.waiting(1)
    ends.begin(copies.slice(1), { follow_id: 'fol_1' })
    ends.begin([own], {})
    await until('the own order to be closed', async () => (await held.phaseOf(own)) === 'closed')
    assert.equal(await Promise.all(copies.map(held.phaseOf)), ['open', 'open', 'open'])
  } finally {
    await held.release()
    await ends.finish()
  }
})

settling('are written by turns of partners where more wait than one statement takes', async () => {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'open', count: 300 })
  const many = await db('orders')
    .where({ account_id: trader.accountId })
    .update({ lease_holder: 'settling' })
    .returning('id')
  const [first, second, ...others] = many.map(({ id }) => id) as [string, string, ...string[]]
  const another = await makeFollowed('settling')
  const ends = await openEnds([first, second, ...others, another])
  const both = await holdOrders([first, second])
  const last = await holdOrders(others.slice(-1))
  try {
    ends.begin([first], {})
    await both.waiting(1)
    ends.begin([second], {})
    await both.waiting(2)
    ends.begin(others, {})
    ends.begin([another], { app_id: '2' })
    await both.release()
    await until("the other partner's order to be closed", async () => (await last.phaseOf(another)) === 'closed')
  } finally {
    for (const { release } of [both, last]) await release()
    await ends.finish()
  }
})

const silence = suite('a contract without updates')

silence('is polled after a while, and a parked one only when its time is over', async () => {
  const worker = await startTestWorker(harness.env)
  let passedMs = 0
  const { clock, config } = worker.services
  const later = { ...clock, now: () => clock.now() + passedMs }
  const patient = { ...worker.services, worker: 'patient', clock: later, config: { ...config, leaseMs: LONG_MS } }
  const following = openSettling(patient)
  await renewLease(db, 'patient', LONG_MS)

  /** An open order whose contract is sold while nobody notifies the worker, and its listener. */
  async function makeSold() {
    const order = await db('orders')
      .where({ id: await makeFollowed('patient') })
      .first()
    const session = await openSession(worker.services, refOf(order))
    const { contractId } = await session.buy(
      {
        kind: 'BINARY',
        contractType: 'CALL',
        asset: 'R_100',
        stake: '10',
        currency: 'USD',
        duration: 1,
        durationUnit: 'h',
        barrier: null
      },
      { beforeSend() {}, maxPrice: order.stake }
    )
    await until('it can be sold', async () => (await session.contract(contractId)).sellable)
    await session.sell(contractId)
    await db('orders').where({ id: order.id }).update({ broker_order_id: contractId })
    const { listener, opened } = following.expect(order)
    opened({ ...order, broker_order_id: contractId })
    const phase = async () => (await db('orders').where({ id: order.id }).first()).phase
    return { listener, phase }
  }
  const resting = await makeSold()
  resting.listener.parked?.(600_000)
  // Twice: had the resting one been requested with the first, it would be closed before the second.
  for (let round = 0; round < 2; round++) {
    const silent = await makeSold()
    passedMs += 31_000
    await following.renew()
    await until('the silent one is closed', async () => (await silent.phase()) === 'closed')
  }
  assert.is(await resting.phase(), 'open')
  passedMs = 640_000
  await following.renew()
  await until('the resting one is closed', async () => (await resting.phase()) === 'closed')
  await following.release()
  await worker.stop()
})

const watching = suite('a contract that is to be watched')

watching('is handed back where the broker does not know it, although that cannot be stored', async () => {
  const worker = await startTestWorker(harness.env)
  await renewLease(db, 'unable', LONG_MS)
  const row = () => db('orders').where({ id })
  const id = await makeFollowed('unable')
  const { watch } = openSettling({ ...worker.services, worker: 'unable' })
  await db.raw('alter table contract_breaks rename to contract_breaks_away')
  await watch(await row().first()).finally(() => db.raw('alter table contract_breaks_away rename to contract_breaks'))
  await until('it was handed back', async () => (await row().first()).lease_holder === null)
  await worker.stop()
})

watching('is left to others while the broker cannot be reached from here, and taken over when it can', async () => {
  const { log } = harness.services
  const port = await freePort()
  const config = { ...harness.services.config, brokerUrl: `ws://127.0.0.1:${port}/websockets/v3` }
  const brokers = openBrokers(config, log)
  // A worker without its loops: it takes over where the test has it do so.
  const services: WorkerServices = {
    ...harness.services,
    ...{ config, brokers, clock: systemClock, changes: openSignal(), worker: 'cut off' }
  }
  await renewLease(db, services.worker, LONG_MS)
  const id = await makeFollowed('gone before')
  const row = () => db('orders').where({ id }).first()
  const place = refOf(await row())
  await until('the broker is taken for unreachable', async () => {
    await openSession(services, place).catch(() => {})
    return brokers.unreachable().length > 0
  })
  const { sweep } = openSettling(services)
  assert.is(await sweep(), 0)
  assert.is((await row()).lease_holder, 'gone before')
  const broker = await startSimulator({ port, tickMs: 10, seed: 5, limits: 'off' })
  onClose(() => broker.close())
  await until('the broker is reached again', () => brokers.unreachable().length === 0)
  assert.is(await sweep(), 1)
  await brokers.close()
})

for (const [call, what] of [
  ['authorize', 'its account is'],
  ['proposal_open_contract', 'it is']
] as const)
  watching(`keeps no connection where its account was given to another worker while ${what} requested`, async () => {
    const { config, log } = harness.services
    const brokers = openBrokers(config, log)
    // A worker without its loops: nobody takes over what it lets go of.
    const services: WorkerServices = {
      ...harness.services,
      ...{ brokers, clock: systemClock, changes: openSignal(), worker: `giving at ${call}` }
    }
    const { watch, leave } = openSettling(services)
    const row = () => db('orders').where({ id })
    const id = await makeFollowed(services.worker)
    const place = refOf(await row().first())
    const { accountId } = place
    const session = await openSession(services, place)
    const terms = { asset: 'R_100', stake: '10', currency: 'USD', multiplier: 40, stopLoss: null, takeProfit: null }
    const { contractId } = await session.buy(
      { kind: 'MULTIPLIER', direction: 'up', ...terms },
      { beforeSend() {}, maxPrice: '10' }
    )
    await row().update({ kind: 'MULTIPLIER', multiplier: 40, broker_order_id: contractId })
    const left = async () => {
      await brokers.leave([accountId])
      return brokers.accounts().length === 0
    }
    await until('its session is closed', left)
    simulator.faults.add({ effect: 'slow', call, delayMs: 300, times: 1 })
    const watched = watch(await row().first())
    await until('the request', () => simulator.faults.settings.rules.length === 0)
    await leave([accountId])
    await watched
    await until('its connection is closed', left)
    assert.is(countStreams(simulator, accountId, 'proposal_open_contract'), 0)
    await brokers.close()
  })

watching.after(closeAll)
for (const tests of [leases, settling, silence, watching]) tests.run()

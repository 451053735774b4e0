// The steps between intent and decision as rows: what is written about one claim never touches the next one,
// although order and worker are the same. (An update whose acknowledgement was lost is written again.)
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { claimOrders, takeOrders } from '../../db/orders/claiming.ts'
import { declareAbsent } from '../../db/orders/deciding.ts'
import { markFailed, markReset, releaseLostClaims, releaseUnsent } from '../../db/orders/placing.ts'
import { queueProven } from '../../db/orders/proving.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { countCheck, markReview, takeDoubts } from '../../db/orders/resolving.ts'
import { storeOrders } from '../../db/orders/storing.ts'
import { findCallers } from '../../db/partners/keys.ts'
import { parseApiKey } from '../../db/platform/crypto.ts'
import { rows } from '../../db/postgres/connection.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { openHalts } from '../../worker/orders/halts.ts'
import { nextClaimNo, Placing } from '../../worker/orders/placing.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { openSignal } from '../../worker/signal.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { draftOf } from '../support/tick-order.ts'

const harness = await openHarness()
const { db, queue } = harness.services
const partner = await harness.makePartner()

async function makeQueued() {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const claim = async (claimNo = 1) => {
    const options = {
      accountIds: [trader.accountId],
      sender: 'worker',
      claimNo,
      permitMs: 1000,
      reconcileAfterMs: 1000
    }
    const { claimed } = await claimOrders(db, options)
    return claimed[0] as NonNullable<(typeof claimed)[0]>
  }
  const phase = async () => (await db('orders').where({ account_id: trader.accountId }).first()).phase as string
  return { claim, phase }
}

const fencing = suite('a claim given back and made again')

fencing('is not given back by the first claim written once more', async () => {
  const { claim, phase } = await makeQueued()
  const first = await claim()
  assert.is((await releaseUnsent(db, [{ ...first, reason: 'not sent' }], 'worker')).length, 1)
  assert.is(await phase(), 'queued')
  const second = await claim()
  assert.is(second.id, first.id)
  assert.is((await releaseUnsent(db, [{ ...first, reason: 'not sent' }], 'worker')).length, 0)
  assert.is(await phase(), 'sending')
})

fencing('is numbered as the column can hold it, however many claims came before', async () => {
  const { claim } = await makeQueued()
  const most = 2_147_483_647
  for (const [before, number] of [
    [most - 1, most],
    [most, 1]
  ] as const) {
    assert.is(nextClaimNo(before), number)
    const claimed = await claim(nextClaimNo(before))
    // Tests before this one have claims of the same number.
    const released = await releaseLostClaims(db, { sender: 'worker', claimNos: [number] })
    assert.ok(released.some(({ id }) => id === claimed.id))
  }
})

fencing('is neither resolved nor failed by what was found about the first one', async () => {
  const { claim, phase } = await makeQueued()
  const first = await claim()
  await releaseUnsent(db, [{ ...first, reason: 'not sent' }], 'worker')
  await claim()
  const check = { conclusive: true, pauseMs: 100, crashedMs: 100, reconcileAfterMs: 100 }
  assert.is((await countCheck(db, first, check)).absenceChecks, 0)
  const refusal = { id: first.id, attempt: first.attempt, code: 'BROKER_UPSTREAM', message: 'absent' } as const
  assert.is((await markFailed(db, [refusal])).length, 0)
  assert.is(await phase(), 'sending')
})

fencing("stays its sender's while another worker checks what became of it", async () => {
  const { claim } = await makeQueued()
  const { id } = await claim()
  await db.raw(
    `update orders set sent_at = sent_at - interval '1 minute', permit_until = permit_until - interval '1 minute',
            resolve_at = resolve_at - interval '1 minute' where id = ?`,
    [id]
  )
  const options = { worker: 'another', everyMs: 1000, limit: 100, crashedMs: 0, reconcileAfterMs: 0 }
  const found = (await takeDoubts(db, options)).find(doubt => doubt.id === id)
  assert.is(found?.sender, 'worker')
  const released = await releaseLostClaims(db, { sender: 'worker', claimNos: [1] })
  assert.ok(released.some(order => order.id === id))
})

fencing('is not declared absent by hand while its purchase may still be executed, in review either', async () => {
  const { claim, phase } = await makeQueued()
  const { id } = await claim()
  const [order] = (await findOrders(db, [id])) as [OrderRow]
  const refused = async (times: { crashedMs: number; reconcileAfterMs: number }) => {
    const error = await declareAbsent(db, order, times).catch((refusal: ApiError) => refusal)
    assert.instance(error, ApiError)
    assert.match((error as ApiError).message, /may still be bought until/)
  }
  await refused({ crashedMs: 60_000, reconcileAfterMs: 0 })
  // Its sender lives and has reset its connection: what the broker had received may still be executed.
  await markReset(db, [order])
  await refused({ crashedMs: 0, reconcileAfterMs: 60_000 })
  await markReview(db, { ...order, message: 'two contracts fit', evidence: [] })
  await refused({ crashedMs: 0, reconcileAfterMs: 60_000 })
  assert.is(await phase(), 'review')
  assert.is((await declareAbsent(db, order, { crashedMs: 60_000, reconcileAfterMs: 0 })).phase, 'failed')
})

const racing = suite('two workers that claim at the same time')

/** An account with an order waiting; `claim` is made by a worker of its own, in whatever is open for it. */
async function makeContested() {
  const trader = await partner.makeTrader()
  const insert = (trx: typeof db) =>
    insertOrderRows(trx, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const claim = (trx: typeof db, sender: string) =>
    claimOrders(trx, { accountIds: [trader.accountId], sender, claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 })
  await insert(db)
  return { accountId: trader.accountId, insert, claim }
}

racing('make one intent of one order', async () => {
  const { claim } = await makeContested()
  const first = await db.transaction()
  const one = await claim(first, 'one')
  const other = claim(db, 'other')
  await untilLockWaits(db, { work: other })
  await first.commit()
  const claimed = [...one.claimed, ...(await other).claimed]
  assert.is(claimed.length, 1)
})

racing('have one order of an account under way, though each sees another one first', async () => {
  const { accountId, insert, claim } = await makeContested()
  const first = await db.transaction()
  await insert(first)
  await first.raw(
    `update orders set queued_at = queued_at - interval '1 minute'
      where id = (select max(id) from orders where account_id = ? and xmin = pg_current_xact_id()::xid)`,
    [accountId]
  )
  const one = await claim(first, 'one')
  const other = claim(db, 'other').then(
    () => 'claimed',
    (error: { constraint?: string }) => error.constraint
  )
  await untilLockWaits(db, { work: other })
  await first.commit()
  assert.is(one.claimed.length, 1)
  assert.is(await other, 'orders_one_in_doubt')
  assert.is((await db('orders').where({ account_id: accountId, phase: 'sending' })).length, 1)
})

const storing = suite('jobs stored as part of a statement')

storing('are what pg-boss would store', async () => {
  // Of one transaction, so that their times are the same.
  await undone(async trx => {
    await queue.enqueue(trx, 'order.place', [{ accountIds: ['by pg-boss'] }])
    await enqueue(trx, [{ accountIds: ['in a statement'] }])
    const read = async (accountId: string) => {
      const { id, data, ...job } = await trx('pgboss.job')
        .whereRaw("data->'accountIds' = jsonb_build_array(?::text)", [accountId])
        .first()
      return job
    }
    const expected = await read('by pg-boss')
    assert.ok(Object.keys(expected).length > 20)
    assert.equal(await read('in a statement'), expected)
  })
})

storing('are as many as are selected', async () => {
  await undone(async trx => {
    const count = async () => Number((await trx('pgboss.job').where({ name: 'order.place' }).count().first())?.count)
    const before = await count()
    await enqueue(trx, [{ accountIds: ['one'] }, { accountIds: ['two', 'three'] }])
    assert.is(await count(), before + 2)
    await enqueue(trx, [])
    assert.is(await count(), before + 2)
  })
})

/** Does `work` in a transaction of which nothing stays. */
async function undone(work: (trx: typeof db) => Promise<void>): Promise<void> {
  const trx = await db.transaction()
  try {
    await work(trx)
  } finally {
    await trx.rollback()
  }
}

function enqueue(trx: typeof db, jobs: { accountIds: string[] }[]) {
  const enqueued = queue.enqueueing('order.place', 'select * from jsonb_array_elements(:jobs::jsonb)')
  return rows(trx, `with enqueued as (${enqueued}) select 1`, { jobs: JSON.stringify(jobs) })
}

const taking = suite('taking jobs')

taking('fetches recent ones, or scans all', async () => {
  const options = { sender: 'worker', claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000, limit: 10 }
  const take = (among: 'recent' | 'all') => takeOrders(db, queue, { ...options, among })
  // A job of a later time is a recent one however long a busy machine takes to get here.
  for (const ago of ['-1 minute', '1 minute']) {
    const trader = await partner.makeTrader()
    await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
    await queue.enqueue(db, 'order.place', [{ accountIds: [trader.accountId] }])
    await db.raw(`update pgboss.job set created_on = now() - cast(? as interval) where state = 'created'`, [ago])
    const recent = await take('recent')
    assert.is(recent.taken, ago === '-1 minute' ? 1 : 0)
    const all = await take('all')
    assert.is(all.taken, 1 - recent.taken)
    const [claimed] = [...recent.claimed, ...all.claimed]
    assert.is(claimed?.account_id, trader.accountId)
  }
})

taking('goes on with the oldest where more wait than can be taken at once', async () => {
  // Nobody has orders on these accounts: there is nothing to follow. Time does not go on.
  const clock = { ...systemClock, now: () => 0 }
  const services = { ...harness.services, worker: 'worker', clock } as unknown as WorkerServices
  const placing = new Placing(services, undefined as never, openHalts(services), () => {})
  const store = (jobs: number) =>
    queue.enqueue(
      db,
      'order.place',
      Array.from({ length: jobs }, () => ({ accountIds: ['nobody'] }))
    )
  const waiting = () => db('pgboss.job').where({ name: 'order.place', state: 'created' }).pluck('created_on')
  // From then on it looks among recent ones for a while.
  assert.is(await placing.take(), false)
  await store(1)
  const old = "now() - interval '1 minute'"
  await db.raw(`update pgboss.job set created_on = ${old} where state = 'created'`)
  await store(10)
  await db.raw(
    `update pgboss.job set created_on = now() + interval '1 minute' where state = 'created' and created_on > ${old}`
  )
  assert.is(await placing.take(), true)
  assert.is((await waiting()).length, 1)
  await placing.take()
  assert.equal(await waiting(), [])
})

taking('leaves copies in the queue once orders come and copies have used their pace', async () => {
  const services = { ...harness.services, worker: 'worker', clock: systemClock } as unknown as WorkerServices
  const placing = new Placing(services, undefined as never, openHalts(services), () => {})
  const waiting = async () =>
    (await db('pgboss.job').where({ name: 'order.copy', state: 'created' }).pluck('id')).length
  await queue.enqueue(db, 'order.copy', [{ accountIds: ['nobody'] }])
  await queue.enqueue(db, 'order.place', [{ accountIds: ['nobody'] }])
  placing.copyPace.noteCopies(1_000_000)
  assert.is(placing.copyPace.waitMs, 0, 'no order has come')
  await placing.take()
  assert.ok(placing.copyPace.waitMs > 1000)
  assert.equal([await placing.takeCopies(), await waiting()], [true, 1])
  const rested = new Placing(services, undefined as never, openHalts(services), () => {})
  await rested.takeCopies()
  assert.is(await waiting(), 0)
})

taking('takes as many copies as there are places for them, and none while orders wait', async () => {
  const services = { ...harness.services, worker: 'worker', clock: systemClock } as unknown as WorkerServices
  const placing = new Placing(services, undefined as never, openHalts(services), () => {})
  const waiting = async (name: string) => (await db('pgboss.job').where({ name, state: 'created' }).pluck('id')).length
  const nobody = (count: number) => Array.from({ length: count }, () => ({ accountIds: ['nobody'] }))
  await queue.enqueue(db, 'order.copy', nobody(3))
  await queue.enqueue(db, 'order.place', nobody(11))
  assert.is(await placing.take(), true)
  assert.equal([await placing.takeCopies(), placing.copiesWait(), await waiting('order.copy')], [false, false, 3])
  assert.is(await placing.take(), false)
  assert.is(placing.copiesWait(), true)
  // A job of copies may have as many as there are places at first.
  assert.is(await placing.takeCopies(), true)
  assert.is(await waiting('order.copy'), 2)
  for (let left = 2; left > 0; left--) await placing.takeCopies()
  assert.is(await waiting('order.copy'), 0)
})

taking('counts the copies that it claims for their pace', async () => {
  // Time does not go on.
  const clock = { now: () => 0, wall: () => Date.now(), after: () => () => {} }
  const services = { ...harness.services, worker: 'worker', clock } as unknown as WorkerServices
  const placing = new Placing(services, undefined as never, openHalts(services), () => {})
  const [leader, follower] = [await partner.makeTrader(), await partner.makeTrader()]
  await insertOrderRows(db, leader)
  await insertOrderRows(db, follower, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const { id } = await db('orders').where({ account_id: leader.accountId }).first('id')
  await db('orders').where({ account_id: follower.accountId }).update({ copied_from: id })
  await queue.enqueue(db, 'order.place', [{ accountIds: ['nobody'] }])
  await queue.enqueue(db, 'order.copy', [{ accountIds: [follower.accountId] }])
  await placing.take()
  // What may be begun at once.
  placing.copyPace.noteCopies(50)
  assert.is(placing.copyPace.waitMs, 0)
  await placing.takeCopies()
  assert.ok(placing.copyPace.waitMs > 0)
  await placing.drain()
})

taking('counts copies that are out of time among those that were begun', async () => {
  const services = {
    ...harness.services,
    worker: 'worker',
    changes: openSignal(),
    // Copies are begun in no time.
    clock: { ...systemClock, now: () => 0 }
  } as unknown as WorkerServices
  const placing = new Placing(services, undefined as never, openHalts(services), () => {})
  const [leader, trader] = [await partner.makeTrader(), await partner.makeTrader()]
  await insertOrderRows(db, leader)
  const { id } = await db('orders').where({ account_id: leader.accountId }).first('id')
  await insertOrderRows(db, trader, { phase: 'queued', count: 300 })
  await db('orders').where({ account_id: trader.accountId }).update({ copied_from: id })
  await queue.enqueue(db, 'order.copy', [{ accountIds: [trader.accountId] }])
  await placing.takeCopies()
  assert.is((await db('orders').where({ account_id: trader.accountId, phase: 'failed' }).pluck('id')).length, 300)
  placing.copyPace.noteOrders(1)
  assert.ok(placing.copyPace.waitMs > 0)
})

taking('knows the jobs of an api that is still to be upgraded', async () => {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const { id } = await db('orders').where({ account_id: trader.accountId }).first()
  await queue.enqueue(db, 'order.place', [{ orderId: id, accountId: trader.accountId } as never])
  await db.raw(`update pgboss.job set created_on = now() + interval '1 minute' where state = 'created'`)
  const options = {
    sender: 'worker',
    claimNo: 1,
    permitMs: 1000,
    reconcileAfterMs: 1000,
    limit: 10,
    among: 'recent'
  } as const
  const { taken, claimed } = await takeOrders(db, queue, options)
  assert.equal([taken, claimed.map(order => order.id)], [1, [id]])
})

taking('keeps the order of arrival of orders that waited for their account to be proven', async () => {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'unproven', at: new Date(Date.now() + 60_000), count: 5 })
  const orders = () => db('orders').where({ account_id: trader.accountId })
  const latestFirst = await orders().orderBy('id').pluck('id')
  for (const [index, id] of latestFirst.entries())
    await orders()
      .where({ id })
      .update({ queued_at: new Date(Date.now() - 1000 * index) })
  const accounts = db('broker_accounts').where({ account_id: trader.accountId })
  await accounts.clone().update({ proven_version: db.ref('token_version') })
  await queueProven(db, (await accounts.clone().first('id')).id)
  assert.equal(await orders().where({ phase: 'queued' }).orderBy('queued_at').pluck('id'), latestFirst.toReversed())
})

taking('is not all: an order that waits without a job is found by the clock', async () => {
  const trader = await partner.makeTrader()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const order = () => db('orders').where({ account_id: trader.accountId }).first()
  const { attempt } = await order()
  // Nobody listens there: to be claimed is all that can become of it.
  const worker = await startTestWorker({ ...harness.env, SWEEP_MS: '100', BROKER_URL: 'ws://127.0.0.1:1' })
  onClose(worker.stop)
  await until('a claim', async () => (await order()).attempt > attempt)
  // It would check the doubts of other tests.
  await worker.stop()
})

const grouping = suite('orders stored by one statement')

grouping('are each stored by what its own caller was authenticated by', async () => {
  const { traderExternalId } = await partner.makeTrader()
  const lookup = parseApiKey(partner.key)?.lookup as string
  const [caller] = await findCallers(db, [lookup])
  const [good, changed] = [
    draftOf({ partnerId: partner.partnerId, traderExternalId }, { caller: { lookup, facts: caller?.facts as string } }),
    draftOf({ partnerId: partner.partnerId, traderExternalId }, { caller: { lookup, facts: 'as they were before' } })
  ]
  for (const drafts of [
    [good, changed],
    [changed, good]
  ]) {
    const outcomes = await storeOrders(db, queue, drafts)
    assert.equal(
      outcomes.map(outcome => ('lacks' in outcome ? outcome.lacks : 'stored')),
      drafts.map(draft => (draft === good ? 'stored' : 'caller'))
    )
  }
  assert.equal(await db('orders').where({ client_order_id: changed.clientOrderId }), [])
})

grouping('are one order where they have one clientOrderId, which the first of them has created', async () => {
  const { traderExternalId } = await partner.makeTrader()
  const draft = draftOf({ partnerId: partner.partnerId, traderExternalId })
  const outcomes = await storeOrders(db, queue, [
    draft,
    draftOf({ partnerId: partner.partnerId, traderExternalId }),
    { ...draft }
  ])
  const created = outcomes.map(outcome => outcome.order && 'created' in outcome && outcome.created)
  assert.equal(created, [true, true, false])
  assert.is(outcomes[2]?.order?.id, outcomes[0]?.order?.id)
  assert.is((await db('orders').where({ client_order_id: draft.clientOrderId })).length, 1)
})

grouping('that failed are queued again without the pause and the checks of an earlier claim', async () => {
  const { accountId, traderExternalId } = await partner.makeTrader()
  const draft = draftOf({ partnerId: partner.partnerId, traderExternalId })
  await storeOrders(db, queue, [draft])
  const order = () => db('orders').where({ client_order_id: draft.clientOrderId })
  const failure = { phase: 'failed', error_code: 'BROKER_UPSTREAM', retryable: true, checks: 2, absence_checks: 2 }
  await order().update({ ...failure, not_before: new Date(Date.now() + 3_600_000) })
  const [again] = await storeOrders(db, queue, [draft])
  assert.ok(again?.order && 'created' in again && again.created)
  const { phase, not_before: notBefore } = await order().first()
  assert.equal([phase, notBefore], ['unproven', null])
  await order().update({ phase: 'queued' })
  const claim = { accountIds: [accountId], sender: 'worker', claimNo: 1, permitMs: 1000, reconcileAfterMs: 1000 }
  assert.is((await claimOrders(db, claim)).claimed.length, 1)
  // A check of the purchase before would prove half of the absence of this one.
  const { checks, absence_checks: absenceChecks } = await order().first()
  assert.equal([checks, absenceChecks], [0, 0])
})

racing.run()
storing.run()
taking.run()
grouping.run()
fencing.after(closeAll)
fencing.run()

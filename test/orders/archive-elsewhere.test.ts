// test in the full run only
// Who reads archived orders beside lists and sums: the event log, usage, follows, a trader's export and erasure. And a worker
// that is killed in the middle of a move.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listMyFollows } from '../../api/copy.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { getUsage } from '../../api/usage.ts'
import { archiveOrders } from '../../db/orders/archiving.ts'
import { rows } from '../../db/postgres/connection.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { archiveDue } from '../../worker/orders/archiving.ts'
import { readAll, sequenceAll } from '../events/reading.ts'
import { closeAll, openHarness, type TestTrader, until } from '../support/harness.ts'
import { binaryOrder, daysAgo, insertOldOrder, unbought } from '../support/old-orders.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startWorker } from '../support/processes.ts'

const harness = await openHarness({ env: { ORDER_TTL_MS: '300', SETTLE_WAIT_MS: '300', ARCHIVE_AFTER_DAYS: '40' } })
const { services, env } = harness
const { db } = services
const partner = await harness.makePartner()

const move = () => archiveDue(services)

/** How many rows of the trader are live, and how many archived. */
async function whereabouts({ traderId }: TestTrader): Promise<{ live: number; archived: number }> {
  const [found] = await rows<{ live: number; archived: number }>(
    db,
    `select (select count(*)::int from orders where trader_id = :traderId) as live,
            (select count(*)::int from orders_archive where trader_id = :traderId) as archived`,
    { traderId }
  )
  return found as { live: number; archived: number }
}

const elsewhere = suite('archived orders')

elsewhere('are in the events that name them as they were before', async () => {
  const trader = await partner.makeTrader()
  const other = await (await harness.makePartner()).makeTrader()
  const past = daysAgo(60)
  for (const each of [trader, other]) {
    const id = await insertOldOrder(db, each, { at: past, phase: 'open', pnl: null, closed_at: null })
    await db('orders').where({ id }).update({ phase: 'closed', pnl: 3, closed_at: past })
    const failing = await insertOldOrder(db, each, { at: past, ...unbought, phase: 'queued' })
    await db('orders').where({ id: failing }).update({ phase: 'failed', error_code: 'ORDER_EXPIRED' })
  }
  await sequenceAll(db)
  const before = (await readAll(partner)).events
  assert.equal(
    before
      .map(({ type }) => type)
      .filter(type => type.startsWith('order.'))
      .sort(),
    ['order.closed', 'order.failed']
  )
  await move()
  assert.equal(await whereabouts(trader), { live: 0, archived: 2 })
  assert.equal((await readAll(partner)).events, before)
})

elsewhere('count in the usage of a period that is older than they are', async () => {
  await db('partners')
    .where({ id: partner.partnerId })
    .update({ period_start: daysAgo(80) })
  const trader = await partner.makeTrader()
  for (const days of [90, 70, 60, 10]) await insertOldOrder(db, trader, { at: daysAgo(days) })
  await insertOldOrder(db, trader, { at: daysAgo(60), ...unbought })
  const before = (await partner.call(getUsage)).body
  await move()
  assert.equal(await whereabouts(trader), { live: 1, archived: 4 })
  assert.equal((await partner.call(getUsage)).body.orders, before.orders)
})

elsewhere('count as copies of their follow', async () => {
  const [leader, follower] = [await partner.makeTrader(), await partner.makeTrader()]
  const id = newId('follow')
  await db('follows').insert({
    ...{ id, partner_id: partner.partnerId, trader_id: follower.traderId, leader_id: leader.traderId },
    ...{ trader_external_id: follower.traderExternalId, status: 'ACTIVE' },
    ...{ risk_pct: 10, max_drawdown_pct: 20, base_balance: 1000 }
  })
  for (const days of [60, 50, 1]) await insertOldOrder(db, follower, { at: daysAgo(days), follow_id: id })
  await move()
  assert.equal(await whereabouts(follower), { live: 1, archived: 2 })
  const query = { traderExternalId: follower.traderExternalId }
  const [follow] = (await partner.call(listMyFollows, { query })).body.data
  assert.is(follow.copiedOrders, 3)
})

elsewhere('are given out with the trader’s data, and keep no name after its erasure', async () => {
  const trader = await partner.makeTrader({ externalId: newId('trader') })
  const { traderId, traderExternalId } = trader
  const { body } = binaryOrder(trader)
  const id = await insertOldOrder(db, trader, { at: daysAgo(60), clientOrderId: body.clientOrderId })
  await move()
  const exported = await operator(env, 'traders', 'export', traderId, '--json')
  assert.equal(
    exported.json.tables.orders_archive.map((order: { id: string }) => order.id),
    [id]
  )
  const erased = await operator(env, 'traders', 'erase', traderId, '--reason', 'a test', '--yes', '--json')
  assert.is(erased.json.tables.orders_archive, 1)
  const [order] = await rows(db, 'select o::text as text from orders_archive o where id = :id', { id })
  assert.not.match(JSON.stringify(order), new RegExp(traderExternalId))
  assert.is((await partner.call(listOrders, { query: { traderExternalId } })).body.error, 'TRADER_NOT_FOUND')
  // The clientOrderId buys nothing more for whoever has the name next.
  await partner.makeTrader({ externalId: traderExternalId })
  assert.equal((await partner.call(listOrders, { query: { traderExternalId } })).body.data, [])
  assert.is((await partner.call(placeBinaryOrder, { body })).body.orderId, id)
})

elsewhere('keep no name that is erased while they move, nor do the orders behind them', async () => {
  const trader = await partner.makeTrader({ externalId: newId('trader') })
  const { traderId, traderExternalId } = trader
  // More than an erasure changes in one statement, and the first of them are those that move.
  await insertOrderRows(db, trader, { at: daysAgo(60), count: 6000 })
  await db.raw(
    `update orders set id = 'ord_' || lpad(n::text, 26, '0'), queued_at = created_at
       from (select id as old, row_number() over () as n from orders where trader_id = ?) numbered where id = old`,
    [traderId]
  )
  const trx = await db.transaction()
  // Held for as long as the command takes to start on a busy machine.
  await trx.raw('set local idle_in_transaction_session_timeout = 0')
  assert.is((await archiveOrders(trx, { before: daysAgo(40), after: '', limit: 100 })).moved, 100)
  const erased = operator(env, 'traders', 'erase', traderId, '--reason', 'a test', '--yes', '--json')
  await until('the erasure to wait', () => waits('update orders set'))
  await trx.commit()
  const { exitCode, stderr, json } = await erased
  assert.is(exitCode, 0, stderr)
  assert.equal([json.tables.orders, json.tables.orders_archive], [5900, 100])
  const left = await rows(
    db,
    `select (select count(*)::int from orders where trader_external_id = :name) as live,
            (select count(*)::int from orders_archive where trader_external_id = :name) as archived`,
    { name: traderExternalId }
  )
  assert.equal(left, [{ live: 0, archived: 0 }])
})

/** Whether a statement that has this text waits for a lock. */
async function waits(statement: string): Promise<boolean> {
  const found = await rows(
    db,
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like :statement`,
    { statement: `%${statement}%` }
  )
  return found.length > 0
}

const moving = suite('a worker that moves orders')

moving('and is killed in the middle of a batch has moved none of it', async () => {
  const trader = await partner.makeTrader()
  const at = daysAgo(60)
  for (let count = 0; count < 50; count++) await insertOldOrder(db, trader, { at: new Date(at.getTime() + count) })
  await services.queue.boss.send('orders.archive', {})
  // The move waits for the count of this month, with the orders deleted and inserted and nothing committed.
  await db.transaction(async trx => {
    // Held for as long as a worker takes to start on a busy machine.
    await trx.raw('set local idle_in_transaction_session_timeout = 0')
    await trx('archive_months')
      .where({ month: `${at.toISOString().slice(0, 7)}-01` })
      .update({ dropped: 0 })
    const worker = await startWorker(env)
    await until('the move to wait', () => moves(`wait_event_type = 'Lock'`), 20_000)
    worker.kill('SIGKILL')
    await worker.ended
    assert.equal(await whereabouts(trader), { live: 50, archived: 0 })
  })
  await until('the database to give up on the killed worker', async () => !(await moves('true')))
  assert.equal(await whereabouts(trader), { live: 50, archived: 0 })
  await move()
  assert.equal(await whereabouts(trader), { live: 0, archived: 50 })
  const [counts] = await rows(
    db,
    `select (select count(*)::int from archived_names) as names, (select count(*)::int from orders_archive) as orders,
            (select sum(orders)::int from archive_months) as counted`,
    {}
  )
  const { names, orders, counted } = counts as Record<string, number>
  assert.equal([names, counted], [orders, orders])
})

/** Whether there is a statement that moves orders, of which `condition` holds. */
async function moves(condition: string): Promise<boolean> {
  const found = await rows(
    db,
    `select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
        and query like '%delete from orders%' and state <> 'idle' and ${condition}`,
    {}
  )
  return found.length > 0
}

moving.after(closeAll)
elsewhere.run()
moving.run()

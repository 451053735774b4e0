// Orders that ended long ago move to the archive. Whoever looks sees no difference: a repeat finds its order, lists run on,
// and sums stay as they were; a clientOrderId and a contract belong to one order over both tables.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getOrder } from '../../api/orders/by-id.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { findAnalyticsDifferences } from '../../db/analytics/verify.ts'
import { archiveOrders } from '../../db/orders/archiving.ts'
import { listEntries } from '../../db/orders/listing.ts'
import { markOpen } from '../../db/orders/placing.ts'
import { findOrders } from '../../db/orders/reading.ts'
import { claimedContracts } from '../../db/orders/reconciliation.ts'
import { haltTrading, resumeTrading } from '../../db/platform/halts.ts'
import { findNamedOrders } from '../../db/platform/named.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { closeAll, openHarness, type TestTrader } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { binaryOrder, DAY_MS, daysAgo, insertOldOrder, unbought } from '../support/old-orders.ts'
import { rowsRead } from '../support/rows-read.ts'

const harness = await openHarness({ env: { ORDER_TTL_MS: '300', SETTLE_WAIT_MS: '400' } })
const { db } = harness.services
const partner = await harness.makePartner()

/** Moves all that ended 40 days ago; returns how many. */
async function move(trx: Db = db, { limit = 100, batches = 100 } = {}): Promise<number> {
  let moved = 0
  for (let after: string | null = ''; after !== null && batches-- > 0; ) {
    const batch = await archiveOrders(trx, { before: daysAgo(40), after, limit })
    moved += batch.moved
    after = batch.after
  }
  return moved
}

const place = (body: object) => partner.call(placeBinaryOrder, { body })
const archived = (id: string) => db('orders_archive').where({ id }).first()
const live = (id: string) => db('orders').where({ id }).first()

const moving = suite('the move of orders to the archive')

moving('takes what is over for so long, each order once, and nothing else', async () => {
  const trader = await partner.makeTrader()
  const old = await insertOldOrder(db, trader, { at: daysAgo(100) })
  const failed = await insertOldOrder(db, trader, { at: daysAgo(90), ...unbought, retryable: true })
  const open = await insertOldOrder(db, trader, { at: daysAgo(90), phase: 'open', pnl: null, closed_at: null })
  const closedNow = await insertOldOrder(db, trader, { at: daysAgo(90), closed_at: new Date() })
  const queuedAgain = await insertOldOrder(db, trader, { at: daysAgo(90), ...unbought, queued_at: new Date() })
  const young = await insertOldOrder(db, trader, { at: daysAgo(39) })
  // Younger orders stay, whatever is wanted: lists read the live ones alone for them.
  await archiveOrders(db, { before: new Date(), after: '' })
  for (const id of [old, failed]) {
    assert.ok(await archived(id))
    assert.not(await live(id))
  }
  for (const id of [open, closedNow, queuedAgain, young]) {
    assert.ok(await live(id))
    assert.not(await archived(id))
  }
  assert.is((await archived(failed)).retryable, false)
  assert.is(await move(), 0)
  const [counted] = await rows<{ orders: number }>(db, 'select sum(orders)::int as orders from archive_months')
  assert.is(counted?.orders, Number((await db('orders_archive').count('* as count'))[0]?.count))
})

moving('by a worker whose clock is 60 days ahead takes nothing younger, by the clock of the database', async () => {
  const trader = await partner.makeTrader()
  const young = await insertOldOrder(db, trader, { at: daysAgo(39) })
  const failed = await insertOldOrder(db, trader, { at: daysAgo(1), ...unbought, retryable: true })
  const { now } = Date
  Date.now = () => now() + 60 * DAY_MS
  try {
    await archiveOrders(db, { before: daysAgo(40), after: '' })
  } finally {
    Date.now = now
  }
  for (const id of [young, failed]) assert.ok(await live(id))
})

moving('hides nothing from a list of a process whose clock is an hour behind', async () => {
  const trader = await partner.makeTrader()
  const at = new Date(Date.now() - 40 * DAY_MS - 1_800_000)
  const id = await insertOldOrder(db, trader, { at })
  await move()
  assert.ok(await archived(id))
  const from = new Date(at.getTime() - 900_000)
  const { now } = Date
  Date.now = () => now() - 3_600_000
  try {
    const { orders } = await listEntries(db, { traderExternalId: trader.traderExternalId, from, limit: 20 })
    assert.equal(
      orders.map(order => order.id),
      [id]
    )
  } finally {
    Date.now = now
  }
})

moving('keeps every column', async () => {
  const columns = (table: string) =>
    db('information_schema.columns')
      .where({ table_name: table, table_schema: 'public' })
      .orderBy('ordinal_position')
      .select('column_name', 'data_type', 'generation_expression', 'collation_name')
  assert.equal(await columns('orders_archive'), await columns('orders'))
  const trader = await partner.makeTrader()
  const id = await insertOldOrder(db, trader, { at: daysAgo(80), trace: 'a'.repeat(32), markup: '0.1', attempt: 3 })
  const before = await live(id)
  await move()
  assert.equal(await archived(id), before)
  // The comparison of books would take its contract for one of no order.
  const { account_id: accountId, broker_order_id: contractId } = before
  const claims = await claimedContracts(db, accountId, [contractId, 'another'])
  assert.equal(
    [...claims.values()].map(claim => [claim.contractId, claim.orderId, claim.phase]),
    [[contractId, id, 'closed']]
  )
  assert.is((await claimedContracts(db, 'another', [contractId])).size, 0)
})

moving('moves all of a batch or nothing of it, and one process at a time', async () => {
  const trader = await partner.makeTrader()
  const clientOrderId = randomUUID()
  const id = await insertOldOrder(db, trader, { at: daysAgo(70), clientOrderId })
  const trx = await db.transaction()
  assert.is(await move(trx), 1)
  assert.is(await move(), 0)
  await trx.rollback()
  assert.ok(await live(id))
  assert.not(await archived(id))
  assert.is(await move(), 1)
  assert.is((await db('archived_names').where({ order_id: id })).length, 1)
})

const naming = suite('a clientOrderId of an archived order')

naming('returns its order to a repeat, and refuses other terms', async () => {
  const trader = await partner.makeTrader()
  for (const [columns, status] of [
    [{}, 200],
    [unbought, 502],
    [{ ...unbought, error_code: 'INVALID_CONTRACT' }, 422]
  ] as const) {
    const { body } = binaryOrder(trader)
    const id = await insertOldOrder(db, trader, { at: daysAgo(60), clientOrderId: body.clientOrderId, ...columns })
    const before = await place(body)
    if (status !== 502) assert.is(before.status, status)
    await move()
    const repeat = await place(body)
    assert.is(repeat.status, status, JSON.stringify(repeat.body))
    assert.is(repeat.headers.get('idempotent-replayed'), 'true')
    if (status === 200) assert.equal(repeat.body, before.body)
    const other = await place({ ...body, stake: 11 })
    assert.equal([other.status, other.body.error, other.body.orderId], [409, 'CLIENT_ORDER_ID_REUSED', id])
    assert.is((await db('orders').where({ client_order_id: body.clientOrderId })).length, 0)
  }
})

naming('returns its order while placing is halted', async () => {
  const trader = await partner.makeTrader()
  const { body } = binaryOrder(trader)
  const id = await insertOldOrder(db, trader, { at: daysAgo(60), clientOrderId: body.clientOrderId })
  await move()
  const halt = { scope: 'partner', subject: partner.partnerId } as const
  await haltTrading(db, { ...halt, reason: 'a test', actor: 'cli:test' })
  const [repeat, fresh] = await Promise.all([place(body), place(binaryOrder(trader).body)])
  await resumeTrading(db, halt)
  assert.equal([repeat.status, repeat.body.orderId], [200, id])
  assert.is(fresh.body.error, 'TRADING_HALTED')
})

naming('is another partner’s to use', async () => {
  const trader = await partner.makeTrader()
  const { body } = binaryOrder(trader)
  const id = await insertOldOrder(db, trader, { at: daysAgo(60), clientOrderId: body.clientOrderId })
  await move()
  const other = await harness.makePartner()
  const theirs = await other.makeTrader()
  await other.call(placeBinaryOrder, { body: { ...body, traderExternalId: theirs.traderExternalId } })
  assert.is((await db('orders').where({ client_order_id: body.clientOrderId })).length, 1)
  assert.is((await other.call(getOrder, { params: { id } })).status, 404)
  for (const query of [{ clientOrderId: body.clientOrderId }, {}] as Record<string, string>[])
    assert.not(
      (await other.call(listOrders, { query })).body.data.some((order: { orderId: string }) => order.orderId === id)
    )
})

naming('stays taken when its order was dropped', async () => {
  const trader = await partner.makeTrader()
  const { body } = binaryOrder(trader)
  const id = await insertOldOrder(db, trader, { at: daysAgo(60), clientOrderId: body.clientOrderId })
  await move()
  await db('orders_archive').where({ id }).delete()
  const repeat = await place(body)
  assert.equal([repeat.status, repeat.body.error, repeat.body.orderId], [409, 'CLIENT_ORDER_ID_REUSED', id])
})

// Either order of the two statements: the one that stores the order has a snapshot from before the move, and waits for it.
for (const [named, columns] of [
  ['closed', {}],
  ['failed, which a repeat would queue again,', { ...unbought, retryable: true }]
] as const)
  naming(`finds its order, ${named} while it moves`, async () => {
    const trader = await partner.makeTrader()
    const { body } = binaryOrder(trader)
    const id = await insertOldOrder(db, trader, { at: daysAgo(60), clientOrderId: body.clientOrderId, ...columns })
    const trx = await db.transaction()
    assert.is(await move(trx), 1)
    const repeat = place(body)
    await untilLockWaits(db)
    await trx.commit()
    const { status, body: returned } = await repeat
    assert.is(status, 'phase' in columns ? 502 : 200, JSON.stringify(returned))
    assert.is(returned.orderId, id)
    assert.is((await db('orders').where({ client_order_id: body.clientOrderId })).length, 0)
  })

const contracts = suite('a contract of an archived order')

contracts('is no other order’s', async () => {
  const trader = await partner.makeTrader()
  await insertOldOrder(db, trader, { at: daysAgo(60), broker_order_id: '777' })
  await move()
  const id = await insertOldOrder(db, trader, {
    at: new Date(),
    ...unbought,
    phase: 'review',
    error_code: 'REVIEW_REQUIRED'
  })
  const receipt = {
    id,
    attempt: 1,
    brokerOrderId: '777',
    transactionId: '1',
    buyPrice: '10',
    payout: '19.5',
    currency: 'USD',
    openedAt: Math.floor(daysAgo(60).getTime() / 1000),
    expiryAt: null,
    hasFollowers: false
  }
  const refusal = await markOpen(db, [receipt], null).catch((error: { constraint?: string }) => error.constraint)
  assert.is(refusal, 'orders_contract')
  assert.is((await live(id)).phase, 'review')
  assert.is((await markOpen(db, [{ ...receipt, brokerOrderId: '778' }], null)).length, 1)
})

const reading = suite('archived orders')

async function pages(query: Record<string, string | number>, between: () => Promise<unknown>): Promise<string[]> {
  const ids: string[] = []
  for (let cursor: string | undefined; ; ) {
    const { body } = await partner.call(listOrders, { query: { ...query, ...(cursor ? { cursor } : {}) } })
    ids.push(...body.data.map(({ orderId }: { orderId: string }) => orderId))
    if (!body.nextCursor) return ids
    cursor = body.nextCursor
    await between()
  }
}

async function someOrders(trader: TestTrader): Promise<string[]> {
  const made: { id: string; at: number }[] = []
  for (let i = 0; i < 24; i++) {
    const at = new Date(daysAgo(130).getTime() + i * 4.9 * DAY_MS)
    // Every fifth one is over only now, and stays among those that move; some are of one instant.
    const changes = i % 5 === 4 ? { closed_at: new Date() } : {}
    made.push({ id: await insertOldOrder(db, trader, { at, ...changes }), at: at.getTime() })
    if (i % 6 === 0) made.push({ id: await insertOldOrder(db, trader, { at, ...unbought }), at: at.getTime() })
  }
  return made.sort((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1)).map(({ id }) => id)
}

reading('are listed on from the live ones, also while they move between two pages', async () => {
  const trader = await partner.makeTrader()
  const ids = await someOrders(trader)
  const query = { traderExternalId: trader.traderExternalId, limit: 4 }
  assert.equal(await pages(query, () => move(db, { limit: 3, batches: 1 })), ids)
  await move()
  assert.ok(Number((await db('orders').where({ trader_id: trader.traderId }).count('* as count'))[0]?.count) > 3)
  assert.equal(await pages(query, async () => {}), ids)
  const failed = await pages({ ...query, status: 'FAILED' }, async () => {})
  const closed = await pages({ ...query, status: 'CLOSED' }, async () => {})
  assert.equal([...failed, ...closed].sort(), [...ids].sort())
  assert.is(failed.length, 4)
  assert.equal(await pages({ ...query, status: 'OPEN' }, async () => {}), [])
})

reading('are found by their orderId, clientOrderId and contract', async () => {
  const trader = await partner.makeTrader()
  const clientOrderId = randomUUID()
  const id = await insertOldOrder(db, trader, { at: daysAgo(60), clientOrderId, broker_order_id: '991' })
  const before = (await partner.call(getOrder, { params: { id } })).body
  await move()
  assert.equal((await partner.call(getOrder, { params: { id }, query: { wait: 1 } })).body, before)
  for (const query of [{ clientOrderId }, { brokerOrderId: '991' }] as Record<string, string>[])
    assert.equal((await partner.call(listOrders, { query })).body.data, [before])
  for (const name of [id, clientOrderId, '991'])
    assert.equal(
      (await findNamedOrders(db, name)).map(({ orderId }) => orderId),
      [id]
    )
})

/** Asserts that a list has this archived order alone, for which few of the archive's rows are read. */
async function listsWithoutOthers(of: { partnerId: string; status: 'CLOSED' | 'FAILED' }, orderId: string) {
  await db.raw('vacuum analyze orders_archive')
  const read = await rowsRead(db, 'orders_archive', async trx => {
    assert.equal(
      (await listEntries(trx, { ...of, limit: 50 })).orders.map(({ id }) => id),
      [orderId]
    )
  })
  assert.ok(read < 20, `${read} rows were read for the list`)
}

reading('are listed where they failed, and found by any name, without reading the others', async () => {
  const partner = await harness.makePartner()
  const trader = await partner.makeTrader()
  for (let n = 0; n < 300; n++) await insertOldOrder(db, trader, { at: daysAgo(80) })
  const bought = await insertOldOrder(db, trader, { at: daysAgo(80) })
  const failed = await insertOldOrder(db, trader, { at: daysAgo(90), ...unbought })
  await move()
  await listsWithoutOthers({ partnerId: partner.partnerId, status: 'FAILED' }, failed)
  const { client_order_id, broker_order_id } = await archived(bought)
  for (const name of [failed, client_order_id, broker_order_id]) {
    const read = await rowsRead(db, 'orders_archive', async trx => {
      assert.is((await findNamedOrders(trx, name)).length, 1)
    })
    assert.ok(read < 60, `${read} rows were read for ${name}`)
  }
})

reading('are listed without reading those that failed beside few that closed', async () => {
  const [unlucky, other] = [await harness.makePartner(), await harness.makePartner()]
  const [trader, lucky] = [await unlucky.makeTrader(), await other.makeTrader()]
  // Among all orders, most closed: nothing else shows PostgreSQL that this partner's did not.
  for (let n = 0; n < 300; n++) {
    await insertOldOrder(db, trader, { at: daysAgo(80), ...unbought })
    await insertOldOrder(db, lucky, { at: daysAgo(80) })
  }
  const closed = await insertOldOrder(db, trader, { at: daysAgo(90) })
  await move()
  await listsWithoutOthers({ partnerId: unlucky.partnerId, status: 'CLOSED' }, closed)
})

/** The months of the archive that `read` locks, which are those that its statements consider. */
async function monthsOf(read: (trx: Db) => Promise<unknown>): Promise<string[]> {
  return db.transaction(async trx => {
    await read(trx)
    const found = await rows<{ name: string }>(
      trx,
      `select c.relname as name from pg_locks l join pg_class c on c.oid = l.relation
        where l.pid = pg_backend_pid() and c.relispartition and c.relkind = 'r' order by 1`
    )
    return found.map(({ name }) => name)
  })
}

reading(
  'are found by orderId and clientOrderId in their own month, and by id in any where clocks were wrong',
  async () => {
    const trader = await partner.makeTrader()
    const at = new Date(`${daysAgo(120).toISOString().slice(0, 7)}-15T12:00:00Z`)
    const clientOrderId = randomUUID()
    const id = await insertOldOrder(db, trader, { at, clientOrderId })
    const elsewhere = await insertOldOrder(db, trader, { at: daysAgo(200), created_at: at })
    await insertOldOrder(db, trader, { at: daysAgo(200) })
    await move()
    const month = `orders_archive_${at.toISOString().slice(0, 7).replace('-', '')}`
    const byId = (trx: Db, id: string) => findOrders(trx, [id])
    assert.equal(await monthsOf(async trx => assert.is((await byId(trx, id))[0]?.id, id)), [month])
    const filter = { partnerId: partner.partnerId, clientOrderId, limit: 2 }
    const named = (trx: Db) => listEntries(trx, filter).then(({ orders }) => assert.is(orders[0]?.id, id))
    assert.equal(await monthsOf(named), [month])
    assert.is((await byId(db, elsewhere))[0]?.id, elsewhere)
  }
)

reading('are in the sums of analytics, also when they are recomputed', async () => {
  const verify = () => findAnalyticsDifferences(db, { from: daysAgo(140), to: new Date() })
  await db.raw(`update analytics_until set until = date_trunc('day', now()) - interval '141 days'`)
  await db.raw('truncate analytics_quarters, analytics_days, analytics_trader_days')
  const trader = await partner.makeTrader()
  await someOrders(trader)
  const addUp = async () => {
    while (await addUpAnalytics(db, { stepSeconds: 30 * 86_400 }));
  }
  await addUp()
  assert.equal(await verify(), [])
  await move()
  assert.equal(await verify(), [])
  await db.raw('insert into analytics_late_quarters select distinct partner_id, quarter from analytics_quarters')
  await db.raw('insert into analytics_late_days select distinct partner_id, trader_id, day from analytics_trader_days')
  await addUp()
  assert.equal(await verify(), [])
})

reading('that were dropped are in the sums all the same, which no comparison takes for wrong', async () => {
  const verify = () => findAnalyticsDifferences(db, { from: daysAgo(140), to: new Date() })
  const partner = await harness.makePartner()
  const trader = await partner.makeTrader()
  const old = await insertOldOrder(db, trader, { at: daysAgo(70) })
  await db.raw(
    "insert into analytics_late_quarters select partner_id, date_bin('15 minutes', opened_at, '2000-01-01 00:00+00') from orders where id = ?",
    [old]
  )
  while (await addUpAnalytics(db));
  assert.equal(await verify(), [])
  await move()
  await db.transaction(async trx => {
    await trx('orders_archive').where({ id: old }).delete()
    await trx('archive_months')
      .where({ month: `${daysAgo(70).toISOString().slice(0, 7)}-01` })
      .update({ dropped: 1, dropped_at: new Date(), dropped_until: daysAgo(70) })
  })
  assert.equal(await verify(), [])
  // What cannot be of those is compared as before.
  await db('analytics_quarters')
    .where({ partner_id: partner.partnerId })
    .update({ quarter: new Date(Math.floor(daysAgo(2).getTime() / 900_000) * 900_000) })
  assert.is.not((await verify()).length, 0)
})

reading.after(closeAll)
moving.run()
naming.run()
contracts.run()
reading.run()

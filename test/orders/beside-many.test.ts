// What an order reads does not grow with what others have: not with the followers of somebody else's leader, and not with
// accounts that were stored at once. Nor does the erasure of a trader with others' orders. Counted in rows that its statements read, as PostgreSQL counts them for a transaction.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { renewLease } from '../../db/orders/leases.ts'
import { listOrders } from '../../db/orders/listing.ts'
import { inPhases } from '../../db/orders/reading.ts'
import { storeOrders } from '../../db/orders/storing.ts'
import { countUnfinished } from '../../db/partners/partners.ts'
import { failHalted, haltTrading, resumeTrading } from '../../db/platform/halts.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { serving } from '../../db/traders/account-leases.ts'
import { eraseTrader, exportTrader } from '../../db/traders/erasure.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { closeAll, openHarness, type TestTrader } from '../support/harness.ts'
import { daysAgo, insertOldOrder } from '../support/old-orders.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { rowsRead } from '../support/rows-read.ts'
import { draftOf } from '../support/tick-order.ts'

const MANY = 3000
const FEW = 50

const harness = await openHarness()
const { db, queue, vault } = harness.services
const [large, small] = [await harness.makePartner(), await harness.makePartner()]

/** Stores traders with an account each, as one transaction; `filled` is called before it ends. */
async function fill(filled: () => Promise<unknown>): Promise<void> {
  const { partnerId } = large
  const accounts = Array.from({ length: MANY }, () => ({ id: newId('account'), traderId: newId('trader') }))
  await db.transaction(async trx => {
    await trx.batchInsert(
      'traders',
      accounts.map(({ id, traderId }) => ({
        id: traderId,
        partner_id: partnerId,
        external_id: traderId,
        active_account_id: id
      }))
    )
    await trx.batchInsert(
      'broker_accounts',
      accounts.map(({ id, traderId }) => ({
        id,
        partner_id: partnerId,
        trader_id: traderId,
        account_id: `VRTC${id}`,
        account_mode: 'DEMO',
        token_key_id: 'none',
        // As long as one is, or longer: reading the whole table costs more than its index.
        token_sealed: Buffer.alloc(400)
      }))
    )
    await filled()
  })
}

const few = async (table: string, run: (trx: Db) => Promise<unknown>): Promise<void> => {
  const read = await rowsRead(db, table, run)
  assert.ok(read < FEW, `${read} rows of ${table} read`)
}

const many = suite('beside many orders that ended')

many('those that wait are found for a halt, for metrics, and before a partner moves to another dialect', async () => {
  const trader = await large.makeTrader()
  await insertOrderRows(db, trader, { count: MANY })
  await db.raw('analyze orders')
  await few('orders', async trx => {
    await haltTrading(trx, { scope: 'asset', subject: 'R_100', reason: 'a test', actor: 'test' })
    assert.equal(await failHalted(trx, 10), [])
    await resumeTrading(trx, { scope: 'asset', subject: 'R_100' })
  })
  const waiting = inPhases('o', ['unproven', 'queued', 'sending', 'review'])
  await few('orders', trx => rows(trx, `select phase, count(*) from orders o where ${waiting} group by phase`))
  await few('orders', trx => countUnfinished(trx, large.partnerId, { notIn: 'next' }))
})

many('the newest of all partners are listed', async () => {
  await few('orders', trx => listOrders(trx, { limit: 20 }))
  const { nextCursor } = await listOrders(db, { limit: 20 })
  await few('orders', trx => listOrders(trx, { limit: 20, cursor: nextCursor as string }))
})

many('those of all partners that were placed within a time are listed, page by page', async () => {
  const [one, two] = [await large.makeTrader(), await small.makeTrader()]
  const older = await insertOldOrder(db, one, { at: daysAgo(2.5) })
  const newer = await insertOldOrder(db, two, { at: daysAgo(2.1) })
  for (const days of [1.9, 3.1]) await insertOldOrder(db, one, { at: daysAgo(days) })
  const window = { from: daysAgo(3), to: daysAgo(2), limit: 1 }
  const first = await listOrders(db, window)
  const second = await listOrders(db, { ...window, cursor: first.nextCursor as string })
  assert.equal(
    [...first.orders, ...second.orders].map(({ id }) => id),
    [newer, older]
  )
  assert.is(second.nextCursor, null)
  await few('orders', trx => listOrders(trx, { ...window, errorCode: 'NOT_THERE' }))
})

many('a trader without orders is erased', async () => {
  const { traderId } = await small.makeTrader()
  await few('orders', trx => eraseTrader(trx, harness.services.vault, traderId))
})

const beside = suite('an order beside many of others')

beside('is served without reading the accounts that were stored at once before they were analysed', async () => {
  await renewLease(db, 'one', 60_000)
  // Analysed by a clock while they are stored: the table is as long as they make it, and nobody else sees them yet.
  await fill(() => db.raw('analyze broker_accounts'))
  const trader = await small.makeTrader()
  // Counted in pages: an index that is searched for the wrong column is read from end to end without a row.
  const [explained] = await rows<{ 'QUERY PLAN': [{ Plan: { 'Shared Hit Blocks': number } }] }>(
    db,
    `explain (analyze, buffers, format json)
     with accounts (account_id) as (values (:accountId::text)), ${serving} select account_id, worker from served`,
    { accountId: trader.accountId, sender: 'one' }
  )
  const pages = explained?.['QUERY PLAN'][0].Plan['Shared Hit Blocks'] ?? Number.NaN
  assert.ok(pages < MANY / 10, `${pages} pages read`)
})

beside('reads none of the follows of another leader when it is stored', async () => {
  const [trader, leader] = [await small.makeTrader(), await large.makeTrader()]
  await db.raw(
    `insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     select 'fol_' || substr(id, 5), partner_id, id, external_id, ?, 50, 90, 'ACTIVE', 10000
       from traders where partner_id = ? and id <> ?`,
    [leader.traderId, large.partnerId, leader.traderId]
  )
  await db.raw('analyze follows, traders, broker_accounts')
  const isLeading = async (partnerId: string, whose: TestTrader) => {
    const draft = draftOf({ partnerId, traderExternalId: whose.traderExternalId })
    const read = await rowsRead(db, 'follows', trx => storeOrders(trx, queue, [draft]))
    assert.ok(read < FEW, `${read} follows read`)
    const stored = await db('orders').where({ client_order_id: draft.clientOrderId }).first('has_followers')
    return stored?.has_followers
  }
  assert.is(await isLeading(small.partnerId, trader), false)
  assert.is(await isLeading(large.partnerId, leader), true)
  // Whatever ids are beside the leader's.
  await db('follows').where({ leader_id: leader.traderId }).update({ status: 'STOPPED' })
  assert.is(await isLeading(large.partnerId, leader), false)
})

const leaving = suite('a trader beside the orders of others')

leaving('is erased and given out without reading those', async () => {
  const trader = await small.makeTrader()
  await insertOrderRows(db, trader, { count: 3 })
  await db.raw(
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, app_id, dialect, kind,
       client_order_id, request_hash, asset, stake, phase, expires_at, error_code)
     select 'ord_' || substr(id, 5), partner_id, trader_id, trader_id, id, account_id, account_mode, '1', 'v3', 'BINARY', id, '\\x00', 'R_100', 10, 'failed',
       now(), 'BROKER_UPSTREAM' from broker_accounts where partner_id = ?`,
    [large.partnerId]
  )
  await db.raw('analyze orders')
  const read = await rowsRead(db, 'orders', async trx => {
    let given = 0
    for await (const { table } of exportTrader(trx, trader.traderId)) if (table === 'orders') given += 1
    assert.is(given, 3)
    assert.is((await eraseTrader(trx, vault, trader.traderId)).tables.orders, 3)
  })
  assert.ok(read < FEW, `${read} orders read`)
})

leaving.after(closeAll)
many.run()
beside.run()
leaving.run()

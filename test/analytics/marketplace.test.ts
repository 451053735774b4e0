// Earnings by buckets: which rows are read for them, and that those made before the table of their times are among them.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { readMarketplace } from '../../db/analytics/marketplace.ts'
import { refundPurchase } from '../../db/marketplace/refunds.ts'
import { purchaseBot, subscribeToBot } from '../../db/marketplace/sales.ts'
import { up as makeEarningsEntries } from '../../db/migrations/0120_earnings_entries.ts'
import { up as makeFeeEntries } from '../../db/migrations/0148_earnings_of_nothing.ts'
import { rows } from '../../db/postgres/connection.ts'
import { closeAll, openHarness } from '../support/harness.ts'
import { fund, makeBot } from '../support/marketplace-makers.ts'
import { rowsRead } from '../support/rows-read.ts'

const SALES = 1000

const harness = await openHarness()
const { db } = harness.services
const { partnerId } = await harness.makePartner()

// A sale of 10 each hour up to now, of which the creator gets 8; each tenth is refunded half an hour after it.
await db.raw(`insert into ledger_accounts (id) values ('fees'), ('world'), (?) on conflict do nothing`, [
  `earnings:${partnerId}`
])
await db.raw(
  `with moves as (
     select i, kind, sign, now() - (:sales - i) * interval '1 hour' - (1 + sign) * interval '15 minutes' as at
       from generate_series(1, cast(:sales as int)) i
       cross join (values ('sale', 1), ('refund', -1)) k (kind, sign) where sign = 1 or i % 10 = 0
   ), made as (
     insert into ledger_transfers (id, reference, kind, amount, created_at)
     select concat(kind, i), concat('marketplace ', kind, i), kind, 10, at from moves order by i returning id
   )
   insert into ledger_entries (account_id, version, transfer_id, amount, balance)
   select a.account, 0, made.id, a.amount * m.sign, 0
     from made join moves m on concat(m.kind, m.i) = made.id
     cross join (values (:account, 8), ('fees', 2), ('world', -10)) a (account, amount)`,
  { sales: SALES, account: `earnings:${partnerId}` }
)
await db.raw('analyze ledger_transfers, ledger_entries, earnings_entries')

const earnings = suite('the earnings of a window')

const windowOf = (days: number) => ({
  partnerId,
  from: new Date(Date.now() - days * 86_400_000).toISOString(),
  to: new Date(Date.now() + 60_000).toISOString(),
  present: true,
  timezone: 'UTC',
  interval: 'month' as const
})

const total = (data: Awaited<ReturnType<typeof readMarketplace>>['data']) =>
  (['sales', 'refunds', 'grossUsd', 'feesUsd', 'netUsd'] as const).map(field =>
    data.reduce((sum, row) => sum + Number(row[field]), 0)
  )

earnings('are those of all sales and refunds in it', async () => {
  const { data } = await readMarketplace(db, windowOf(60))
  assert.equal(total(data), [SALES, SALES / 10, 9000, 1800, 7200])
})

earnings('are read from the rows of the window alone', async () => {
  for (const table of ['ledger_entries', 'ledger_transfers', 'earnings_entries']) {
    const read = await rowsRead(db, table, async trx => {
      const { data } = await readMarketplace(trx, windowOf(1))
      assert.is(total(data)[0], 24)
    })
    assert.ok(read < 50, `${read} rows of ${table}`)
  }
})

earnings('have the same rows of before the migration as those made since', async () => {
  const list = async () =>
    (await db.raw('select * from earnings_entries order by account_id, created_at, version')).rows
  const made = await list()
  assert.is(made.length, SALES * 1.1)
  await db.raw(
    'drop trigger earnings_entry on ledger_entries; drop function earnings_entry; drop table earnings_entries'
  )
  await makeEarningsEntries(db)
  assert.equal(await list(), made)
})

earnings('count a sale, a month and a refund of which the platform keeps all', async () => {
  const [creator, buyer] = [await harness.makePartner(), await harness.makePartner()]
  await fund(harness, buyer, '100')
  const party = { partnerId: buyer.partnerId, partyId: buyer.partnerId, test: false }
  const [whole, cent] = [
    await makeBot(creator, { oneTimePriceUsd: 10, monthlyPriceUsd: 3 }),
    await makeBot(creator, { oneTimePriceUsd: 0.01 })
  ]
  const { id } = await db.transaction(trx => purchaseBot(trx, party, { botId: whole, feePct: '100' }))
  await db.transaction(trx => purchaseBot(trx, party, { botId: cent, feePct: '50' }))
  await db.transaction(trx => subscribeToBot(trx, party, { botId: whole, feePct: '100' }))
  const read = async () => {
    const { data } = await readMarketplace(db, { ...windowOf(1), partnerId: creator.partnerId })
    return [...total(data), data.reduce((sum, { subscriptions }) => sum + subscriptions, 0)]
  }
  assert.equal(await read(), [2, 0, 13.01, 13.01, 0, 1])
  await db.transaction(trx => refundPurchase(trx, id, { reason: 'a test' }))
  assert.equal(await read(), [2, 1, 3.01, 3.01, 0, 1])
  // As those made before the migration.
  await db.raw('drop trigger fee_entry on ledger_entries; drop function fee_entry')
  await db.raw(`alter table earnings_entries disable trigger append_only; delete from earnings_entries where net = 0;
    alter table earnings_entries enable trigger append_only`)
  await makeFeeEntries(db)
  assert.equal(await read(), [2, 1, 3.01, 3.01, 0, 1])
})

earnings('have a sale at its own time, however long its transaction waited before', async () => {
  const [creator, buyer] = [await harness.makePartner(), await harness.makePartner()]
  await fund(harness, buyer, '10')
  const botId = await makeBot(creator, { oneTimePriceUsd: 10 })
  const party = { partnerId: buyer.partnerId, partyId: buyer.partnerId, test: false }
  // A window that ends here is over before the sale, and contains the beginning of its transaction.
  const end = await db.transaction(async trx => {
    await trx.raw('select 1')
    const [row] = await rows<{ at: string }>(
      db,
      `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`
    )
    await purchaseBot(trx, party, { botId, feePct: '20' })
    return (row as { at: string }).at
  })
  const { data } = await readMarketplace(db, { ...windowOf(1), partnerId: creator.partnerId, from: end })
  assert.is(total(data)[0], 1)
})

earnings.after(closeAll)
earnings.run()

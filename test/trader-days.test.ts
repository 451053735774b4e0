// Sums over closed orders: whatever was added up beforehand, and whenever, a reader sees the sums of the orders.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { type Db, rows } from '../db/connection.ts'
import { listLeaders } from '../db/copy.ts'
import { readLeaderboard } from '../db/leaderboard.ts'
import { addUpTraderDays, deleteOldTraderDays, findWrongTraderDays } from '../db/trader-days.ts'
import { closeAll, openHarness, type TestTrader } from './harness.ts'
import { insertOrderRows } from './order-rows.ts'

const harness = await openHarness()
const { db } = harness.open
const partner = await harness.makePartner()
const traders: TestTrader[] = []
for (let i = 0; i < 6; i++) traders.push(await partner.makeTrader())
await db('community_profiles').insert(
  [partner.partnerId, ...traders.map(({ traderId }) => traderId)].map(partyId => ({
    partner_id: partner.partnerId,
    party_id: partyId,
    is_public: true
  }))
)
const adding = suite('adding up closed orders')

/** Closed orders of random traders, results and instants of the last 32 days; every fourth is a copy. */
async function trade(count: number): Promise<void> {
  await db.raw(
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, app_id, dialect,
       kind, client_order_id, copied_from, request_hash, asset, stake, phase, expires_at, broker_order_id, buy_price, opened_at, pnl, closed_at)
     select 'ord_' || gen_random_uuid(), t.partner_id, t.id, t.external_id, a.id, a.account_id, 'DEMO', '1', 'v3', 'BINARY',
       case when d.copy and first.id is not null then null else gen_random_uuid()::text end, case when d.copy then first.id end,
       '\\x00', 'R_100', 10, 'closed', now(), gen_random_uuid()::text, 10, now(), round((random() * 20 - 10)::numeric, 2),
       date_trunc('second', now() - random() ^ d.power * interval '32 days')
       from generate_series(1, :count) n
      cross join lateral (select n % 4 = 0 as copy, 1 + n % 4 as power, (:traders::text[])[1 + n % :many] as trader) d
       join traders t on t.id = d.trader join broker_accounts a on a.id = t.active_account_id
       left join (select min(id) as id from orders where copied_from is null) first on true`,
    { count, traders: traders.map(({ traderId }) => traderId), many: traders.length }
  )
}

/** The records as they follow from the orders alone. */
async function fromOrders(trx: Db) {
  const board = await rows<{ party_id: string; trades: number; wins: number; pnl: string }>(
    trx,
    `select trader_id as party_id, count(*)::int as trades, (count(*) filter (where pnl > 0))::int as wins, sum(pnl) as pnl
       from orders where phase = 'closed' and closed_at > now() - interval '30 days'
      group by trader_id order by 4 desc, 3 desc, 1`
  )
  const leaders = await rows<{ leaderId: string; trades: number; pnl: string; maxDrawdownPct: number }>(
    trx,
    `with runs as (
       select *, sum(pnl) over (partition by trader_id order by closed_at, pnl rows unbounded preceding) as running,
              row_number() over (partition by trader_id order by closed_at, pnl) as place
         from orders where phase = 'closed' and copied_from is null and closed_at > now() - interval '30 days'
     ), falls as (
       select *, greatest(0, max(running) over (partition by trader_id order by place)) - running as fall from runs
     )
     select trader_id as "leaderId", count(*)::int as trades, sum(pnl) as pnl,
            round(100 * max(fall) / sum(stake), 2)::float8 as "maxDrawdownPct"
       from falls group by trader_id having count(*) >= 10 order by 3 desc, 1`
  )
  return { board, leaders }
}

/** Asserts that what partners are told is what the orders say, at one instant. */
async function compare(): Promise<void> {
  await db.transaction(async trx => {
    const expected = await fromOrders(trx)
    const board = await readLeaderboard(trx, partner.partnerId)
    assert.equal(
      board.map(({ partyId, trades, wins, pnl }) => ({ party_id: partyId, trades, wins, pnl: Number(pnl) })),
      expected.board.map(row => ({ ...row, pnl: Number(row.pnl) }))
    )
    for (const everywhere of [false, true]) {
      const leaders = await listLeaders(trx, { partnerId: partner.partnerId, everywhere })
      assert.equal(
        leaders.map(({ leaderId, trades, pnl, maxDrawdownPct }) => ({
          leaderId,
          trades,
          pnl: Number(pnl),
          maxDrawdownPct
        })),
        expected.leaders.map(row => ({ ...row, pnl: Number(row.pnl) }))
      )
    }
  })
}

async function addUp(): Promise<void> {
  while (await addUpTraderDays(db));
}

const added = async () => (await rows<{ count: number }>(db, 'select count(*) as count from trader_days'))[0]?.count

adding('changes nothing that is told: before it, after each step, and after late closings', async () => {
  await compare()
  await trade(400)
  await compare()
  for (let step = 0; await addUpTraderDays(db); step++) if (step % 10 === 0) await compare()
  await compare()
  assert.ok(((await added()) ?? 0) > 50)
  assert.equal(await findWrongTraderDays(db), [])
  for (let round = 0; round < 5; round++) {
    // Most of these closed, by their time, before what has been added up.
    await trade(60)
    await compare()
    assert.equal(await findWrongTraderDays(db), [])
    await addUp()
    await compare()
    assert.equal(await findWrongTraderDays(db), [])
  }
})

adding('sees an order that was open and closes with an old date, and a result that is corrected', async () => {
  const trader = traders[0] as TestTrader
  await insertOrderRows(db, trader, { phase: 'open', at: new Date(Date.now() - 5 * 86_400_000) })
  await addUp()
  await db.raw(
    `update orders set phase = 'closed', pnl = -7.77, closed_at = now() - interval '4 days' where phase = 'open'`
  )
  await compare()
  await addUp()
  await compare()
  await db.raw('update orders set pnl = 5.55 where pnl = -7.77')
  await compare()
  await addUp()
  await compare()
  assert.equal(await findWrongTraderDays(db), [])
})

adding('from several processes at once adds everything once', async () => {
  await db.raw(`delete from trader_days`)
  await db.raw(`update trader_days_until set until = now() - interval '31 days'`)
  await Promise.all([addUp(), addUp(), addUp(), trade(50)])
  await compare()
  await addUp()
  await compare()
  assert.equal(await findWrongTraderDays(db), [])
})

adding('is checked by eyes that see: a sum that is wrong, a day that is missing', async () => {
  const [first, second] = (await rows(
    db,
    'select trader_id, day::text as day from trader_days order by 2 desc, 1 limit 2'
  )) as [{ trader_id: string; day: string }, { trader_id: string; day: string }]
  await db.raw('update trader_days set pnl = pnl + 0.01 where trader_id = :trader_id and day = :day::date', first)
  await db.raw('delete from trader_days where trader_id = :trader_id and day = :day::date', second)
  assert.equal(
    (await findWrongTraderDays(db)).map(({ traderId, day }) => ({ trader_id: traderId, day })),
    [first, second].sort((a, b) => (a.trader_id < b.trader_id ? -1 : 1))
  )
})

adding('forgets days that nobody looks at', async () => {
  await db.raw(`update trader_days set day = day - 60`)
  await deleteOldTraderDays(db)
  assert.is(await added(), 0)
})

adding.after(closeAll)
adding.run()

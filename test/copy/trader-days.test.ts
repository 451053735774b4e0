// Sums over closed orders: whatever was added up beforehand, and whenever, a reader sees the sums of the orders.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { MARKED } from '../../db/analytics/late.ts'
import { listLeaders } from '../../db/copy/follows.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import { addUpTraderDays, deleteOldTraderDays, findWrongTraderDays } from '../../db/traders/days.ts'
import { readLeaderboard } from '../../db/traders/leaderboard.ts'
import { openAddingUp } from '../../worker/trader-days.ts'
import { closeAll, openHarness, type TestTrader } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { db } = harness.services
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

/** Closed orders of random traders, results and instants of the last days; every fourth is a copy. */
async function trade(count: number, { days = 32 }: { days?: number } = {}): Promise<void> {
  await db.raw(
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id, dialect,
       kind, client_order_id, copied_from, request_hash, asset, stake, stake_in_account, exchange_rate, phase, expires_at, broker_order_id, buy_price, opened_at, pnl, closed_at)
     select 'ord_' || gen_random_uuid(), t.partner_id, t.id, t.external_id, a.id, a.account_id,
       case when n % 7 = 0 then 'REAL' else 'DEMO' end, case n % 5 when 0 then null when 1 then 'EUR' else 'USD' end, '1', 'v3', 'BINARY',
       case when d.copy and first.id is not null then null else gen_random_uuid()::text end, case when d.copy then first.id end,
       '\\x00', 'R_100', 10, case when n % 5 = 1 then 8.57 end, case when n % 5 = 1 then 0.857 end, 'closed', now(), gen_random_uuid()::text, 10, now(), round((random() * 20 - 10)::numeric, 2),
       date_trunc('minute', now() - random() ^ d.power * :days * interval '1 day')
       from generate_series(1, :count) n
      cross join lateral (select n % 4 = 0 as copy, 1 + n % 4 as power, (:traders::text[])[1 + n % :many] as trader) d
       join traders t on t.id = d.trader join broker_accounts a on a.id = t.active_account_id
       left join (select min(id) as id from orders where copied_from is null) first on true`,
    { count, days, traders: traders.map(({ traderId }) => traderId), many: traders.length }
  )
}

/** The records as they follow from the orders alone. */
async function fromOrders(trx: Db) {
  const board = await rows<{ party_id: string; trades: number; wins: number; pnl: string }>(
    trx,
    `select account_mode as mode, currency, trader_id as party_id, count(*)::int as trades, (count(*) filter (where pnl > 0))::int as wins, sum(pnl) as pnl
       from orders where phase = 'closed' and closed_at > now() - interval '30 days'
      group by trader_id, account_mode, currency order by 1 desc, currency collate "C" nulls last, pnl desc, wins desc, trader_id`
  )
  const leaders = await rows<{
    leaderId: string
    trades: number
    pnl: string
    maxDrawdownPct: number
    maxDrawdown: number
  }>(
    trx,
    `with runs as (
       select *, sum(pnl) over (partition by trader_id order by closed_at, pnl rows unbounded preceding) as running,
              row_number() over (partition by trader_id order by closed_at, pnl) as place
         from orders where phase = 'closed' and copied_from is null and closed_at > now() - interval '30 days'
          and account_mode = 'DEMO' and currency = 'USD'
     ), falls as (
       select *, greatest(0, max(running) over (partition by trader_id order by place)) - running as fall from runs
     )
     select trader_id as "leaderId", count(*)::int as trades, sum(pnl) as pnl,
            round(100 * max(fall) / sum(coalesce(stake_in_account, stake)), 2)::float8 as "maxDrawdownPct", max(fall)::float8 as "maxDrawdown"
       from falls group by trader_id having count(*) >= 10 order by 3 desc, 1`
  )
  return { board, leaders }
}

/** Asserts that the responses to partners equal sums over the orders, at one instant. */
async function compare(): Promise<void> {
  await db.transaction(async trx => {
    const expected = await fromOrders(trx)
    const board = await readLeaderboard(trx, { partnerId: partner.partnerId, accountMode: null, currency: null })
    assert.equal(
      board.map(({ partyId, accountMode, currency, trades, wins, pnl }) => ({
        mode: accountMode,
        currency,
        party_id: partyId,
        trades,
        wins,
        pnl: Number(pnl)
      })),
      expected.board.map(row => ({ ...row, pnl: Number(row.pnl) }))
    )
    for (const everywhere of [false, true]) {
      const leaders = await listLeaders(trx, { partnerId: partner.partnerId, everywhere })
      assert.equal(
        leaders.map(({ leaderId, trades, pnl, maxDrawdownPct, maxDrawdown }) => ({
          leaderId,
          trades,
          pnl: Number(pnl),
          maxDrawdownPct,
          maxDrawdown: Number(maxDrawdown)
        })),
        expected.leaders.map(row => ({ ...row, pnl: Number(row.pnl) }))
      )
    }
  })
}

async function addUp(): Promise<void> {
  while (await addUpTraderDays(db));
  assert.equal(await marks(), [], 'no day is left marked as late')
}

const marks = () => rows(db, 'select trader_id, day from trader_days_late')

/** As if nothing that closed since `from`, an expression of SQL, had ever been added up. */
async function forget(from: string): Promise<void> {
  await db.raw('delete from trader_days')
  await db.raw('delete from trader_days_late')
  await db.raw(`update trader_days_until set until = ${from}`)
}

/** Runs `update trader_days_until` through `body` of PL/pgSQL while `during` lasts: after the sums, before the commit. */
async function beforeMovingOn(body: string, during: () => Promise<unknown>): Promise<void> {
  await db.raw(`create function moving_on() returns trigger language plpgsql as $$ begin ${body}; return new; end $$`)
  await db.raw('create trigger moving_on before update on trader_days_until for each row execute function moving_on()')
  try {
    await during()
  } finally {
    await db.raw('drop function moving_on cascade')
  }
}

/** Entries of the table of orders and of its indexes that `work` read. */
async function ordersRead(work: (trx: Db) => Promise<unknown>): Promise<number> {
  return db.transaction(async trx => {
    // So few orders it would rather read as they lie.
    await trx.raw('set local enable_seqscan = off')
    await trx.raw('set local max_parallel_workers_per_gather = 0')
    const count = async () => {
      const [read] = await rows<{ entries: number }>(
        trx,
        `select sum(pg_stat_get_xact_tuples_returned(oid)) as entries from (
           select 'orders'::regclass as oid union all select indexrelid from pg_index where indrelid = 'orders'::regclass) o`
      )
      return Number(read?.entries)
    }
    const before = await count()
    await work(trx)
    return (await count()) - before
  })
}

interface Day {
  trades: number
  wins: number
  own_trades: number
  own_wins: number
  pnl: number
  own_pnl: number
  own_stake: number
  own_peak: number
  own_low: number
  own_fall: number
}

const cents = (amount: string) => Math.round(Number(amount) * 100)

/** The days of the last 30, in cents, as they follow from one order after the other. */
async function daysOneByOne(): Promise<Map<string, Day>> {
  const orders = await rows<{ key: string; pnl: string; stake: string; own: boolean }>(
    db,
    `select concat_ws(' ', trader_id, (closed_at at time zone 'UTC')::date, account_mode, coalesce(currency, '')) as key, pnl,
            coalesce(stake_in_account, stake) as stake, copied_from is null as own
       from orders where phase = 'closed' and closed_at < (select until from trader_days_until)
        and (closed_at at time zone 'UTC')::date > (now() at time zone 'UTC')::date - 31
      order by closed_at, orders.pnl, coalesce(stake_in_account, stake)`
  )
  const days = new Map<string, Day>()
  for (const { key, own, ...order } of orders) {
    const [pnl, stake] = [cents(order.pnl), cents(order.stake)]
    const none = { trades: 0, wins: 0, pnl: 0 }
    const noneOwn = { own_trades: 0, own_wins: 0, own_pnl: 0, own_stake: 0, own_peak: 0, own_low: 0, own_fall: 0 }
    const day = days.get(key) ?? { ...none, ...noneOwn }
    days.set(key, day)
    day.trades++
    day.wins += pnl > 0 ? 1 : 0
    day.pnl += pnl
    if (!own) continue
    day.own_trades++
    day.own_wins += pnl > 0 ? 1 : 0
    day.own_pnl += pnl
    day.own_stake += stake
    day.own_peak = Math.max(day.own_peak, day.own_pnl)
    day.own_low = Math.min(day.own_low, day.own_pnl)
    day.own_fall = Math.max(day.own_fall, day.own_peak - day.own_pnl)
  }
  return days
}

/** Asserts that each day is what its orders make of it, one after the other. */
async function compareDays(): Promise<void> {
  const stored = await rows<Record<keyof Day, string> & { key: string }>(
    db,
    `select concat_ws(' ', trader_id, day, account_mode, currency) as key, * from trader_days where day > (now() at time zone 'UTC')::date - 31`
  )
  const expected = await daysOneByOne()
  assert.is(stored.length, expected.size)
  for (const row of stored) {
    const day = expected.get(row.key) as Day
    const reported = Object.keys(day).map(name => {
      const value = row[name as keyof Day]
      return [name, /trades|wins/.test(name) ? Number(value) : cents(value)]
    })
    assert.equal(Object.fromEntries(reported), day, row.key)
  }
}

const added = async () => (await rows<{ count: number }>(db, 'select count(*) as count from trader_days'))[0]?.count

adding('changes nothing that is returned: before it, after each step, and after late closings', async () => {
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

adding('marks what changed late from the age on that is relied on, and nothing younger', async () => {
  const trader = traders[0] as TestTrader
  const late = ['trader_days_late', 'analytics_late_quarters', 'analytics_late_closes', 'analytics_late_days']
  const marked = async (age: string) => {
    const trx = await db.transaction()
    for (const table of late) await trx(table).delete()
    const [bought] = await rows<{ at: Date }>(trx, `select now() - ${age} as at`)
    await insertOrderRows(trx, trader, bought)
    const found: string[] = []
    for (const table of late) if (await trx(table).first()) found.push(table)
    await trx.rollback()
    return found
  }
  assert.equal(await marked(`(${MARKED} + interval '1 second')`), late)
  assert.equal(await marked(`(${MARKED} - interval '1 second')`), [])
})

adding('from several processes at once adds everything once', async () => {
  await forget(`now() - interval '31 days'`)
  const work = async () => {
    while (await addUpTraderDays(db, { halvings: 2 }));
  }
  await Promise.all([work(), work(), work(), trade(50)])
  await compare()
  await addUp()
  await compare()
  await compareDays()
  assert.equal(await findWrongTraderDays(db), [])
})

adding('a day in parts makes what it makes in one, whatever closes late between two parts', async () => {
  await trade(600, { days: 4 })
  await forget(`(now() at time zone 'UTC')::date::timestamp at time zone 'UTC' - interval '31 days'`)
  let late = 0
  for (let more = true; more; ) {
    more = await addUpTraderDays(db, { halvings: Math.floor(Math.random() * 5) })
    if (late < 10 && Math.random() < 0.3) {
      await trade(10)
      late++
    }
    await compare()
    assert.equal(await findWrongTraderDays(db), [])
  }
  assert.ok(late > 2)
  await addUp()
  await compareDays()
})

adding('a minute costs what closed in it, however much the day has seen', async () => {
  const trader = traders[0] as TestTrader
  // Deleted rows would be counted as long as an index holds them.
  await db.raw('truncate orders cascade')
  const noon = new Date(Math.floor(Date.now() / 86_400_000 - 1) * 86_400_000 + 12 * 3_600_000)
  await insertOrderRows(db, trader, { at: new Date(noon.getTime() - 3_600_000), count: 500 })
  await insertOrderRows(db, trader, { at: new Date(noon.getTime() + 5000), count: 7, pnl: '-1' })
  await insertOrderRows(db, trader, { at: new Date(noon.getTime() + 3_600_000), count: 300 })
  await forget(`'${noon.toISOString()}'::timestamptz - interval '12 hours'`)
  const halfDay = { halvings: 1 }
  const aboutAMinute = { halvings: 10 }
  assert.is(await ordersRead(trx => addUpTraderDays(trx, halfDay)), 500)
  assert.is(await ordersRead(trx => addUpTraderDays(trx, aboutAMinute)), 7)
  const [day] = await rows<{ own_trades: number; own_fall: string }>(db, 'select own_trades, own_fall from trader_days')
  assert.is(day?.own_trades, 507)
  assert.is(Number(day?.own_fall), 7)
  await addUp()
  await compareDays()
})

adding('a worker that dies between the sums and the end of its span has added nothing', async () => {
  // Its first span is the day of all orders there are.
  await forget(`((now() at time zone 'UTC')::date - 1)::timestamp at time zone 'UTC'`)
  await beforeMovingOn('perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(30)', async () => {
    let died = false
    await addUpTraderDays(db).catch(() => {
      died = true
    })
    assert.ok(died)
  })
  assert.is(await added(), 0)
  await addUp()
  assert.is(await added(), 1)
  await compareDays()
})

adding('halves its step as often as a statement takes too long, until it has caught up', async () => {
  await db.raw('create sequence attempts')
  const add = openAddingUp()
  const attempts = async () =>
    (await rows<{ last_value: number }>(db, 'select last_value from attempts'))[0]?.last_value
  const tooLong = `if new.until - old.until > interval '4 hours' then
    perform nextval('attempts'); raise exception using errcode = 'query_canceled'; end if`
  for (const cancelled of [3, 6]) {
    await forget(`now() - interval '3 days'`)
    await beforeMovingOn(tooLong, () => add({ db, log: harness.services.log }))
    // A day, twelve hours and six; and a day again when there was nothing left.
    assert.is(await attempts(), cancelled)
    assert.is(await added(), 1)
    await compareDays()
  }
  await forget(`now() - interval '3 days'`)
  const broken = `perform nextval('attempts'); raise exception using errcode = 'data_corrupted'`
  await beforeMovingOn(broken, async () => {
    let code: unknown
    await add({ db, log: harness.services.log }).catch(error => {
      code = error.code
    })
    assert.is(code, 'XX001')
    assert.is(await attempts(), 7)
  })
  await addUp()
})

adding('is checked by eyes that see: a sum that is wrong, a day that is missing', async () => {
  await trade(50)
  await addUp()
  const [first, second] = (await rows(
    db,
    'select distinct trader_id, day::text as day from trader_days order by 2 desc, 1 limit 2'
  )) as [{ trader_id: string; day: string }, { trader_id: string; day: string }]
  await db.raw('update trader_days set pnl = pnl + 0.01 where trader_id = :trader_id and day = :day::date', first)
  await db.raw('delete from trader_days where trader_id = :trader_id and day = :day::date', second)
  assert.equal(
    (await findWrongTraderDays(db)).map(({ traderId, day }) => ({ trader_id: traderId, day })),
    [first, second].sort((a, b) => (`${a.trader_id} ${a.day}` < `${b.trader_id} ${b.day}` ? -1 : 1))
  )
})

adding('forgets days that are not requested', async () => {
  await db.raw(`update trader_days set day = day - 60`)
  await deleteOldTraderDays(db)
  assert.is(await added(), 0)
})

adding(
  'counts what closed once where the clock of the database went back, before and after the sums are taken back',
  async () => {
    await trade(300)
    // As a process leaves it that added all up while the clock was a day ahead.
    await db.raw(`delete from orders where closed_at > now() - interval '20 minutes'`)
    await forget(`now() - interval '40 days'`)
    await addUp()
    await db.raw(`update trader_days_until set until = now() + interval '1 day'`)
    await insertOrderRows(db, traders[0] as TestTrader, { at: new Date(Date.now() - 60_000), pnl: '100000', count: 3 })
    await compare()
    await addUp()
    await compare()
    const [reached] = await rows<{ behind: boolean }>(
      db,
      `select until < now() - interval '5 minutes' as behind from trader_days_until`
    )
    assert.ok(reached?.behind, 'what closes now is not before the instant up to which is added up')
    assert.equal(await findWrongTraderDays(db), [])
  }
)

adding.after(closeAll)
adding.run()

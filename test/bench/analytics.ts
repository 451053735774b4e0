// Analytics over many orders: how fast they are added up, how long revenue of 90 days and a page of traders take, and
// what the order path pays. The orders are bought and closed evenly over 91 days by traders that take turns at random, so
// that nearly every trader has a row for nearly every day: the worst case of what a page of traders has to sum. Ten million take
// some quarter of an hour to insert and add up, and 15 GB where temporary files are (TMPDIR).
//   BENCH_ORDERS   how many orders (1,000,000)     BENCH_TRADERS  of how many traders (100,000)
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { traderSorts } from '../../db/analytics/traders.ts'
import { type Db, openDatabase, rows } from '../../db/postgres/connection.ts'
import { print, verdict } from './report.ts'
import { call, cpuOf, median, ms, type Stage, setStage, spread } from './stage.ts'
import { orders } from './throughput.ts'

const ORDERS = Number(process.env.BENCH_ORDERS ?? 1_000_000)
const TRADERS = Number(process.env.BENCH_TRADERS ?? 100_000)
const DAYS = 91
const GROUP = 500_000
const REQUESTS = 100
const DAY_MS = 86_400_000

/** The part `analytics` of the benchmark. `seconds` is the length of the load that an order's cost is compared with. */
export async function analytics(seconds: number): Promise<void> {
  const stage = await setStage()
  // Without the service's bound on statements.
  const db = openDatabase({ url: stage.url, pool: 4, name: 'bench', limits: null })
  const { address } = await stage.startApi()
  const filledMs = await timed(() => fill(db, stage.partnerId))
  const addedMs = await timed(() => addUpAll(db))
  await db.raw(
    'vacuum analyze analytics_quarters, analytics_days, analytics_trader_days, analytics_total_chunks, analytics_totals'
  )
  const perSecond = ORDERS / (addedMs / 1000)
  print(
    `Adding up ${count(ORDERS)} orders of ${count(TRADERS)} traders in ${DAYS} days (inserted in ${Math.round(filledMs / 1000)} s)`,
    ['took', 'orders/s', 'goal'],
    [[`${(addedMs / 1000).toFixed(1)} s`, count(perSecond), verdict('≥ 50,000', perSecond >= 50_000)]]
  )
  await reads(stage, address)
  await orderPath(stage, { db, address, seconds })
  await db.destroy()
  await stage.close()
}

const count = (value: number) => Math.round(value).toLocaleString('en')

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}

async function addUpAll(db: Db): Promise<void> {
  while (await addUpAnalytics(db));
}

type Asked = [what: string, path: string, goal: { p50?: number; p95: number } | null]

async function reads(stage: Stage, address: string): Promise<void> {
  const midnight = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const days = (first: number, last: number) =>
    `from=${new Date(midnight - first * DAY_MS).toISOString()}&to=${new Date(midnight - last * DAY_MS).toISOString()}`
  const back = (length: number) => `from=${new Date(Date.now() - length * DAY_MS).toISOString()}`
  const top = (what: string, window: string): Asked => [
    `top 100 traders, ${what}`,
    `traders?${window}&limit=100`,
    { p95: 80 }
  ]
  const asked: Asked[] = [
    ['revenue, 90 days by day, to now', `revenue?${back(90)}`, { p50: 15, p95: 50 }],
    ['the same, by asset', `revenue?${back(90)}&groupBy=asset`, null],
    ['the same, days of Kolkata', `revenue?${back(90)}&timezone=Asia/Kolkata`, null],
    ...[1, 7, 30, 90].map(length => top(`whole days: ${length}`, days(length, 0))),
    ...traderSorts.slice(1).map(sort => top(`30 whole days by ${sort}`, `${days(30, 0)}&sort=${sort}`)),
    top('30 whole days, both modes', `${days(30, 0)}&accountMode=ALL`),
    top('29 days and today', `from=${new Date(midnight - 29 * DAY_MS).toISOString()}`),
    top('30 days to now', back(30))
  ]
  const body: string[][] = []
  for (const [what, path, goal] of asked) {
    const times: number[] = []
    // No longer than ten seconds each, however slow.
    const end = performance.now() + 10_000
    while (times.length < REQUESTS && performance.now() < end)
      times.push(await timed(() => call({ address, key: stage.key, path: `/v1/analytics/${path}` })))
    const { p50, p95 } = spread(times)
    const met = goal !== null && (goal.p50 === undefined || p50 <= goal.p50) && p95 <= goal.p95
    const told =
      goal === null ? '' : verdict(`${goal.p50 === undefined ? '' : `≤ ${goal.p50} / `}≤ ${goal.p95} ms`, met)
    body.push([what, String(times.length), ms(p50), ms(p95), told])
  }
  print(
    `Single requests over HTTP, ${count(ORDERS)} orders`,
    ['GET /v1/analytics', 'requests', 'p50', 'p95', 'goal (p50 / p95)'],
    body
  )
}

/** What an order pays for analytics in PostgreSQL, and later in a worker, beside all that it costs. */
async function orderPath(
  stage: Stage,
  { db, address, seconds }: { db: Db; address: string; seconds: number }
): Promise<void> {
  await stage.startWorker()
  // Traders of the bench's own, since those of the orders have tokens that nothing can open.
  await orders(stage, { address, connections: 64, seconds })
  const before = await stage.cpuSeconds()
  const startedAt = performance.now()
  const { perSecond } = await orders(stage, { address, connections: 64, seconds: 2 * seconds })
  const placed = (perSecond * (performance.now() - startedAt)) / 1000
  const after = await stage.cpuSeconds()
  const micros = (name: string) => (((after[name] ?? 0) - (before[name] ?? 0)) * 1_000_000) / placed
  const whole = micros('PostgreSQL') + micros('api') + micros('worker')
  const figures = { with: [] as number[], without: [] as number[] }
  await lifeOfOrders(db, true)
  for (let round = 0; round < 5; round++)
    for (const on of round % 2 ? [true, false] : [false, true])
      figures[on ? 'with' : 'without'].push(await lifeOfOrders(db, on))
  const added = median(figures.with) - median(figures.without)
  const share = (100 * added) / whole
  print(
    `What analytics cost the order path: CPU of PostgreSQL, api and worker for an order at ${count(perSecond)} orders/s, and what the statements of an order's life take without and with the triggers and the index of analytics`,
    ['an order', 'without', 'with', 'added', 'goal'],
    [
      [
        `${count(whole)} µs`,
        `${median(figures.without).toFixed(1)} µs`,
        `${median(figures.with).toFixed(1)} µs`,
        `${added.toFixed(1)} µs, ${share.toFixed(2)} %`,
        verdict('≤ 1 %', share <= 1)
      ]
    ]
  )
}

const LIVES = 4000

/** Microseconds of CPU that PostgreSQL takes for an order's insertion and its changes until it is closed; nothing of it stays. */
async function lifeOfOrders(db: Db, withAnalytics: boolean): Promise<number> {
  const trx = await db.transaction()
  try {
    // A worker beside it holds locks of both tables at times, in the other order.
    await trx.raw('lock table orders in access exclusive mode')
    if (!withAnalytics) {
      for (const name of ['analytics_inserted', 'analytics_changed'])
        await trx.raw(`alter table orders disable trigger ${name}`)
      await trx.raw('drop index orders_opened')
    }
    const [backend] = await rows<{ pid: number }>(trx, 'select pg_backend_pid() as pid')
    const { pid } = backend as { pid: number }
    const { own: before } = await cpuOf(pid)
    await trx.raw(
      `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id,
             dialect, kind, client_order_id, request_hash, asset, contract_type, stake, duration, duration_unit, phase, expires_at)
         select 'life_' || n, t.partner_id, t.id, t.external_id, a.id, a.account_id || n, 'REAL', 'USD', '1', 'v3', 'BINARY', 'life-of-order-' || n,
                '\\x00', 'R_100', 'CALL', 1, 1, 't', 'queued', now() + interval '10 seconds'
           from generate_series(1, ${LIVES}) n cross join (select * from traders order by id limit 1) t
           join broker_accounts a on a.id = t.active_account_id`
    )
    for (const change of [
      `phase = 'sending', sent_at = now(), permit_until = now() + interval '3 seconds', resolve_at = now() + interval '20 seconds'`,
      `phase = 'open', broker_order_id = id, buy_price = 1, payout = 1.95, opened_at = now(), answered_at = now()`,
      `phase = 'closed', pnl = -1, closed_at = now(), markup = 0.02`
    ])
      await trx.raw(`update orders set ${change} where id >= 'life_' and id < 'life~'`)
    return (((await cpuOf(pid)).own - before) * 1_000_000) / LIVES
  } finally {
    await trx.rollback()
  }
}

/** Traders with an account each, and closed orders of them; then all is as if nothing had been added up. */
async function fill(db: Db, partnerId: string): Promise<void> {
  await long(
    db,
    `with made as (
       insert into traders (id, partner_id, external_id) select 'trd_bench' || n, :partnerId, 'bench-' || n from generate_series(1, :traders::int) n
       returning id, partner_id
     ) insert into broker_accounts (id, partner_id, trader_id, account_id, account_mode, currency, token_key_id, token_sealed)
       select 'acc' || id, partner_id, id, 'CR' || substr(id, 10), 'REAL', 'USD', 'b1', '\\x00' from made`,
    { partnerId, traders: TRADERS }
  )
  await long(db, `update traders set active_account_id = 'acc' || id, connected_at = now()`)
  // Indexes are built after the rows.
  const indexes = await rows<{ name: string; definition: string }>(
    db,
    `select indexname as name, indexdef as definition from pg_indexes
      where tablename = 'orders' and indexname not in (select conname from pg_constraint)`
  )
  for (const { name } of indexes) await db.raw('drop index ??', [name])
  for (let first = 0; first < ORDERS; first += GROUP)
    await long(db, INSERT, { partnerId, first, size: Math.min(GROUP, ORDERS - first), all: ORDERS, traders: TRADERS })
  for (const { definition } of indexes) await long(db, definition)
  await db.raw('vacuum analyze orders, traders, broker_accounts')
  await db.raw(
    `update analytics_until set until = date_bin('1 day', now() - interval '${DAYS + 1} days', timestamptz '2000-01-01 00:00+00')`
  )
}

// In the order of time, as orders come; of a day there are as many as of any other.
const INSERT = `
  insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id,
       dialect, kind, client_order_id, request_hash, asset, contract_type, stake, duration, duration_unit, phase, created_at, queued_at,
       expires_at, broker_order_id, buy_price, payout, opened_at, answered_at, pnl, entry_price, exit_price, closed_at, markup)
  select 'ord_' || lpad(n::text, 12, '0'), :partnerId, 'trd_bench' || trader, 'bench-' || trader, 'acctrd_bench' || trader, 'CR' || trader,
         case when n % 10 = 0 then 'DEMO' else 'REAL' end, 'USD', '1', 'v3', 'BINARY', lpad(n::text, 12, '0'), '\\x00',
         (array['R_100', 'R_50', 'R_25', '1HZ100V', 'frxEURUSD'])[1 + n % 5], (array['CALL', 'PUT', 'DIGITEVEN'])[1 + n % 3],
         stake, 1, 't', 'closed', at, at, at, lpad(n::text, 12, '0'), stake, round(stake * 1.95, 2), at, at,
         case when random() < 0.5 then -stake else round(stake * 0.95, 2) end, 100, 101, at + interval '10 seconds', round(stake * 0.02, 2)
    from generate_series(:first::int + 1, :first::int + :size::int) n
   cross join lateral (select now() - interval '${DAYS} days' + n * (interval '${DAYS} days' / :all::float8) - interval '1 hour' as at,
                              1 + floor(random() * :traders)::int as trader, round((1 + random() * 99)::numeric, 2) as stake) d`

/** A statement of minutes, without triggers and foreign keys, which would judge each row alone. */
async function long(db: Db, statement: string, bindings: Record<string, unknown> = {}): Promise<void> {
  await db.transaction(async trx => {
    await trx.raw(
      `set local synchronous_commit = off; set local session_replication_role = replica;
       set local maintenance_work_mem = '1GB'`
    )
    await rows(trx, statement, bindings)
  })
}

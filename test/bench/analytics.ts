// Analytics over many orders: how fast they are added up, how long revenue of 90 days and a page of traders take, and
// what the order path pays. The orders are bought and closed evenly over 91 days by traders that take turns at random, so
// that nearly every trader has a row for nearly every day: the worst case of what a page of traders has to sum. Ten million take
// some quarter of an hour to insert and add up, and 15 GB where temporary files are (TMPDIR).
//   BENCH_ORDERS   how many orders (1,000,000)     BENCH_TRADERS  of how many traders (100,000)
//   BENCH_DATA     a folder whose database is kept for the next run     BENCH_CASES    of adding, reads, late, path (all)
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import { traderSorts } from '../../db/analytics/traders.ts'
import { type Db, openDatabase, rows } from '../../db/postgres/connection.ts'
import { DAYS, fill, forget, forgetPlaced, ORDERS, TRADERS } from './analytics-orders.ts'
import { print, verdict } from './report.ts'
import { call, cpuOf, median, ms, type Stage, setStage, spread } from './stage.ts'
import { orders } from './throughput.ts'

const REQUESTS = 100
const DAY_MS = 86_400_000

/** The part `analytics` of the benchmark. `seconds` is the length of the load that an order's cost is compared with. */
export async function analytics(seconds: number): Promise<void> {
  const { BENCH_BUFFERS: buffers, BENCH_DATA: keepIn } = process.env
  const stage = await setStage([], 'v3', { keepIn, settings: buffers ? { shared_buffers: buffers } : {} })
  // Without the service's bound on statements.
  const db = openDatabase({ url: stage.url, pool: 4, name: 'bench', limits: null })
  const { address } = await stage.startApi()
  await fill(db, stage.partnerId)
  if (keepIn) await forgetPlaced(db)
  if (runs('adding')) await adding(db)
  else await addUpAll(db)
  if (runs('reads')) await reads(stage, address)
  if (runs('late')) await late(stage, db)
  if (runs('path')) await orderPath(stage, { db, address, seconds })
  await db.destroy()
  await stage.close()
}

// How many of the last days are recomputed, where all of them are added up already.
const AGAIN = 20

async function adding(db: Db): Promise<void> {
  const [{ added }] = (await rows<{ added: boolean }>(db, 'select exists (select from analytics_days) as added')) as [
    { added: boolean }
  ]
  if (added) await forget(db, AGAIN)
  const [{ until }] = (await rows<{ until: string }>(db, 'select until::text as until from analytics_until')) as [
    { until: string }
  ]
  const addedMs = await timed(() => addUpAll(db))
  await db.raw(
    'vacuum analyze analytics_quarters, analytics_days, analytics_day_traders, analytics_trader_days, analytics_closes, analytics_steps, analytics_step_chunks, analytics_step_totals'
  )
  const [{ orders }] = (await rows<{ orders: number }>(
    db,
    `select sum(contracts)::int as orders from analytics_quarters where grouping_by = '' and account_mode = 'ALL' and quarter >= :until::timestamptz`,
    { until }
  )) as [{ orders: number }]
  const perSecond = orders / (addedMs / 1000)
  print(
    `Adding up ${count(orders)} orders of ${count(TRADERS)} traders in ${added ? AGAIN : DAYS} days`,
    ['took', 'orders/s', 'goal'],
    [[`${(addedMs / 1000).toFixed(1)} s`, count(perSecond), verdict('≥ 50,000', perSecond >= 50_000)]]
  )
}

/** What late changes cost: of some orders of each of these days ago the markup becomes known in the end. */
async function late(stage: Stage, db: Db): Promise<void> {
  const body: string[][] = []
  for (const [orders, back] of [
    [1, 20],
    [40, 20],
    [40, 80]
  ] as const) {
    await rows(
      db,
      `update orders set markup = markup + 0.01
        where id in (select id from orders where partner_id = :partnerId and phase = 'closed'
                        and closed_at >= now() - (:back::int + 1) * interval '1 day' and closed_at < now() - :back::int * interval '1 day'
                      order by random() limit :orders::int)`,
      { partnerId: stage.partnerId, orders, back }
    )
    const before = (await stage.cpuSeconds()).PostgreSQL ?? 0
    const tookMs = await timed(() => addUpAll(db))
    const cpu = ((await stage.cpuSeconds()).PostgreSQL ?? 0) - before
    body.push([String(orders), String(back), `${cpu.toFixed(1)} s`, `${(tookMs / 1000).toFixed(1)} s`])
  }
  print('Late changes, added up anew', ['orders of one day', 'days ago', 'CPU of PostgreSQL', 'took'], body)
}

const cases = process.env.BENCH_CASES?.split(',')
const runs = (name: string) => cases?.includes(name) ?? true

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
  const window = (fromMs: number, toMs: number) =>
    `from=${new Date(fromMs).toISOString()}&to=${new Date(toMs).toISOString()}`
  const whole = (days: number) => window(midnight - days * DAY_MS, midnight)
  const toNow = (days: number) => `from=${new Date(Date.now() - days * DAY_MS).toISOString()}`
  // What lies beside whole days is the most then.
  const fromNoonToNoon = (days: number) => window(midnight - (days + 0.5) * DAY_MS, midnight - 0.5 * DAY_MS)
  const revenue = (what: string, of: string): Asked => [
    `revenue by day, ${what}`,
    `revenue?${of}`,
    { p50: 15, p95: 50 }
  ]
  const top = (what: string, of: string): Asked => [`top 100 traders, ${what}`, `traders?${of}&limit=100`, { p95: 80 }]
  const asked: Asked[] = [
    revenue('90 whole days', whole(90)),
    revenue('90 days to now', toNow(90)),
    revenue('89 days from noon to noon', fromNoonToNoon(89)),
    ['the same by asset', `revenue?${fromNoonToNoon(89)}&groupBy=asset`, null],
    ['90 days of Kolkata to now', `revenue?${toNow(90)}&timezone=Asia/Kolkata`, null],
    ...[1, 7, 30, 90].map(days => top(`whole days: ${days}`, whole(days))),
    ...[1, 7, 30].map(days => top(`${days} days to now`, toNow(days))),
    ...[1, 7, 30].map(days => top(`${days} days from noon to noon`, fromNoonToNoon(days))),
    ...traderSorts.slice(1).map(sort => top(`30 days to now by ${sort}`, `${toNow(30)}&sort=${sort}`)),
    ['the same by pnl, both modes', `traders?${toNow(30)}&limit=100&accountMode=ALL`, null]
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
    const verdictCell =
      goal === null ? '' : verdict(`${goal.p50 === undefined ? '' : `≤ ${goal.p50} / `}≤ ${goal.p95} ms`, met)
    body.push([what, String(times.length), ms(p50), ms(p95), verdictCell])
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

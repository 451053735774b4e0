// The archive: placing and listing beside BENCH_ARCHIVED archived orders (a million) against an empty archive, in turns; how fast
// orders move, and what those who place meanwhile notice of it.
import { setTimeout as sleep } from 'node:timers/promises'
import { archiveOrders } from '../../db/orders/archiving.ts'
import { openLog } from '../../db/platform/log.ts'
import { openDatabase, rows } from '../../db/postgres/connection.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { archiveDue } from '../../worker/orders/archiving.ts'
import { tickOrder } from '../support/tick-order.ts'
import { print, range, verdict } from './report.ts'
import { call, each, type Load, load, median, ms, type Stage, setStage } from './stage.ts'

const CONNECTIONS = 16
const ACCOUNTS = 500
/** Traders beside these that have no archived orders. */
const YOUNG = 20
const ROUNDS = 3
const YEARS = 5
/** Orders that move, alone and under load; their end is so many days ago. */
const TO_MOVE = 100_000
const ENDED_DAYS = 60

interface Theatre {
  stage: Stage
  place(): Promise<unknown>
  /** Reads by what they read. */
  lists: Record<string, () => Promise<unknown>>
}

/** Two stages in turns, one of them with a full archive; then a move in that one. */
export async function archive(seconds: number, archived: number): Promise<void> {
  const empty = await open()
  const full = await open()
  const filling = performance.now()
  await fill(full.stage, archived)
  const fillSeconds = (performance.now() - filling) / 1000
  const figures = new Map<string, { empty: Load[]; full: Load[] }>()
  const measure = async (name: string, of: 'empty' | 'full', work: () => Promise<unknown>, connections: number) => {
    const loads = figures.get(name) ?? { empty: [], full: [] }
    loads[of].push(await load({ connections, seconds: seconds / 2, work }))
    figures.set(name, loads)
  }
  for (let round = 0; round < ROUNDS; round++)
    for (const [of, theatre] of Object.entries({ empty, full }) as ['empty' | 'full', Theatre][]) {
      await measure('placing', of, theatre.place, CONNECTIONS)
      for (const [name, work] of Object.entries(theatre.lists)) await measure(name, of, work, 4)
    }
  print(
    `Beside ${archived.toLocaleString('en')} archived orders of ${YEARS} years, filled at ${Math.round(archived / fillSeconds).toLocaleString('en')}/s; p50, medians of ${ROUNDS} rounds in turns`,
    ['what', 'empty archive', 'full archive', 'p99 of both', 'ratio', 'goal'],
    [...figures].map(([name, loads]) => {
      const p50 = (of: Load[]) => median(of.map(each => each.p50))
      const p99 = (of: Load[]) => median(of.map(each => each.p99))
      const ratio = p50(loads.full) / p50(loads.empty)
      return [
        name,
        ms(p50(loads.empty)),
        ms(p50(loads.full)),
        `${ms(p99(loads.empty))}, ${ms(p99(loads.full))}`,
        `${ratio.toFixed(2)} ×`,
        verdict('≤ 1.1 ×', ratio <= 1.1)
      ]
    })
  )
  await empty.stage.close()
  await moving(full, seconds)
  await full.stage.close()
}

async function moving({ stage, place }: Theatre, seconds: number): Promise<void> {
  const { db } = stage
  const config = readConfig(stage.env)
  const days = ENDED_DAYS - 10
  const move = async () => {
    const before = new Date(Date.now() - days * 86_400_000)
    for (let after: string | null = ''; after !== null; ) after = (await archiveOrders(db, { before, after })).after
  }
  await fillOld(stage)
  const begun = performance.now()
  await move()
  const rate = TO_MOVE / ((performance.now() - begun) / 1000)
  await fillOld(stage)
  const placing = () => load({ connections: CONNECTIONS, seconds, work: place })
  const alone: Load[] = []
  const beside: Load[] = []
  let moved = 0
  for (let round = 0; round < ROUNDS; round++) {
    alone.push(await placing())
    const before = await countOld(stage)
    // As the workers do it, with their pauses.
    const moves = archiveDue(
      { db, config: { ...config, archiveAfterDays: days }, log: openLog({ level: 'silent', name: 'bench' }) },
      { limitMs: seconds * 1000 }
    )
    beside.push(await placing())
    await moves
    moved += before - (await countOld(stage))
    await sleep(500)
  }
  const ratio = median(beside.map(({ p99 }) => p99)) / median(alone.map(({ p99 }) => p99))
  const perSecond = moved / (ROUNDS * seconds)
  const row = (name: string, loads: Load[]) => [
    name,
    range(
      loads.map(({ p50 }) => p50),
      ' ms',
      1
    ),
    range(
      loads.map(({ p99 }) => p99),
      ' ms',
      0
    ),
    range(loads.map(each => each.perSecond))
  ]
  print(
    `Moving orders: ${Math.round(rate).toLocaleString('en')}/s without pauses and load; with the workers' pauses beside ${CONNECTIONS} connections that place ${Math.round(perSecond).toLocaleString('en')}/s`,
    ['placing', 'p50', 'p99', 'orders a second'],
    [row('alone', alone), row('beside a move', beside)]
  )
  console.log(verdict('Moving ≥ 20,000 orders/s', rate >= 20_000))
  console.log(verdict(`p99 of placing beside a move ${ratio.toFixed(2)} × of alone, ≤ 1.1 ×`, ratio <= 1.1))
}

async function open(): Promise<Theatre> {
  const stage = await setStage()
  // The bench moves orders by itself.
  const env = { ARCHIVE_AFTER_DAYS: '0' }
  const { address } = await stage.startApi(env)
  await stage.startWorker(env)
  const traders = await stage.makeTraders(address, ACCOUNTS + YOUNG)
  let turn = 0
  const trader = () => traders[turn++ % traders.length] as string
  const { key } = stage
  const read = (path: () => string) => () => call({ address, key, path: path() })
  const place = () =>
    call({
      address,
      key,
      path: '/v1/orders/binary',
      body: tickOrder(trader(), { duration: 60, durationUnit: 'm' })
    })
  await load({ connections: CONNECTIONS, seconds: 60, calls: 4 * (ACCOUNTS + YOUNG), work: place })
  const orders = await rows<{ id: string; client: string }>(
    stage.db,
    'select id, client_order_id as client from orders order by id limit 500'
  )
  const young = await rows<{ name: string }>(
    stage.db,
    `select external_id as name from traders where number >= (select min(number) from traders) + ${ACCOUNTS}`
  )
  const one = () => orders[turn++ % orders.length] as { id: string; client: string }
  return {
    stage,
    place,
    lists: {
      'first page of 50': read(() => '/v1/orders'),
      'first page of 2 of a trader': read(() => `/v1/orders?limit=2&traderExternalId=${trader()}`),
      'all orders of a trader without archived ones': read(
        () => `/v1/orders?limit=100&traderExternalId=${young[turn++ % young.length]?.name}`
      ),
      'by clientOrderId': read(() => `/v1/orders?clientOrderId=${one().client}`),
      'by id': read(() => `/v1/orders/${one().id}`)
    }
  }
}

/** Closed orders as rows, `ended` and the name of their number `n` given as SQL. */
const closedOrders = (id: string, ended: string) => `
  select ${id} as id, t.partner_id, t.id as trader_id, t.external_id, a.id as account_row, a.account_id, a.account_mode, 'USD', '1', 'v3', 'BINARY',
         gen_random_uuid()::text as client_order_id, '\\x00'::bytea, 'R_100', 'CALL', 1, 1, 't', 'closed', ${ended} as at, ${ended}, ${ended},
         (5e12::bigint + (random() * 1e12)::bigint)::text, 1, 1.95, ${ended}, -1, 100, 101, ${ended}
    from generate_series(:first::int, :last::int) n
    join lateral (select id, partner_id, external_id, active_account_id from traders where number = (select min(number) from traders) + n % ${ACCOUNTS} limit 1) t on true
    join broker_accounts a on a.id = t.active_account_id`
const columns = `id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id, dialect, kind,
  client_order_id, request_hash, asset, contract_type, stake, duration, duration_unit, phase, created_at, queued_at, expires_at,
  broker_order_id, buy_price, payout, opened_at, pnl, entry_price, exit_price, closed_at`
/** An id of an instant, as SQL: its milliseconds in the 48 bits that ids begin with, in hexadecimal digits and not in base 32. */
const idAt = (at: string, n: string) =>
  `'ord_0' || lpad(to_hex((extract(epoch from ${at}) * 1000)::bigint), 12, '0') || lpad(to_hex(${n}), 13, '0')`

const GROUP = 50_000

function groupsOf(count: number, size = GROUP): { first: number; last: number }[] {
  return Array.from({ length: Math.ceil(count / size) }, (_, index) => ({
    first: index * size,
    last: Math.min(count, (index + 1) * size) - 1
  }))
}

/** Fills the archive, oldest orders first, as they would have moved. */
async function fill({ db, url }: Stage, count: number): Promise<void> {
  const at = `now() - interval '${YEARS} years' - interval '60 days' + (n::float8 / :count::float8) * interval '${YEARS} years'`
  await rows(
    db,
    `select make_archive_months(array(select generate_series(date_trunc('month', now() - interval '${YEARS} years 3 months'), now(), '1 month')::date))`
  )
  await each(groupsOf(count), 2, group =>
    rows(
      db,
      `with made as (${closedOrders(idAt(at, 'n'), at)}), stored as (insert into orders_archive (${columns}, attempt, retryable, has_followers, checks, absence_checks, closed_early, close_tries, limits_version, limits_tries) select *, 2, false, false, 0, 0, false, 0, 0, 0 from made)
       insert into archived_names (name, order_id, created_at) select order_name(partner_id, client_order_id), id, at from made`,
      { ...group, count }
    )
  )
  await rows(
    db,
    `insert into archive_months (month, orders) select date_trunc('month', created_at at time zone 'UTC')::date, count(*) from archived_names group by 1`
  )
  // It takes longer than a statement of the service may.
  const patient = openDatabase({ url, pool: 1, name: 'bench-vacuum', limits: null })
  await patient.raw('vacuum analyze orders_archive')
  await patient.raw('vacuum analyze archived_names')
  // Otherwise the rounds run while what was filled is written.
  await patient.raw('checkpoint')
  await patient.destroy()
}

/** Orders that may move, beside those that are placed. */
async function fillOld({ db }: Stage): Promise<void> {
  const at = `now() - interval '${ENDED_DAYS} days' + n * interval '1 millisecond'`
  // The triggers that mark old orders as late take their time.
  await each(groupsOf(TO_MOVE, 10_000), 2, group =>
    rows(db, `insert into orders (${columns}) ${closedOrders(idAt(at, 'n'), at)}`, { ...group })
  )
  await db.raw('vacuum analyze orders')
  await db.raw('checkpoint')
}

async function countOld({ db }: Stage): Promise<number> {
  const [found] = await rows<{ count: number }>(
    db,
    `select count(*) as count from orders where created_at < now() - interval '${ENDED_DAYS - 1} days'`
  )
  return found?.count ?? 0
}

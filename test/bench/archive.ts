// The archive: placing and listing beside BENCH_ARCHIVED archived orders (a million) against an empty archive, in turns; how fast
// orders move, and what those who place meanwhile notice of it.
import { chown, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { archiveOrders } from '../../db/orders/archiving.ts'
import { openLog } from '../../db/platform/log.ts'
import { type Db, openDatabase, rows } from '../../db/postgres/connection.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { archiveDue } from '../../worker/orders/archiving.ts'
import { tickOrder } from '../support/tick-order.ts'
import { print, range, verdict } from './report.ts'
import { call, each, type Load, load, median, ms, type Stage, setStage } from './stage.ts'

const CONNECTIONS = 16
const ACCOUNTS = 500
/** Traders beside these that have no archived orders. */
const YOUNG = 20
const ROUNDS = 7
const YEARS = 5
/** Orders that move, alone and under load; their end is so many days ago. */
const TO_MOVE = 100_000
const ENDED_DAYS = 60
/** Settings of both servers, for the filling: what a transaction writes into tables it has made needs no WAL. */
const FILLING = {
  wal_level: 'minimal',
  max_wal_senders: '0',
  maintenance_work_mem: '1GB',
  max_wal_size: '4GB',
  shared_buffers: process.env.BENCH_BUFFERS ?? '128MB'
}

interface Theatre {
  stage: Stage
  place(): Promise<unknown>
  /** Reads by what they read. */
  lists: Record<string, () => Promise<unknown>>
}

/** Two stages in turns, one of them with a full archive; then a move in that one. */
export async function archive(seconds: number, archived: number): Promise<void> {
  const cases = process.env.BENCH_CASES?.split(',') ?? ['reads', 'moving']
  const full = await open(process.env.BENCH_DATA)
  const filling = performance.now()
  const filled = await fill(full.stage, archived)
  const fillSeconds = (performance.now() - filling) / 1000
  const [size] = await rows<{ orders: number; names: number }>(
    full.stage.db,
    `select sum(pg_total_relation_size(relid))::float8 as orders, pg_total_relation_size('archived_names')::float8 as names from pg_partition_tree('orders_archive')`
  )
  const bytes = (all = 0) => `${(all / 1e9).toFixed(1)} GB`
  console.log(
    `Archived orders take ${bytes(size?.orders)} with their indexes, their clientOrderIds ${bytes(size?.names)}.`
  )
  if (cases.includes('reads')) await beside(full, { seconds, archived, fillSeconds: filled ? fillSeconds : undefined })
  if (cases.includes('moving')) await moving(full, seconds)
  await full.stage.close()
}

/** Placing and listing in turns with a database whose archive is empty. */
async function beside(
  full: Theatre,
  { seconds, archived, fillSeconds }: { seconds: number; archived: number; fillSeconds: number | undefined }
): Promise<void> {
  const empty = await open()
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
    `Beside ${archived.toLocaleString('en')} archived orders of ${YEARS} years, ${fillSeconds ? `filled at ${Math.round(archived / fillSeconds).toLocaleString('en')}/s` : 'kept from an earlier run'}; p50, medians of ${ROUNDS} rounds in turns`,
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

/** Opens a stage, one whose database is kept in a folder if one is named. */
async function open(keepIn?: string): Promise<Theatre> {
  const stage = await setStage([], 'v3', { settings: FILLING, keepIn })
  // Each run of a kept database begins with as few live orders as that of a new one.
  await stage.db.raw('truncate orders')
  // The bench moves orders by itself.
  const env = { ARCHIVE_AFTER_DAYS: '0' }
  const { address } = await stage.startApi(env)
  await stage.startWorker(env)
  const known = await rows<{ name: string }>(
    stage.db,
    `select external_id as name from traders order by number limit ${ACCOUNTS + YOUNG}`
  )
  const traders = known.length ? known.map(({ name }) => name) : await stage.makeTraders(address, ACCOUNTS + YOUNG)
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

/** Closed orders as rows, the instant of their number `n` given as SQL; it is evaluated once a row. */
const closedOrders = (ended: string) => `
  select 'ord_0' || lpad(to_hex((date_part('epoch', at) * 1000)::bigint), 12, '0') || lpad(to_hex(n), 13, '0') as id,
         who.partner_id, who.trader_id, who.external_id, who.account_row, who.account_id, who.account_mode, 'USD', '1', 'v3', 'BINARY',
         gen_random_uuid()::text as client_order_id, '\\x00'::bytea, 'R_100', 'CALL', 1, 1, 't', 'closed', at, at, at,
         (5e12::bigint + (random() * 1e12)::bigint)::text, 1, 1.95, at, -1, 100, 101, at
    from (select n, ${ended} as at from generate_series(:first::int, :last::int) n offset 0) made
    join (select t.partner_id, t.id as trader_id, t.external_id, a.id as account_row, a.account_id, a.account_mode,
                 row_number() over (order by t.number) - 1 as place
            from traders t join broker_accounts a on a.id = t.active_account_id order by t.number limit ${ACCOUNTS}) who on who.place = n % ${ACCOUNTS}`
const columns = `id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id, dialect, kind,
  client_order_id, request_hash, asset, contract_type, stake, duration, duration_unit, phase, created_at, queued_at, expires_at,
  broker_order_id, buy_price, payout, opened_at, pnl, entry_price, exit_price, closed_at`
function groupsOf(count: number, size: number): { first: number; last: number }[] {
  return Array.from({ length: Math.ceil(count / size) }, (_, index) => ({
    first: index * size,
    last: Math.min(count, (index + 1) * size) - 1
  }))
}

/** Where in its step an order ends: on no month's first instant. */
const PLACE = 0.37
/** What else an archived order's row has to have, and its values here. */
const archivedAlone =
  'attempt, retryable, has_followers, checks, absence_checks, closed_early, close_tries, limits_version, limits_tries'
const archivedValues = '2, false, false, 0, 0, false, 0, 0, 0'

/**
 * Fills the archive month by month, each in one transaction and its indexes after its rows: moving 100,000,000 orders takes
 * hours. The rows are what a move leaves; the indexes are packed more densely. Goes on where a
 * kept database has some months; returns false where it has them all. BENCH_TABLESPACE names a folder for the orders, on a disk that compresses, say.
 */
async function fill({ url }: Stage, count: number): Promise<boolean> {
  // All of it takes longer than a statement of the service may.
  const patient = openDatabase({ url, pool: 2, name: 'bench-fill', limits: null })
  const [kept] = await rows<{ whole: boolean; since: string; until: string; months: string[] }>(
    patient,
    `select to_regclass('archived_names_pkey') is not null and exists (select from archive_months) as whole,
            (date_trunc('day', now()) - interval '${YEARS} years 60 days')::text as since,
            (date_trunc('day', now()) - interval '60 days')::text as until, array(select month::text from archive_months) as months`
  )
  if (!kept || kept.whole) {
    await patient.destroy()
    return false
  }
  const { since, until } = kept
  const step = (Date.parse(until) - Date.parse(since)) / 1000 / count
  const indexes = await rows<{ definition: string }>(
    patient,
    `select pg_get_indexdef(indexrelid) as definition from pg_index where indrelid = 'orders_archive'::regclass and not indisprimary`
  )
  const months = await rows<{ from: string; to: string; first: number; last: number }>(
    patient,
    `select * from (
       select month::text as from, next::text as to,
              ceil(extract(epoch from greatest(month, :since) - :since) / :step - ${PLACE})::int as first,
              ceil(extract(epoch from least(next, :until) - :since) / :step - ${PLACE})::int - 1 as last
         from generate_series(date_trunc('month', :since::timestamptz), :until::timestamptz, '1 month') month
         cross join lateral (select month + interval '1 month' as next) n) m
      where first <= last and not "from"::date = any(:made::date[]) order by first`,
    { since, until, step, made: kept.months }
  )
  const at = `:since::timestamptz + (n + ${PLACE}) * (:step::float8 * interval '1 second')`
  await patient.raw('alter table archived_names drop constraint if exists archived_names_pkey')
  const elsewhere = process.env.BENCH_TABLESPACE
  if (elsewhere && kept.months.length === 0) await makeTablespace(patient, elsewhere)
  await each(months, 2, async ({ from, to, first, last }) => {
    const table = `orders_archive_${from.slice(0, 4)}${from.slice(5, 7)}`
    await patient.transaction(async trx => {
      if (elsewhere) await trx.raw('set local default_tablespace = elsewhere')
      await trx.raw(`create table ${table} (like orders_archive including all excluding indexes)`)
      await rows(
        trx,
        `insert into ${table} (${columns}, ${archivedAlone}) select *, ${archivedValues} from (${closedOrders(at)}) made`,
        { first, last, since, step }
      )
      await trx.raw(`alter table ${table} add primary key (id, created_at)`)
      for (const { definition } of indexes)
        await trx.raw(definition.replace(/^(CREATE.* INDEX) \S+ ON ONLY \S+/, `$1 ON ${table}`))
      await trx.raw(
        `insert into archived_names (name, order_id, created_at) select order_name(partner_id, client_order_id), id, created_at from ${table}`
      )
      await trx.raw(`insert into archive_months (month, orders) values ('${from}'::date, ${last - first + 1})`)
      await trx.raw(`alter table orders_archive attach partition ${table} for values from ('${from}') to ('${to}')`)
    })
    await patient.raw(`vacuum (freeze, analyze) ${table}`)
    console.log(`${table}: ${last - first + 1} orders`)
  })
  await patient.raw('alter table archived_names add constraint archived_names_pkey primary key (name)')
  // The last orders, one after the other of all traders.
  await rows(
    patient,
    `insert into archived_traders (trader_id, partner_id, newest)
     select trader_id, partner_id, max(created_at) from orders_archive
      where created_at > :until::timestamptz - :step::float8 * ${2 * ACCOUNTS} * interval '1 second' group by 1, 2`,
    { until, step }
  )
  await patient.raw('vacuum (freeze, analyze) archived_names')
  await patient.raw('analyze orders_archive')
  // Otherwise the rounds run while what was filled is written.
  await patient.raw('checkpoint')
  await patient.destroy()
  return true
}

/** A tablespace in an empty folder, which is given to the server's user. */
async function makeTablespace(db: Db, folder: string): Promise<void> {
  const [data] = await rows<{ path: string }>(db, `select current_setting('data_directory') as path`)
  const { uid, gid } = await stat(data?.path as string)
  await chown(folder, uid, gid)
  await db.raw(`create tablespace elsewhere location '${folder.replaceAll("'", "''")}'`)
}

/** Orders that may move, beside those that are placed. */
async function fillOld({ db }: Stage): Promise<void> {
  const at = `now() - interval '${ENDED_DAYS} days' + n * interval '1 millisecond'`
  // The triggers that mark old orders as late take their time.
  await each(groupsOf(TO_MOVE, 10_000), 2, group =>
    rows(db, `insert into orders (${columns}) ${closedOrders(at)}`, { ...group })
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

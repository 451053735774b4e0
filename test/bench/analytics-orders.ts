// The orders over which analytics are measured: bought and closed evenly over 91 days by traders that take turns at random.
import { takeBackSteps } from '../../db/analytics/steps.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'

export const ORDERS = Number(process.env.BENCH_ORDERS ?? 1_000_000)
export const TRADERS = Number(process.env.BENCH_TRADERS ?? 100_000)
export const DAYS = 91
const GROUP = 500_000

/**
 * Inserts traders with an account each, and closed orders of them; then all is as if nothing had been added up. A run that was
 * ended goes on where it stopped; returns false where all was there.
 */
export async function fill(db: Db, partnerId: string): Promise<boolean> {
  await long(db, 'create table if not exists bench_indexes (definition text primary key)')
  const [found] = await rows<{ last: number; started: boolean; indexes: number }>(
    db,
    `select (select coalesce(max(substr(id, 5))::int, 0) from orders where id ~ '^ord_[0-9]{12}$') as last,
            exists (select from traders where id = 'trd_bench1') as started, (select count(*)::int from bench_indexes) as indexes`
  )
  const { last, started, indexes } = found as NonNullable<typeof found>
  if (last >= ORDERS && indexes === 0) return false
  if (!started) await prepare(db, partnerId)
  for (let first = last; first < ORDERS; first += GROUP)
    await long(db, INSERT, { partnerId, first, size: Math.min(GROUP, ORDERS - first), all: ORDERS, traders: TRADERS })
  // Indexes are built after the rows.
  for (const { definition } of await rows<{ definition: string }>(db, 'select definition from bench_indexes')) {
    await long(db, definition.replace('INDEX', 'INDEX IF NOT EXISTS'))
    await rows(db, 'delete from bench_indexes where definition = :definition', { definition })
  }
  await db.raw('vacuum analyze orders, traders, broker_accounts')
  await db.raw(
    `update analytics_until set until = date_bin('1 day', now() - interval '${DAYS + 1} days', timestamptz '2000-01-01 00:00+00')`
  )
  await db.raw('update analytics_closes_until set until = u.until from analytics_until u')
  return true
}

/** As if nothing that was bought or closed in the last `days` days had ever been added up. */
export async function forget(db: Db, days: number): Promise<void> {
  const first = `date_bin('1 day', now() - interval '${days} days', timestamptz '2000-01-01 00:00+00')`
  const [found] = await rows<{ first: string }>(db, `select (${first})::text as first`)
  await db.transaction(trx => takeBackSteps(trx, { after: (found as { first: string }).first }))
  await long(db, `delete from analytics_quarters where quarter >= ${first}`)
  await long(db, `delete from analytics_closes where quarter >= ${first}`)
  for (const table of ['days', 'day_traders', 'trader_days'])
    await long(db, `delete from analytics_${table} where day >= (${first} at time zone 'UTC')::date`)
  await long(db, `update analytics_until set until = ${first}`)
  await long(db, `update analytics_closes_until set until = ${first}`)
  await db.raw(
    'vacuum analyze analytics_quarters, analytics_closes, analytics_days, analytics_day_traders, analytics_trader_days, analytics_step_totals'
  )
}

/** Deletes the orders that a bench placed itself: as long as they are open, each page of traders looks through them. */
export async function forgetPlaced(db: Db): Promise<void> {
  await long(db, `delete from orders where id > 'ord_00001' and id !~ '^ord_[0-9]{12}$'`)
  await db.raw('vacuum analyze orders')
}

async function prepare(db: Db, partnerId: string): Promise<void> {
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
  await long(
    db,
    `insert into bench_indexes select indexdef from pg_indexes
      where tablename = 'orders' and indexname not in (select conname from pg_constraint)`
  )
  const indexes = await rows<{ name: string }>(
    db,
    `select indexname as name from pg_indexes where tablename = 'orders' and indexname not in (select conname from pg_constraint)`
  )
  for (const { name } of indexes) await db.raw('drop index ??', [name])
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

// Moves final orders to the archive, in the background and in batches. A batch is one transaction: an order, its clientOrderId
// and the count of its month are moved together, wherever the process or the server stops.
import { ARCHIVE_LEAST_DAYS } from '../../schemas/config/config.ts'
import { orderIdAt } from '../../schemas/fields/ids.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { CLOCK_SLACK_MS } from './archive.ts'

/** Orders in one batch: with a fifth of them each takes 1.4 times as much CPU, with five times as many 1.2 times. */
export const ARCHIVE_BATCH = 1000

/** All columns of orders but the generated one. */
export const archivedColumns = `id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency, app_id, dialect,
  kind, client_order_id, request_hash, asset, contract_type, direction, multiplier, stake, duration, duration_unit, barrier, stop_loss,
  take_profit, phase, attempt, created_at, queued_at, expires_at, sent_at, permit_until, sender, resolve_at, checks, broker_order_id,
  transaction_id, buy_price, payout, commission, opened_at, expiry_at, current_value, unrealized_pnl, marked_at, pnl, entry_price,
  exit_price, closed_at, error_code, error_message, error_extras, retryable, evidence, lease_holder, lease_until, reply_channel,
  copied_from, follow_id, has_followers, trace, reset_attempt, answered_at, reset_at, absence_checks, claim_no, stake_in_account,
  exchange_rate, not_before, raised_to_minimum, closed_early, close_at, close_tries, limits_version, new_stop_loss, new_take_profit,
  limits_at, limits_tries, markup`

/** SQL: whether an order was over before an instant. A failed one is when its time to live is. */
export const wasOver = (before: string): string =>
  `phase in ('closed', 'failed') and created_at < ${before} and queued_at < ${before} and coalesce(closed_at, expires_at) < ${before}`

// Readers of live orders rely on it that no younger order is archived, and a worker's clock may be wrong by years: so the
// database's clock counts.
const mayMove = wasOver(`(select least(:before::timestamptz, now() - interval '${ARCHIVE_LEAST_DAYS} days'))`)

const month = `date_trunc('month', created_at at time zone 'UTC')::date`

/** How far a run has come. */
interface ArchivingBatch {
  /** Orders moved. */
  moved: number
  /** Go on after this id; null when nothing is left. */
  after: string | null
  /** Other sessions that ran a statement when the batch began. */
  others: number
}

/** The instant before which orders that ended may move, for a setting of so many days. */
export const archivedBefore = (days: number): Date => new Date(Date.now() - days * 86_400_000)

/**
 * Moves the oldest orders after the id `after` that ended before `before`, at most `limit`. Those that a statement is
 * changing stay for the next run. One caller at a time works; another one moves nothing, and has `after` null.
 */
export async function archiveOrders(
  db: Db,
  { before, after, limit = ARCHIVE_BATCH }: { before: Date; after: string; limit?: number }
): Promise<ArchivingBatch> {
  const range = { after, beyond: orderIdAt(before.getTime() + CLOCK_SLACK_MS), before }
  const [next] = await rows<{ last: string | null; months: string[]; lacking: boolean; others: number }>(
    db,
    `select max(id) as last, array_agg(distinct month::text) as months, bool_or(lacking) as lacking,
            (select count(*)::int from pg_stat_activity
              where datname = current_database() and backend_type = 'client backend' and state = 'active' and pid <> pg_backend_pid()) as others
       from (select id, month, to_regclass(archive_partition(month)) is null as lacking
               from (select id, ${month} as month from orders where id > :after and id < :beyond and ${mayMove} order by id limit :limit) o) c`,
    { ...range, limit }
  )
  if (!next?.last) return { moved: 0, after: null, others: 0 }
  if (next.lacking) await rows(db, 'select make_archive_months(:months::date[])', { months: next.months })
  const moved = await moveOrders(db, { ...range, last: next.last, limit, months: next.months })
  return { moved: moved ?? 0, after: moved === undefined ? null : next.last, others: next.others }
}

// The key of the advisory lock of the one who moves orders.
const MOVING = 760_076

/** Returns how many moved; undefined when another process moves orders. */
async function moveOrders(
  db: Db,
  range: { after: string; last: string; before: Date; limit: number; months: string[] }
): Promise<number | undefined> {
  return db.transaction(async trx => {
    // No need to wait for the disk: orders whose move a crash of the server undoes are in `orders` again.
    await trx.raw('set local synchronous_commit = off')
    const [lock] = await rows<{ mine: boolean }>(trx, `select pg_try_advisory_xact_lock(${MOVING}) as mine`)
    if (!lock?.mine) return undefined
    const [done] = await rows<{ moved: number }>(
      trx,
      `with moved as materialized (
         delete from orders
          where id = any(array(
                  select id from orders where id > :after and id <= :last and ${mayMove} and ${month} = any(:months::date[])
                   order by id limit :limit for update skip locked))
         returning ${archivedColumns}
       ), archived as (
         -- A failed order that could be repeated is final from here on: its clientOrderId returns its failure.
         insert into orders_archive (${archivedColumns})
         select ${archivedColumns.replace('retryable', 'false').replace('reply_channel', 'null').replace('lease_holder', 'null')} from moved
       ), named as (
         insert into archived_names (name, order_id, created_at)
         select order_name(partner_id, client_order_id), id, created_at from moved where client_order_id is not null
       ), counted as (
         insert into archive_months as m (month, orders) select ${month}, count(*) from moved group by 1
         on conflict (month) do update set orders = m.orders + excluded.orders
       )
       select count(*)::int as moved from moved`,
      range
    )
    return done?.moved ?? 0
  })
}

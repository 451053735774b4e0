// Activity: orders by the time they were accepted, with their traders, failures and the broker's response times.
// Counted from the orders themselves: medians cannot be added up.
import { allOrders } from '../orders/archive.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { isOver, MOST_ROWS, plainWindow, refuseTooMany, type Window } from './windows.ts'

export interface ActivityRow {
  start: Date
  activeTraders: number
  newTraders: number
  returningTraders: number
  placed: number
  failed: number
  failedBy: Record<string, number>
  inDoubt: number
  /** From the moment the order was sent to the broker's response; null without any. */
  p50: number | null
  p99: number | null
}

interface Activity {
  data: ActivityRow[]
  asOf: Date
  /** Whether all of the window is known: it is over, and each of its orders was bought or failed for good, or failed an hour ago. */
  complete: boolean
}

// A failed order that may be repeated under its name becomes another one with that. Whoever repeats it does so soon.
const undecided = `(phase in ('unproven', 'queued', 'sending', 'review')
                    or phase = 'failed' and retryable and queued_at > now() - interval '1 hour')::int`

/** Activity by buckets of the window, empty ones with zeros. */
export async function readActivity(db: Db, window: Window): Promise<Activity> {
  const found = await rows<ActivityRow & { undecided: number; asOf: Date; over: boolean }>(
    db,
    `with ${plainWindow(window.interval)}, placed as materialized (
       select o.*, width_bucket(o.created_at, (select list from starts)) as n
         from span cross join lateral (
           select id, trader_id, created_at, phase, error_code, (phase in ('sending', 'review'))::int as in_doubt,
                  ${undecided} as undecided, trader_external_id,
                  extract(epoch from answered_at - sent_at)::float8 * 1000 as answer_ms
             from ${allOrders} o where partner_id = :partnerId and created_at >= f and created_at < t
              and (:accountMode = 'ALL' or account_mode = :accountMode) and (:currency::text is null or currency = :currency) offset 0) o
     ), active as materialized (
       select distinct n, trader_id, trader_external_id from placed
     ), firsts as (
       select a.trader_id, width_bucket(first.created_at, (select list from starts)) as n
         from (select distinct trader_id, trader_external_id from active) a
        cross join lateral (
           select created_at from ${allOrders} o where partner_id = :partnerId and trader_external_id = a.trader_external_id
              and (:accountMode = 'ALL' or account_mode = :accountMode) and (:currency::text is null or currency = :currency)
            order by created_at, id limit 1) first
     ), traders_of as (
       select a.n, count(*)::int as active, count(f.trader_id)::int as new
         from active a left join firsts f on f.n = a.n and f.trader_id = a.trader_id group by a.n
     ), failures as (
       select n, jsonb_object_agg(error_code, failed) as by, sum(failed)::int as failed
         from (select n, error_code, count(*)::int as failed from placed where phase = 'failed' group by n, error_code) codes group by n
     ), counts as (
       select n, count(*)::int as placed, sum(in_doubt)::int as in_doubt, sum(undecided)::int as undecided,
              round((percentile_disc(0.5) within group (order by answer_ms))::numeric, 1)::float8 as p50,
              round((percentile_disc(0.99) within group (order by answer_ms))::numeric, 1)::float8 as p99
         from placed group by n
     )
     select b.start, coalesce(x.active, 0) as "activeTraders", coalesce(x.new, 0) as "newTraders", coalesce(x.active - x.new, 0) as "returningTraders",
            coalesce(c.placed, 0) as placed, coalesce(e.failed, 0) as failed, coalesce(e.by, '{}'::jsonb) as "failedBy", coalesce(c.in_doubt, 0) as "inDoubt",
            c.p50, c.p99, coalesce(c.undecided, 0) as undecided, now() as "asOf", ${isOver('t', window.present)} as over
       from span cross join buckets b left join counts c on c.n = b.n left join traders_of x on x.n = b.n left join failures e on e.n = b.n
      order by b.n limit ${MOST_ROWS + 1}`,
    { ...window }
  )
  refuseTooMany(found)
  const [first] = found as [(typeof found)[number]]
  return { data: found, asOf: first.asOf, complete: first.over && found.every(({ undecided }) => undecided === 0) }
}

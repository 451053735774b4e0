// Whether the sums of analytics are those of the orders: computed anew from all of them, in one snapshot.
import { type Db, rows } from '../postgres/connection.ts'
import { closesKey, closesOfClosed, lists } from './closes.ts'
import { closedContractsOf, contractsOf, quarterOf } from './contracts.ts'
import { facts, quartersOfBought, sumsOfFacts, traderDaysOfClosed } from './sums.ts'
import { growthOfTotals } from './totals.ts'

/** Something that is added up and differs from its orders. */
export interface Difference {
  partnerId: string
  /**
   * 'quarter' and 'day' are sums of purchases, 'traderDay' those of a trader's closed contracts, 'total' what a running total grew by, 'closes'
   * a list of closed contracts.
   */
  what: 'quarter' | 'day' | 'traderDay' | 'total' | 'closes'
  /** Its start, ISO 8601. */
  at: string
  /** What it is grouped by, and of which mode, currency and trader. */
  of: string
  /** Of a trader's day or total. */
  traderId: string | null
  /** Null: none is stored, or there should be none. */
  stored: Record<string, unknown> | null
  computed: Record<string, unknown> | null
}

const key = 'partner_id, grouping_by, account_mode, quarter, currency, value'
const dayKey = 'partner_id, grouping_by, account_mode, day, currency, value'
const traderKey = 'partner_id, day, account_mode, currency, trader_id'
const MOST = 100

/**
 * Sums of what was opened or closed within [from, to) that differ from the orders, at most 100; what is marked as late is left
 * out. Days of UTC: `from` and `to` are taken to the day. It reads every order of these days, of one partner or of all.
 */
export async function findAnalyticsDifferences(
  db: Db,
  { from, to, partnerId = null }: { from: Date; to: Date; partnerId?: string | null }
): Promise<Difference[]> {
  const bindings = { from: from.toISOString().slice(0, 10), to: to.toISOString().slice(0, 10), partnerId }
  // In one snapshot, since a worker may add up meanwhile.
  return db.transaction(
    async trx => {
      const span = `span as materialized (
        select :from::date as first_day, :to::date as last_day, :from::date::timestamp at time zone 'UTC' as f,
               least((:to::date + 1)::timestamp at time zone 'UTC', until) as t, until from analytics_until
      ), requested as materialized (select id from partners where :partnerId::text is null or id = :partnerId)`
      const found: Difference[] = await rows(
        trx,
        `with ${span}, bought as (
           select o.*, ${quarterOf('o.opened_at')} as quarter, t.number
             from requested cross join span cross join ${contractsOf('requested.id', 'opened_at >= f and opened_at < span.t')}
             join traders t on t.id = o.trader_id
         ), ${quartersOfBought}, stored as (
           select ${key}, ${facts}, traders from analytics_quarters q cross join span
            where partner_id in (select id from requested) and quarter >= f and quarter < span.t
         ), wrong as (
           (select 's' as side, ${key}, ${facts}, traders from stored except select 's', ${key}, ${facts}, traders from quarters)
           union all (select 'c', ${key}, ${facts}, traders from quarters except select 'c', ${key}, ${facts}, traders from stored)
         )
         ${reported(key, 'quarter', `w.quarter`, `(partner_id, quarter) not in (select partner_id, quarter from analytics_late_quarters)`)}`,
        bindings
      )
      found.push(
        ...(await rows<Difference>(
          trx,
          `with ${span}, touched_quarters as materialized (
             select q.*, (q.quarter at time zone 'UTC')::date as day from analytics_quarters q cross join span
              where q.partner_id in (select id from requested) and q.quarter >= f
                and q.quarter < (span.t at time zone 'UTC')::date::timestamp at time zone 'UTC'
           ), sums as (
             select ${dayKey}, ${sumsOfFacts} from touched_quarters group by ${dayKey}
           ), counts as (
             select ${dayKey}, count(distinct n.number)::int as traders
               from touched_quarters cross join lateral unnest(traders) n (number) group by ${dayKey}
           ), computed as (
             select ${dayKey}, ${facts}, traders from sums join counts using (${dayKey})
           ), stored as (
             select ${dayKey}, ${facts}, traders from analytics_days cross join span
              where partner_id in (select id from requested) and day between first_day and last_day
           ), wrong as (
             (select 's' as side, ${dayKey}, ${facts}, traders from stored except select 's', ${dayKey}, ${facts}, traders from computed)
             union all (select 'c', ${dayKey}, ${facts}, traders from computed except select 'c', ${dayKey}, ${facts}, traders from stored)
           )
           ${reported(dayKey, 'day', `w.day::timestamp at time zone 'UTC'`, `(partner_id, day) not in (select partner_id, (quarter at time zone 'UTC')::date from analytics_late_quarters)`)}`,
          bindings
        )),
        ...(await rows<Difference>(
          trx,
          `with ${span}, closed as (
             select o.*, (o.closed_at at time zone 'UTC')::date as day
               from requested cross join span cross join ${closedContractsOf('requested.id', 'closed_at >= f and closed_at < span.t')}
           ), computed as (${traderDaysOfClosed}), stored as (
             select d.* from analytics_trader_days d cross join span
              where d.partner_id in (select id from requested) and day between first_day and last_day
           ), wrong as (
             (select 's' as side, s.* from stored s except select 's', c.* from computed c)
             union all (select 'c', c.* from computed c except select 'c', s.* from stored s)
           )
           ${reported(traderKey, 'traderDay', `w.day::timestamp at time zone 'UTC'`, `(partner_id, day, trader_id) not in (select partner_id, day, trader_id from analytics_late_days)`)}`,
          bindings
        )),
        ...(await rows<Difference>(
          trx,
          `with ${span}, stored as (
             select ${traderKey}, trades, stake, pnl, markup, markup_unknown, last_at
               from requested cross join span cross join lateral (${growthOfTotals('requested.id', 'span.first_day', 'span.last_day')}) t
           ), computed as (
             select ${traderKey}, trades, stake, pnl, markup, markup_unknown, last_at
               from analytics_trader_days d join analytics_total_groups g using (partner_id, account_mode, currency) cross join span
              where partner_id in (select id from requested) and day between first_day and last_day and day >= g.since and day < g.until
           ), wrong as (
             (select 's' as side, s.* from stored s except select 's', c.* from computed c)
             union all (select 'c', c.* from computed c except select 'c', s.* from stored s)
           )
           ${reported(traderKey, 'total', `w.day::timestamp at time zone 'UTC'`, `(partner_id, day, trader_id) not in (select partner_id, day, trader_id from analytics_late_totals union all select partner_id, day, trader_id from analytics_late_days)`)}`,
          bindings
        )),
        ...(await rows<Difference>(
          trx,
          `with ${span}, listed as materialized (
             select f, least((last_day + 1)::timestamp at time zone 'UTC', c.until) as t from span cross join analytics_closes_until c
           ), closed as (
             select o.* from requested cross join listed cross join ${closedContractsOf('requested.id', 'closed_at >= f and closed_at < listed.t')}
           ), computed as (${closesOfClosed}), stored as (
             select c.* from analytics_closes c cross join listed
              where c.partner_id in (select id from requested) and c.quarter >= f and c.quarter < listed.t
           ), wrong as (
             (select 's' as side, ${closesKey}, ${lists} from stored except select 's', ${closesKey}, ${lists} from computed)
             union all (select 'c', ${closesKey}, ${lists} from computed except select 'c', ${closesKey}, ${lists} from stored)
           )
           ${reported(closesKey, 'closes', 'w.quarter', `(partner_id, quarter) not in (select partner_id, quarter from analytics_late_closes)`)}`,
          bindings
        ))
      )
      return found.slice(0, MOST)
    },
    { isolationLevel: 'repeatable read', readOnly: true }
  )
}

/** The end of a statement: rows of `wrong (side, …)` as differences, both sides in one. */
function reported(columns: string, what: string, at: string, condition: string): string {
  const parts = columns.split(', ').filter(column => !['partner_id', 'quarter', 'day'].includes(column))
  return `select partner_id as "partnerId", '${what}' as what, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"') as at,
      concat_ws(' ', ${parts.map(part => `nullif(${part}, '')`).join(', ')}) as of,
      min(row::jsonb ->> 'trader_id') as "traderId",
      min(row::text) filter (where side = 's')::jsonb as stored, min(row::text) filter (where side = 'c')::jsonb as computed
    from (select w.*, ${at} as at, to_jsonb(w) - 'side' as row from wrong w where ${condition}) w
   group by ${columns}, at order by 1, 3, 4 limit ${MOST}`
}

/** Marks what differs as late, so that it is added up anew from the orders. */
export async function markDifferences(trx: Db, differences: Difference[]): Promise<void> {
  const marks = JSON.stringify(
    differences.map(({ partnerId, what, at, traderId }) => ({ partnerId, what, at, traderId }))
  )
  const listed = `jsonb_to_recordset(:marks::jsonb) as m ("partnerId" text, what text, at timestamptz, "traderId" text)`
  // A day is computed from its quarters: one of them brings it along.
  await rows(
    trx,
    `insert into analytics_late_quarters select distinct "partnerId", at from ${listed} where what in ('quarter', 'day')`,
    { marks }
  )
  await rows(
    trx,
    `insert into analytics_late_days select distinct "partnerId", "traderId", (at at time zone 'UTC')::date from ${listed} where what = 'traderDay'`,
    { marks }
  )
  await rows(
    trx,
    `insert into analytics_late_totals select distinct "partnerId", "traderId", (at at time zone 'UTC')::date from ${listed} where what in ('traderDay', 'total')`,
    { marks }
  )
  await rows(
    trx,
    `insert into analytics_late_closes select distinct "partnerId", at from ${listed} where what = 'closes'`,
    { marks }
  )
}

// Whether the sums of analytics are those of the orders: recomputed from all orders, in one snapshot.
import { type Db, rows } from '../postgres/connection.ts'
import { closesKey, closesOfClosed, lists, unitsOf } from './closes.ts'
import { closedContractsOf, contractsOf, quarterOf } from './contracts.ts'
import { dayTradersKey, dayTradersValues, tradersOfDays } from './day-traders.ts'
import { growthOfSteps, takeBackSteps } from './steps.ts'
import { facts, quartersOfBought, sumsOfFacts, traderDaysOfClosed } from './sums.ts'

/** Something that is added up and differs from its orders. */
export interface Difference {
  partnerId: string
  /**
   * 'quarter' and 'day' are sums of purchases, 'traderDay' those of a trader's closed contracts, 'total' what a running total grew by
   * up to a step, 'closes' a list of closed contracts, 'dayTraders' the traders of a day by their first and last quarters.
   */
  what: 'quarter' | 'day' | 'traderDay' | 'total' | 'closes' | 'dayTraders'
  /** Its start, ISO 8601. */
  at: string
  /** What it is grouped by, and of which mode, currency and trader. */
  of: string
  /** For 'traderDay' and 'total'. */
  traderId: string | null
  /** Null: none is stored, or there should be none. */
  stored: Record<string, unknown> | null
  computed: Record<string, unknown> | null
}

/** The first day (YYYY-MM-DD) whose sums can be compared; null for all, where no month of the archive was dropped. */
export async function firstComparableDay(db: Db): Promise<string | null> {
  const [found] = await rows<{ day: string | null }>(db, `select ${COMPARABLE}::text as day`)
  return found?.day ?? null
}

const quarterKey = 'partner_id, grouping_by, account_mode, quarter, currency, value'
const dayKey = 'partner_id, grouping_by, account_mode, day, currency, value'
const traderKey = 'partner_id, day, account_mode, currency, trader_id'
const MOST = 100

/**
 * Sums of what was opened or closed within [from, to) that differ from the orders, at most 100; what is marked as late is left
 * out, and so are days of which orders may have been dropped. Days of UTC: `from` and `to` are taken to the day. It reads every order of
 * these days, of one partner or of all.
 */
export async function findAnalyticsDifferences(
  db: Db,
  { from, to, partnerId = null }: { from: Date; to: Date; partnerId?: string | null }
): Promise<Difference[]> {
  const bindings = { from: from.toISOString().slice(0, 10), to: to.toISOString().slice(0, 10), partnerId }
  // In one snapshot, since a worker may add up meanwhile.
  return db.transaction(
    async trx => {
      const found: Difference[] = []
      for (const statement of differing) found.push(...(await rows<Difference>(trx, statement, bindings)))
      return found.slice(0, MOST)
    },
    { isolationLevel: 'repeatable read', readOnly: true }
  )
}

// What was dropped of the archive is in the sums alone.
const COMPARABLE = `(select (max(dropped_until) at time zone 'UTC')::date + 1 from archive_months)`

const span = `span as materialized (
  select first_day, :to::date as last_day, first_day::timestamp at time zone 'UTC' as f,
         least((:to::date + 1)::timestamp at time zone 'UTC', until) as t, until
    from analytics_until cross join (select greatest(:from::date, ${COMPARABLE}) as first_day) from_then_on
), requested as materialized (select id from partners where :partnerId::text is null or id = :partnerId)`

interface Comparison {
  what: Difference['what']
  /** Common table expressions that follow `span` and `requested`, of which `stored` and `computed` are compared. */
  sets: string
  key: string
  /** What is compared beside the key, all there is where nothing is named. */
  values?: string
  /** The start of a difference `w`. */
  at: string
  /** A condition of differences `w` that are marked as late. */
  late: string
}

/** A statement whose rows are differences, both sides in one. */
function differencesOf({ what, sets, key, values, at, late }: Comparison): string {
  const columns = values ? `${key}, ${values}` : '*'
  const parts = key.split(', ').filter(column => !['partner_id', 'quarter', 'day'].includes(column))
  return `with ${span}, ${sets}, wrong as (
     (select 's' as side, ${columns} from stored except select 's', ${columns} from computed)
     union all (select 'c', ${columns} from computed except select 'c', ${columns} from stored)
   )
   select partner_id as "partnerId", '${what}' as what, to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"') as at,
      concat_ws(' ', ${parts.map(part => `nullif(${part}, '')`).join(', ')}) as of,
      min(row::jsonb ->> 'trader_id') as "traderId",
      min(row::text) filter (where side = 's')::jsonb as stored, min(row::text) filter (where side = 'c')::jsonb as computed
    from (select w.*, ${at} as at, to_jsonb(w) - 'side' as row from wrong w where not ${late}) w
   group by ${key}, at order by 1, 3, 4 limit ${MOST}`
}

const startOfDay = `w.day::timestamp at time zone 'UTC'`
const differing = (
  [
    {
      what: 'quarter',
      key: quarterKey,
      values: `${facts}, traders`,
      sets: `bought as (
           select o.*, ${quarterOf('o.opened_at')} as quarter, t.number
             from requested cross join span cross join ${contractsOf('requested.id', 'opened_at >= f and opened_at < span.t')}
             join traders t on t.id = o.trader_id
         ), ${quartersOfBought}, computed as (select * from quarters), stored as (
           select * from analytics_quarters q cross join span
            where partner_id in (select id from requested) and quarter >= f and quarter < span.t
         )`,
      at: 'w.quarter',
      late: `(partner_id, quarter) in (select partner_id, quarter from analytics_late_quarters)`
    },
    {
      what: 'day',
      key: dayKey,
      values: `${facts}, traders`,
      sets: `touched_quarters as materialized (
           select q.*, (q.quarter at time zone 'UTC')::date as day from analytics_quarters q cross join span
            where q.partner_id in (select id from requested) and q.quarter >= f
              and q.quarter < (span.t at time zone 'UTC')::date::timestamp at time zone 'UTC'
         ), sums as (
           select ${dayKey}, ${sumsOfFacts} from touched_quarters group by ${dayKey}
         ), counts as (
           select ${dayKey}, count(distinct n.number)::int as traders
             from touched_quarters cross join lateral unnest(traders) n (number) group by ${dayKey}
         ), computed as (
           select * from sums join counts using (${dayKey})
         ), stored as (
           select * from analytics_days cross join span
            where partner_id in (select id from requested) and day between first_day and last_day
         )`,
      at: startOfDay,
      late: `(partner_id, day) in (select partner_id, (quarter at time zone 'UTC')::date from analytics_late_quarters)`
    },
    {
      what: 'traderDay',
      key: traderKey,
      sets: `closed as (
           select o.*, (o.closed_at at time zone 'UTC')::date as day
             from requested cross join span cross join ${closedContractsOf('requested.id', 'closed_at >= f and closed_at < span.t')}
         ), computed as (${traderDaysOfClosed}), stored as (
           select d.* from analytics_trader_days d cross join span
            where d.partner_id in (select id from requested) and day between first_day and last_day
         )`,
      at: startOfDay,
      late: `(partner_id, day, trader_id) in (select partner_id, day, trader_id from analytics_late_days)`
    },
    {
      what: 'total',
      key: 'partner_id, account_mode, currency, quarter, trader_id',
      values: 'trades, stake, pnl, markup, markup_unknown, last_at',
      sets: `${growthOfSteps('requested', "quarter > (select f from span) and first < (select (last_day + 1)::timestamp at time zone 'UTC' from span)")},
         stored as (select * from of_steps), computed as (select * from of_lists)`,
      at: 'w.quarter',
      // Lists and what is kept beside totals change together.
      late: 'false'
    },
    {
      what: 'dayTraders',
      key: dayTradersKey,
      values: dayTradersValues,
      sets: `wanted_days as materialized (
           select requested.id as partner_id, (first_day + k) as day
             from requested cross join span cross join lateral generate_series(0, last_day - first_day) k
         ), ${tradersOfDays}, computed as (select * from traders_of_days), stored as (
           select d.* from analytics_day_traders d cross join span
            where d.partner_id in (select id from requested) and day between first_day and last_day
         )`,
      at: startOfDay,
      late: `(partner_id, day) in (select partner_id, day from analytics_late_day_traders)`
    },
    {
      what: 'closes',
      key: closesKey,
      values: `${lists}, units_agree`,
      sets: `listed as materialized (
           select f, least((last_day + 1)::timestamp at time zone 'UTC', c.until) as t from span cross join analytics_closes_until c
         ), closed as (
           select o.* from requested cross join listed cross join ${closedContractsOf('requested.id', 'closed_at >= f and closed_at < listed.t')}
         ), computed as (select *, true as units_agree from (${closesOfClosed}) c), stored as (
           -- The previous version wrote lists without them.
           select c.*, ${['stake', 'pnl', 'markup'].map(amount => `coalesce(c.${amount}_units = u.${amount}_units, c.${amount}_units is null)`).join(' and ')} as units_agree
             from analytics_closes c cross join listed cross join lateral (${unitsOf('c')}) u
            where c.partner_id in (select id from requested) and c.quarter >= f and c.quarter < listed.t
         )`,
      at: 'w.quarter',
      late: `(partner_id, quarter) in (select partner_id, quarter from analytics_late_closes)`
    }
  ] satisfies Comparison[]
).map(differencesOf)

/** Marks what differs as late, or deletes it, so that it is recomputed from the orders. */
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
    `insert into analytics_late_closes select distinct "partnerId", at from ${listed} where what = 'closes'`,
    { marks }
  )
  await rows(
    trx,
    `insert into analytics_late_day_traders select distinct "partnerId", (at at time zone 'UTC')::date from ${listed} where what = 'dayTraders'`,
    { marks }
  )
  for (const { partnerId, at } of differences.filter(({ what }) => what === 'total'))
    await takeBackSteps(trx, { after: new Date(Date.parse(at) - 1000).toISOString(), partnerId })
}

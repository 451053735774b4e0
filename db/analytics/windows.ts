// Windows of analytics and their buckets, as parts of a statement: where each bucket begins by the clocks of a time zone, and
// which parts of the window come from sums and which from the orders.
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { ORIGIN } from './contracts.ts'
import { trusted } from './late.ts'

export type Interval = 'hour' | 'day' | 'week' | 'month'

/** The fields of every analytics request; instants are ISO 8601. */
export interface Window {
  partnerId: string
  /** Inclusive. */
  from: string
  /** Exclusive. */
  to: string
  /** Whether `to` is the present (endOfPresent): nothing that is committed now is after it. */
  present?: boolean | undefined
  /** An IANA name. */
  timezone: string
  interval: Interval
  accountMode: 'REAL' | 'DEMO' | 'ALL'
  /** Null: all. */
  currency: string | null
}

// Midnight may come twice or never: the first instant at which clocks show the local time of a row `l (local, at)`, or a later one. `at` is
// what PostgreSQL takes for it.
const firstInstant = `case when (l.at - interval '3 hours') at time zone :timezone = l.local - interval '3 hours' then l.at
                           else (select min(c.at) from generate_series(0, 12) k
                                  cross join lateral (select l.at - k * interval '15 minutes' as at) c
                                  where c.at at time zone :timezone >= l.local) end`

/** When the first of `days` whole days begins by the clocks of the zone, today being the last of them. */
export async function beginningOfDays(db: Db, { timezone, days }: { timezone: string; days: number }): Promise<Date> {
  const [first] = await rows<{ at: Date }>(
    db,
    `select ${firstInstant} as at
       from (select local, local at time zone :timezone as at
               from (select date_trunc('day', now() at time zone :timezone) - :before * interval '1 day' as local) d) l`,
    { timezone, before: days - 1 }
  )
  return (first as { at: Date }).at
}

// PostgreSQL's SQLSTATE invalid_parameter_value.
const INVALID_PARAMETER = '22023'

/** Whether a statement failed since PostgreSQL's table of time zones lacks a name. By its routine: messages may be translated. */
export function isUnknownZone(error: unknown): boolean {
  const { code, routine } = error as { code?: unknown; routine?: string }
  return code === INVALID_PARAMETER && /zone/i.test(routine ?? '')
}

/** How far the clocks of each zone that PostgreSQL knows are ahead of UTC at these instants, in minutes. */
export async function readZoneOffsets(db: Db, instants: Date[]): Promise<Map<string, number[]>> {
  const found = await rows<{ name: string; offsets: number[] }>(
    db,
    `select z.name, array(select round(extract(epoch from (i at time zone z.name) - (i at time zone 'UTC')) / 60)::int
                            from unnest(:instants::timestamptz[]) with ordinality u (i, n) order by n) as offsets
       from pg_timezone_names z`,
    { instants: instants.map(instant => instant.toISOString()) }
  )
  return new Map(found.map(({ name, offsets }) => [name, offsets]))
}

// By how much an instant of the broker may be ahead of the database's clock (as for ends of contracts).
const AHEAD = `interval '10 minutes'`

/**
 * The end of a window up to now, which is exclusive: after all of the partner's orders and earnings that are committed, also where their
 * instants are ahead of the clock that is read here, as those of a broker or of the primary may be.
 */
export async function endOfPresent(db: Db, partnerId: string): Promise<Date> {
  const newest = (column: string, condition = 'true') =>
    `(select max(${column}) from orders where partner_id = :partnerId and ${column} < now() + ${AHEAD} and ${condition})`
  const earned = `(select max(created_at) from earnings_entries where account_id = 'earnings:' || :partnerId and created_at < now() + ${AHEAD})`
  const [present] = await rows<{ end: Date }>(
    db,
    `select greatest(clock_timestamp()::timestamptz(3),
                     date_trunc('milliseconds', greatest(${newest('opened_at')}, ${newest('closed_at', "phase = 'closed'")}, ${newest('created_at')}, ${earned}))
                       + interval '1 millisecond') as end`,
    { partnerId }
  )
  return (present as { end: Date }).end
}

/** Settings of a transaction that reads sums. A hundred thousand numbers are hashed in memory, and not sorted. */
export const READING = `set local work_mem = '64MB'; set local enable_sort = off`

// More rows than this are refused: no client reads them.
export const MOST_ROWS = 20_000

export function refuseTooMany(found: unknown[]): void {
  if (found.length > MOST_ROWS)
    throw new ApiError(
      'VALIDATION_FAILED',
      `The response has more than ${MOST_ROWS} rows: ask for less, or for longer intervals.`
    )
}

// An hour may last 90 minutes, and begins with each instant at which clocks show a full one; a day begins with the first at which they show it.
const beginnings: Record<Interval, string> = {
  hour: `select q as at from generate_series(date_bin('15 minutes', f, ${ORIGIN}), t, '15 minutes') q
          where extract(minute from q at time zone :timezone) = 0`,
  day: localBeginnings('day'),
  week: localBeginnings('week'),
  month: localBeginnings('month')
}

function localBeginnings(interval: string): string {
  return `select ${firstInstant} as at
            from (select local, local at time zone :timezone as at
                    from generate_series(date_trunc('${interval}', f at time zone :timezone), t at time zone :timezone, '1 ${interval}') local) l`
}

/**
 * Common table expressions `span (f, t, wf, wt, until)`, `late (quarter)`, `starts (list)`, `buckets (n, start, stop, whole_day)` and
 * `ranges (start, stop)`: what of the window has to be counted from the orders by an axis that was added up by quarters. Bindings:
 * partnerId, from, to, timezone.
 */
export function quarterlyWindow(interval: Interval): string {
  return `given as materialized (
    select :from::timestamptz as f, :to::timestamptz as t, (select ${trusted('until')} from analytics_until) as until
  ), span as materialized (
    select f, t, until, wf, greatest(wf, date_bin('15 minutes', t, ${ORIGIN})) as wt
      from given cross join lateral (
        select least(t, date_bin('15 minutes', f + interval '15 minutes' - interval '1 microsecond', ${ORIGIN})) as wf) w
  ), late as materialized (
    select distinct l.quarter from analytics_late_quarters l cross join span
     where l.partner_id = :partnerId and l.quarter >= wf and l.quarter < least(wt, until)
  ), starts as materialized (
    select array_agg(at order by at) as list
      from (select f as at from span union select at from span cross join lateral (${beginnings[interval]}) b where at > f and at < t) s
  ), buckets as materialized (
    select n, start, stop,
           stop = start + interval '24 hours' and stop <= until and date_bin('1 day', start, ${ORIGIN}) = start
             and not exists (select from late where quarter >= start and quarter < stop) as whole_day
      from span cross join starts
     cross join lateral (select n::int, list[n] as start, coalesce(list[n + 1], t) as stop from generate_subscripts(list, 1) n) b
  ), ranges as materialized (
    select f as start, wf as stop from span
    union all select wt, t from span
    union all select least(wt, greatest(wf, until)), wt from span
    union all select quarter, quarter + interval '15 minutes' from late
  )`
}

/**
 * Common table expressions `span (f, t)`, `starts (list)` and `buckets (n, start)` for what is counted from rows alone. Bindings: from,
 * to, timezone.
 */
export function plainWindow(interval: Interval): string {
  return `span as materialized (
    select :from::timestamptz as f, :to::timestamptz as t
  ), starts as materialized (
    select array_agg(at order by at) as list
      from (select f as at from span union select at from span cross join lateral (${beginnings[interval]}) b where at > f and at < t) s
  ), buckets as materialized (
    select n::int as n, list[n] as start from starts cross join lateral generate_subscripts(list, 1) n
  )`
}

/**
 * Whether the window that ends at `end` is over, as SQL. The broker states times in whole seconds and by its own clock: what is bought or
 * closed now may lie in a window that ended a moment ago. One up to the present has all that there is.
 */
export const isOver = (end: string, present = false): string =>
  present ? 'true' : `${end} <= now() - interval '5 seconds'`

/**
 * Whether the window has orders in doubt, as SQL. Not their creation counts, but when they were sent: a failed order may be repeated under
 * its name much later.
 */
export const inDoubt = `exists (select from orders where partner_id = :partnerId and status = 'PENDING'
       and created_at < :to::timestamptz + interval '1 minute' and phase in ('sending', 'review')
       and coalesce(sent_at, created_at) >= :from::timestamptz - interval '1 day'
       and coalesce(sent_at, created_at) < :to::timestamptz + interval '1 minute'
       and (:accountMode = 'ALL' or account_mode = :accountMode))`

// A page of traders by what they closed in a window: whole days of UTC from running totals and the sums of days, the rest of a window from the
// lists of closes and what these do not have yet from the orders, in one statement. The part of a day at either end is added, or taken off the
// whole day, whichever is less.
import { type Db, rows } from '../postgres/connection.ts'
import { closedContractsOf, ORIGIN } from './contracts.ts'
import { trusted } from './late.ts'
import { readCursor, writeCursor } from './trader-cursor.ts'
import { openEnds, shown, sums, type TraderPage, type TraderSort, type TraderSums } from './traders.ts'
import { isOver, READING, type Window } from './windows.ts'

/** What traders are sorted by, as SQL, the largest first. In a cursor it is a number. */
interface SortKey {
  /** Of the totals of chunks, whose difference it is; of an order, a trader's day and a list of closes. */
  column: 'trades' | 'stake' | 'pnl' | 'markup' | 'last_at'
  type: 'numeric' | 'timestamptz'
  sum: 'sum' | 'max'
}

const sortKeys: Record<TraderSort, SortKey> = {
  pnl: { column: 'pnl', type: 'numeric', sum: 'sum' },
  volume: { column: 'stake', type: 'numeric', sum: 'sum' },
  markup: { column: 'markup', type: 'numeric', sum: 'sum' },
  trades: { column: 'trades', type: 'numeric', sum: 'sum' },
  lastTradeAt: { column: 'last_at', type: 'timestamptz', sum: 'max' }
}

// Seconds of a cursor to the microsecond, which a float of all of them does not hold.
const AFTER = {
  numeric: ':after::numeric',
  timestamptz: `timestamptz 'epoch' + trunc(:after::numeric)::float8 * interval '1 second'
    + (:after::numeric % 1 * 1000000)::float8 * interval '1 microsecond'`
}

const dayOf = (instant: string) => `(${instant} at time zone 'UTC')::date`
const startOf = (day: string) => `(${day})::timestamp at time zone 'UTC'`
const quarter = (instant: string) => `date_bin('15 minutes', ${instant}, ${ORIGIN})`
const facts = 'trades, won, stake, payout, pnl, markup, markup_unknown, copied, first_at, last_at'

/**
 * Common table expressions. `span (f, t, until, listed, w1, w2, wf, wt)`: whole days of the window are those from w1 until before w2; those
 * from wf until before wt are counted whole, with `pieces (start, stop, sign, late_day)` beside them. `fringe (start, stop, late_day)` is what
 * is beside the days from w1, without anything to take off. Of a late day only late traders count.
 */
const spans = (sort: SortKey) => `given as materialized (
    select f, t, until, listed, case when ${startOf('df')} = f then df else df + 1 end as w1, ${dayOf('least(t, until)')} as w2, df,
           ${dayOf('until')} as udate
      -- Single values: the planner takes tables of one row for much larger ones as long as nobody has counted them.
      from (select :from::timestamptz as f, :to::timestamptz as t, ${dayOf(':from::timestamptz')} as df, (select ${trusted('until')} from analytics_until) as until,
                   (select ${trusted('until')} from analytics_closes_until) as listed) w
  ), begun as materialized (
    select *, case when w1 > df and w1 <= w2 and f - ${startOf('df')} < interval '12 hours' then df else w1 end as wf from given
  ), span as materialized (
    select f, t, until, listed, w1, greatest(w1, w2) as w2, wf,
           -- What came last on a day cannot be taken off.
           case when ${sort.sum === 'sum'} and wf <= w2 and w2 < udate and t - ${startOf('w2')} > interval '12 hours' then w2 + 1
                else greatest(wf, w2) end as wt from begun
  ), late as materialized (
    select distinct l.day, l.trader_id, t.number from analytics_late_days l cross join span join traders t on t.id = l.trader_id
     where l.partner_id = :partnerId and l.day >= wf and l.day < wt
  ), modes as materialized (
    -- Days from tf until before tt come from the running totals, which not every group of traders has.
    select mode, tf, greatest(tf, least(wt, until)) as tt
      from (select m.mode, least(wt, greatest(wf, g.since)) as tf, wt, coalesce(g.until, wf) as until
              from span cross join unnest(case :accountMode when 'ALL' then array['REAL', 'DEMO'] else array[:accountMode] end) m (mode)
              left join analytics_total_groups g on g.partner_id = :partnerId and g.account_mode = m.mode collate "C" and g.currency = :currency collate "C") g
  ), pieces as materialized (
    select * from (
      select least(f, ${startOf('wf')}) as start, least(t, greatest(f, ${startOf('wf')})) as stop, case when ${startOf('wf')} < f then -1 else 1 end as sign,
             null::date as late_day from span
      union all select greatest(f, least(t, ${startOf('wt')})), greatest(t, case when wf < wt then ${startOf('wt')} end),
                       case when wf < wt and ${startOf('wt')} > t then -1 else 1 end, null from span
      union all select distinct ${startOf('day')}, ${startOf('day + 1')}, 1, day from late) p
     where start < stop
  ), fringe as materialized (
    select * from (
      select f as start, least(t, ${startOf('w1')}) as stop, null::date as late_day from span
      union all select greatest(f, ${startOf('w2')}), t, null from span
      union all select distinct ${startOf('day')}, ${startOf('day + 1')}, day from late cross join span where day >= w1 and day < w2) p
     where start < stop
  ), late_closes as materialized (
    select distinct l.quarter from analytics_late_closes l cross join span where l.partner_id = :partnerId and l.quarter < listed
  ), ranges as materialized (
    -- Of all that is wanted, what the lists do not have.
    select lower(r) as start, upper(r) as stop
      from (select range_agg(tstzrange(start, stop)) as wanted from (select start, stop from pieces union all select start, stop from fringe) w) w
     cross join (select range_agg(r) as unlisted
                   from (select tstzrange(listed, null) as r from span
                         union all select tstzrange(quarter, quarter + interval '15 minutes') from late_closes) u) u
     cross join lateral unnest(wanted * unlisted) r
  )`

/** Lists of closes that have something of `p`, of the modes and the currency, as SQL: a lateral `c`. */
const listsOf = (columns: string) => `lateral (
    select ${columns} from analytics_closes l
     where l.partner_id = :partnerId and l.account_mode = m.mode collate "C" and l.currency = :currency collate "C"
       and l.quarter >= ${quarter('p.start')} and l.quarter < least(p.stop, span.listed) and l.quarter not in (select quarter from late_closes) offset 0) c`

const mode = (o: string) => `(:accountMode = 'ALL' or ${o}.account_mode = :accountMode)`
const isLate = (day: string, number: string) =>
  `(${day} is null or (${day}, ${number}) in (select day, number from late))`

interface FoundTrader extends TraderSums {
  key: string
  traderId: string
  unknown: number
  asOf: Date
  over: boolean
  openEnds: boolean
}

/** The running totals of chunks as `base (number, key)`; `traded` is how often a trader traded, an expression over its columns `kept`. */
function baseOf({ sum }: SortKey, bothModes: boolean): { base: string; kept: string; traded: string } {
  // Lists that are unpacked side by side in the target list are not stored in between.
  const unpacked = `
    select number, ${sum === 'max' ? 'case when value_before is null or value > value_before then value end' : '(value - coalesce(value_before, 0))::numeric'} as key,
           i, trades, trades_before
      from (select unnest(numbers) as number, unnest(value) as value, unnest(value_before) as value_before, generate_subscripts(value, 1) as i, trades,
                   trades_before from chunks offset 0) t
     -- Later traders have no value.
     where value is not null and (not exists (select from stale) or number not in (select number from stale))`
  const traded = `coalesce(b.trades[b.i], 0) - coalesce(b.trades_before[b.i], 0)`
  if (!bothModes) return { base: `${unpacked} offset 0`, kept: 'i, b.trades, trades_before', traded }
  return {
    base: `select b.number, ${sum === 'max' ? 'max' : 'sum_few'}(b.key) as key, sum(${traded})::int as traded from (${unpacked}) b group by b.number`,
    kept: 'traded',
    traded: 'coalesce(traded, 0)'
  }
}

/** What the figures of a window are made of: new contracts, traders whose totals are stale, sums of days, lists of closes. */
function sourcesOf({ column, sum }: SortKey): string {
  return `fresh as materialized (
       select t.number, o.*
         from ranges r cross join ${closedContractsOf(':partnerId', 'closed_at >= r.start and closed_at < r.stop')} join traders t on t.id = o.trader_id
        where ${mode('o')} and o.currency = :currency collate "C"
     ), stale as materialized (
       select s.trader_id, t.number
         from (select distinct trader_id
                 from (select trader_id, day from analytics_late_totals where partner_id = :partnerId union all select trader_id, day from late) l
                 join modes on l.day >= tf and l.day < tt) s
         join traders t on t.id = s.trader_id
     ), days as materialized (
       -- Of all traders only what they are sorted by is summed; the rest of those on the page.
       select trader_id, sum(trades)::int as trades, ${sum}(value) as value, sum(markup_unknown)::int as unknown
         from (select d.*
                 from (select mode, wf as first, tf as past from span cross join modes union all select mode, tt, wt from span cross join modes) r
                cross join lateral (select day, trader_id, trades, ${column} as value, markup_unknown from analytics_trader_days o
                                     where o.partner_id = :partnerId and o.day >= r.first and o.day < r.past and o.account_mode = r.mode collate "C"
                                       and o.currency = :currency collate "C" offset 0) d
               union all
               select tf + k, s.trader_id, d.*
                 from stale s cross join modes m cross join generate_series(0, tt - tf - 1) k
                cross join lateral (select trades, ${column} as value, markup_unknown from analytics_trader_days o
                                     where o.partner_id = :partnerId and o.day = tf + k and o.account_mode = m.mode collate "C"
                                       and o.currency = :currency collate "C" and o.trader_id = s.trader_id offset 0) d) parts
        where (day, trader_id) not in (select day, trader_id from late)
        group by trader_id
     ), lists as materialized (
       -- Whole: nothing of it has to be left out.
       select p.*, c.*, p.late_day is null and c.quarter >= p.start and c.quarter + interval '15 minutes' <= p.stop as whole
         from span cross join pieces p cross join modes m cross join ${listsOf('*')}
     )`
}

/** `page (number, key, trader_id, external_id)`: the largest of all traders, by what they are sorted by. */
function pageOf(sort: SortKey, bothModes: boolean): string {
  const { column, type, sum } = sort
  const { base, kept, traded } = baseOf(sort, bothModes)
  const listed = column === 'trades' ? '1' : column === 'last_at' ? 'unnest(closed_at)' : `unnest(${column})`
  const counted = (value: string, sign: string) =>
    // A markup that is not known adds nothing.
    column === 'trades'
      ? sign
      : sum === 'max'
        ? value
        : `coalesce(case ${sign} when 1 then ${value} else - ${value} end, 0)`
  const ofOrder = column === 'trades' ? '1' : column === 'last_at' ? 'closed_at' : column
  return `edges as not materialized (
       select number, sum(trades)::int as trades, ${sum === 'max' ? 'max(value) filter (where trades > 0)' : 'sum_few(value)'} as key
         from (select number, sign as trades, ${counted('value', 'sign')} as value
                 from (select unnest(numbers) as number, ${listed} as value, sign from lists where whole offset 0) p
               union all
               select number, sign, ${counted('value', 'sign')}
                 from (select unnest(numbers) as number, unnest(closed_at) as at, ${listed} as value, sign, start, stop, late_day
                         from lists where not whole offset 0) p
                where at >= start and at < stop and ${isLate('late_day', 'number')}
               union all
               select o.number, p.sign, ${counted(column === 'trades' ? '1' : `o.${ofOrder}`, 'p.sign')}
                 from fresh o join pieces p on o.closed_at >= p.start and o.closed_at < p.stop where ${isLate('p.late_day', 'o.number')}
               union all
               select t.number, d.trades, d.value from days d join traders t on t.id = d.trader_id) parts
        group by number
     ), chunks as materialized (
       select c.numbers, p.${column} as value, q.${column} as value_before, p.trades, q.trades as trades_before, p.markup_unknown, q.markup_unknown as unknown_before
         from modes m join analytics_total_chunks c on c.partner_id = :partnerId and c.account_mode = m.mode collate "C" and c.currency = :currency collate "C"
        cross join lateral (select * from analytics_totals t where t.partner_id = :partnerId and t.account_mode = m.mode collate "C"
                               and t.currency = :currency collate "C" and t.chunk = c.chunk and t.day < m.tt order by t.day desc limit 1) p
         left join lateral (select * from analytics_totals t where t.partner_id = :partnerId and t.account_mode = m.mode collate "C"
                               and t.currency = :currency collate "C" and t.chunk = c.chunk and t.day < m.tf order by t.day desc limit 1) q on true
        where p.day >= m.tf
     ), base as not materialized (${base}
     ), keyed as not materialized (
       -- Who traded nothing has a sum of 0; not everybody with a sum of 0 traded nothing.
       select number, key
         from (select coalesce(b.number, e.number) as number, e.trades as beside, ${kept},
                      ${sum === 'max' ? 'greatest(b.key, e.key)' : 'case when e.key is null then b.key when b.key is null then e.key else b.key + e.key end'} as key
                 from base b full join edges e on e.number = b.number offset 0) b
        where ${sum === 'max' ? '' : 'key <> 0 or '}${traded} + coalesce(beside, 0) > 0
     ), page as materialized (
       select p.number, p.key, t.id as trader_id, t.external_id
         from (select number, key from keyed
                where :after::numeric is null or (key, number) < (${AFTER[type]}, (select number from traders where id = :id collate "C"))
                order by key desc, number desc limit :limit::int + 1) p join traders t on t.number = p.number
     )`
}

/** `summed`: all figures of the traders on the page. */
const sumsOfPage = `fringe_lists as materialized (
       -- Of a list that is searched often a copy that is not in parts.
       select p.start, p.stop, p.late_day, m.mode, trim_array(c.numbers, 0) as numbers, c.closed_at
         from span cross join fringe p cross join modes m cross join ${listsOf('numbers, closed_at')}
     ), hits as materialized (
       select distinct trader_id, mode, closed_at[i] as at
         from (select l.*, p.trader_id, width_bucket(p.number - 1, l.numbers) as before, width_bucket(p.number, l.numbers) as last
                 from fringe_lists l cross join page p where ${isLate('l.late_day', 'p.number')} offset 0) l
        cross join lateral generate_series(before + 1, last) i
        where last > before and closed_at[i] >= start and closed_at[i] < stop
     ), summed as (
       select trader_id, ${sums}
         from (select d.*
                 from span cross join generate_series(0, w2 - w1 - 1) k cross join modes m
                -- Those of a day in one walk along the index.
                cross join lateral (select trader_id, ${facts} from analytics_trader_days o
                                     where o.partner_id = :partnerId and o.day = w1 + k and o.account_mode = m.mode collate "C"
                                       and o.currency = :currency collate "C" and o.trader_id = any(array(select trader_id from page)) offset 0) d
                where (w1 + k, d.trader_id) not in (select day, trader_id from late)
               union all
               select o.trader_id, 1, o.won, o.stake, o.payout, o.pnl, o.markup, o.markup_unknown, o.copied, o.closed_at, o.closed_at
                 from hits h cross join ${closedContractsOf(':partnerId', 'closed_at = h.at')}
                where o.trader_id = h.trader_id and o.account_mode = h.mode collate "C" and o.currency = :currency collate "C"
               union all
               select o.trader_id, 1, o.won, o.stake, o.payout, o.pnl, o.markup, o.markup_unknown, o.copied, o.closed_at, o.closed_at
                 from fresh o join fringe p on o.closed_at >= p.start and o.closed_at < p.stop
                where o.trader_id in (select trader_id from page) and ${isLate('p.late_day', 'o.number')}) parts
        group by trader_id
     )`

/** `whole`: how many contracts of the window, of all traders, have a markup that is not known. */
const unknownMarkups = `whole as (
       select (coalesce((select sum(unknown) from days), 0)
               + coalesce((select sum(p.sign * o.markup_unknown) from fresh o join pieces p on o.closed_at >= p.start and o.closed_at < p.stop
                            where ${isLate('p.late_day', 'o.number')}), 0)
               + coalesce((select sum(sign)
                             from (select unnest(numbers) as number, unnest(closed_at) as at, unnest(markup) as markup, sign, start, stop, late_day
                                     from lists where markup_unknown > 0 offset 0) p
                            where markup is null and at >= start and at < stop and ${isLate('late_day', 'number')}), 0)
               + coalesce((select sum(u.now - coalesce(u.before, 0))
                             from chunks cross join lateral unnest(numbers, markup_unknown, unknown_before) u (number, now, before)
                            where chunks.markup_unknown is not null and u.number not in (select number from stale)), 0))::int as unknown
     )`

/** The statement of a page. Bindings: those of a window, currency, after, id, limit. */
function pageStatement(
  sort: SortKey,
  { bothModes, present }: { bothModes: boolean; present: boolean | undefined }
): string {
  return `with ${spans(sort)}, ${sourcesOf(sort)}, ${pageOf(sort, bothModes)}, ${sumsOfPage}, ${unknownMarkups}
     select p.trader_id as "traderId", p.external_id as "traderExternalId", nullif(:currency, '') as currency, ${shown},
            ${sort.type === 'timestamptz' ? 'extract(epoch from p.key)' : 'p.key'}::text as key, whole.unknown, now() as "asOf", ${isOver('span.t', present)} as over,
            ${openEnds} as "openEnds"
       from span cross join whole left join page p on true left join summed s on s.trader_id = p.trader_id
      order by p.key desc, p.number desc`
}

/**
 * A page of traders with contracts closed in the window, in one currency, the largest by `sort` first. Between two pages figures may
 * change: a trader may then come twice or not at all, as with every list that is sorted by what changes.
 */
export async function listTraderSums(
  db: Db,
  requested: Omit<Window, 'timezone' | 'interval' | 'currency'> & {
    currency: string
    sort: TraderSort
    limit: number
    cursor?: string
  }
): Promise<TraderPage> {
  const { sort, cursor, present, ...window } = requested
  const [after, id] = cursor === undefined ? [null, null] : readCursor(requested, cursor)
  const found = await db.transaction(async trx => {
    await trx.raw(READING)
    return rows<FoundTrader>(
      trx,
      pageStatement(sortKeys[sort], { bothModes: requested.accountMode === 'ALL', present }),
      {
        ...window,
        after,
        id: id ?? ''
      }
    )
  })
  const [first] = found as [FoundTrader]
  const listed = found.filter(({ traderId }) => traderId !== null)
  const data = listed.slice(0, requested.limit)
  const last = data.at(-1)
  return {
    data,
    nextCursor: listed.length > requested.limit && last ? writeCursor(requested, last.key, last.traderId) : null,
    asOf: first.asOf,
    complete: first.over && !first.openEnds && first.unknown === 0
  }
}

// A page of traders by what they closed in a window: the difference of running totals at the steps next to its ends, what lies between a step and
// an end from the lists of closes, added or taken off, and what these do not have yet from the orders, in one statement. All figures of the traders
// on the page come from their days.
import { type Db, rows } from '../postgres/connection.ts'
import { closedContractsOf, ORIGIN } from './contracts.ts'
import { trusted } from './late.ts'
import { readCursor, writeCursor } from './trader-cursor.ts'
import { openEnds, shown, sums, type TraderPage, type TraderSort, type TraderSums } from './traders.ts'
import { isInUnits, UNIT, UNITS } from './units.ts'
import { isOver, READING, type Window } from './windows.ts'

/** What traders are sorted by, as SQL, the largest first. In a cursor it is a number. */
interface SortKey {
  /** The column by which to sort: in running totals (as a difference), in orders, in late changes and in lists of closes. */
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

/** The steps of a group of traders, as SQL, of a mode `m.mode`. */
const stepsOf = `analytics_steps s where s.partner_id = :partnerId and s.account_mode = m.mode collate "C" and s.currency = :currency collate "C" and s.at <= listed`
/** The steps next to an instant of `span`, as SQL: a lateral `(last, next)`. */
const stepsNextTo = (instant: string) => `lateral (
      select (select at from ${stepsOf} and s.at <= ${instant} order by s.at desc limit 1) as last,
             (select at from ${stepsOf} and s.at >= ${instant} order by s.at limit 1) as next offset 0)`
const nearest = (instant: string, steps: string) =>
  `case when ${instant} - ${steps}.last <= ${steps}.next - ${instant} then ${steps}.last else coalesce(${steps}.next, ${steps}.last) end`

/**
 * Common table expressions. `span (f, t, listed, w1, w2)`: whole days of the window are those from w1 until before w2. Of `modes (mode, bf, bt,
 * based)` the totals between two steps are counted where it is based, with `pieces (mode, start, stop, sign)` beside them. `fringe (start,
 * stop, late_day)` is what is beside the days; of a late day only late traders count there.
 */
const spans = (sort: SortKey) => `given as materialized (
    select f, t, until, listed, case when ${startOf('df')} = f then df else df + 1 end as w1, ${dayOf('least(t, until)')} as w2
      -- Single values: the planner takes tables of one row for much larger ones as long as nobody has counted them.
      from (select :from::timestamptz as f, :to::timestamptz as t, ${dayOf(':from::timestamptz')} as df, (select ${trusted('until')} from analytics_until) as until,
                   (select ${trusted('until')} from analytics_closes_until) as listed) w
  ), span as materialized (
    select f, t, listed, w1, greatest(w1, w2) as w2 from given
  ), late as materialized (
    select distinct l.day, l.trader_id, t.number from analytics_late_days l cross join span join traders t on t.id = l.trader_id
     where l.partner_id = :partnerId and l.day >= w1 and l.day < w2
  ), late_closes as materialized (
    select distinct l.quarter from analytics_late_closes l cross join span where l.partner_id = :partnerId and l.quarter < listed
  ), modes as materialized (
    select mode, bf, bt, coalesce(bf < bt, false) as based
      -- What came last before a step cannot be taken off.
      from (select m.mode, ${sort.sum === 'sum' ? nearest('f', 'sf') : 'sf.next'} as bf, ${sort.sum === 'sum' ? nearest('t', 'st') : 'st.last'} as bt
              from span cross join unnest(case :accountMode when 'ALL' then array['REAL', 'DEMO'] else array[:accountMode] end) m (mode)
             cross join ${stepsNextTo('f')} sf cross join ${stepsNextTo('t')} st) m
  ), pieces as materialized (
    select * from (
      select mode, least(f, bf) as start, greatest(f, bf) as stop, case when f < bf then 1 else -1 end as sign from span cross join modes where based
      union all select mode, least(t, bt), greatest(t, bt), case when bt < t then 1 else -1 end from span cross join modes where based
      union all select mode, f, t, 1 from span cross join modes where not based) p
     where start < stop
  ), late_totals as materialized (
    -- The totals have these quarters as their lists do.
    select mode, quarter as start, quarter + interval '15 minutes' as stop from modes join late_closes on quarter >= bf and quarter < bt where based
  ), fringe as materialized (
    select * from (
      select f as start, least(t, ${startOf('w1')}) as stop, null::date as late_day from span
      union all select greatest(f, ${startOf('w2')}), t, null from span
      union all select distinct ${startOf('day')}, ${startOf('day + 1')}, day from late) p
     where start < stop
  ), ranges as materialized (
    -- Of all that is wanted, what the lists do not have.
    select lower(r) as start, upper(r) as stop
      from (select range_agg(tstzrange(start, stop)) as wanted
              from (select start, stop from pieces union all select start, stop from late_totals union all select start, stop from fringe) w) w
     cross join (select range_agg(r) as unlisted
                   from (select tstzrange(listed, null) as r from span
                         union all select tstzrange(quarter, quarter + interval '15 minutes') from late_closes) u) u
     cross join lateral unnest(wanted * unlisted) r
  )`

/** Lists of closes that have something of `p`, of the mode and the currency, as SQL: a lateral `c`. */
const listsOf = (columns: string, mode: string) => `lateral (
    select ${columns} from analytics_closes l
     where l.partner_id = :partnerId and l.account_mode = ${mode} collate "C" and l.currency = :currency collate "C"
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

/** What the figures of a window are made of: contracts that are in no list, lists, rows of totals. */
const sourcesOf = ({ column }: SortKey) => `fresh as materialized (
       select t.number, o.*
         from ranges r cross join ${closedContractsOf(':partnerId', 'closed_at >= r.start and closed_at < r.stop')} join traders t on t.id = o.trader_id
        where ${mode('o')} and o.currency = :currency collate "C"
     ), lists as materialized (
       -- Whole: nothing of it has to be left out.
       select p.*, c.*, c.quarter >= p.start and c.quarter + interval '15 minutes' <= p.stop as whole
         from span cross join pieces p cross join ${listsOf('*', 'p.mode')}
     ), late_lists as materialized (
       select l.* from late_totals p
         join analytics_closes l on l.partner_id = :partnerId and l.account_mode = p.mode collate "C" and l.currency = :currency collate "C" and l.quarter = p.start
     ), changes as materialized (
       select c.* from modes
        cross join lateral (select * from analytics_step_changes c
                             where c.partner_id = :partnerId and c.account_mode = mode collate "C" and c.currency = :currency collate "C"
                               and c.quarter >= bf and c.quarter < bt offset 0) c
        where based
     ), chunks as materialized (
       select c.chunk, c.numbers, bf, p.trades, q.trades as trades_before, p.${column} as value, q.${column} as value_before
         from modes m join analytics_step_chunks c on c.partner_id = :partnerId and c.account_mode = m.mode collate "C" and c.currency = :currency collate "C"
        cross join lateral (select * from analytics_step_totals t where t.partner_id = :partnerId and t.account_mode = m.mode collate "C"
                               and t.currency = :currency collate "C" and t.chunk = c.chunk and t.at <= m.bt order by t.at desc limit 1) p
         left join lateral (select * from analytics_step_totals t where t.partner_id = :partnerId and t.account_mode = m.mode collate "C"
                               and t.currency = :currency collate "C" and t.chunk = c.chunk and t.at <= m.bf order by t.at desc limit 1) q on true
        where based
     )`

/** Contracts that are in no list, as SQL, each with the piece `p` of the window that it is in. */
const freshOfPieces = `fresh o join (select * from pieces union all select *, 1 from late_totals) p
                   on o.account_mode = p.mode and o.closed_at >= p.start and o.closed_at < p.stop`
/** Entries of lists `(number, at, …, start, stop, sign)`, as SQL. Lists that are unpacked side by side in the target list are not stored in between. */
const entriesOf = (what: string, lists = 'lists') =>
  `select unnest(numbers) as number, unnest(closed_at) as at${what}, start, stop, sign from ${lists} offset 0`

/**
 * `apart (number)`: traders of whom more than the largest key has to be known, which is computed from all their figures; `edges (number,
 * trades, key)`: what is counted of the others beside the totals. Keys are in units where they are amounts.
 */
function edgesOf({ column, sum }: SortKey): string {
  if (sum === 'max')
    return `apart as materialized (
       -- The totals may have a last close of theirs that is no more.
       select number from changes where had > coalesce(last_at, '-infinity')
       union
       select number from (select unnest(numbers) as number, unnest(closed_at) as at from late_lists except select number, closed_at from fresh) l
     ), edges as not materialized (
       select number, count(*)::int as trades, max(at) as key
         from (select number, at from (${entriesOf('')}) l where at >= start and at < stop
               union all select o.number, o.closed_at from ${freshOfPieces}
               union all select number, last_at from changes where last_at is not null) parts
        group by number
     )`
  if (column === 'trades')
    return `apart as materialized (select 0 as number where false), edges as not materialized (
       select number, sum(trades)::int as trades, sum(trades) as key
         from (select number, sign as trades from (${entriesOf('')}) l where at >= start and at < stop
               union all select o.number, p.sign from ${freshOfPieces}
               union all select number, trades from changes
               union all select unnest(numbers), -1 from late_lists) parts
        group by number
     )`
  const units = `${column}_units`
  return `rest as materialized (
       -- A markup that is not known adds nothing.
       select number, trades, case when ${isInUnits('value')} then (value * ${UNITS})::bigint end as units, not ${isInUnits('value')} as odd
         from (select number, sign as trades, case sign when 1 then value else - value end as value
                 from (${entriesOf(`, unnest(${column}) as value`, `lists where not whole or ${units} is null`)}) l where at >= start and at < stop
               union all select o.number, p.sign, case p.sign when 1 then o.${column} else - o.${column} end from ${freshOfPieces}
               union all select number, trades, ${column} from changes
               union all select unnest(numbers), -1, - unnest(${column}) from late_lists) parts
     ), apart as materialized (
       select distinct number from rest where odd
     ), edges as not materialized (
       select number, sum(trades)::int as trades, coalesce(sum_few(units), 0) as key
         from (select number, sign as trades, case sign when 1 then units else - units end as units
                 from (${entriesOf(`, unnest(${units}) as units`, `lists where whole and ${units} is not null`)}) l
               union all select number, trades, units from rest) parts
        group by number
     )`
}

/** The totals as a table `(number, value)`: a trader may be in those of two modes. */
function totalsOf({ column, sum }: SortKey, bothModes: boolean): string {
  // Later traders have no value.
  if (sum === 'max') {
    const unpacked = `select number, value
                        from (select unnest(numbers) as number, unnest(value) as value, bf from chunks offset 0) u where value >= bf`
    return bothModes ? `select number, max(value) as value from (${unpacked}) u group by number` : unpacked
  }
  const [value, before] = column === 'trades' ? ['trades', 'trades_before'] : ['value', 'value_before']
  const unpacked = `select number, (value - coalesce(value_before, 0))::bigint as value
                      from (select unnest(numbers) as number, unnest(${value}) as value, unnest(${before}) as value_before from chunks offset 0) u
                     where value is not null`
  return bothModes ? `select number, sum_few(value) as value from (${unpacked}) u group by number` : unpacked
}

/** Whether a trader's key, an amount or an instant, is on a later page than the last one read, as SQL. */
const eligible = (key: string, type: SortKey['type']) =>
  `(:after::numeric is null or (${key}, number) < (${AFTER[type]}, (select number from traders where id = :id collate "C")))`

/** One contract, or one unit of an amount, by which the key of `sort` is measured. */
const oneOf = (sort: SortKey) => (sort.column === 'trades' ? '1' : UNIT)

/** `page (number, key, trader_id, external_id)`: the largest of all traders, by what they are sorted by; those apart are without a key. */
function pageOf(sort: SortKey, bothModes: boolean): string {
  const { type, sum } = sort
  const key =
    sum === 'max'
      ? 'greatest(b.value, e.key)'
      : 'case when e.key is null then b.value when b.value is null then e.key else b.value + e.key end'
  const later =
    sum === 'max'
      ? eligible('key', type)
      : `(:after::numeric is null or key < (select least from cut)
          or (key = (select least from cut) and (select exact from cut) and number < (select number from traders where id = :id collate "C")))`
  // A key of 0 may come from no trades or from trades that cancel out; only traders who traded are listed. Read only where the
  // page reaches keys of 0.
  const zeros = `(select number, key from keyed
                   where (select count(*) from ranked where key > 0) <= :limit::int and key = 0 and ${later} and number not in (select number from apart)
                     and case when not totalled then trades > 0
                              else (number, - coalesce(trades, 0)) not in (select number, value::int from (${totalsOf(sortKeys.trades, bothModes)}) t) end
                   order by number desc limit :limit::int + 1)`
  const units = `:after::numeric * ${sort.column === 'trades' ? 1 : UNITS}`
  return `cut as materialized (
       -- Compared as units: whole numbers are less than any other one where they are less than the next of theirs.
       select ceil(least(9e18, greatest(-9e18, ${units})))::bigint as least, ceil(${units}) = ${units} as exact
     ), keyed as not materialized (
       select coalesce(b.number, e.number) as number, ${key} as key, e.trades, b.number is not null as totalled
         from (${totalsOf(sort, bothModes)}) b full join edges e on e.number = b.number offset 0
     ), ranked as materialized (
       select number, key from keyed
        where ${later} and number not in (select number from apart) ${sum === 'max' ? 'and key is not null' : 'and key <> 0'}
        order by key desc, number desc limit :limit::int + 1
     ), page as materialized (
       select p.number, p.key, t.id as trader_id, t.external_id
         from (select * from (select * from ranked${sum === 'max' ? '' : ` union all ${zeros}`}) r
                order by key desc, number desc limit :limit::int + 1) p join traders t on t.number = p.number
       union all
       select number, null, id, external_id from traders where number in (select number from apart)
     )`
}

/** `summed`: all figures of the traders on the page. */
const sumsOfPage = `fringe_lists as materialized (
       -- Of a list that is searched often a copy that is not in parts.
       select p.start, p.stop, p.late_day, m.mode, trim_array(c.numbers, 0) as numbers, c.closed_at
         from span cross join fringe p cross join modes m cross join ${listsOf('numbers, closed_at', 'm.mode')}
     ), hits as materialized (
       select distinct trader_id, mode, closed_at[i] as at
         from (select l.*, p.trader_id, p.number, width_bucket(p.number - 1, l.numbers) as before
                 from fringe_lists l cross join page p where ${isLate('l.late_day', 'p.number')} offset 0) l
        cross join lateral generate_series(before + 1, width_bucket(number, numbers)) i
        where numbers[before + 1] = number and closed_at[i] >= start and closed_at[i] < stop
     ), summed as (
       select trader_id, ${sums}
         from (select d.trader_id, ${facts}
                 from span cross join page p cross join modes m
                -- Those of a trader in one walk along the index.
                cross join lateral (select trader_id, day, ${facts} from analytics_trader_days o
                                     where o.partner_id = :partnerId and o.trader_id = p.trader_id and o.day >= w1 and o.day < w2
                                       and o.account_mode = m.mode collate "C" and o.currency = :currency collate "C" offset 0) d
                where (d.day, d.trader_id) not in (select day, trader_id from late)
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
       select (coalesce((select sum(p.sign * o.markup_unknown)
                           from fresh o join (select * from pieces union all select *, 1 from late_totals) p
                             on o.account_mode = p.mode and o.closed_at >= p.start and o.closed_at < p.stop), 0)
               + coalesce((select sum(sign)
                             from (select unnest(closed_at) as at, unnest(markup) as markup, sign, start, stop
                                     from lists where markup_unknown > 0 offset 0) p
                            where markup is null and at >= start and at < stop), 0)
               - coalesce((select sum(markup_unknown) from late_lists), 0)
               + coalesce((select sum(markup_unknown) from changes), 0)
               + coalesce((select sum((select markup_unknown from ${stepsOf} and s.at = bt) - (select markup_unknown from ${stepsOf} and s.at = bf))
                             from span cross join modes m where based), 0))::int as unknown
     )`

/** The statement of a page. Bindings: those of a window, currency, after, id, limit. */
function pageStatement(
  sort: SortKey,
  { bothModes, present }: { bothModes: boolean; present: boolean | undefined }
): string {
  const key = `case when p.key is null then s.${sort.column} else p.key${sort.type === 'numeric' ? ` * ${oneOf(sort)}` : ''} end`
  return `with ${spans(sort)}, ${sourcesOf(sort)}, ${edgesOf(sort)}, ${pageOf(sort, bothModes)}, ${sumsOfPage}, ${unknownMarkups}
     select p.trader_id as "traderId", p.external_id as "traderExternalId", nullif(:currency, '') as currency, ${shown},
            ${sort.type === 'timestamptz' ? 'extract(epoch from p.key)' : 'p.key'}::text as key, whole.unknown, now() as "asOf", ${isOver('span.t', present)} as over,
            ${openEnds} as "openEnds"
       from span cross join whole
       left join (select * from (select p.number, p.external_id, ${key} as key, s.* from page p join summed s using (trader_id)) p
                   where ${eligible('key', sort.type)}) p on true
      order by p.key desc, p.number desc limit :limit::int + 1`
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

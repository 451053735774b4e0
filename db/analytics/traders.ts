// Traders: closed contracts by trader, of whole days of UTC from the sums and of the rest from the orders, in one statement.
import { ApiError } from '../../schemas/errors/errors.ts'
import { allOrders } from '../orders/archive.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { closedContractsOf } from './contracts.ts'
import { MOST_ROWS, plainWindow, refuseTooMany, type Window } from './windows.ts'

export const traderSorts = ['pnl', 'volume', 'markup', 'trades', 'lastTradeAt'] as const
type TraderSort = (typeof traderSorts)[number]

/** What a trader's closed contracts came to, in one currency. */
export interface TraderSums {
  traderExternalId: string
  currency: string | null
  trades: number
  won: number
  stake: string
  payout: string
  pnl: string
  markup: string
  markupUnknown: number
  copied: number
  firstTradeAt: Date
  lastTradeAt: Date
}

interface TraderPage {
  data: TraderSums[]
  nextCursor: string | null
  asOf: Date
  /** Whether all of the window is known: it is over, what has ended in it is closed, with its markup. */
  complete: boolean
}

/** What traders are sorted by, as SQL, the largest first. In a cursor it is a number. */
interface SortKey {
  /** Of the totals of chunks, whose difference it is; of an order or a trader's day. */
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

const facts = 'trader_id, trades, won, stake, payout, pnl, markup, markup_unknown, copied, first_at, last_at'
const sums = `sum(trades)::int as trades, sum(won)::int as won, sum(stake) as stake, sum(payout) as payout, sum(pnl) as pnl, sum(markup) as markup,
  sum(markup_unknown)::int as markup_unknown, sum(copied)::int as copied, min(first_at) as first_at, max(last_at) as last_at`
const shown = `trades, won, stake, payout, pnl, markup, markup_unknown as "markupUnknown", copied, first_at as "firstTradeAt", last_at as "lastTradeAt"`

/** Whether a contract that ended before the window's end, or an order of it, has an outcome that is not known yet, as SQL. */
const openEnds = `(exists (select from orders where partner_id = :partnerId and phase = 'open' and expiry_at < least(:to::timestamptz, now())
         and (:accountMode = 'ALL' or account_mode = :accountMode))
  or exists (select from orders where partner_id = :partnerId and status = 'PENDING' and created_at >= :from::timestamptz - interval '1 day'
         and created_at < :to::timestamptz and phase in ('sending', 'review') and (:accountMode = 'ALL' or account_mode = :accountMode)))`

interface FoundTrader extends TraderSums {
  key: string
  traderId: string
  unknown: number
  asOf: Date
  over: boolean
  openEnds: boolean
}

/**
 * A page of traders with contracts closed in the window, in one currency, the largest by `sort` first. Between two pages figures may
 * change: a trader may then come twice or not at all, as with every list that is sorted by what changes.
 */
export async function listTraderSums(
  db: Db,
  asked: Omit<Window, 'timezone' | 'interval' | 'currency'> & {
    currency: string
    sort: TraderSort
    limit: number
    cursor?: string
  }
): Promise<TraderPage> {
  const { sort, cursor, ...window } = asked
  const [after, id] = cursor === undefined ? [null, null] : readCursor(cursor, sort)
  const { column, type, sum } = sortKeys[sort]
  const filter = `(:accountMode = 'ALL' or o.account_mode = :accountMode) and o.currency = :currency collate "C"`
  const found = await db.transaction(async trx => {
    // A hundred thousand traders are joined in memory.
    await trx.raw(`set local work_mem = '64MB'`)
    return rows<FoundTrader>(
      trx,
      `with span as materialized (
       select f, t, until, wf, greatest(wf, case when t >= until then greatest(wf, (until at time zone 'UTC')::date + 1)
                                                 else (t at time zone 'UTC')::date end) as wt
         from (select :from::timestamptz as f, :to::timestamptz as t, until,
                      case when date_trunc('day', :from::timestamptz, 'UTC') = :from::timestamptz then (:from::timestamptz at time zone 'UTC')::date
                           else (:from::timestamptz at time zone 'UTC')::date + 1 end as wf from analytics_until) w
     ), late as materialized (
       select distinct l.day, l.trader_id from analytics_late_days l cross join span where l.partner_id = :partnerId and l.day >= wf and l.day < wt
     ), ranges as materialized (
       -- Days from wf until before wt come from the sums, which reach to 'until'.
       select f as start, least(t, wf::timestamp at time zone 'UTC') as stop from span
       union all select greatest(f, wf::timestamp at time zone 'UTC', case when t >= until then until else wt::timestamp at time zone 'UTC' end), t from span
     ), fresh as materialized (
       select o.trader_id, 1 as trades, o.won, o.stake, o.payout, o.pnl, o.markup, o.markup_unknown, o.copied, o.closed_at as first_at, o.closed_at as last_at
         from ranges r cross join ${closedContractsOf(':partnerId', 'closed_at >= r.start and closed_at < r.stop')} where ${filter}
       union all
       select o.trader_id, 1, o.won, o.stake, o.payout, o.pnl, o.markup, o.markup_unknown, o.copied, o.closed_at, o.closed_at
         from (select distinct day from late) l cross join span
        cross join ${closedContractsOf(':partnerId', `closed_at >= l.day::timestamp at time zone 'UTC' and closed_at < least((l.day + 1)::timestamp at time zone 'UTC', span.until)`)}
        where ${filter} and (l.day, o.trader_id) in (select day, trader_id from late)
     ), modes as materialized (
       -- Days from tf until before tt come from the running totals, which not every group of traders has.
       select mode, tf, greatest(tf, least(wt, until)) as tt
         from (select m.mode, least(wt, greatest(wf, g.since)) as tf, wt, coalesce(g.until, wf) as until
                 from span cross join unnest(case :accountMode when 'ALL' then array['REAL', 'DEMO'] else array[:accountMode] end) m (mode)
                 left join analytics_total_groups g on g.partner_id = :partnerId and g.account_mode = m.mode collate "C" and g.currency = :currency collate "C") g
     ), stale as materialized (
       select distinct trader_id from (select trader_id, day from analytics_late_totals where partner_id = :partnerId union all select trader_id, day from late) l
         join modes on l.day >= tf and l.day < tt
     ), edges as materialized (
       -- Of all traders only what they are sorted by is summed; the rest of those on the page.
       select trader_id, ${sum}(value) as key, sum(markup_unknown)::int as unknown
         from (select d.trader_id, d.value, d.markup_unknown
                 from (select mode, wf as first, tf as past from span cross join modes union all select mode, tt, wt from span cross join modes) r
                cross join lateral (select day, trader_id, ${column} as value, markup_unknown from analytics_trader_days o
                                     where o.partner_id = :partnerId and o.day >= r.first and o.day < r.past and o.account_mode = r.mode collate "C"
                                       and o.currency = :currency collate "C" offset 0) d
                where (d.day, d.trader_id) not in (select day, trader_id from late)
               union all
               select s.trader_id, d.value, d.markup_unknown
                 from stale s cross join modes m cross join generate_series(0, tt - tf - 1) k
                cross join lateral (select ${column} as value, markup_unknown from analytics_trader_days o
                                     where o.partner_id = :partnerId and o.day = tf + k and o.account_mode = m.mode collate "C"
                                       and o.currency = :currency collate "C" and o.trader_id = s.trader_id offset 0) d
                where (tf + k, s.trader_id) not in (select day, trader_id from late)
               union all select trader_id, ${column}, markup_unknown from fresh) parts
        group by trader_id
     ), chunks as materialized (
       select c.traders, p.${column} as value, q.${column} as value_before, p.trades, q.trades as trades_before, p.markup_unknown, q.markup_unknown as unknown_before
         from modes m join analytics_total_chunks c on c.partner_id = :partnerId and c.account_mode = m.mode collate "C" and c.currency = :currency collate "C"
        cross join lateral (select * from analytics_totals t where t.partner_id = :partnerId and t.account_mode = m.mode collate "C"
                               and t.currency = :currency collate "C" and t.chunk = c.chunk and t.day < m.tt order by t.day desc limit 1) p
         left join lateral (select * from analytics_totals t where t.partner_id = :partnerId and t.account_mode = m.mode collate "C"
                               and t.currency = :currency collate "C" and t.chunk = c.chunk and t.day < m.tf order by t.day desc limit 1) q on true
        where p.day >= m.tf
     ), lists as not materialized (
       -- Lists that are unpacked side by side in the target list are not stored in between.
       select trader_id, ${sum === 'max' ? 'value' : '(value - coalesce(value_before, 0))::numeric'} as key
         from (select unnest(traders) as trader_id, unnest(value) as value, unnest(value_before) as value_before, unnest(trades) as trades,
                      unnest(trades_before) as trades_before from chunks offset 0) t
        where trades > coalesce(trades_before, 0) and trader_id not in (select trader_id from stale)
     ), totals as not materialized (
       ${asked.accountMode === 'ALL' ? `select trader_id, ${sum}(key) as key from lists group by trader_id` : 'select trader_id, key from lists'}
     ), keyed as not materialized (
       -- Those with something beside the totals apart: joining all of them took a third of the statement.
       select trader_id, key from totals where trader_id not in (select trader_id from edges)
       union all
       select e.trader_id, ${sum === 'max' ? 'greatest(e.key, t.key)' : 'e.key + coalesce(t.key, 0)'} from edges e left join totals t using (trader_id)
     ), paged as materialized (
       select trader_id, key from keyed
        where :after::numeric is null or (key, trader_id) < (${AFTER[type]}, :id collate "C")
        order by key desc, trader_id desc limit :limit::int + 1
     ), summed as (
       select trader_id, ${sums}
         from (select ${facts}
                 from paged p cross join span cross join generate_series(0, wt - wf - 1) k
                cross join unnest(case :accountMode when 'ALL' then array['REAL', 'DEMO'] else array[:accountMode] end) m (mode)
                cross join lateral (select ${facts.replace('trader_id, ', '')} from analytics_trader_days o
                                     where o.partner_id = :partnerId and o.day = wf + k and o.account_mode = m.mode collate "C"
                                       and o.currency = :currency collate "C" and o.trader_id = p.trader_id offset 0) d
                where (wf + k, trader_id) not in (select day, trader_id from late)
               union all select ${facts} from fresh where trader_id in (select trader_id from paged)) parts
        group by trader_id
     ), whole as (
       select (coalesce((select sum(unknown) from edges), 0)
               + coalesce((select sum(u.now - coalesce(u.before, 0))
                             from chunks cross join lateral unnest(traders, markup_unknown, unknown_before) u (trader_id, now, before)
                            where chunks.markup_unknown is not null and u.trader_id not in (select trader_id from stale)), 0))::int as unknown
     )
     select p.trader_id as "traderId", t.external_id as "traderExternalId", nullif(:currency, '') as currency, ${shown}, ${type === 'timestamptz' ? 'extract(epoch from p.key)' : 'p.key'}::text as key,
            whole.unknown, now() as "asOf", span.t <= now() as over, ${openEnds} as "openEnds"
       from span cross join whole left join paged p on true left join summed s on s.trader_id = p.trader_id left join traders t on t.id = p.trader_id
      order by p.key desc, p.trader_id desc`,
      { ...window, after, id: id ?? '' }
    )
  })
  const [first] = found as [FoundTrader]
  const listed = found.filter(({ traderId }) => traderId !== null)
  const data = listed.slice(0, asked.limit)
  const last = data.at(-1)
  return {
    data,
    nextCursor: listed.length > asked.limit && last ? writeCursor(sort, last.key, last.traderId) : null,
    asOf: first.asOf,
    complete: first.over && !first.openEnds && first.unknown === 0
  }
}

export interface TraderSeriesRow extends Omit<TraderSums, 'traderExternalId' | 'firstTradeAt' | 'lastTradeAt'> {
  start: Date
}

export interface TraderAnalytics {
  data: TraderSums[]
  series: TraderSeriesRow[]
  asOf: Date
  complete: boolean
}

interface FoundSeries extends Omit<TraderSums, 'traderExternalId'> {
  n: number | null
  start: Date | null
  asOf: Date
  over: boolean
  openEnds: boolean
}

/** One trader's closed contracts of the window by currency, and by bucket and currency, from its orders. Throws TRADER_NOT_FOUND. */
export async function readTrader(db: Db, window: Window & { traderExternalId: string }): Promise<TraderAnalytics> {
  const { partnerId, traderExternalId, interval } = window
  if (!(await db('traders').where({ partner_id: partnerId, external_id: traderExternalId }).first('id')))
    throw new ApiError('TRADER_NOT_FOUND', `There is no trader ${traderExternalId}.`)
  const found = await rows<FoundSeries>(
    db,
    `with ${plainWindow(interval)}, closed as materialized (
       select width_bucket(closed_at, (select list from starts)) as n, coalesce(currency, '') as currency, (pnl > 0)::int as won,
              coalesce(stake_in_account, stake) as stake, buy_price + pnl as payout, pnl, coalesce(markup, 0) as markup,
              (markup is null)::int as markup_unknown, (copied_from is not null)::int as copied, closed_at
         from ${allOrders} o cross join span
        where partner_id = :partnerId and trader_external_id = :traderExternalId and status = 'CLOSED' and closed_at >= f and closed_at < t
          and (:accountMode = 'ALL' or account_mode = :accountMode) and (:currency::text is null or currency = :currency)
     ), sums as (
       select n, currency, count(*)::int as trades, sum(won)::int as won, sum(stake) as stake, sum(payout) as payout, sum(pnl) as pnl,
              sum(markup) as markup, sum(markup_unknown)::int as markup_unknown, sum(copied)::int as copied, min(closed_at) as first_at,
              max(closed_at) as last_at
         from closed group by grouping sets ((n, currency), (currency))
     )
     select s.n, b.start, nullif(s.currency, '') as currency, ${shown}, now() as "asOf", t <= now() as over, ${openEnds} as "openEnds"
       from span left join sums s on true left join buckets b on b.n = s.n
      order by s.n nulls first, s.currency limit ${MOST_ROWS + 1}`,
    { ...window }
  )
  refuseTooMany(found)
  const [first] = found as [FoundSeries]
  const sums = found.filter(({ trades }) => trades !== null)
  const whole = sums.filter(({ n }) => n === null)
  return {
    data: whole.map(row => ({ ...row, traderExternalId })),
    series: sums.flatMap(({ start, ...row }) => (start === null ? [] : [{ ...row, start }])),
    asOf: first.asOf,
    complete: first.over && !first.openEnds && whole.every(({ markupUnknown }) => markupUnknown === 0)
  }
}

// A cursor holds what its list is sorted by, and the last entry's value and trader.
function writeCursor(sort: TraderSort, value: string, traderId: string): string {
  return Buffer.from(JSON.stringify([sort, value, traderId])).toString('base64url')
}

function readCursor(cursor: string, sort: TraderSort): [string, string] {
  let position: unknown
  try {
    position = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))
  } catch {
    position = undefined
  }
  const [by, value, id] = Array.isArray(position) ? position : []
  if (
    by !== sort ||
    typeof value !== 'string' ||
    !/^-?\d{1,30}(\.\d{1,20})?$/.test(value) ||
    typeof id !== 'string' ||
    !/^[a-z0-9_]{1,64}$/.test(id)
  ) {
    const details = [{ path: '/query/cursor', message: 'is not a cursor of this list' }]
    throw new ApiError('VALIDATION_FAILED', 'cursor is not a cursor of this list', { extras: { details } })
  }
  return [value, id]
}

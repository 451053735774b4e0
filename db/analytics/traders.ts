// Traders: closed contracts by trader. Of one trader they are counted from its orders; for pages of all see trader-pages.ts.
import { ApiError } from '../../schemas/errors/errors.ts'
import { allOrders } from '../orders/archive.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { inDoubt, isOver, MOST_ROWS, plainWindow, refuseTooMany, type Window } from './windows.ts'

export const traderSorts = ['pnl', 'volume', 'markup', 'trades', 'lastTradeAt'] as const
export type TraderSort = (typeof traderSorts)[number]

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

export interface TraderPage {
  data: TraderSums[]
  nextCursor: string | null
  asOf: Date
  /** Whether all of the window is known: it is over, what has ended in it is closed, with its markup. */
  complete: boolean
}

/** Sums of a trader's contracts and days, as SQL. */
export const sums = `sum(trades)::int as trades, sum(won)::int as won, sum(stake) as stake, sum(payout) as payout, sum(pnl) as pnl, sum(markup) as markup,
  sum(markup_unknown)::int as markup_unknown, sum(copied)::int as copied, min(first_at) as first_at, max(last_at) as last_at`
export const shown = `trades, won, stake, payout, pnl, markup, markup_unknown as "markupUnknown", copied, first_at as "firstTradeAt", last_at as "lastTradeAt"`

/**
 * Whether a contract that may have ended before the window's end, or an order of it, has an outcome that is not known yet, as SQL. When a
 * tick contract ends is not known beforehand, and any contract may be sold before its end: it was open at the window's end if the broker
 * showed it so later.
 */
export const openEnds = `(exists (select from orders where partner_id = :partnerId and phase = 'open' and opened_at < :to::timestamptz
         and (:accountMode = 'ALL' or account_mode = :accountMode)
         and (kind = 'BINARY' and coalesce(expiry_at, opened_at) < least(:to::timestamptz, now())
              or coalesce(marked_at, opened_at) < :to::timestamptz + interval '10 seconds' or error_code is not null))
  or ${inDoubt})`

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
     select s.n, b.start, nullif(s.currency, '') as currency, ${shown}, now() as "asOf", ${isOver('t', window.present)} as over, ${openEnds} as "openEnds"
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

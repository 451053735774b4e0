// What the bots of a partner and of its traders brought, from the ledger.
import { type Db, rows } from '../postgres/connection.ts'
import { isOver, MOST_ROWS, plainWindow, refuseTooMany, type Window } from './windows.ts'

/** Refunds are taken off all three amounts, in the bucket in which they were made. */
export interface MarketplaceRow {
  start: Date
  sales: number
  subscriptions: number
  refunds: number
  grossUsd: string
  feesUsd: string
  netUsd: string
}

/** Earnings by buckets of the window, empty ones with zeros; complete once the window is over. */
export async function readMarketplace(
  db: Db,
  window: Pick<Window, 'partnerId' | 'from' | 'to' | 'timezone' | 'interval' | 'present'>
): Promise<{ data: MarketplaceRow[]; asOf: Date; complete: boolean }> {
  const found = await rows<MarketplaceRow & { asOf: Date; over: boolean }>(
    db,
    `with ${plainWindow(window.interval)}, moved as (
       select width_bucket(created_at, (select list from starts)) as n, kind, gross::numeric as gross, net::numeric as net
         from earnings_entries
        where account_id = 'earnings:' || :partnerId and created_at >= :from::timestamptz and created_at < :to::timestamptz
     ), sums as (
       select n, (count(*) filter (where kind = 'sale'))::int as sales, (count(*) filter (where kind = 'subscription'))::int as subscriptions,
              (count(*) filter (where kind = 'refund'))::int as refunds, sum(gross) as gross, sum(net) as net
         from moved group by n
     )
     select b.start, coalesce(s.sales, 0) as sales, coalesce(s.subscriptions, 0) as subscriptions, coalesce(s.refunds, 0) as refunds,
            coalesce(s.gross, 0)::text as "grossUsd", coalesce(s.gross - s.net, 0)::text as "feesUsd", coalesce(s.net, 0)::text as "netUsd",
            now() as "asOf", ${isOver('span.t', window.present)} as over
       from span cross join buckets b left join sums s on s.n = b.n
      order by b.n limit ${MOST_ROWS + 1}`,
    { ...window }
  )
  refuseTooMany(found)
  const [first] = found as [(typeof found)[number]]
  return { data: found, asOf: first.asOf, complete: first.over }
}

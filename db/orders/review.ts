// Open orders whose settlement cannot be booked: what the broker reports contradicts itself or the order, or the broker
// does not know the contract. The order stays OPEN and shows REVIEW_REQUIRED until a plausible state, or the operator,
// settles it.
import { type Db, rows } from '../postgres/connection.ts'

/** What a partner reads about such an order. */
export const REVIEW_MESSAGE =
  'What the broker reports about the end of this contract is being reviewed; the order settles once that is clear.'

// A break that a later check withdrew may come back; one that the operator resolved stays resolved.
const WITHDRAWN = 'withdrawn: the contract is still open'

/**
 * Marks an open order as REVIEW_REQUIRED and stores the break, in one statement. Returns the order's reply channel
 * and whether the break is new; undefined when the order is not open any more.
 */
export async function markUnsettled(
  db: Db,
  { id, why }: { id: string; why: string[] }
): Promise<{ reply_channel: string | null; news: boolean } | undefined> {
  const [marked] = await rows<{ reply_channel: string | null; news: boolean }>(
    db,
    `with before as materialized (select id, error_code from orders where id = :id and phase = 'open' for update),
     marked as (
       update orders o set error_code = 'REVIEW_REQUIRED', error_message = :message
         from before where o.id = before.id and o.phase = 'open'
       returning o.id, o.reply_channel, o.account_id, o.broker_order_id, o.partner_id, before.error_code is null as news
     ), found as (
       insert into contract_breaks (kind, account_id, broker_order_id, partner_id, order_id, details)
       select 'IMPLAUSIBLE', account_id, broker_order_id, partner_id, id, :details::jsonb from marked
       on conflict (account_id, broker_order_id, kind) do update
          set details = excluded.details,
              found_at = case when contract_breaks.resolution = '${WITHDRAWN}' then now() else contract_breaks.found_at end,
              resolved_at = case when contract_breaks.resolution = '${WITHDRAWN}' then null else contract_breaks.resolved_at end,
              resolution = nullif(contract_breaks.resolution, '${WITHDRAWN}')
     )
     select reply_channel, news from marked`,
    { id, message: REVIEW_MESSAGE, details: JSON.stringify({ why: why.slice(0, 20) }) }
  )
  return marked
}

/** The broker shows the contract as open after all: takes the mark from the order and withdraws the break. */
export async function unmarkUnsettled(db: Db, id: string): Promise<void> {
  await rows(
    db,
    `with cleared as (
       update orders set error_code = null, error_message = null
        where id = :id and phase = 'open' and error_code = 'REVIEW_REQUIRED' returning account_id, broker_order_id
     )
     update contract_breaks f set resolved_at = now(), resolution = '${WITHDRAWN}'
       from cleared c where f.account_id = c.account_id and f.broker_order_id = c.broker_order_id
        and f.kind = 'IMPLAUSIBLE' and f.resolved_at is null`,
    { id }
  )
}

/** Resolves breaks of open orders that have been settled meanwhile; returns how many. */
export async function resolveSettledBreaks(db: Db): Promise<number> {
  const settled = await rows(
    db,
    `update contract_breaks f set resolved_at = now(), resolution = 'the order is ' || o.status
       from orders o
      where f.resolved_at is null and f.kind in ('IMPLAUSIBLE', 'UNSETTLED') and o.id = f.order_id and o.phase <> 'open'
     returning f.id`
  )
  return settled.length
}

/**
 * The condition on `orders o` that its contract has ended and the order has not: it is marked, or its end has passed by a
 * minute, or it is a tick contract (whose end is not known beforehand) of ten minutes ago.
 */
export const pastEnd = `o.phase = 'open' and (o.error_code = 'REVIEW_REQUIRED' or o.expiry_at < now() - interval '1 minute'
  or (o.duration_unit = 't' and o.opened_at < now() - interval '10 minutes'))`

/** How many orders are open past their contract's end, and since how long the oldest is, in seconds. */
export async function countPastEnd(db: Db): Promise<{ count: number; oldestSeconds: number }> {
  const [found] = await rows<{ count: number; oldestSeconds: number }>(
    db,
    `select count(*) as count,
            coalesce(extract(epoch from now() - min(least(coalesce(o.expiry_at, o.opened_at), now()))), 0)::float8 as "oldestSeconds"
       from orders o where ${pastEnd} and o.dialect <> 'test'`
  )
  return found ?? { count: 0, oldestSeconds: 0 }
}

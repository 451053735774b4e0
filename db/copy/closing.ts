// Closing the copies of an order that its leader closed. The request to close is a column of each copy, so that it outlives every
// process and finds a copy whose purchase is still in doubt once it is open.

import type { OrderRow } from '../orders/reading.ts'
import { backOffInSql } from '../platform/back-off.ts'
import type { Queue } from '../platform/queue.ts'
import { type Db, rows, sql } from '../postgres/connection.ts'
import { servedByNoOther } from '../traders/account-leases.ts'

/** Why a copy that waits is not bought any more. */
const LEADER_CLOSED = 'The leader closed the order before this copy was bought.'
const FOLLOW_STOPPED = 'The follow was stopped before this copy was bought.'

/**
 * Why nobody wants to buy an order any more, as SQL; null where it is wanted. A copy that waits is failed by whoever closes the
 * leader's order or stops the follow; one that was at a worker then may be given back and wait again.
 */
export const unwantedOf = (order: string) =>
  `case when ${order}.follow_id is not null then (
     select case when f.status = 'STOPPED' then '${FOLLOW_STOPPED}' when l.closed_early then '${LEADER_CLOSED}' end
       from follows f left join orders l on l.id = ${order}.copied_from where f.id = ${order}.follow_id) end`

/**
 * A condition: the broker may yet send a receipt for the copy `order`, which failed (db/orders/placing.ts, `isLate`). It is marked as well,
 * so that it is sold should it open.
 */
const mayYetOpen = (order: string) => `(${order}.phase = 'failed' and ${order}.retryable and ${order}.attempt > 1)`

/** What an update of a follow sets to stop it. */
export const stop = `status = 'STOPPED', stopped_at = clock_timestamp()`

// How long before its follow was stopped, by the broker's clock, a leader's sale must have been to close a copy: the broker states
// whole seconds, and its clock may differ from the database's by five. What is not certain leaves the copy to the follower, who can
// still sell it.
const CERTAINLY_BEFORE = "interval '6 seconds'"

/**
 * Has the copies of a follow closed, before it is stopped, whose leader is known to have closed while the job that closes them waits:
 * the job would leave them, since the follow is stopped by then. What the leader closed while the follow was stopped before has no
 * such job any more, and stays with the follower. A copy that is locked is being closed: waiting for it could end in a deadlock.
 */
export async function closeWithLeader(trx: Db, follow: string, bindings: Record<string, string>): Promise<void> {
  await rows(
    trx,
    `update orders set close_at = clock_timestamp()
      where id in (
       select o.id
         from follows f join orders o on o.follow_id = f.id join orders l on l.id = o.copied_from
        where f.id in (select id from follows where ${follow}) and f.status <> 'STOPPED' and f.mirror_closes
          and (o.phase in ('sending', 'open', 'review') or ${mayYetOpen('o')}) and o.close_at is null and l.closed_early
          and exists (select from pgboss.job j where j.name = 'copy.close' and j.state < 'completed' and j.data->>'orderId' = l.id)
          for no key update of o skip locked)`,
    bindings
  )
}

/** Fails the copies of a follow that wait to be bought. `follow` is the condition that selects it. */
export async function failWaiting(trx: Db, follow: string, bindings: Record<string, string>): Promise<void> {
  await rows(
    trx,
    `update orders set phase = 'failed', error_code = 'CONFLICT', error_message = '${FOLLOW_STOPPED}'
      where follow_id in (select id from follows where ${follow}) and phase in ('unproven', 'queued')`,
    bindings
  )
}

/**
 * Has the copies of an order closed whose contract was ended early, before its end is written: that waits for prices, and copies must
 * not. From then on it is not copied any more. Returns whether it may have copies.
 */
export async function closeCopiesAhead(db: Db, queue: Queue, orderId: string): Promise<boolean> {
  const jobs = queue.enqueueing('copy.close', `select jsonb_build_object('orderId', id) from ended`)
  const found = await rows(
    db,
    sql`with ended as (
       update orders set closed_early = true where id = :orderId and phase = 'open' and has_followers and not closed_early returning id
     ), closing as (${jobs})
     select id from ended`,
    { orderId }
  )
  return found.length > 0
}

/**
 * Closes the unfinished copies of an order whose follows have that option, and go on or went on when it was closed, after the follow
 * `after`, at most `limit`: a bought one is sold, one that still waits fails. Returns the last follow when there may be more.
 */
export async function requestClosing(
  trx: Db,
  { orderId, after, limit }: { orderId: string; after: string; limit: number }
): Promise<{ failed: Pick<OrderRow, 'id' | 'reply_channel'>[]; last: string | undefined }> {
  const changed = await rows<Pick<OrderRow, 'id' | 'reply_channel'> & { follow_id: string; waited: boolean }>(
    trx,
    `with copies as materialized (
       select o.id, o.follow_id, o.phase in ('unproven', 'queued') as waited,
              f.mirror_closes and (f.status <> 'STOPPED' or coalesce(l.closed_at <= f.stopped_at - ${CERTAINLY_BEFORE}, false)) as mirrored
         from orders o join follows f on f.id = o.follow_id left join orders l on l.id = :orderId
        where o.copied_from = :orderId and o.follow_id > :after
          and (o.phase in ('unproven', 'queued', 'sending', 'open', 'review') or ${mayYetOpen('o')})
        order by o.follow_id limit :limit for no key update of o
     )
     update orders o
        set close_at = case when not c.waited and c.mirrored then coalesce(o.close_at, clock_timestamp()) else o.close_at end,
            phase = case when c.waited then 'failed' else o.phase end,
            error_code = case when c.waited then 'CONFLICT' else o.error_code end,
            error_message = case when c.waited then '${LEADER_CLOSED}' else o.error_message end
       from copies c where o.id = c.id
     returning o.id, o.reply_channel, o.follow_id, c.waited`,
    { orderId, after, limit }
  )
  const ends = changed.map(({ follow_id }) => follow_id).sort()
  return {
    failed: changed.filter(({ waited }) => waited),
    last: changed.length === limit ? ends.at(-1) : undefined
  }
}

/** Has the marked orders of an account sold now: its token may be a valid one again. */
export async function closeAtOnce(trx: Db, accountRowId: string): Promise<void> {
  await rows(
    trx,
    `update orders set close_at = clock_timestamp(), close_tries = 0
      where phase = 'open' and close_at is not null and broker_account_id = :accountRowId`,
    { accountRowId }
  )
}

// After a try that did not close it: 4 s, then twice as long each time, up to a minute.
const RETRIES = { firstMs: 4000, mostMs: 60_000 }

/**
 * Open orders that are to be sold now, at most `limit` and none of `except`, of accounts that no living worker but `worker` serves;
 * no other worker gets one until its next try is due.
 */
export async function takeToClose(
  db: Db,
  { worker, limit, except = [] }: { worker: string; limit: number; except?: string[] }
): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `update orders
        set close_at = clock_timestamp() + ${backOffInSql('close_tries', RETRIES)},
            close_tries = close_tries + 1
      where id in (select id from orders where phase = 'open' and close_at <= clock_timestamp()
                      and id <> all(:except::text[]) and ${servedByNoOther('orders.account_id', ':worker')}
                    order by close_at limit :limit for update skip locked)
     returning *`,
    { worker, limit, except }
  )
}

// The limits of contracts as they are changed at the broker: a row keeps those that the broker states. Where a leader's
// order changes, its copies keep the ones that are still to be set, until the broker has taken them.

import type { ContractLimits } from '../../schemas/market.ts'
import type { OrderRow } from '../orders/reading.ts'
import { backOffInSql } from '../platform/back-off.ts'
import type { Queue } from '../platform/queue.ts'
import { type Db, rows, sql } from '../postgres/connection.ts'
import { servedByNoOther } from '../traders/account-leases.ts'
import { priceOf, unfinishedCopies, worstCase } from './fanout.ts'

/**
 * Stores the limits that the broker states of an open order that `worker` leases. Where a leader's limits differ from the
 * stored ones, the job that changes its copies is stored with them. Undefined where the worker does not lease the order.
 */
export async function storeLimits(
  db: Db,
  queue: Queue,
  { id, worker, stopLoss, takeProfit }: ContractLimits & { id: string; worker: string }
): Promise<{ changesCopies: boolean } | undefined> {
  const enqueued = queue.enqueueing(
    'copy.limits',
    `select jsonb_build_object('orderId', id) from changed where "changesCopies"`
  )
  const [stored] = await rows<{ changesCopies: boolean }>(
    db,
    sql`with before as (
       select id, has_followers and (stop_loss, take_profit) is distinct from (:stopLoss::numeric, :takeProfit::numeric) as "changesCopies"
         from orders where id = :id for no key update
     ), changed as (
       update orders o
          set stop_loss = :stopLoss::numeric, take_profit = :takeProfit::numeric,
              limits_version = o.limits_version + b."changesCopies"::int
         from before b
        where o.id = b.id and o.phase = 'open' and o.lease_holder = :worker
       returning o.id, b."changesCopies"
     ), enqueued as (${enqueued})
     select "changesCopies" from changed`,
    { id, worker, stopLoss, takeProfit }
  )
  return stored
}

/** A copy whose limits are to follow its leader's, with what its follow may still lose. */
export interface CopyToChange extends ContractLimits {
  id: string
  followId: string
  stake: string
  /** What it cost, or will, in the account's currency. */
  price: string
  /** Limits wait to be set at the broker. */
  waiting: boolean
  baseBalance: string
  maxDrawdownPct: string
  lost: string
  /** What the other open copies of the follow may lose. */
  atRisk: string
}

/**
 * Locks the unfinished multiplier copies of an order that do not follow its change `version` yet and whose follow was not stopped,
 * after the follow `after`, at most `limit`, and their follows: until `trx` ends nothing else is copied for these.
 */
export async function takeCopiesToChange(
  trx: Db,
  range: { orderId: string; version: number; after: string; limit: number }
): Promise<CopyToChange[]> {
  // Orders before follows, as where copies are closed.
  const locked = await rows<{ id: string; follow_id: string }>(
    trx,
    `select id, follow_id from orders
      where copied_from = :orderId and follow_id > :after and limits_version < :version and kind = 'MULTIPLIER'
        and not exists (select from follows f where f.id = orders.follow_id and f.status = 'STOPPED')
        and phase in ('unproven', 'queued', 'sending', 'open', 'review')
      order by follow_id limit :limit for no key update`,
    range
  )
  const followIds = locked.map(({ follow_id }) => follow_id)
  await rows(trx, 'select id from follows where id = any(:followIds) order by id for no key update', { followIds })
  return rows<CopyToChange>(
    trx,
    `select o.id, o.follow_id as "followId", o.stake, o.stop_loss as "stopLoss", o.take_profit as "takeProfit",
            ${priceOf('o', 'l')} as price, o.limits_at is not null as waiting,
            f.base_balance as "baseBalance", f.max_drawdown_pct as "maxDrawdownPct", greatest(0, -f.since_pnl) as lost,
            r.at_risk as "atRisk"
       from orders o
       join orders l on l.id = o.copied_from
       join follows f on f.id = o.follow_id
      cross join lateral (select coalesce(sum(${worstCase('c')}), 0) as at_risk from ${unfinishedCopies('f')} c where c.id <> o.id) r
      where o.id = any(:ids)
      order by o.follow_id`,
    { ids: locked.map(({ id }) => id) }
  )
}

// After a try that did not set them: 2 s, then twice as long each time, up to a minute.
const RETRIES = { firstMs: 2000, mostMs: 60_000 }

/**
 * Has copies follow the change `version` of their leader's limits; those with `limits` have them set at the broker: at once, unless
 * an earlier change is being set. That one may be executed for `lateMs`, and the last change must be the last to be executed.
 */
export async function changeCopies(
  trx: Db,
  options: { version: number; lateMs: number; changes: { id: string; limits: ContractLimits | null }[] }
): Promise<void> {
  const { version, lateMs, changes } = options
  await rows(
    trx,
    `update orders o
        set limits_version = :version,
            new_stop_loss = case when c.changes then c."stopLoss" else o.new_stop_loss end,
            new_take_profit = case when c.changes then c."takeProfit" else o.new_take_profit end,
            limits_at = case when not c.changes then o.limits_at
                             when o.limits_tries = 0 then greatest(o.limits_at, clock_timestamp())
                             else greatest(o.limits_at - ${backOffInSql('o.limits_tries - 1', RETRIES)} + :lateMs * interval '1 millisecond',
                                           clock_timestamp()) end,
            limits_tries = case when c.changes then 0 else o.limits_tries end
       from jsonb_to_recordset(:changes::jsonb) as c (id text, changes boolean, "stopLoss" numeric, "takeProfit" numeric)
      where o.id = c.id`,
    {
      version,
      lateMs,
      changes: JSON.stringify(changes.map(({ id, limits }) => ({ id, changes: limits !== null, ...limits })))
    }
  )
}

/** An open copy whose limits are to be set now. */
export type LimitsToSet = Pick<
  OrderRow,
  | 'id'
  | 'copied_from'
  | 'broker_order_id'
  | 'broker_account_id'
  | 'account_id'
  | 'app_id'
  | 'dialect'
  | 'limits_version'
  | 'limits_tries'
  | 'new_stop_loss'
  | 'new_take_profit'
>

/**
 * Open copies whose limits are to be set now, at most `limit` and none of `except`, of accounts that no living worker but `worker`
 * serves; no other worker gets one until its next try is due.
 */
export async function takeLimitsToSet(
  db: Db,
  { worker, limit, except = [] }: { worker: string; limit: number; except?: string[] }
): Promise<LimitsToSet[]> {
  return rows<LimitsToSet>(
    db,
    `update orders
        set limits_at = clock_timestamp() + ${backOffInSql('limits_tries', RETRIES)},
            limits_tries = limits_tries + 1
      where id in (select id from orders where phase = 'open' and limits_at <= clock_timestamp()
                      and id <> all(:except::text[]) and ${servedByNoOther('orders.account_id', ':worker')}
                    order by limits_at limit :limit for update skip locked)
     returning id, copied_from, broker_order_id, broker_account_id, account_id, app_id, dialect, limits_version, limits_tries,
               new_stop_loss, new_take_profit`,
    { worker, limit, except }
  )
}

/** Stores that the broker has taken the limits of the change `limits_version`; where another came since, that one is still to be set. */
export async function markLimitsSet(
  db: Db,
  { id, limits_version }: Pick<OrderRow, 'id' | 'limits_version'>
): Promise<void> {
  await rows(
    db,
    `update orders
        set stop_loss = new_stop_loss, take_profit = new_take_profit,
            new_stop_loss = null, new_take_profit = null, limits_at = null, limits_tries = 0
      where id = :id and phase = 'open' and limits_version = :limits_version and limits_at is not null`,
    { id, limits_version }
  )
}

/** A try has ended, and what it sent is executed or never will be: a change that came since is set at once. */
export async function releaseLimits(
  db: Db,
  { id, limits_version }: Pick<OrderRow, 'id' | 'limits_version'>
): Promise<void> {
  await rows(
    db,
    `update orders set limits_at = clock_timestamp()
      where id = :id and phase = 'open' and limits_version > :limits_version and limits_tries = 0 and limits_at > clock_timestamp()`,
    { id, limits_version }
  )
}

// From bought to settled. The row names the worker that holds the contract's lease. That worker has one short lease for
// all of its orders; once it ran out any worker may take them. (A lease on each row made it a write of every open order
// every few seconds.)

import { addToFollows } from '../copy/fanout.ts'
import type { Queue } from '../platform/queue.ts'
import { among, type Db, rows, sql } from '../postgres/connection.ts'
import { servedByNoOther } from '../traders/account-leases.ts'
import { type Notifiable, notifiedColumns, notifyingOf } from './notifying.ts'
import { type OrderRow, outcomeLine } from './reading.ts'

/** By how many seconds the broker's clock may be ahead of the database's. */
export const AHEAD_SECONDS = '600'
// How long after its end the broker may take to settle a contract: from then on it is in the list of closed ones.
const BROKER_SETTLES = "interval '3 seconds'"

/** How a contract ended. */
export interface Settlement {
  id: string
  /** null or absent: as the order has it. */
  payout?: string | null
  pnl: string
  entryPrice: string | null
  exitPrice: string | null
  commission: string | null
  markup: string | null
  /** Epoch seconds. null, and an impossible instant (before the purchase, in the future), is stored as now. */
  closedAt: number | null
  /** A copy. */
  copied: boolean
  /** The contract was sold, or called off, before its own end. */
  early?: boolean
}

/** A closed order, as far as its end concerns others. */
export type Closed = Pick<OrderRow, 'id' | 'reply_channel' | 'follow_id'> & {
  /** A job was stored that closes the copies of this order. */
  closes_copies: boolean
} & Notifiable

/**
 * Closes open orders with their results. The profit of a copy is added to its follow in the same transaction; for a leader's
 * order that ended early, the job that closes its copies is stored. With `notify` the statement also notifies those who wait.
 */
export async function closeOrders(
  db: Db,
  queue: Queue,
  settlements: Settlement[],
  { notify = false }: { notify?: boolean } = {}
): Promise<Closed[]> {
  if (!settlements.some(({ copied }) => copied)) return markClosed(db, queue, settlements, notify)
  return db.transaction(async trx => {
    const orders = await markClosed(trx, queue, settlements, notify)
    const copies = orders.flatMap(({ id, follow_id }) => (follow_id ? [{ orderId: id, followId: follow_id }] : []))
    if (copies.length > 0) await addToFollows(trx, copies)
    return orders
  })
}

async function markClosed(trx: Db, queue: Queue, settlements: Settlement[], notify: boolean): Promise<Closed[]> {
  const closing = queue.enqueueing(
    'copy.close',
    `select jsonb_build_object('orderId', id) from closed where closes_copies`
  )
  return rows<Closed>(
    trx,
    sql`with closed as (
     update orders o
        set phase = 'closed', close_at = null,
            -- A multiplier has no expiry: whatever ended it, a copy goes on with a price of its own.
            closed_early = coalesce(s.early, false) or o.kind = 'MULTIPLIER', pnl = s.pnl, entry_price = s."entryPrice", exit_price = s."exitPrice",
            payout = coalesce(s.payout, o.payout), commission = coalesce(s.commission, o.commission), markup = coalesce(s.markup, o.markup),
            closed_at = case when s."closedAt" between floor(extract(epoch from o.opened_at)) and extract(epoch from now()) + ${AHEAD_SECONDS}
                             then to_timestamp(s."closedAt") else greatest(now(), o.opened_at) end,
            error_code = null, error_message = null, current_value = null, unrealized_pnl = null, lease_holder = null, lease_until = null
       from jsonb_to_recordset(:settlements::jsonb) as s (id text, payout numeric, pnl numeric, "entryPrice" numeric, "exitPrice" numeric,
            commission numeric, markup numeric, "closedAt" float8, early boolean)
      where o.id = ${among('ids')} and o.id = s.id and o.phase = 'open'
     returning o.id, o.reply_channel, o.follow_id, o.has_followers and o.closed_early as closes_copies, ${outcomeLine} as outcome
     ), closing as (${closing})${notify ? `, ${notifyingOf('closed')}` : ''}
     select ${notifiedColumns('closed', ['id', 'reply_channel', 'follow_id', 'closes_copies'], notify)} from closed`,
    { settlements: JSON.stringify(settlements), ids: settlements.map(({ id }) => id) }
  )
}

/** Extends the lease of `worker`; returns the open orders that name it. */
export async function renewLease(db: Db, worker: string, leaseMs: number): Promise<Set<string>> {
  await rows(
    db,
    `insert into lease_holders as f (name, lease_until) values (:worker, now() + :leaseMs * interval '1 millisecond')
     on conflict (name) do update set lease_until = excluded.lease_until`,
    { worker, leaseMs }
  )
  const found = await rows<{ id: string }>(
    db,
    `select id from orders where phase = 'open' and lease_holder is not null and lease_holder = :worker`,
    { worker }
  )
  return new Set(found.map(({ id }) => id))
}

/** Stores how far the worker's wall clock is from the database's, beside its lease. */
export async function noteClockOffset(db: Db, worker: string, offsetMs: number): Promise<void> {
  await rows(db, 'update lease_holders set clock_offset_ms = :offsetMs where name = :worker', { worker, offsetMs })
}

/** Workers with a valid lease whose wall clock differs from the database's by more than `limitMs`, worst first. */
export async function listWrongClocks(db: Db, limitMs: number): Promise<{ worker: string; offsetMs: number }[]> {
  return rows(
    db,
    `select name as worker, clock_offset_ms as "offsetMs" from lease_holders
      where lease_until >= now() and abs(clock_offset_ms) > :limitMs order by abs(clock_offset_ms) desc limit 20`,
    { limitMs }
  )
}

/** The columns that settlement needs. */
export type LeasedOrder = Pick<OrderRow, (typeof leasedNames)[number]>

export const leasedNames = [
  'id',
  'kind',
  'broker_order_id',
  'buy_price',
  'payout',
  'currency',
  'multiplier',
  'broker_account_id',
  'account_id',
  'app_id',
  'dialect',
  'follow_id',
  'stop_loss',
  'take_profit',
  'error_code'
] as const

const leasedColumns = leasedNames.map(column => `o.${column}`).join(', ')

// Holders of open orders whose lease ran out. There are few names among many orders: each is found by one step into the index.
const goneHolders = `names (name) as (
       select min(lease_holder) from orders where phase = 'open' and lease_holder is not null
       union all
       select (select min(lease_holder) from orders where phase = 'open' and lease_holder > n.name) from names n where n.name is not null
     ), gone as (
       select n.name from names n
        where n.name is not null and not exists (select 1 from lease_holders f where f.name = n.name and f.lease_until >= now())
     )`

/**
 * Whether any open order has no lease holder, or one whose lease ran out. Usually there is none, and this is cheaper than
 * planning the statements that take such orders over.
 */
export async function anyLeftAlone(db: Db): Promise<boolean> {
  const [found] = await rows<{ some: boolean }>(
    db,
    `with recursive ${goneHolders}
     select exists (select from orders where phase = 'open' and lease_holder is null and (lease_until is null or lease_until < now()))
         or exists (select from gone) as some`
  )
  return found?.some === true
}

/**
 * Takes over open orders without a lease holder, or whose holder's lease ran out; those that end first before the
 * others. Without `ended`, those whose contract is over are left to `takeEnded`; those of the dialects in `away` are left
 * alone.
 */
export async function takeOver(
  db: Db,
  { worker, limit, ended = true, away = [] }: { worker: string; limit: number; ended?: boolean; away?: string[] }
): Promise<LeasedOrder[]> {
  const wanted = [
    ended ? '' : `and (expiry_at is null or expiry_at >= now() - ${BROKER_SETTLES})`,
    // Usually none is away; then the statement has no such condition.
    away.length > 0 ? 'and dialect <> all(:away::text[])' : ''
  ].join(' ')
  return rows<LeasedOrder>(
    db,
    `with recursive ${goneHolders}, left_alone as (
       (select id from orders
         where phase = 'open' and lease_holder is null and (lease_until is null or lease_until < now()) ${wanted}
           and ${servedByNoOther('orders.account_id', ':worker')}
         order by expiry_at nulls last limit :limit)
       union all
       select o.id from gone
        cross join lateral (select id from orders where phase = 'open' and lease_holder = gone.name ${wanted}
                               and ${servedByNoOther('orders.account_id', ':worker')}
                             order by expiry_at nulls last limit :limit) o
     ), mine as (
       -- Of an order that another worker took since the statement began the locked row names that one.
       select id from orders
        where id in (select id from left_alone limit :limit) and phase = 'open'
          and case when lease_holder is null then lease_until is null or lease_until < now()
                   else lease_holder in (select name from gone) end
          for update skip locked
     )
     update orders o set lease_holder = :worker, lease_until = null where id in (select id from mine)
     returning ${leasedColumns}`,
    { worker, limit, ...(away.length > 0 ? { away } : {}) }
  )
}

/** An account with contracts that ended while no worker leased them. */
export interface EndedPlace {
  partnerId: string
  traderExternalId: string
  accountRowId: string
  accountId: string
}

// Open orders whose contract the broker has settled by now, as far as its list of closed contracts suffices: a leader's
// order must show how it ended, a multiplier's end is not known, and one in review waits for the operator.
const groupable = `o.phase = 'open' and o.expiry_at < now() - ${BROKER_SETTLES} and o.kind = 'BINARY'
           and not o.has_followers and o.error_code is null and o.close_at is null`
const leftAlone = `case when o.lease_holder is null then o.lease_until is null or o.lease_until < now()
                else not exists (select 1 from lease_holders f where f.name = o.lease_holder and f.lease_until >= now()) end`

/**
 * Accounts that no other worker serves and that have at least `least` ended contracts without a worker, up to `limit` of
 * them at random, so that workers that begin together choose different ones. They are found in a sample of such orders.
 */
export async function findEnded(
  db: Db,
  options: { worker: string; least: number; limit: number; sample: number }
): Promise<EndedPlace[]> {
  const place = 'partner_id, trader_external_id, broker_account_id, account_id'
  return rows<EndedPlace>(
    db,
    `with recursive ${goneHolders}, sample as (
       (select ${place} from orders o
         where lease_holder is null and (lease_until is null or lease_until < now()) and ${groupable}
           and ${servedByNoOther('o.account_id', ':worker')} limit :sample)
       union all
       select e.* from gone
        cross join lateral (select ${place} from orders o where lease_holder = gone.name and ${groupable}
                               and ${servedByNoOther('o.account_id', ':worker')} limit :sample) e
     ), places as materialized (select distinct ${place} from sample)
     select p.partner_id as "partnerId", p.trader_external_id as "traderExternalId",
            p.broker_account_id as "accountRowId", p.account_id as "accountId"
       from places p
      where (select count(*) from (
              select from orders o
               where o.partner_id = p.partner_id and o.trader_external_id = p.trader_external_id
                 and o.broker_account_id = p.broker_account_id and ${groupable} and ${leftAlone} limit :least) e) >= :least
      order by random() limit :limit`,
    options
  )
}

/** Takes over an account's ended contracts that have no worker, the newest `limit` of them. */
export async function takeEnded(
  db: Db,
  { worker, limit, place }: { worker: string; limit: number; place: EndedPlace }
): Promise<(LeasedOrder & { opened_at: Date })[]> {
  return rows(
    db,
    `with mine as (
       select o.id from orders o
        where o.partner_id = :partnerId and o.trader_external_id = :traderExternalId
          and o.broker_account_id = :accountRowId and ${groupable} and ${leftAlone}
        order by o.opened_at desc limit :limit for update skip locked
     )
     update orders o set lease_holder = :worker, lease_until = null where id in (select id from mine)
     returning ${leasedColumns}, o.opened_at`,
    { worker, limit, ...place }
  )
}

/** Lets go of orders, so that another worker takes each over after its `retryMs`, at once where that is 0. */
export async function releaseOrders(
  db: Db,
  worker: string,
  released: { id: string; retryMs: number }[]
): Promise<void> {
  await rows(
    db,
    `update orders o set lease_holder = null, lease_until = now() + r.retry_ms * interval '1 millisecond'
       from unnest(:released::text[], :pauses::float8[]) as r (id, retry_ms)
      where o.id = ${among('ids')} and o.id = r.id and o.phase = 'open' and o.lease_holder = :worker`,
    {
      worker,
      ids: released.map(({ id }) => id),
      released: released.map(({ id }) => id),
      pauses: released.map(({ retryMs }) => retryMs)
    }
  )
}

// An order that needs no worker for a while: its contract ends much later, or it is a multiplier that nobody closes or copies.
const quiet = `close_at is null and not has_followers and (kind = 'MULTIPLIER' or expiry_at > now() + 2 * rest)`

/**
 * Ends the lease of `worker`: any worker may take its orders over, which lose their holder. Those that need no worker soon become
 * free at random times in the second half of `restMs`: until then a restarted worker is back, and the others need not open
 * connections for a short time. A locked row is left as it is, since waiting for it could end in a deadlock; without the lease it
 * is free as well.
 */
export async function endLease(db: Db, worker: string, restMs = 0): Promise<void> {
  await rows(
    db,
    `with ended as (delete from lease_holders where name = :worker),
     mine as materialized (
       select id, ${quiet} as rests, rest
         from orders cross join (select :restMs * interval '1 millisecond' as rest) r
        where phase = 'open' and lease_holder is not null and lease_holder = :worker for update of orders skip locked
     )
     update orders o set lease_holder = null, lease_until = now() + case when m.rests then (0.5 + random() / 2) * m.rest else interval '0' end
       from mine m where o.id = any(array(select id from mine)) and o.id = m.id`,
    { worker, restMs }
  )
}

/** Forgets workers that have been gone for a day. */
export async function forgetLeaseHolders(db: Db): Promise<void> {
  await rows(db, `delete from lease_holders where lease_until < now() - interval '1 day'`)
}

/** What an open contract is worth now. */
export interface Mark {
  id: string
  /** null: as the order has it. */
  payout: string | null
  currentValue: string
  unrealizedPnl: string
  commission: string | null
  markup: string | null
  /** Epoch seconds. */
  expiryAt: number | null
}

/** Writes the last known values of open orders; of a locked one, the next time. */
export async function markValues(db: Db, marks: Mark[]): Promise<void> {
  await rows(
    db,
    `with mine as materialized (
       select id from orders where id = ${among('ids')} and phase = 'open' order by id for update skip locked
     )
     update orders o
        set current_value = m."currentValue", unrealized_pnl = m."unrealizedPnl", marked_at = now(),
            payout = coalesce(m.payout, o.payout), commission = coalesce(m.commission, o.commission), markup = coalesce(m.markup, o.markup),
            expiry_at = coalesce(to_timestamp(m."expiryAt"), o.expiry_at)
       from jsonb_to_recordset(:marks::jsonb) as m (id text, payout numeric, "currentValue" numeric, "unrealizedPnl" numeric,
            commission numeric, markup numeric, "expiryAt" float8)
      where o.id = any(array(select id from mine)) and o.id = m.id`,
    { marks: JSON.stringify(marks), ids: marks.map(({ id }) => id) }
  )
}

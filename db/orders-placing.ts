// From queued to bought, refused, or in doubt. Each step is one conditional update; no row back means that
// somebody was first. The rules these statements keep:
//   - at most one order per broker account is between intent and answer (a unique index says so too);
//   - waiting orders of an account go in order of arrival;
//   - the intent is committed before the buy leaves, with a permit that ends before the time to live.
import type { ErrorCode, ErrorExtras } from '../schemas/errors.ts'
import { type Db, rows } from './connection.ts'
import type { OrderRow } from './orders.ts'
import type { Queue } from './queue.ts'

export interface ClaimOptions {
  accountIds: string[]
  /** The worker that will send. */
  sender: string
  permitMs: number
  /** The broker's own time-out, added to the permit before anyone looks for evidence. */
  reconcileAfterMs: number
}

/** An order that its claimer, and nobody else, may send within `permit_ms` of asking. */
export type Claimed = OrderRow & { permit_ms: number }

/**
 * For each account with nothing in doubt, moves its oldest queued order to `sending`; orders of these
 * accounts whose time to live is over are failed on the way. Call it in a transaction and send only after
 * its commit. Every claim has an `attempt` of its own: what is written about one, again or late, cannot be
 * taken for the next, even by the same sender.
 */
export async function claimOrders(
  trx: Db,
  options: ClaimOptions
): Promise<{ claimed: Claimed[]; expired: OrderRow[] }> {
  const claimed = await claimHeads(trx, options)
  const served = new Set(claimed.map(({ account_id }) => account_id))
  const accountIds = options.accountIds.filter(accountId => !served.has(accountId))
  if (accountIds.length === 0) return { claimed, expired: [] }
  // Where nothing could be claimed, an order out of time may stand at the head.
  const expired = await expireHeads(trx, accountIds)
  if (expired.length > 0) {
    const freed = [...new Set(expired.map(({ account_id }) => account_id))]
    claimed.push(...(await claimHeads(trx, { ...options, accountIds: freed })))
  }
  return { claimed, expired }
}

function expireHeads(trx: Db, accountIds: string[]): Promise<OrderRow[]> {
  return rows<OrderRow>(
    trx,
    `update orders
        set phase = 'failed', error_code = 'BROKER_UPSTREAM', retryable = true,
            error_message = 'The order could not be placed within its time to live; it was not placed.'
      where id in (select id from orders
                    where account_id = any(:accountIds) and phase = 'queued' and expires_at <= clock_timestamp()
                    order by id for update skip locked)
     returning *`,
    { accountIds }
  )
}

function claimHeads(trx: Db, options: ClaimOptions): Promise<Claimed[]> {
  return rows<Claimed>(
    trx,
    `with heads as materialized (
       select h.id
         from (select distinct account_id from unnest(:accountIds::text[]) as a (account_id)) a
        cross join lateral (select o.id from orders o
                             where o.account_id = a.account_id and o.phase = 'queued'
                             order by o.queued_at, o.id limit 1) h
        where not exists (select 1 from orders s where s.account_id = a.account_id and s.phase = 'sending')
     ), mine as materialized (
       select id from orders where id in (select id from heads) and phase = 'queued' and expires_at > clock_timestamp()
        order by id for update skip locked
     ), clock as materialized (select clock_timestamp() as at)
     update orders o
        set phase = 'sending', attempt = o.attempt + 1, sender = :sender, looks = 0, sent_at = clock.at,
            permit_until = least(clock.at + :permitMs * interval '1 millisecond', o.expires_at),
            reconcile_at = least(clock.at + :permitMs * interval '1 millisecond', o.expires_at)
                           + :reconcileAfterMs * interval '1 millisecond'
       from mine, clock
      where o.id = mine.id and o.phase = 'queued'
     returning o.*, (extract(epoch from o.permit_until - o.sent_at) * 1000)::float8 as permit_ms`,
    {
      accountIds: options.accountIds,
      sender: options.sender,
      permitMs: options.permitMs,
      reconcileAfterMs: options.reconcileAfterMs
    }
  )
}

/** Of these accounts, the ones that have orders waiting. */
export async function withWaiting(db: Db, accountIds: string[]): Promise<string[]> {
  const found = await rows<{ account_id: string }>(
    db,
    `select distinct account_id from orders where account_id = any(:accountIds) and phase = 'queued'`,
    { accountIds }
  )
  return found.map(({ account_id }) => account_id)
}

/** Accounts whose queued orders have waited longer than `ageMs` with nothing in doubt, or are out of time. */
export async function listWaitingAccounts(db: Db, ageMs: number, limit: number): Promise<string[]> {
  const found = await rows<{ account_id: string }>(
    db,
    `select distinct account_id from (
       select o.account_id from orders o
        where o.phase = 'queued'
          and (o.expires_at <= clock_timestamp()
               or (o.queued_at < clock_timestamp() - :ageMs * interval '1 millisecond'
                   and not exists (select 1 from orders s where s.account_id = o.account_id and s.phase = 'sending')))
        order by o.expires_at limit :limit) as waiting`,
    { ageMs, limit }
  )
  return found.map(({ account_id }) => account_id)
}

/** The broker's receipt for an order. */
export interface Receipt {
  id: string
  attempt: number
  brokerOrderId: string
  transactionId: string
  buyPrice: string
  payout: string
  currency: string | null
  /** Epoch seconds. */
  openedAt: number
  expiryAt: number | null
  /** Of a trader with followers. */
  leads: boolean
}

/**
 * Marks orders as bought. An order of a leader stores its fan-out in the same transaction, so that no crash
 * can lose the copies of a contract that was bought. Answers the rows, and whether anything is to be copied.
 */
export async function openOrders(
  db: Db,
  queue: Queue,
  receipts: Receipt[],
  lease: { follower: string | null; leaseMs: number }
): Promise<{ orders: OrderRow[]; copying: boolean }> {
  if (!receipts.some(({ leads }) => leads)) return { orders: await markOpen(db, receipts, lease), copying: false }
  return db.transaction(async trx => {
    const orders = await markOpen(trx, receipts, lease)
    const leading = orders.filter(({ leads }) => leads)
    if (leading.length > 0) {
      await queue.enqueue(
        trx,
        'copy.fanout',
        leading.map(({ id }) => ({ orderId: id }))
      )
    }
    return { orders, copying: leading.length > 0 }
  })
}

/** Marks orders as bought and gives their lease to `follower`. */
export async function markOpen(
  trx: Db,
  receipts: Receipt[],
  lease: { follower: string | null; leaseMs: number }
): Promise<OrderRow[]> {
  return rows<OrderRow>(
    trx,
    `update orders o
        set phase = 'open', broker_order_id = r."brokerOrderId", transaction_id = r."transactionId", buy_price = r."buyPrice",
            payout = r.payout, currency = coalesce(o.currency, r.currency), opened_at = to_timestamp(r."openedAt"),
            expiry_at = to_timestamp(r."expiryAt"), follower = :follower,
            lease_until = case when :follower::text is null then null else now() + :leaseMs * interval '1 millisecond' end,
            error_code = null, error_message = null, error_extras = null, retryable = false
       from jsonb_to_recordset(:receipts::jsonb) as r (id text, attempt int, "brokerOrderId" text, "transactionId" text,
            "buyPrice" numeric, payout numeric, currency text, "openedAt" float8, "expiryAt" float8)
      where o.id = r.id and o.attempt = r.attempt and o.phase in ('sending', 'review')
     returning o.*`,
    { receipts: JSON.stringify(receipts), follower: lease.follower, leaseMs: lease.leaseMs }
  )
}

/** Why an order has no contract. */
export interface Refusal {
  id: string
  attempt: number
  code: ErrorCode
  message: string
  extras?: ErrorExtras
}

/**
 * Marks orders as failed: certainly without a contract. A 502 may be tried again under the same id; any
 * other refusal is the order's answer for ever.
 */
export async function markFailed(trx: Db, refusals: Refusal[]): Promise<OrderRow[]> {
  return rows<OrderRow>(
    trx,
    `update orders o
        set phase = 'failed', error_code = r.code, error_message = r.message, error_extras = r.extras,
            retryable = (r.code = 'BROKER_UPSTREAM')
       from jsonb_to_recordset(:refusals::jsonb) as r (id text, attempt int, code text, message text, extras jsonb)
      where o.id = r.id and o.attempt = r.attempt and o.phase in ('sending', 'review')
     returning o.*`,
    { refusals: JSON.stringify(refusals) }
  )
}

/**
 * Gives back orders that this sender certainly did not send: queued again while there is time, failed (502,
 * may be retried) when there is none. Someone else's reconciliation of the row wins.
 */
export async function releaseUnsent(
  trx: Db,
  claims: { id: string; attempt: number }[],
  sender: string,
  reason: string
): Promise<OrderRow[]> {
  return rows<OrderRow>(
    trx,
    `with clock as materialized (select clock_timestamp() as at)
     update orders o
        set phase = case when o.expires_at > clock.at then 'queued' else 'failed' end,
            error_code = case when o.expires_at > clock.at then null else 'BROKER_UPSTREAM' end,
            error_message = case when o.expires_at > clock.at then null else :reason end,
            retryable = o.expires_at <= clock.at,
            sender = null, sent_at = null, permit_until = null, reconcile_at = null
       from unnest(:ids::text[], :attempts::int[]) as c (id, attempt), clock
      where o.id = c.id and o.attempt = c.attempt and o.phase = 'sending' and o.sender = :sender
     returning o.*`,
    { ids: claims.map(({ id }) => id), attempts: claims.map(({ attempt }) => attempt), sender, reason }
  )
}

/**
 * Orders in doubt whose time for looking has come; `reconcile_at` moves on by `everyMs`, so that nobody else
 * looks meanwhile and a look that dies is made again.
 */
export async function takeDoubts(
  db: Db,
  options: { worker: string; everyMs: number; limit: number }
): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `update orders
        set sender = :worker, reconcile_at = clock_timestamp() + :everyMs * interval '1 millisecond'
      where id in (select id from orders where phase = 'sending' and reconcile_at <= clock_timestamp()
                    order by reconcile_at limit :limit for update skip locked)
     returning *`,
    options
  )
}

/** Counts a look that found nothing; answers how many there were. */
export async function countLook(db: Db, id: string, attempt: number): Promise<number> {
  const [row] = await rows<{ looks: number }>(
    db,
    `update orders set looks = looks + 1 where id = :id and attempt = :attempt and phase = 'sending' returning looks`,
    { id, attempt }
  )
  return row?.looks ?? 0
}

/** Evidence fits two readings: only the operator moves the order on. */
export async function markReview(
  db: Db,
  order: { id: string; attempt: number; evidence: unknown; message: string }
): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `update orders
        set phase = 'review', error_code = 'REVIEW_REQUIRED', error_message = :message, evidence = :evidence
      where id = :id and attempt = :attempt and phase = 'sending'
     returning *`,
    { id: order.id, attempt: order.attempt, message: order.message, evidence: JSON.stringify(order.evidence) }
  )
}

/** Of these contracts of an account, the ones that belong to an order already. */
export async function ownedContracts(db: Db, accountId: string, contractIds: string[]): Promise<Set<string>> {
  const found = await rows<{ broker_order_id: string }>(
    db,
    'select broker_order_id from orders where account_id = :accountId and broker_order_id = any(:contractIds)',
    { accountId, contractIds }
  )
  return new Set(found.map(({ broker_order_id }) => broker_order_id))
}

// From sending to bought, refused, or in doubt; claiming.ts has the way from queued to sending. Each step is one
// conditional update; no row back means that another update was first.
import type { ErrorCode, ErrorExtras } from '../../schemas/errors/errors.ts'
import type { AccountMode } from '../../schemas/fields/fields.ts'
import type { Queue } from '../platform/queue.ts'
import { among, type Db, rows, sql } from '../postgres/connection.ts'
import { EXPIRED } from './expired.ts'
import { AHEAD_SECONDS, type LeasedOrder, leasedNames } from './leases.ts'
import { type Notifiable, notifiedColumns, notifyingOf } from './notifying.ts'
import { type OrderRow, outcomeLine } from './reading.ts'
import { insertMismatch } from './reconciliation.ts'

/** A claimed order's stake in the currency of its account. */
export interface ConvertedStake {
  id: string
  attempt: number
  currency: string
  /** With all decimals of the currency. */
  stakeInAccount: string
  /** Units of the currency that one USD was worth. */
  exchangeRate: string
}

/** Commits the stakes of claims in their accounts' currencies; returns the ids of those that `sender` still holds. */
export async function commitStakes(db: Db, stakes: ConvertedStake[], sender: string): Promise<string[]> {
  const committed = await rows<{ id: string }>(
    db,
    sql`update orders o
        set stake_in_account = s."stakeInAccount", exchange_rate = s."exchangeRate", currency = coalesce(o.currency, s.currency)
       from jsonb_to_recordset(:stakes::jsonb) as s (id text, attempt int, currency text, "stakeInAccount" numeric, "exchangeRate" numeric)
      where o.id = ${among('ids')} and o.id = s.id and o.attempt = s.attempt and o.phase = 'sending' and o.sender = :sender
     returning o.id`,
    { stakes: JSON.stringify(stakes), ids: stakes.map(({ id }) => id), sender }
  )
  return committed.map(({ id }) => id)
}

/** The broker's receipt for an order. */
export interface Receipt {
  id: string
  attempt: number
  brokerOrderId: string
  transactionId: string | null
  buyPrice: string
  payout: string
  currency: string | null
  /** Epoch seconds. */
  openedAt: number
  expiryAt: number | null
  /** Whether its trader has followers. */
  hasFollowers: boolean
  /** In what the contract differs from what was requested: ours and the broker's. */
  differs?: Record<string, [ours: string, theirs: string]> | null
  /**
   * It came after the purchase was refused: the order may have failed, and been queued again. One that may be repeated is opened, as if it
   * had been; FAILED is final otherwise.
   */
  isLate?: boolean
  /** Of a late one: what its contract was bought under. A repeat of the order may be under another application, dialect or mode by now. */
  boughtUnder?: { appId: string; dialect: string; accountMode: AccountMode }
}

/**
 * Marks orders as bought; with `notify` the statement also notifies those who wait. A leader's order stores its fan-out in the
 * same transaction, and a contract that differs from what was requested its break, so that no crash can lose the copies or hide the
 * difference. Returns the rows, and whether anything is to be copied.
 */
export async function openOrders(
  db: Db,
  queue: Queue,
  receipts: Receipt[],
  leaseHolder: string | null,
  options: { notify?: boolean } = {}
): Promise<{ orders: OpenedOrder[]; copying: boolean }> {
  if (!receipts.some(({ hasFollowers, differs }) => hasFollowers || differs))
    return { orders: await markOpen(db, receipts, leaseHolder, options), copying: false }
  return db.transaction(async trx => {
    const orders = await markOpen(trx, receipts, leaseHolder, options)
    const leading = orders.filter(({ has_followers: hasFollowers }) => hasFollowers)
    if (leading.length > 0) {
      await queue.enqueue(
        trx,
        'copy.fanout',
        leading.map(({ id }) => ({ orderId: id }))
      )
    }
    const opened = new Set(orders.map(({ id }) => id))
    for (const { id, differs } of receipts) if (differs && opened.has(id)) await insertMismatch(trx, id, differs)
    return { orders, copying: leading.length > 0 }
  })
}

/** A bought order, as far as its worker needs it from here on. */
export type OpenedOrder = LeasedOrder &
  Pick<OrderRow, 'reply_channel' | 'duration_unit' | 'has_followers'> &
  Notifiable & {
    /** Orders of the account were queued when the statement began. */
    others_wait: boolean
  }

const openedColumns = [...leasedNames, 'reply_channel', 'duration_unit', 'has_followers'] as const

// The caller of a tick contract waits for its end, which follows within seconds.
const isNews = `duration_unit is distinct from 't'`

/** Marks orders as bought, with `leaseHolder` as lease holder; null for none yet. */
export async function markOpen(
  trx: Db,
  receipts: Receipt[],
  leaseHolder: string | null,
  { notify = false }: { notify?: boolean } = {}
): Promise<OpenedOrder[]> {
  // `id = any(...)` in addition to the join: a plan made while the table was small still finds the rows by their keys.
  return rows<OpenedOrder>(
    trx,
    sql`with opened as (
     update orders o
        set phase = 'open', broker_order_id = r."brokerOrderId", transaction_id = r."transactionId", buy_price = r."buyPrice",
            payout = r.payout, currency = coalesce(o.currency, r.currency),
            app_id = coalesce(r."boughtUnder" ->> 'appId', o.app_id), dialect = coalesce(r."boughtUnder" ->> 'dialect', o.dialect),
            account_mode = coalesce(r."boughtUnder" ->> 'accountMode', o.account_mode),
            -- A purchase is never later than its response; one that is reported so would end in the future as well.
            opened_at = case when r."openedAt" <= extract(epoch from now()) + ${AHEAD_SECONDS} then to_timestamp(r."openedAt") else now() end,
            answered_at = clock_timestamp(),
            expiry_at = to_timestamp(r."expiryAt"), lease_holder = :leaseHolder,
            error_code = null, error_message = null, error_extras = null, retryable = false
       from jsonb_to_recordset(:receipts::jsonb) as r (id text, attempt int, "brokerOrderId" text, "transactionId" text,
            "buyPrice" numeric, payout numeric, currency text, "openedAt" float8, "expiryAt" float8, "isLate" boolean, "boughtUnder" jsonb)
      where o.id = ${among('ids')} and o.id = r.id and o.attempt = r.attempt
        and (o.phase in ('sending', 'review') or (r."isLate" and (o.phase in ('queued', 'unproven') or (o.phase = 'failed' and o.retryable))))
     returning ${openedColumns.map(column => `o.${column}`).join(', ')}, ${outcomeLine} as outcome,
         exists (select from orders q where q.account_id = o.account_id and q.phase = 'queued') as others_wait
     )${notify ? `, ${notifyingOf('opened', isNews)}` : ''}
     select ${notifiedColumns('opened', [...openedColumns, 'others_wait'], notify)} from opened`,
    { receipts: JSON.stringify(receipts), ids: receipts.map(({ id }) => id), leaseHolder }
  )
}

/** Why an order has no contract. */
export interface OrderRefusal {
  id: string
  attempt: number
  code: ErrorCode
  message: string
  extras?: ErrorExtras
}

/** What such an order reads that was sent, and of which the broker's lists have nothing. Nobody can repeat a copy. */
export const absentMessageOf = ({ client_order_id: name }: Pick<OrderRow, 'client_order_id'>): string =>
  name === null
    ? 'The broker did not buy this order.'
    : 'The broker did not buy this order; it may be repeated with the same clientOrderId.'

/**
 * Marks orders as failed: certainly without a contract. A 502 or a halt may be tried again under the same id; any other
 * refusal is the order's final result.
 */
export async function markFailed(trx: Db, refusals: OrderRefusal[]): Promise<OrderRow[]> {
  return rows<OrderRow>(
    trx,
    sql`update orders o
        set phase = 'failed', error_code = r.code, error_message = r.message, error_extras = r.extras,
            retryable = r.code in ('BROKER_UPSTREAM', 'TRADING_HALTED')
       from jsonb_to_recordset(:refusals::jsonb) as r (id text, attempt int, code text, message text, extras jsonb)
      where o.id = ${among('ids')} and o.id = r.id and o.attempt = r.attempt and o.phase in ('sending', 'review')
     returning o.*`,
    { refusals: JSON.stringify(refusals), ids: refusals.map(({ id }) => id) }
  )
}

/** A claim given back: the reason, and the pause before its next claim. */
export interface Unsent {
  id: string
  attempt: number
  reason: string
  pauseMs?: number
}

/**
 * Gives back orders that this sender certainly did not send: queued again while there is time, failed (502, may be
 * retried) when there is none. No worker claims one before its pause is over. A concurrent resolution of the row wins.
 */
export async function releaseUnsent(trx: Db, claims: Unsent[], sender: string): Promise<OrderRow[]> {
  return rows<OrderRow>(
    trx,
    `with clock as materialized (select clock_timestamp() as at),
     unsent as materialized (
       select * from unnest(:ids::text[], :attempts::int[], :pauses::int[], :reasons::text[]) as c (id, attempt, pause_ms, reason)
     ), leases as materialized (
       select l.account_id, c.reason from unsent c join orders o using (id) join account_leases l using (account_id)
        where l.worker = :sender for update of l skip locked
     ), held_back as (
       update account_leases l set held_back = leases.reason, held_back_at = clock.at
         from leases, clock where l.account_id = leases.account_id
     )
     update orders o
        set phase = case when o.expires_at > clock.at then 'queued' else 'failed' end,
            error_code = case when o.expires_at > clock.at then null else 'BROKER_UPSTREAM' end,
            error_message = case when o.expires_at > clock.at then null else '${EXPIRED} ' || c.reason end,
            retryable = o.expires_at <= clock.at,
            not_before = case when c.pause_ms > 0 then clock.at + c.pause_ms * interval '1 millisecond' end,
            sender = null, sent_at = null, permit_until = null, resolve_at = null
       from unsent c, clock
      where o.id = c.id and o.attempt = c.attempt and o.phase = 'sending' and o.sender = :sender
     returning o.*`,
    {
      ids: claims.map(({ id }) => id),
      attempts: claims.map(({ attempt }) => attempt),
      pauses: claims.map(({ pauseMs = 0 }) => Math.round(pauseMs)),
      reasons: claims.map(({ reason }) => reason),
      sender
    }
  )
}

/**
 * Gives back the orders of claiming statements whose outcome never reached their sender: it sent none of them. Queued
 * again while there is time, failed (502, may be retried) when there is none. Returns the rows.
 */
export async function releaseLostClaims(
  db: Db,
  { sender, claimNos }: { sender: string; claimNos: number[] }
): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `with clock as materialized (select clock_timestamp() as at)
     update orders o
        set phase = case when o.expires_at > clock.at then 'queued' else 'failed' end,
            error_code = case when o.expires_at > clock.at then null else 'BROKER_UPSTREAM' end,
            error_message = case when o.expires_at > clock.at then null
                                 else '${EXPIRED} Its worker lost the database.' end,
            retryable = o.expires_at <= clock.at,
            sender = null, sent_at = null, permit_until = null, resolve_at = null
       from clock
      where o.phase = 'sending' and o.sender = :sender and o.claim_no = any(:claimNos::int[])
     returning o.*`,
    { sender, claimNos }
  )
}

/** Notes that the senders of these claims have reset their connections: they deliver nothing more from now on. */
export async function markReset(db: Db, claims: { id: string; attempt: number }[]): Promise<void> {
  await db.raw(
    `update orders o set reset_attempt = c.attempt, reset_at = clock_timestamp()
       from unnest(:ids::text[], :attempts::int[]) as c (id, attempt)
      where o.id = c.id and o.attempt = c.attempt and o.phase = 'sending'`,
    { ids: claims.map(({ id }) => id), attempts: claims.map(({ attempt }) => attempt) }
  )
}

// Orders in doubt, as rows: which are due for a check, what their resolution depends on, and what a check found. How the
// broker's lists decide is in worker/orders/resolving.ts.
import type { Config } from '../../schemas/config/config.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { servedByNoOther } from '../traders/account-leases.ts'
import type { OrderRow } from './reading.ts'

/** An order in doubt, with what its resolution depends on. */
export interface Doubt extends OrderRow {
  /** The database's time when the row was read, ms since the epoch. */
  read_ms: number
  /** The database's time from which `arrival_ms` count: the connection's reset, else the end of the permit. */
  arrival_from_ms: number
  /** For how long after `arrival_from_ms` the broker may still execute the purchase. */
  arrival_ms: number
}

// A sender that reset its connection can deliver nothing more, but what the broker had received before may be executed
// within the broker's own time-out. For a sender that died, its machine may go on delivering for :crashedMs as well.
const resetIsKnown = 'o.reset_attempt = o.attempt and o.reset_at >= o.sent_at'
const arrivalFrom = `(case when ${resetIsKnown} then o.reset_at else o.permit_until end)`
const arrivalMs = `((case when ${resetIsKnown} then 0 else :crashedMs end + :reconcileAfterMs) * interval '1 millisecond')`
const milliseconds = (expression: string) => `(extract(epoch from ${expression}) * 1000)::float8`
const doubtColumns = `o.*, ${milliseconds('clock_timestamp()')} as read_ms, ${milliseconds(arrivalFrom)} as arrival_from_ms,
       ${milliseconds(arrivalMs)} as arrival_ms`

/** How long a purchase may take to arrive after its sender died, and to be executed once it has arrived. */
export type ArrivalTimes = { crashedMs: number; reconcileAfterMs: number }

export const arrivalTimes = (config: Pick<Config, 'reconcileCrashedMs' | 'reconcileAfterMs'>): ArrivalTimes => ({
  crashedMs: config.reconcileCrashedMs,
  reconcileAfterMs: config.reconcileAfterMs
})

// Any worker may check an order in doubt that its account's worker has not checked for so long.
const NEGLECTED_SECONDS = 15

/**
 * Orders in doubt that are due for a check, none of `except`, of accounts that no other living worker serves, or that it neglects;
 * `resolve_at` moves on by `everyMs`, so that no other worker checks meanwhile and a check that dies is made again.
 * `sender` stays: it is the claimer of the order.
 */
export async function takeDoubts(
  db: Db,
  options: { worker: string; everyMs: number; limit: number; except?: string[] } & ArrivalTimes
): Promise<Doubt[]> {
  return rows<Doubt>(
    db,
    `update orders o
        set resolve_at = clock_timestamp() + :everyMs * interval '1 millisecond'
      where o.id in (select id from orders where phase = 'sending' and resolve_at <= clock_timestamp()
                        and id <> all(:except::text[])
                        and (${servedByNoOther('orders.account_id', ':worker')}
                             or resolve_at < clock_timestamp() - interval '${NEGLECTED_SECONDS} seconds')
                      order by resolve_at limit :limit for update skip locked)
     returning ${doubtColumns}`,
    { except: [], ...options }
  )
}

/** One order that was sent at least once, with what its resolution depends on. */
export async function findDoubt(db: Db, id: string, times: ArrivalTimes): Promise<Doubt | undefined> {
  const [found] = await rows<Doubt>(
    db,
    `select ${doubtColumns} from orders o where o.id = :id and o.sent_at is not null`,
    { id, ...times }
  )
  return found
}

/**
 * Counts a check that decided nothing, and how many of these count towards absence. While the purchase may still be
 * executed, the next check after the first is up to `pauseMs` away, and not much later than that time's end.
 */
export async function countCheck(
  db: Db,
  order: { id: string; attempt: number },
  options: { conclusive: boolean; pauseMs: number } & ArrivalTimes
): Promise<{ absenceChecks: number }> {
  const [row] = await rows<{ absenceChecks: number }>(
    db,
    `update orders o
        set checks = o.checks + 1, absence_checks = o.absence_checks + :conclusive::boolean::int,
            resolve_at = case when :conclusive::boolean or o.checks = 0 then o.resolve_at
                                else least(clock_timestamp() + :pauseMs * interval '1 millisecond',
                                           greatest(o.resolve_at, ${arrivalFrom} + ${arrivalMs})) end
      where o.id = :id and o.attempt = :attempt and o.phase = 'sending'
     returning o.absence_checks as "absenceChecks"`,
    { id: order.id, attempt: order.attempt, ...options }
  )
  return row ?? { absenceChecks: 0 }
}

/**
 * When the account last bought something for us before this order was sent, by the broker's clock (epoch seconds), as
 * far as the orders queued before it show; null where unknown. The purchase of this order cannot be older.
 */
export async function lastPurchaseBefore(
  db: Db,
  order: Pick<OrderRow, 'id' | 'broker_account_id' | 'queued_at'>
): Promise<number | null> {
  const [row] = await rows<{ at: number | null }>(
    db,
    `select extract(epoch from max(opened_at))::float8 as at
       from (select opened_at from orders
              where broker_account_id = :accountRowId and queued_at <= :queuedAt and id <> :id and phase in ('open', 'closed')
              order by queued_at desc limit 20) as earlier`,
    { accountRowId: order.broker_account_id, queuedAt: order.queued_at, id: order.id }
  )
  return row?.at ?? null
}

/**
 * By how much the times of the application's latest purchases, as the broker shows them, were before their intent, in seconds by the
 * database's clock; null where no purchase is known.
 */
export async function purchasesBehind(db: Db, order: Pick<OrderRow, 'partner_id' | 'app_id'>): Promise<number | null> {
  const [row] = await rows<{ seconds: number | null }>(
    db,
    `select extract(epoch from max(sent_at - opened_at))::float8 as seconds
       from (select sent_at, opened_at, phase, app_id from orders
              where partner_id = :partnerId order by created_at desc, id desc limit 100) latest
      where app_id = :appId and phase in ('open', 'closed')`,
    { partnerId: order.partner_id, appId: order.app_id }
  )
  return row?.seconds ?? null
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

/** Which of these contracts of an account belong to an order, or to a break that the operator has resolved. */
export async function ownedContracts(db: Db, accountId: string, contractIds: string[]): Promise<Set<string>> {
  const found = await rows<{ broker_order_id: string }>(
    db,
    `select broker_order_id from orders where account_id = :accountId and broker_order_id = any(:contractIds)
     union
     select broker_order_id from orders_archive where account_id = :accountId and broker_order_id = any(:contractIds)
     union
     select broker_order_id from contract_breaks
      where account_id = :accountId and broker_order_id = any(:contractIds) and resolved_at is not null`,
    { accountId, contractIds }
  )
  return new Set(found.map(({ broker_order_id }) => broker_order_id))
}

/** Whether one of the application's last thousand orders here cost more than its stake: its markup is paid beside it. */
export async function paysMarkupOnTop(db: Db, order: Pick<OrderRow, 'partner_id' | 'app_id'>): Promise<boolean> {
  const found = await rows(
    db,
    `select from (select buy_price, coalesce(stake_in_account, stake) as requested, app_id from orders
                   where partner_id = :partnerId order by created_at desc, id desc limit 1000) o
      where buy_price > requested and app_id = :appId limit 1`,
    { partnerId: order.partner_id, appId: order.app_id }
  )
  return found.length > 0
}

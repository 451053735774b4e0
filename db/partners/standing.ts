// Suspension by the operator and its end. A suspended partner pays nothing (db/money/billing.ts), and what it had paid for
// lasts as much longer as the suspension did.
import { ApiError } from '../../schemas/errors/errors.ts'
import { laterAnchor, lockPartner } from '../money/billing.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { databaseNow } from '../postgres/now.ts'
import { getPartner, getRealPartner, type PartnerRecord } from './partners.ts'

/** Stops a partner whatever it has paid. Throws NOT_FOUND, or CONFLICT when it is suspended already. */
export async function suspendPartner(trx: Db, partnerId: string, reason: string, now?: Date): Promise<PartnerRecord> {
  const changed = await trx('partners')
    .where({ id: partnerId })
    .whereNull('suspended_at')
    .whereNull('test_of')
    .update({ suspended_at: now ?? trx.fn.now(), suspended_reason: reason })
  const partner = await getRealPartner(trx, partnerId)
  if (changed === 0) throw new ApiError('CONFLICT', `${partnerId} is SUSPENDED already.`)
  return partner
}

/**
 * Ends a suspension: the paid period of the plan, and those of subscriptions that were paid when it began, its test side's among them, end as much later as
 * it lasted. Throws NOT_FOUND, or CONFLICT when there is none. Call it in a transaction.
 */
export async function resumePartner(trx: Db, partnerId: string, now?: Date): Promise<PartnerRecord> {
  const {
    suspended_at: since,
    plan_active: paid,
    period_end: end,
    billing_anchor: anchor
  } = await lockPartner(trx, partnerId)
  if (!since) throw new ApiError('CONFLICT', `${partnerId} is not SUSPENDED.`)
  const at = now ?? (await databaseNow(trx))
  const lasted = Math.max(0, at.getTime() - since.getTime())
  // A period that had ended unpaid just before the suspension is continued from now: its successor must not begin in the suspension.
  const later = new Date(Math.max(end.getTime(), since.getTime()) + lasted)
  await trx('partners')
    .where({ id: partnerId })
    .update({
      suspended_at: null,
      suspended_reason: null,
      active_since: at,
      ...(paid ? { period_end: later, billing_anchor: laterAnchor(anchor, { end: later, lastedMs: lasted }) } : {})
    })
  await endSubscriptionsLater(trx, { partnerId, since, lastedMs: lasted })
  return getPartner(trx, partnerId)
}

/** Has the subscriptions that were paid at `since` end later. The partner is locked: none of them is renewed meanwhile. */
async function endSubscriptionsLater(
  trx: Db,
  { partnerId, since, lastedMs }: { partnerId: string; since: Date; lastedMs: number }
): Promise<void> {
  const paid = await rows<{ id: string; end: Date; anchor: Date }>(
    trx,
    `select id, current_period_end as "end", coalesce(billing_anchor, created_at::timestamptz(3)) as anchor from marketplace_subscriptions
      where partner_id in (select id from partners where id = :partnerId or test_of = :partnerId)
        and status <> 'CANCELED' and current_period_end > :since
      order by id for no key update`,
    { partnerId, since }
  )
  const moved = paid.map(({ id, end, anchor }) => {
    const later = new Date(end.getTime() + lastedMs)
    return { id, end: later, anchor: laterAnchor(anchor, { end: later, lastedMs }) }
  })
  await rows(
    trx,
    `update marketplace_subscriptions s set status = 'ACTIVE', current_period_end = m."end", billing_anchor = m.anchor
       from jsonb_to_recordset(:moved::jsonb) as m (id text, "end" timestamptz, anchor timestamptz) where s.id = m.id`,
    { moved: JSON.stringify(moved) }
  )
}

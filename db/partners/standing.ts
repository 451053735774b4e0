// Suspension by the operator and its end. A suspended partner pays nothing (db/money/billing.ts), and what it had paid for
// lasts as much longer as the suspension did.
import { ApiError } from '../../schemas/errors/errors.ts'
import { lockPartner } from '../money/billing.ts'
import type { Db } from '../postgres/connection.ts'
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
  const { suspended_at: since, plan_active: paid, period_end: end } = await lockPartner(trx, partnerId)
  if (!since) throw new ApiError('CONFLICT', `${partnerId} is not SUSPENDED.`)
  const at = now ?? (await databaseNow(trx))
  const lasted = Math.max(0, at.getTime() - since.getTime())
  // A period that had ended unpaid moments before goes on from here: its next one must not begin in the suspension.
  const later = new Date(Math.max(end.getTime(), since.getTime()) + lasted)
  await trx('partners')
    .where({ id: partnerId })
    .update({
      suspended_at: null,
      suspended_reason: null,
      active_since: at,
      ...(paid ? { period_end: later, billing_anchor: later } : {})
    })
  await trx.raw(
    `update marketplace_subscriptions
        set status = 'ACTIVE', current_period_end = current_period_end + :lasted * interval '1 millisecond',
            billing_anchor = current_period_end + :lasted * interval '1 millisecond'
      where partner_id in (select id from partners where id = :partnerId or test_of = :partnerId)
        and status <> 'CANCELED' and current_period_end > :since`,
    { partnerId, since, lasted }
  )
  return getPartner(trx, partnerId)
}

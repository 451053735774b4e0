// Changes of a partner's plan. An upgrade holds at once and is charged for the rest of the period that is paid; a
// downgrade waits for its end, and so does any change of a suspended partner: it is not charged while it is locked out.
// Where nothing is paid (a trial, an inactive plan) both hold at once and cost nothing now.
import { Big } from 'big.js'
import { ApiError } from '../../schemas/errors/errors.ts'
import { isLess, usd } from '../../schemas/fields/money.ts'
import type { Plan } from '../../schemas/partners.ts'
import { type BilledRow, endOfPeriod, lockPartner, type Prices } from '../money/billing.ts'
import { accounts, findTransfer, move, transfer } from '../money/ledger.ts'
import type { Db } from '../postgres/connection.ts'
import { databaseNow } from '../postgres/now.ts'
import { getPartner, type PartnerRecord } from './partners.ts'

// The longest month.
const MONTH_MS = 31 * 86_400_000

/** What a change of plan would do. */
export interface PlanPreview {
  from: Plan
  to: Plan
  /** NOW: holds at once. AT_PERIOD_END: with the next period. */
  takesEffect: 'NOW' | 'AT_PERIOD_END'
  /** When it holds; of a suspended partner later by what its suspension lasts. */
  at: Date
  suspended: boolean
  /** The instant it was computed for. */
  requested: Date
  /** What leaves the wallet now, in USD. */
  chargeUsd: string
  /** Until when that is paid: the end of the period. */
  periodEnd: Date
  /** A month of the new plan from then on, in USD. */
  feeUsd: string
}

interface PlanChangeRequest {
  partnerId: string
  plan: Plan
  prices: Prices
  /** The database's clock when left out. */
  now?: Date
}

/** What putting a partner on another plan at `now` would do; nothing changes. Throws NOT_FOUND. */
export async function previewPlan(db: Db, requested: PlanChangeRequest): Promise<PlanPreview> {
  return db.transaction(trx => planOf(trx, requested).then(({ change }) => change))
}

/**
 * Puts a partner on another plan as `previewPlan` computed; with `expectedUsd` only for that charge. Throws NOT_FOUND,
 * CONFLICT where the charge is another by now, WALLET_INSUFFICIENT. Call it in a transaction.
 */
export async function setPlan(
  trx: Db,
  requested: PlanChangeRequest & { expectedUsd?: string }
): Promise<{ partner: PartnerRecord; change: PlanPreview }> {
  const { change, now } = await planOf(trx, requested)
  const { partnerId, plan, expectedUsd } = requested
  if (expectedUsd !== undefined && expectedUsd !== change.chargeUsd)
    throw new ApiError(
      'CONFLICT',
      `The change costs ${change.chargeUsd} USD by now, not ${expectedUsd} USD; look again.`
    )
  if (isLess('0', change.chargeUsd)) {
    await transfer(trx, {
      reference: `upgrade:${partnerId}:${now.toISOString()}:${change.from}:${plan}`,
      kind: 'plan_upgrade',
      entries: move(accounts.wallet(partnerId), accounts.fees, change.chargeUsd),
      details: {
        from: change.from,
        plan,
        periodStart: change.at.toISOString(),
        periodEnd: change.periodEnd.toISOString()
      }
    })
  }
  const changes = change.takesEffect === 'NOW' ? { plan, next_plan: null } : { next_plan: plan }
  await trx('partners').where({ id: partnerId }).update(changes)
  return { partner: await getPartner(trx, partnerId), change }
}

async function planOf(
  trx: Db,
  { partnerId, plan, prices, now: given }: PlanChangeRequest
): Promise<{ change: PlanPreview; now: Date }> {
  const partner = await lockPartner(trx, partnerId)
  const now = given ?? (await databaseNow(trx))
  const { suspended, period_end: periodEnd } = partner
  const shared = { from: partner.plan, to: plan, requested: now, suspended, periodEnd, feeUsd: prices[plan] }
  const atOnce = { ...shared, takesEffect: 'NOW', at: now, chargeUsd: '0.00' } as const
  const paidMs = plan === partner.plan ? null : await paidLength(trx, partner)
  if (paidMs === null) return { change: atOnce, now }
  if (suspended || isLess(prices[plan], prices[partner.plan]))
    return { change: { ...shared, takesEffect: 'AT_PERIOD_END', at: periodEnd, chargeUsd: '0.00' }, now }
  return { change: { ...atOnce, chargeUsd: restOf(partner, { at: now, prices, plan, paidMs }) }, now }
}

/**
 * How much time the fee of the present period paid for, in ms; null where nothing was paid (a trial, an inactive plan). A
 * suspension makes the period longer than that.
 */
async function paidLength(trx: Db, partner: BilledRow): Promise<number | null> {
  const { period_start: start, period_end: end, billing_anchor: anchor } = partner
  if (!partner.plan_active) return null
  const fee = await findTransfer(trx, `fee:${partner.id}:${start.toISOString()}`)
  // A period without a fee that is not the trial began with a plan that cost nothing; a later upgrade was charged for the rest. After a
  // trial of no days it began with the partner; the anchor, which is the end of the trial, is before its end.
  if (!fee) return start > partner.created_at || anchor < end ? monthOf(start, end) : null
  const { periodStart, periodEnd } = fee.details
  const paidMs = Date.parse(String(periodEnd)) - Date.parse(String(periodStart))
  // A fee of an older version has no end.
  return Number.isNaN(paidMs) ? +end - +start : paidMs
}

/** The length of a period of a month, without the suspension by which it may be longer. */
function monthOf(start: Date, end: Date): number {
  const ms = +end - +start
  return ms > MONTH_MS ? +endOfPeriod(start, start) - +start : ms
}

/** The difference of two prices for what is left of the paid time, rounded half up to the cent. */
function restOf(
  { plan: from, period_end: end }: BilledRow,
  { at, prices, plan, paidMs }: { at: Date; prices: Prices; plan: Plan; paidMs: number }
): string {
  const left = Math.min(paidMs, Math.max(0, end.getTime() - at.getTime()))
  const difference = new Big(prices[plan]).minus(prices[from])
  return usd(difference.times(left).div(paidMs).round(2, Big.roundHalfUp))
}

// Plan fees: which period a partner is in, when its fee falls due, and charging it exactly once.
//
// A partner is charged in one transaction that locks its row and writes both the fee, under the unique reference
// fee:<partner>:<start of the period>, and the move to that period. So any number of checks may run at once or die
// half-way.
//
// - The first period is the trial, which is free; with 0 days its end, and so the first fee, is due at once.
// - A period that ended is paid from the wallet at the price of the plan the partner has when it is charged. Were
//   checks missed for months, each period that went by in service is charged, oldest first.
// - Unpaid: the plan becomes inactive, and nothing more falls due while it is. Then one fee is outstanding, charged as
//   soon as the wallet covers it: by the top-up that makes it so, whatever the clock, or by the next check (after a
//   refund, for example, or a change to a cheaper plan). Months without service are not charged: the new period begins
//   with the payment.
// - While the operator has a partner suspended nothing is charged. When it is resumed, the period that is paid ends as
//   much later as the suspension lasted (db/partners/standing.ts).
// - A change to a cheaper plan, and any change while it is suspended, waits for the end of the period that is paid
//   (db/partners/plans.ts).

import { ApiError } from '../../schemas/errors/errors.ts'
import { lacking } from '../../schemas/fields/money.ts'
import { type Plan, refuseTestSide } from '../../schemas/partners.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { accounts, move, tryTransfer } from './ledger.ts'

/** USD a month of each plan. */
export type Prices = Record<Plan, string>

/** Periods of one partner charged in one go, at most; the next check goes on. */
const PERIODS_AT_ONCE = 120

/**
 * The end of the period that starts at `start`: a month on, on the anchor's day and time of day, or on the month's
 * last day where it has no such day. So 31 January is followed by 28 February and that by 31 March.
 */
export function endOfPeriod(anchor: Date, start: Date): Date {
  const year = start.getUTCFullYear()
  const month = start.getUTCMonth() + 1
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  const end = new Date(anchor)
  end.setUTCFullYear(year, month, Math.min(anchor.getUTCDate(), lastDay))
  return end
}

/**
 * The anchor of periods of which one ends at `end`, later by `lastedMs` than before. An end on the last day of a short month is not taken
 * for the anchor's day: of one on the 31st the months after it would end on the 28th. The end itself is the anchor of a trial alone.
 */
export function laterAnchor(anchor: Date, { end, lastedMs }: { end: Date; lastedMs: number }): Date {
  const moved = new Date(anchor.getTime() + lastedMs)
  const monthBefore = new Date(Date.UTC(end.getUTCFullYear(), end.getUTCMonth() - 1))
  if (endOfPeriod(moved, monthBefore).getTime() === end.getTime()) return moved
  // The same day and time of an earlier year, of which only these count; 2000 had a 29 February.
  const earlier = new Date(end)
  earlier.setUTCFullYear(2000)
  return earlier
}

export interface BilledRow {
  id: string
  plan: Plan
  next_plan: Plan | null
  plan_active: boolean
  suspended: boolean
  suspended_at: Date | null
  period_start: Date
  period_end: Date
  billing_anchor: Date
  /** Rounded as period_start is, which it equals in the trial. */
  created_at: Date
}

/** What charging a partner came to. */
interface Charged {
  /** Fees that moved. */
  charged: number
  activated: boolean
  deactivated: boolean
}

/**
 * Charges what a partner owes as of `now` and moves its plan on. Locks the partner, then its wallet and the fees:
 * call it before other accounts are locked. Throws NOT_FOUND.
 */
export async function chargePartner(
  trx: Db,
  partnerId: string,
  { now, prices }: { now: Date; prices: Prices }
): Promise<Charged> {
  const partner = await lockPartner(trx, partnerId)
  const outcome: Charged = { charged: 0, activated: false, deactivated: false }
  if (partner.suspended) return outcome
  if (!partner.plan_active) {
    // Paid ahead of its time only after a rehearsal with a later clock: then the period is the one to come.
    const late = now > partner.period_end
    const start = late ? now : partner.period_end
    const anchor = late ? start : partner.billing_anchor
    const paid = await chargePeriod(trx, partner, { start, anchor, price: prices[partner.plan] })
    if (paid === 'short') return outcome
    await enterPeriod(trx, partner, { start, anchor })
    await trx('partners').where({ id: partner.id }).update({ active_since: now })
    return { charged: paid, activated: true, deactivated: false }
  }
  for (let i = 0; i < PERIODS_AT_ONCE && partner.period_end <= now; i++) {
    const start = partner.period_end
    const anchor = partner.billing_anchor
    partner.plan = partner.next_plan ?? partner.plan
    partner.next_plan = null
    const paid = await chargePeriod(trx, partner, { start, anchor, price: prices[partner.plan] })
    if (paid === 'short') {
      const changes = { plan_active: false, plan: partner.plan, next_plan: null }
      await trx('partners').where({ id: partner.id, plan_active: true }).update(changes)
      return { ...outcome, deactivated: true }
    }
    outcome.charged += paid
    partner.period_end = await enterPeriod(trx, partner, { start, anchor })
  }
  return outcome
}

/** Holds a partner's row against others who charge it or top it up. Throws NOT_FOUND, also for a test side, of which it is the partner's. */
export async function lockPartner(trx: Db, partnerId: string): Promise<BilledRow> {
  const [partner] = await rows<BilledRow & { test_of: string | null }>(
    trx,
    `select id, plan, next_plan, plan_active, suspended_at is not null as suspended, suspended_at, period_start, period_end,
            billing_anchor, created_at::timestamptz(3) as created_at, test_of
       from partners where id = :partnerId for no key update`,
    { partnerId }
  )
  if (!partner) throw new ApiError('NOT_FOUND', `There is no partner ${partnerId}.`)
  if (partner.test_of !== null) throw refuseTestSide(partnerId, partner.test_of)
  return partner
}

/** How many fees moved (0 for a plan that costs nothing), or 'short'. */
async function chargePeriod(
  trx: Db,
  { id, plan }: BilledRow,
  { start, anchor, price }: { start: Date; anchor: Date; price: string }
): Promise<0 | 1 | 'short'> {
  if (Number(price) === 0) return 0
  const outcome = await tryTransfer(trx, {
    reference: `fee:${id}:${start.toISOString()}`,
    kind: 'plan_fee',
    entries: move(accounts.wallet(id), accounts.fees, price),
    details: { plan, periodStart: start.toISOString(), periodEnd: endOfPeriod(anchor, start).toISOString() }
  })
  if ('short' in outcome) return 'short'
  return outcome.repeated ? 0 : 1
}

async function enterPeriod(
  trx: Db,
  partner: BilledRow,
  { start, anchor }: { start: Date; anchor: Date }
): Promise<Date> {
  const end = endOfPeriod(anchor, start)
  const moved = await trx('partners').where({ id: partner.id, period_end: partner.period_end }).update({
    plan: partner.plan,
    next_plan: null,
    plan_active: true,
    period_start: start,
    period_end: end,
    billing_anchor: anchor
  })
  if (moved !== 1) throw new Error(`The period of ${partner.id} moved although its row was locked.`)
  return end
}

/** The state of a partner's fee. */
interface FeeStanding {
  balanceUsd: string
  /** What the next fee will be: the price of its plan, or of the one it changes to then. */
  feeUsd: string
  /** When the next fee falls due, or fell due where it is unpaid. */
  nextFeeAt: Date
  planActive: boolean
  suspended: boolean
  /** What the wallet lacks of a fee that is due and unpaid; '0.00' while the plan is active. */
  topUpUsd: string
}

/** The state of a partner's fee, in one read. Throws NOT_FOUND. */
export async function standingOf(db: Db, partnerId: string, prices: Prices): Promise<FeeStanding> {
  const [row] = await rows<Omit<FeeStanding, 'feeUsd' | 'topUpUsd'> & { nextPlan: Plan }>(
    db,
    `select coalesce(p.next_plan, p.plan) as "nextPlan", p.plan_active as "planActive", p.suspended_at is not null as suspended,
            p.period_end as "nextFeeAt", coalesce(a.balance, 0.00)::text as "balanceUsd"
       from partners p left join ledger_accounts a on a.id = :wallet
      where p.id = :partnerId`,
    { partnerId, wallet: accounts.wallet(partnerId) }
  )
  if (!row) throw new ApiError('NOT_FOUND', `There is no partner ${partnerId}.`)
  const { nextPlan, ...standing } = row
  const feeUsd = prices[nextPlan]
  return { ...standing, feeUsd, topUpUsd: standing.planActive ? '0.00' : lacking(standing.balanceUsd, feeUsd) }
}

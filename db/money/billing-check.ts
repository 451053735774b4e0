// The billing check: everything that falls due by the clock, a party at a time, each in a transaction of its
// own. Started by the workers' schedule and by the operator's cron; both at once charge once.
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Plan } from '../../schemas/partners.ts'
import { renewSubscriptions } from '../marketplace/renewals.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { databaseNow } from '../postgres/now.ts'
import { chargePartner, type Prices } from './billing.ts'
import type { BillingContext, BillingCounts } from './billing-context.ts'
import { decideTestPayouts, refillTestWallets } from './play-money.ts'

/** One kind of thing that falls due. */
type BillingStep = (db: Db, context: BillingContext) => Promise<void>

/** In this order: a partner's own plan comes before what it subscribed to. */
const steps: BillingStep[] = [
  chargeDuePlans,
  chargeUnpaidPlans,
  renewSubscriptions,
  decideTestPayouts,
  refillTestWallets
]

// Small, so that whom another check charged meanwhile is seldom locked again.
const BATCH = 50
const FAILURES_AT_MOST = 100

interface BillingOptions {
  prices: Prices
  feePct: string
  /** The database's clock when left out. A later one is no rehearsal on paper: it charges as of that instant. */
  now?: Date
  /** When the new period of an unpaid plan begins that its wallet covers by now; as `now` when left out. Of time before, nothing was in service. */
  resumedAt?: Date | undefined
  signal?: AbortSignal
  /** Called once with what was done, also where the check then throws. */
  done?(counts: BillingCounts): Promise<void> | void
}

/**
 * Runs every step. A party that fails does not keep the others from their turn, until FAILURES_AT_MOST have failed: then, or when all
 * have had it, throws UNAVAILABLE with what was done, the number of failures, and the first as its cause.
 */
export async function checkBilling(db: Db, options: BillingOptions): Promise<BillingCounts> {
  const failures: { id: string; error: unknown }[] = []
  const tooMany = new AbortController()
  const counts: BillingCounts = { charged: 0, activated: 0, deactivated: 0, renewed: 0 }
  const now = options.now ?? (await databaseNow(db))
  const context: BillingContext = {
    now,
    resumedAt: options.resumedAt ?? now,
    prices: options.prices,
    feePct: options.feePct,
    signal: AbortSignal.any([tooMany.signal, ...(options.signal ? [options.signal] : [])]),
    counts,
    failed(id, error) {
      failures.push({ id, error })
      // This many failures are not the fault of single parties: something that all of them need is broken.
      if (failures.length >= FAILURES_AT_MOST) tooMany.abort()
    }
  }
  try {
    for (const step of steps) await step(db, context)
  } catch (cause) {
    await record(options, counts)
    throw cause
  }
  await options.done?.(counts)
  const [first] = failures
  if (first) {
    const others = tooMany.signal.aborted ? 'it was broken off' : 'the others were dealt with'
    const message = `The billing check failed for ${failures.length}, first for ${first.id}; ${others}: ${phrase(counts)}.`
    throw new ApiError('UNAVAILABLE', message, { cause: first.error })
  }
  return counts
}

/** What the check did is recorded as well as it can be: the error that ended it is the one to report. */
async function record({ done }: BillingOptions, counts: BillingCounts): Promise<void> {
  try {
    await done?.(counts)
  } catch {}
}

function phrase({ charged, activated, deactivated, renewed }: BillingCounts): string {
  return `${charged} charged, ${activated} activated, ${deactivated} deactivated, ${renewed} renewed`
}

/** Active plans whose period has ended. */
async function chargeDuePlans(db: Db, context: BillingContext): Promise<void> {
  return chargeEach(db, context, async last =>
    rows<{ id: string; period_end: Date }>(
      db,
      `select id, period_end from partners
        where plan_active and suspended_at is null and test_of is null and period_end <= :now
          and (period_end, id) > (coalesce(:lastEnd::timestamptz, '-infinity'), :lastId)
        order by period_end, id limit ${BATCH}`,
      { now: context.now, lastEnd: last?.period_end ?? null, lastId: last?.id ?? '' }
    )
  )
}

/** Inactive plans whose wallet covers the fee by now, for example after a refund or a change of plan. */
async function chargeUnpaidPlans(db: Db, context: BillingContext): Promise<void> {
  const plans = Object.keys(context.prices) as Plan[]
  return chargeEach(db, { ...context, now: context.resumedAt }, async last =>
    rows<{ id: string; period_end: Date }>(
      db,
      `select p.id, p.period_end
         from partners p
         join unnest(:plans::text[], :prices::numeric[]) as price (plan, amount) on price.plan = p.plan
         left join ledger_accounts a on a.id = 'wallet:' || p.id
        where not p.plan_active and p.suspended_at is null and p.test_of is null and p.id > :lastId and coalesce(a.balance, 0) >= price.amount
        order by p.id limit ${BATCH}`,
      { plans, prices: plans.map(plan => context.prices[plan]), lastId: last?.id ?? '' }
    )
  )
}

interface DuePartner {
  id: string
  period_end: Date
}

async function chargeEach(
  db: Db,
  { now, prices, signal, counts, failed }: BillingContext,
  next: (last: DuePartner | undefined) => Promise<DuePartner[]>
): Promise<void> {
  let last: DuePartner | undefined
  for (;;) {
    const batch = await next(last)
    for (const { id } of batch) {
      if (signal.aborted) return
      try {
        const outcome = await db.transaction(trx => chargePartner(trx, id, { now, prices }))
        counts.charged += outcome.charged
        counts.activated += Number(outcome.activated)
        counts.deactivated += Number(outcome.deactivated)
      } catch (error) {
        failed(id, error)
      }
    }
    last = batch.at(-1)
    if (batch.length < BATCH) return
  }
}

// What every step of the billing check receives.
import type { Prices } from './billing.ts'

/** What a billing check has done. */
export interface BillingCounts {
  /** Plan fees that moved. */
  charged: number
  activated: number
  deactivated: number
  /** Months of subscriptions that began, paid where they cost something. */
  renewed: number
}

export interface BillingContext {
  /** What is due as of this instant is charged. */
  now: Date
  /** When the new period of an unpaid plan begins. */
  resumedAt: Date
  prices: Prices
  /** The platform's share of a sale, in percent. */
  feePct: string
  /** Once aborted, no further party is begun; what was done stays. */
  signal: AbortSignal
  /** What was done so far; a step adds to it after each commit, so that it is right wherever the check ends. */
  counts: BillingCounts
  /** Called with each party that failed; the check goes on with the others. */
  failed(id: string, error: unknown): void
}

// What every step of the billing check receives.
import type { Prices } from './billing.ts'

export interface BillingContext {
  /** What is due as of this instant is charged. */
  now: Date
  prices: Prices
  /** The platform's share of a sale, in percent. */
  feePct: string
  /** Once aborted, no further party is begun; what was done stays. */
  signal: AbortSignal
  /** Called with each party that failed; the check goes on with the others. */
  failed(id: string, error: unknown): void
}

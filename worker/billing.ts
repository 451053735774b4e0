// The billing check as the workers' clock starts it.
import * as billing from '../db/money/billing-check.ts'
import type { WorkerServices } from './services.ts'

// Well before the job expires: the next one, a minute later, goes on where this one stopped.
const LIMIT_MS = 300_000

/** Charges what has fallen due. Throws when a partner could not be dealt with, so that the job shows it. */
export async function checkBilling({ db, config, log }: WorkerServices): Promise<void> {
  await billing.checkBilling(db, {
    prices: config.planPrices,
    feePct: config.marketplaceFeePct,
    signal: AbortSignal.timeout(LIMIT_MS),
    done(counts) {
      if (Object.values(counts).some(count => count > 0)) log.info(counts, 'billing check')
    }
  })
}

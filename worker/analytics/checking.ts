// Comparing samples of the sums of analytics with the orders, as the workers' clock starts it.
import { checkSamples } from '../../db/analytics/state.ts'
import type { WorkerServices } from '../services.ts'

/** Logs each difference as an error; the metric service_analytics_differences counts them. */
export async function checkAnalytics({ db, log }: Pick<WorkerServices, 'db' | 'log'>): Promise<void> {
  for (const difference of await checkSamples(db))
    log.error({ difference }, 'sums of analytics differ from the orders: run operator analytics verify --repair')
}

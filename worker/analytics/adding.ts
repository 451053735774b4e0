// Adding up contracts for analytics, as the workers' clock starts it.
import { addUpAnalytics } from '../../db/analytics/sums.ts'
import type { WorkerServices } from '../services.ts'
import { openAddingUp } from '../trader-days.ts'

/** What adds up until nothing is left, in smaller steps where a statement takes too long. */
export function openAnalytics(): (services: Pick<WorkerServices, 'db' | 'log'>) => Promise<void> {
  return openAddingUp(addUpAnalytics)
}

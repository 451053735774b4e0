// Adding up what traders made, as the workers' clock starts it.
import { type Db, wasCanceled } from '../db/postgres/connection.ts'
import { addUpTraderDays } from '../db/traders/days.ts'
import type { WorkerServices } from './services.ts'

// Well before the job expires: the next one goes on where this one stopped.
const LIMIT_MS = 300_000
// Steps of 21 s; what takes too long even so is not a matter of how much there is.
const MAX_HALVINGS = 12

/**
 * What adds up until nothing is left. Steps are halved as often as a statement takes too long, also for the jobs to
 * come: after a long pause a day may have more orders than can be added up in one statement. Once nothing is left a
 * step is what closed in a minute, and they are as they were.
 */
export function openAddingUp(
  addUp: (db: Db, options: { halvings: number }) => Promise<boolean> = addUpTraderDays
): (services: Pick<WorkerServices, 'db' | 'log'>) => Promise<void> {
  let halvings = 0
  return async ({ db, log }) => {
    const signal = AbortSignal.timeout(LIMIT_MS)
    while (!signal.aborted) {
      try {
        if (await addUp(db, { halvings })) continue
        halvings = 0
        return
      } catch (error) {
        if (!wasCanceled(error) || halvings === MAX_HALVINGS) throw error
        halvings++
        log.warn({ halvings }, 'adding up closed orders took too long: smaller steps')
      }
    }
  }
}

// Adding up what traders made, as the workers' clock starts it.
import { type Db, wasCanceled } from '../db/postgres/connection.ts'
import { addUpTraderDays } from '../db/traders/days.ts'
import type { WorkerServices } from './services.ts'

// Well before the job expires: the next one goes on where this one stopped.
const LIMIT_MS = 300_000
// Steps of 21 s: a statement that takes too long even so is not slow because of the amount of data.
const MAX_HALVINGS = 12

/**
 * What adds up until nothing is left. When a statement takes too long, steps are halved, also for the jobs to come: after a long
 * pause a day may have more orders than one statement can add up. Once nothing is left, a step is what closed in a minute, and
 * steps get their full length again.
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

// Writes the broker's results although the database is away for a while: a few tries, then the row keeps its doubt and
// resolution finds the same facts again.

import { backOff } from '../../db/platform/back-off.ts'
import type { Log } from '../../db/platform/log.ts'
import { isDataError } from '../../db/postgres/batch.ts'
import { type Clock, sleep } from '../platform/clock.ts'

const TRIES = 8
const PAUSES = { firstMs: 100, mostMs: 5000 }

/**
 * Runs `write` until it succeeds, at most eight times with growing pauses; then throws its last error. What PostgreSQL
 * blames on the data would be refused each time, and is thrown at once.
 */
export async function persist<T>({ log, clock }: { log: Log; clock: Clock }, write: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await write()
    } catch (error) {
      if (attempt === TRIES || isDataError(error)) throw error
      log.warn({ err: error, attempt }, 'a result could not be written, trying again')
      await sleep(clock, backOff(attempt, PAUSES))
    }
  }
}

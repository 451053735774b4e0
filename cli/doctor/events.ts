// The event log: whether what happens gets into it, and whether it has room for the coming days.

import { readEventFaults } from '../../db/events/faults.ts'
import { countDaysAhead, readOutbox } from '../../db/events/sequence.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { type Finding, ok, warn } from './finding.ts'

const LAG_WARN_SECONDS = 30

export async function checkEvents(db: Db): Promise<Finding> {
  const check = 'events'
  const { count, newest } = await readEventFaults(db)
  if (newest)
    return warn(
      check,
      `${count} events cannot be shown and are left out, the newest at position ${newest.position} of ${newest.partnerId}: ${newest.reason}`,
      'bring back what its record lacks, or `delete from event_faults` once that is dealt with'
    )
  const { depth, oldestSeconds } = await readOutbox(db)
  if (oldestSeconds > LAG_WARN_SECONDS)
    return warn(
      check,
      `${depth} events are not in the log yet, the oldest for ${Math.round(oldestSeconds)} s`,
      'start a worker: it puts them there; if one runs, see its log'
    )
  const days = await countDaysAhead(db)
  if (days < 1)
    return warn(check, 'the log has no partition for tomorrow', 'start a worker: its housekeeping makes them each hour')
  return ok(check, `${depth} on their way into the log, which has room for ${days} more days`)
}

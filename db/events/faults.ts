// An event that cannot be shown must not keep readers from those after it: it is left out, and noted for the doctor. What readers
// get stays in order; its position is missing, which shows.
import type { EventRecord } from '../../schemas/events.ts'
import type { Log } from '../platform/log.ts'
import { countEventFault } from '../platform/metrics.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { type EventSettings, presentEvent } from './present.ts'
import type { EventRow } from './read.ts'

const REASON_LENGTH = 500
const MOST_NOTED = 10_000
/** Events that this process has noted. */
const noted = new Set<string>()

/** The event as the wire shows it; null for one that cannot be shown, which is noted. */
export function showEvent(row: EventRow, installation: EventSettings, to: { db: Db; log: Log }): EventRecord | null {
  try {
    return presentEvent(row, installation)
  } catch (error) {
    noteFault(row, error, to)
    return null
  }
}

/** The events that can be shown. */
export function showEvents(
  events: readonly EventRow[],
  installation: EventSettings,
  to: { db: Db; log: Log }
): EventRecord[] {
  return events.flatMap(event => showEvent(event, installation, to) ?? [])
}

function noteFault(
  { id, partnerId, position, type }: EventRow,
  error: unknown,
  { db, log }: { db: Db; log: Log }
): void {
  if (noted.has(id)) return
  if (noted.size >= MOST_NOTED) noted.clear()
  noted.add(id)
  countEventFault()
  log.error({ err: error, event: id, partnerId, position, type }, 'an event cannot be shown: readers pass over it')
  const reason = (error instanceof Error ? error.message : String(error)).slice(0, REASON_LENGTH)
  rows(
    db,
    `insert into event_faults (event_id, partner_id, position, type, reason)
     values (:id::uuid, :partnerId, :position, :type, :reason) on conflict (event_id) do nothing`,
    { id, partnerId, position, type, reason }
  ).catch((cause: unknown) => {
    noted.delete(id)
    log.warn({ err: cause }, 'an event that cannot be shown could not be noted')
  })
}

/** An event that cannot be shown. */
interface EventFault {
  partnerId: string
  position: number
  type: string
  reason: string
}

/** How many events cannot be shown, and the newest of them. */
export async function readEventFaults(db: Db): Promise<{ count: number; newest: EventFault | undefined }> {
  const [found] = await rows<EventFault & { count: number }>(
    db,
    `select partner_id as "partnerId", position, type, reason, count(*) over ()::int as count
       from event_faults order by found_at desc limit 1`
  )
  return { count: found?.count ?? 0, newest: found }
}

/** Forgets what was found longer ago than events are kept. */
export async function forgetEventFaults(db: Db, keepDays: number): Promise<void> {
  await rows(db, `delete from event_faults where found_at < clock_timestamp() - :keepDays * interval '1 day'`, {
    keepDays
  })
}

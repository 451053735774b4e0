// The window of a request: defaults, bounds and the errors of a wrong one; and its fields in every response.
import { endOfPresent, type Interval, isUnknownZone, type Window } from '../../db/analytics/windows.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { invalid } from '../../schemas/checks/validator.ts'
import { readInstant } from '../../schemas/fields/instants.ts'
import { timezoneFault } from '../../schemas/fields/timezones.ts'

const DAY_MS = 86_400_000
const DEFAULT_DAYS = 30
const MOST_DAYS: Record<Interval, number> = { hour: 31, day: 731, week: 731, month: 731 }
const FIRST_MS = Date.UTC(2000)
const LAST_MS = Date.UTC(2200)

interface WindowQuery {
  from?: string
  to?: string
  timezone?: string
  interval?: Interval
  accountMode?: Window['accountMode']
  currency?: string
}

/**
 * The window of a checked query. Without `to` it ends at the present of the database, after all that is committed: by the clock of this
 * process, which may be behind, what has just closed would be left out. Throws VALIDATION_FAILED where its parts do not go together.
 */
export async function windowOf(db: Db, partnerId: string, query: WindowQuery): Promise<Window> {
  const { timezone = 'UTC', interval = 'day', accountMode = 'REAL', currency = null } = query
  const to = instantOf('to', query.to) ?? (await endOfPresent(db, partnerId)).getTime()
  const from = instantOf('from', query.from) ?? to - DEFAULT_DAYS * DAY_MS
  if (from >= to) throw wrong('from', 'must be before to')
  const days = MOST_DAYS[interval]
  // One day of tolerance: 731 days by the clocks of a time zone may be an hour longer.
  if (to - from > (days + 1) * DAY_MS)
    throw wrong('from', `must be at most ${days} days before to with interval ${interval}`)
  const fault = timezoneFault(timezone)
  if (fault) throw wrong('timezone', fault)
  return {
    partnerId,
    from: new Date(from).toISOString(),
    to: new Date(to).toISOString(),
    present: query.to === undefined,
    timezone,
    interval,
    accountMode,
    currency
  }
}

const wrong = (name: string, message: string) => invalid([{ path: `/query/${name}`, message }])

function instantOf(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const ms = readInstant(text, `/query/${name}`).getTime()
  if (!(ms >= FIRST_MS && ms < LAST_MS))
    throw wrong(name, 'must be an instant between 2000 and 2200, such as 2026-11-21T08:00:00Z')
  return ms
}

/** Awaits a read. A time zone that PostgreSQL does not know is refused like any unknown one. */
export async function within<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (error) {
    throw isUnknownZone(error) ? wrong('timezone', 'is not a time zone that is known here') : error
  }
}

/** The window's fields in every response. */
export function presentWindow(
  { from, to, timezone, interval }: Window,
  { asOf, complete }: { asOf: Date; complete: boolean }
) {
  return { from, to, timezone, interval, asOf: asOf.toISOString(), complete }
}

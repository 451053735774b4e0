// Analytics: whether their sums are those of the orders, and keep up with them.
import { readAnalyticsState } from '../../db/analytics/state.ts'
import { readZoneOffsets } from '../../db/analytics/windows.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

// Sums are ten to 25 minutes behind in normal operation, and a day in the first minute of a database.
const BEHIND_WARN_SECONDS = 3600

export async function checkAnalytics(db: Db): Promise<Finding> {
  const check = 'analytics'
  const { behindSeconds, overdueSeconds, late, checkedAt, differences } = await readAnalyticsState(db)
  if (differences)
    return fail(
      check,
      `${differences} sums differed from the orders at ${checkedAt?.toISOString()}`,
      'operator analytics verify names them; --repair recomputes them'
    )
  if (overdueSeconds > BEHIND_WARN_SECONDS)
    return warn(
      check,
      `sums are ${Math.round(behindSeconds / 60)} minutes behind: responses are exact, and slow`,
      'start a worker: it adds up every minute; if one runs, see its log'
    )
  return ok(check, `sums are ${Math.round(behindSeconds / 60)} minutes behind the clock, ${late} marked as late`)
}

const MONTHS = 24
const NAMED = 5

/** Whether PostgreSQL, by whose clocks days of analytics begin, has the time zones of this process for the last two years. */
export async function checkTimeZones(db: Db): Promise<Finding> {
  const check = 'time zones'
  const now = new Date()
  const instants = Array.from(
    { length: MONTHS },
    (_, back) => new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back))
  )
  const theirs = await readZoneOffsets(db, instants)
  const different = Intl.supportedValuesOf('timeZone').filter(zone => {
    const offsets = theirs.get(zone)
    const format = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' })
    return !offsets || instants.some((instant, index) => offsetOf(format, instant) !== offsets[index])
  })
  if (different.length === 0) return ok(check, 'PostgreSQL has those of this process')
  const named = different.slice(0, NAMED).join(', ')
  return warn(
    check,
    `PostgreSQL lacks or has other clocks than this process for ${named}${different.length > NAMED ? ` and ${different.length - NAMED} more` : ''}`,
    "days of analytics begin by PostgreSQL's: update its time zones, the package tzdata of its machine or PostgreSQL itself"
  )
}

/** Minutes that clocks are ahead of UTC, of a format with the offset: GMT, GMT+05:45, GMT-03:00. */
function offsetOf(format: Intl.DateTimeFormat, instant: Date): number {
  const text = format.formatToParts(instant).find(({ type }) => type === 'timeZoneName')?.value ?? ''
  const [, sign, hours, minutes] = /([+-])(\d\d):(\d\d)/.exec(text) ?? []
  return (sign === '-' ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0))
}

// Analytics: whether their sums are those of the orders, and keep up with them.
import { readAnalyticsState } from '../../db/analytics/state.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { type Finding, fail, ok, warn } from './finding.ts'

// They are ten to 25 minutes behind in any case, and a day in the first minute of a database.
const BEHIND_WARN_SECONDS = 3600

export async function checkAnalytics(db: Db): Promise<Finding> {
  const check = 'analytics'
  const { behindSeconds, overdueSeconds, late, checkedAt, differences } = await readAnalyticsState(db)
  if (differences)
    return fail(
      check,
      `${differences} sums differed from the orders at ${checkedAt?.toISOString()}`,
      'operator analytics verify names them; --repair adds them up anew'
    )
  if (overdueSeconds > BEHIND_WARN_SECONDS)
    return warn(
      check,
      `sums are ${Math.round(behindSeconds / 60)} minutes behind: answers are exact, and slow`,
      'start a worker: it adds up every minute; if one runs, see its log'
    )
  return ok(check, `sums are ${Math.round(behindSeconds / 60)} minutes behind the clock, ${late} marked as late`)
}

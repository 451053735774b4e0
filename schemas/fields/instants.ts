// Moments that requests name in the format date-time.
import { ApiError } from '../errors/errors.ts'

const YEAR_ONE = Date.parse('0001-01-01T00:00:00Z')
const YEAR_TEN_THOUSAND = Date.UTC(10_000)

/**
 * The moment that a text of the format date-time, found at `path` of the request, means. The format allows zones of hours
 * alone, which Date does not read, and years, zones and leap seconds that are no moment to Date or to PostgreSQL: throws
 * VALIDATION_FAILED for these.
 */
export function readInstant(given: string, path: string): Date {
  const [date = '', time = ''] = given.toUpperCase().split(/[\sT]/)
  const at = new Date(`${date}T${time.replace(/([+-]\d{2}):?(\d{2})?$/, (_, h, m = '00') => `${h}:${m}`)}`)
  if (at.getTime() >= YEAR_ONE && at.getTime() < YEAR_TEN_THOUSAND) return at
  const message = 'must be a moment there is, from the year 1 to 9999'
  throw new ApiError('VALIDATION_FAILED', `${path} ${message}`, { extras: { details: [{ path, message }] } })
}

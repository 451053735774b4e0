// The archive: whether what ended long enough ago has moved.
import { readUnmoved } from '../../db/orders/archive-months.ts'
import type { Db } from '../../db/postgres/connection.ts'
import type { Config } from '../../schemas/config/config.ts'
import { type Finding, ok, warn } from './finding.ts'

const DAY_MS = 86_400_000
// The move begins every minute, and a first one of a large table takes hours.
const LATE_DAYS = 2

export async function checkArchive(
  db: Db,
  { archiveAfterDays: days }: Pick<Config, 'archiveAfterDays'>
): Promise<Finding> {
  const check = 'archive'
  if (days === 0) return ok(check, 'orders stay where they are: ARCHIVE_AFTER_DAYS is 0')
  const { oldestEnded } = await readUnmoved(db, { days: days + LATE_DAYS, most: 1 })
  if (oldestEnded === null) return ok(check, `orders move ${days} days after their end`)
  const late = Math.floor((Date.now() - oldestEnded.getTime()) / DAY_MS) - days
  return warn(
    check,
    `an order is to be archived for ${late} days`,
    '`operator archive status` shows how many; start a worker, or see the log of one for orders.archive'
  )
}

// Daily partitions of logs: made some days ahead, dropped when their day is not kept any more.
import { type Db, isLockTimeout, rows } from './connection.ts'

/** The tables with a partition for each day; check_day_partitions (schema.sql) has the same list. */
type DayTable = 'events' | 'webhook_attempts' | 'request_groups' | 'requests'

/** Days for which partitions are made ahead of time. */
const DAYS_AHEAD = 3
const TODAY = `(clock_timestamp() at time zone 'UTC')::date`
// A partition is dropped under a lock that waits for readers and holds up those behind it.
const DROP_WAIT_MS = 1000

// SQLSTATE check_violation: PostgreSQL reports so that a row has no partition.
const NO_PARTITION = '23514'

/** Whether a statement failed because the table lacks the partition of a row. */
export const lacksPartition = (error: unknown): boolean => (error as { code?: unknown })?.code === NO_PARTITION

interface DayOptions {
  /** An advisory lock to take first: that of the table's writer. */
  lock?: number
  /** The first day, as SQL; today unless given. */
  first?: string
}

/** Makes the partitions of the coming days; safe to repeat and by several at once. Returns how many were made. */
export async function makeDays(db: Db, table: DayTable, { lock, first = TODAY }: DayOptions = {}): Promise<number> {
  return db.transaction(async trx => {
    if (lock !== undefined) await trx.raw('select pg_advisory_xact_lock(?)', [lock])
    const [made] = await rows<{ made: number }>(
      trx,
      `select make_day_partitions(:table, d.first, d.first + ${DAYS_AHEAD}) as made from (select ${first} as first) d`,
      { table }
    )
    return made?.made ?? 0
  })
}

/** Drops the days that are older than `keepDays`; returns how many. One that is being read stays until the next time. */
export async function dropDays(
  db: Db,
  table: DayTable,
  { keepDays, lock }: { keepDays: number; lock?: number }
): Promise<number> {
  for (let dropped = 0; ; dropped++) {
    const day = await db
      .transaction(async trx => {
        await trx.raw(`set local lock_timeout = ${DROP_WAIT_MS}`)
        if (lock !== undefined) await trx.raw('select pg_advisory_xact_lock(?)', [lock])
        const [found] = await rows<{ day: string | null }>(
          trx,
          `select drop_day_partition(:table, ${TODAY} - :keepDays::int)::text as day`,
          { table, keepDays }
        )
        return found?.day ?? null
      })
      .catch((error: unknown) => {
        // What else housekeeping does must not wait for who reads for hours.
        if (isLockTimeout(error)) return null
        throw error
      })
    if (day === null) return dropped
  }
}

// Statements that wait for a lock: a test that holds one goes on when others wait for it.
import type { Db } from '../../db/postgres/connection.ts'
import { until } from './until.ts'

/** How many statements in this database wait for a lock; with `text` only those that contain it. */
export async function countLockWaits(db: Db, text = ''): Promise<number> {
  const { rows } = await db.raw(
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and position(? in query) > 0`,
    [text]
  )
  return rows.length
}

/** Waits until `count` such statements wait for a lock, or `work` has ended without. */
export async function untilLockWaits(
  db: Db,
  {
    count = 1,
    text,
    work,
    timeoutMs
  }: { count?: number; text?: string; work?: Promise<unknown>; timeoutMs?: number } = {}
): Promise<void> {
  let ended = false
  const end = () => {
    ended = true
  }
  work?.then(end, end)
  const what = `${count} statements ${text ? `with "${text}" ` : ''}to wait for a lock`
  await until(what, async () => ended || (await countLockWaits(db, text)) >= count, timeoutMs)
}

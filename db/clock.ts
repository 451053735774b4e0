// The database's clock: the one time that all processes share.
import { type Db, rows } from './connection.ts'

/** The database's time, ms since the epoch. */
export async function readClock(db: Db): Promise<number> {
  const [row] = await rows<{ now: number }>(db, 'select (extract(epoch from clock_timestamp()) * 1000)::float8 as now')
  return (row as { now: number }).now
}

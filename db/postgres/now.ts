// The present, by the one clock that all processes share.
import { type Db, rows } from './connection.ts'

/** The database's clock, which all processes share. */
export async function databaseNow(db: Db): Promise<Date> {
  const [row] = await rows<{ now: Date }>(db, 'select clock_timestamp()::timestamptz(3) as now')
  return (row as { now: Date }).now
}

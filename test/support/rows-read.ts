// What statements read, counted in rows as PostgreSQL counts them for a transaction.
import { type Db, rows } from '../../db/postgres/connection.ts'

/** How many rows of a table `run` reads, those of its partitions among them: their names begin with its name. */
export async function rowsRead(db: Db, table: string, run: (trx: Db) => Promise<unknown>): Promise<number> {
  return db.transaction(async trx => {
    const read = async () => {
      const [found] = await rows<{ read: number }>(
        trx,
        `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint as read from pg_stat_xact_user_tables
          where relname = :table or relname ~ ('^' || :table || '_[0-9]+$')`,
        { table }
      )
      return (found as { read: number }).read
    }
    // Earlier transactions of the connection are among it for a while.
    const before = await read()
    await run(trx)
    return (await read()) - before
  })
}

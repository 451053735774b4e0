// Indexes of migrations, for tables that are too large to be locked while the index is built.
import type { Knex } from 'knex'

// The build ends once the transactions that began before it have ended: that of a dump may take long, and holds nobody up.
const WAIT = '1h'

/**
 * Builds an index while others write, in a migration that has `transaction: false`; one that a run left half-built is built again. In the
 * one transaction of a new database it is built at once.
 */
export async function buildIndex(db: Knex, name: string, on: string): Promise<void> {
  if (db.isTransaction) return void (await db.raw(`create index ${name} on ${on}`))
  const connection = await db.client.acquireConnection()
  try {
    await db.raw(`set lock_timeout = '${WAIT}'`).connection(connection)
    await db.raw(`drop index concurrently if exists ${name}`).connection(connection)
    await db.raw(`create index concurrently ${name} on ${on}`).connection(connection)
  } finally {
    // It fails on a broken connection, which is not used again.
    await db
      .raw('reset lock_timeout')
      .connection(connection)
      .catch(() => {})
    await db.client.releaseConnection(connection)
  }
}

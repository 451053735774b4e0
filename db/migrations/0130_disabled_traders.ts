// Traders that were disabled or erased lately, for the sockets that tickets opened: each api process looked up the traders of all its
// sockets every 400 ms, 196 ms for 20,000 of them. Writers of traders wait while the index is built, which reads them once.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw('create index traders_disabled on traders (disabled_at) where disabled_at is not null')
}

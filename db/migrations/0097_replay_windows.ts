// A replay of a window of time sends the events of that window alone. Events are in the log in the order of their commits, which is not
// that of their instants: the positions from the first to the last of a window may have others between them, which were sent and not
// counted. Processes of the previous version neither write nor read the columns.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw('alter table webhook_replays add column since timestamptz, add column until timestamptz')
}

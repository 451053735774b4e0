// The last report of each process, written with its heartbeat: of workers what they reach of the broker, of apis how
// long their requests took. Null of a process that reports nothing, as older versions do.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`alter table processes add column report jsonb`)
}

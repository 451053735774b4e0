// What each process last said of itself, written with its heartbeat: of workers what they reach of the broker, of apis how
// long their requests took. Null of a process that says nothing, as older versions do.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`alter table processes add column report jsonb`)
}

// When a change of the database's history was noted: what was bought long after that is no purchase that was lost. Changes that were noted
// before count as noted now.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`alter table database_lineage add column noted_at timestamptz not null default clock_timestamp()`)
}

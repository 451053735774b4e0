// When a follow was stopped: what its leader sold before then closes its copies, also where it is known only afterwards.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw('alter table follows add column stopped_at timestamptz')
}

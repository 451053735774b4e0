// When the sums of analytics began to exist is a fact beside the instant that they reach, so that nobody has to read it off the
// name of a migration. A process of the previous version neither reads nor writes it.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  // Once, from what it was derived from until now; a new database has no such row before all its migrations are done.
  await db.raw(`
    alter table analytics_until add column since timestamptz not null default now();
    update analytics_until
       set since = coalesce((select min(migration_time) from migrations where name = '0055_analytics'), now());
  `)
}

// The trace of the partner's request, so that a worker's log lines can be found from the partner's.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table orders add column trace text check (length(trace) = 32);
    alter table asks add column trace text check (length(trace) = 32);
  `)
}

// A live sender records when nothing of its purchase is under way any more; a dead one cannot.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- The attempt whose sender got no response and reset its connection: what it wrote has arrived or never will.
    alter table orders add column severed_attempt int;
  `)
}

// A sender that lives tells when nothing of its purchase is under way any more; of one that died nobody knows.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- The attempt whose sender, left without an answer, broke its connection off: what it wrote has arrived or never will.
    alter table orders add column severed_attempt int;
  `)
}

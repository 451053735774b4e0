// What the partner's application earns by a contract, as in the broker's contract state. Null is unknown: orders that were
// closed before this have none, and nothing is made up for them.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table orders add column markup numeric check (markup >= 0);
  `)
}

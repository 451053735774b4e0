// The broker reports a purchase's time in whole seconds of its own clock: too coarse to measure latency.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- When the purchase was known here, by the database's clock.
    alter table orders add column answered_at timestamptz;
  `)
}

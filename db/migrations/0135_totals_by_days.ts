// Drops the totals of traders by days, which 0110 replaced by steps and emptied. The previous release does not use them. A process from
// before 0110 does: it refuses pages of traders until it is restarted.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    drop table analytics_total_groups, analytics_total_chunks, analytics_totals, analytics_late_totals;
    drop function no_total_group();
    drop function number_chunk();
  `)
}

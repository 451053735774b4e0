// The totals of traders by days, which 0110 emptied: steps took their place, and the version before does not read or write them. One from
// before 0110 does: until it is restarted its pages of traders are refused.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    drop table analytics_total_groups, analytics_total_chunks, analytics_totals, analytics_late_totals;
    drop function no_total_group();
    drop function number_chunk();
  `)
}

// Since when a follow copies: an order that its leader placed before then, or while it was stopped or paused, is not copied although its
// copies are stored later. Null: always, as of a follow that began before this column.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw('alter table follows add column active_since timestamptz')
}

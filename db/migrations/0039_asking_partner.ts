// Whose broker request it is: workers share their places among partners. Null of the operator's, and of those that an api of
// the previous version stores.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw('alter table asks add column partner_id text')
}

// An order whose claim was released unsent must not be claimed again at once: while the broker refuses connections that
// would be a loop of claims without a pause. The row holds the time of the next claim.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw('alter table orders add column not_before timestamptz')
}

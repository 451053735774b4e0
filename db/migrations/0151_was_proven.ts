// Whether the broker has ever accepted a token of an account, which a refusal cleared until now: the tokens of such an account
// are the partner's own affair, also when many of them lapse at once. Rows whose token is accepted now show it by that.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw('alter table broker_accounts add column was_proven boolean not null default false')
}

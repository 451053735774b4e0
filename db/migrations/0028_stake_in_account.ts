// The stake is in USD. On an account in another currency it is converted right before the purchase: the amount in the
// account's currency (with all of its decimals) and the rate are committed before the purchase is sent, since whoever
// resolves a lost response compares contracts with that amount. Null: an account in USD, or not yet converted.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table orders
      add column if not exists stake_in_account numeric check (stake_in_account > 0),
      add column if not exists exchange_rate numeric check (exchange_rate > 0)`)
}

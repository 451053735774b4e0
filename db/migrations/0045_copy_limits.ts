// Limits that a leader changes at the broker are set on its open copies: each copy keeps what is still to be set, so that it
// outlives every process. Processes of the previous version neither read nor write the columns.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table orders
      -- how often the leader's limits were changed; of a copy, the change that its limits follow
      add column limits_version int not null default 0,
      -- of a copy: what is to be set at the broker, when that is tried next, and how often it was
      add column new_stop_loss numeric,
      add column new_take_profit numeric,
      add column limits_at timestamptz,
      add column limits_tries int not null default 0;
    create index orders_limits_to_set on orders (limits_at) where phase = 'open' and limits_at is not null;
  `)
}

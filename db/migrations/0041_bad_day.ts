// What an operator needs on a bad day: placing can be halted, a partner can have limits of its own, and every process is
// in a list. Processes of the previous version ignore halts: upgrade the workers before relying on one.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- One row for each halt in force. An order is refused while any row applies to it.
    create table trading_halts (
      scope      text collate "C" not null check (scope in ('all', 'partner', 'application', 'asset')),
      -- The partner, the application id at the broker, or the asset; empty for all.
      subject    text collate "C" not null check ((scope = 'all') = (subject = '')),
      reason     text not null check (length(reason) between 3 and 500),
      actor      text not null,
      halted_at  timestamptz not null default clock_timestamp(),
      primary key (scope, subject)
    );

    -- Null: the limit of the plan, or of the configuration.
    alter table partners
      add column key_limit int check (key_limit >= 1),
      add column trader_limit int check (trader_limit >= 1);

    -- A row for each running api and worker; one that died leaves its row until housekeeping deletes it.
    create table processes (
      name        text collate "C" primary key,
      kind        text not null check (kind in ('api', 'worker')),
      version     text not null,
      -- Where an api listens.
      address     text,
      started_at  timestamptz not null default clock_timestamp(),
      seen_at     timestamptz not null default clock_timestamp()
    );

    -- A partner finds an order by its contract.
    create index orders_partner_contract on orders (partner_id, broker_order_id) where broker_order_id is not null;
  `)
}

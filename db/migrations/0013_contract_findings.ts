// What the comparison with the broker's books found: contracts of ours that no order claims, and orders
// whose figures differ from the broker's. One row per contract and kind; the operator resolves it.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table contract_findings (
      id               bigint generated always as identity primary key,
      kind             text not null check (kind in ('ORPHAN', 'MISMATCH')),
      account_id       text not null,
      broker_order_id  text not null,
      partner_id       text not null references partners,
      order_id         text references orders,
      details          jsonb not null,
      found_at         timestamptz not null default now(),
      resolved_at      timestamptz,
      resolution       text,
      unique (account_id, broker_order_id, kind)
    );
    create index contract_findings_open on contract_findings (found_at desc) where resolved_at is null;

    -- How far back the account's books have been compared.
    alter table broker_accounts add column audited_at timestamptz;
    create index orders_recent_account on orders (broker_account_id, queued_at desc);
  `)
}

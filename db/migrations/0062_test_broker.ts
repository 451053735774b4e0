// The broker of test keys where none is configured: one worker runs it, and its books are here, so that the next one goes on with
// them when that worker ends.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- What the test broker entered, in order: accounts, money that came, purchases, changes of limits, sales. Written only by the
    -- session that holds the lock of the worker that runs it.
    create table test_broker_entries (
      seq       bigint generated always as identity primary key,
      at        timestamptz not null default now(),
      kind      text not null check (kind in ('account', 'deposit', 'bought', 'limits', 'sold')),
      -- of an account, a deposit and a purchase
      account   text collate "C",
      -- of everything that concerns a contract
      contract  bigint,
      -- what the entry moves, in hundredths of the account's currency
      cents     bigint not null,
      entry     jsonb not null
    );
    create index test_broker_entries_contract on test_broker_entries (contract) where contract is not null;
    create index test_broker_entries_sold on test_broker_entries (seq) where kind = 'sold';
    create index test_broker_entries_account on test_broker_entries (account) where kind = 'account';

    -- Where the test broker is reached, written by the worker that runs it.
    create table test_broker (
      single   boolean primary key default true check (single),
      worker   text not null,
      machine  text not null,
      url      text not null,
      since    timestamptz not null default now()
    );
  `)
}

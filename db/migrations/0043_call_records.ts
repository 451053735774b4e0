// What workers spent of the broker's call quotas, so that a worker that takes over knows of it when the one before was killed.
// A worker counts the calls of a scope (an account under an application, a user, a machine's address) in memory. It notes
// here that it does so, which reserves a part of each quota, and what it spends beyond that part before it spends it.
// `takes_accounts`: whether a worker can be given accounts by others: not one of the previous version, nor one that is ending.
// `held_back` is why the last order of an account was given back unsent; it is shown where orders behind it expire.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table call_counters (
      scope   text collate "C" not null,
      worker  text collate "C" not null,
      since   timestamptz not null default clock_timestamp(),
      primary key (scope, worker)
    );
    create table call_records (
      scope        text collate "C" not null,
      worker       text collate "C" not null,
      class        text not null,
      window_ms    int not null,
      calls        int not null check (calls > 0),
      spent_until  timestamptz not null
    );
    create index call_records_scope on call_records (scope, spent_until);
    create index call_records_age on call_records using brin (spent_until);
    alter table call_records set (autovacuum_vacuum_scale_factor = 0.05);
    alter table followers add column takes_accounts boolean not null default false;
    alter table account_leases add column held_back text, add column held_back_at timestamptz;
    create index broker_accounts_account on broker_accounts (account_id);
  `)
}

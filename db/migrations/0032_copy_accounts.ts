// A follow belongs to the account it began with, and its limit bounds what may be lost: both were read from whatever
// account was active when a copy was placed. A leader's close closes the copies, which needs a durable wish per copy.
// Processes of the previous version go on working: what they store lacks the new columns, and is read as the active account.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table follows
      add column broker_account_id text collate "C" references broker_accounts,
      add column account_id text,
      add column account_mode text check (account_mode in ('REAL', 'DEMO')),
      add column currency text,
      add column mirror_closes boolean not null default true,
      -- the leader's orders that were not copied, and why the last one was not
      add column skipped_copies int not null default 0,
      add column skipped_order text,
      add column skipped_reason text,
      add column skipped_at timestamptz,
      drop constraint follows_status_check,
      add constraint follows_status_check check (status in ('ACTIVE', 'PAUSED_DRAWDOWN', 'PAUSED_MISMATCH', 'STOPPED'));

    -- The account that the first copy since the last beginning went to; without a copy, the active one.
    update follows f
       set broker_account_id = a.id, account_id = a.account_id, account_mode = a.account_mode, currency = a.currency
      from broker_accounts a
     where a.id = coalesce(
             (select o.broker_account_id from orders o where o.follow_id = f.id and o.queued_at >= f.since order by o.queued_at limit 1),
             (select t.active_account_id from traders t where t.id = f.trader_id));
    -- An unknown currency differs from nothing here; the next copy decides.
    update follows f
       set status = 'PAUSED_MISMATCH'
      from traders l join broker_accounts a on a.id = l.active_account_id
     where l.id = f.leader_id and f.status = 'ACTIVE' and (a.account_mode <> f.account_mode or a.currency <> f.currency);

    drop index follows_leader;
    create index follows_leader on follows (leader_id, id) where status in ('ACTIVE', 'PAUSED_MISMATCH');

    alter table orders
      -- of a copy: its stake was raised to the broker's least
      add column raised_to_minimum boolean,
      -- the contract ended before its own expiry: it was sold, or it has no expiry
      add column closed_early boolean not null default false,
      -- the contract is to be sold then, and how often that was tried
      add column close_at timestamptz,
      add column close_tries int not null default 0;
    create index orders_unfinished_copies on orders (follow_id)
      where follow_id is not null and phase in ('queued', 'sending', 'open', 'review');
    create index orders_to_close on orders (close_at) where phase = 'open' and close_at is not null;
  `)
}

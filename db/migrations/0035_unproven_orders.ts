// An order on an account whose token the broker has not accepted yet: in a phase of its own, so that it is in no account's
// queue and cannot be the one order that an account may have at the broker. Otherwise naming somebody's account with a made-up
// token would hold that account back. Processes of the previous version never look for this phase.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table orders
      drop constraint orders_phase_check,
      add constraint orders_phase_check
        check (phase in ('unproven', 'queued', 'sending', 'open', 'closed', 'failed', 'review')) not valid;
    create index orders_unproven on orders (partner_id, broker_account_id) where phase = 'unproven';
    drop index orders_unfinished_copies;
    create index orders_unfinished_copies on orders (follow_id)
      where follow_id is not null and phase in ('unproven', 'queued', 'sending', 'open', 'review');

    alter table broker_accounts
      -- Nobody else opens the account for its unproven orders before.
      add column prove_at timestamptz,
      -- Refusals since a token was accepted last, and when the latest one was.
      add column refusals int not null default 0,
      add column refused_at timestamptz;
    create index broker_accounts_refused on broker_accounts (partner_id, refused_at) where refused_at is not null;
  `)
  await db.raw('alter table orders validate constraint orders_phase_check')
}

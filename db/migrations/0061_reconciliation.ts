// Reconciliation of markups with the broker's own report: a partner's token that reads it, and by day of UTC what was compared.
// The broker reports of its own clock's days; the orders stay as they are.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- A token of the application's owner at the broker, sealed like those of traders.
    create table report_tokens (
      partner_id       text collate "C" primary key references partners,
      -- the application that it was stored for
      dialect          text not null,
      app_id           text not null,
      token_key_id     text not null,
      token_sealed     bytea not null,
      version          int not null default 1,
      status           text not null default 'CONNECTED' check (status in ('CONNECTED', 'REJECTED')),
      rejected_reason  text check (rejected_reason in ('TOKEN_REFUSED', 'SCOPE_MISSING')),
      stored_at        timestamptz not null default now()
    );

    -- A day that was compared.
    create table reconciled_days (
      partner_id   text collate "C" not null references partners,
      dialect      text not null,
      app_id       text not null,
      day          date not null,
      compared_at  timestamptz not null default now(),
      -- whether the report was final, and all of our orders of the day known
      complete     boolean not null,
      -- when it is compared again; null: not any more
      again_at     timestamptz,
      primary key (partner_id, dialect, app_id, day)
    );

    -- Both sides of a day, by currency of the accounts.
    create table reconciled_currencies (
      partner_id       text collate "C" not null,
      dialect          text not null,
      app_id           text not null,
      day              date not null,
      currency         text not null,
      our_contracts    int not null,
      our_markup       numeric not null,
      -- ours whose markup is not known
      our_unknown      int not null,
      -- null: the broker's report has no sum in this currency
      their_contracts  int,
      their_markup     numeric,
      -- the broker's ids of purchases that no order of ours has, and orders that the report does not have; the first hundred
      missing_here     text[] not null,
      missing_there    text[] not null,
      primary key (partner_id, dialect, app_id, day, currency),
      foreign key (partner_id, dialect, app_id, day) references reconciled_days on delete cascade
    );
  `)
}

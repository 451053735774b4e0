// Traders and their broker accounts. A token is sealed for its row: moved to another row it cannot be opened.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table traders (
      id                 text collate "C" primary key,
      partner_id         text not null references partners,
      external_id        text not null check (length(external_id) between 1 and 128),
      email              text check (length(email) <= 254),
      name               text check (length(name) <= 128),
      active_account_id  text,
      -- null for a trader who signed up and was never exchanged
      connected_at       timestamptz,
      created_at         timestamptz not null default now(),
      unique (partner_id, external_id)
    );

    create table broker_accounts (
      id            text collate "C" primary key,
      partner_id    text not null references partners,
      trader_id     text not null references traders,
      account_id    text not null check (length(account_id) between 1 and 64),
      account_mode  text not null check (account_mode in ('REAL', 'DEMO')),
      currency      text check (length(currency) <= 20),
      token_key_id  text not null,
      token_sealed  bytea not null,
      status        text not null default 'CONNECTED' check (status in ('CONNECTED', 'REJECTED')),
      -- counts exchanges: a refusal of an older token does not reject a newer one
      token_version int not null default 1,
      connected_at  timestamptz not null default now(),
      unique (trader_id, account_id)
    );
    create index broker_accounts_key on broker_accounts (token_key_id, id);

    alter table traders add constraint traders_active_account
      foreign key (active_account_id) references broker_accounts deferrable initially deferred;
    alter table traders add constraint traders_connected_has_account
      check (connected_at is null or active_account_id is not null);
  `)
}

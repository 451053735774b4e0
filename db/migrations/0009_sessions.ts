// Sessions of partners and of traders, and the passwords of traders who signed up.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- A partner's session has no trader. Of the token only a peppered hash is kept.
    create table sessions (
      id          text collate "C" primary key,
      partner_id  text collate "C" not null references partners,
      trader_id   text collate "C" references traders,
      hash        bytea not null unique check (length(hash) = 32),
      created_at  timestamptz not null default now(),
      expires_at  timestamptz not null,
      revoked_at  timestamptz
    );
    create index sessions_expiry on sessions (expires_at);
    create index sessions_partner on sessions (partner_id, created_at) where trader_id is null;

    -- argon2id, only for traders who signed up: theirs is the e-mail that must be unique, without case.
    -- E-mails of exchanged traders are the partner's own note and may repeat.
    alter table traders add column password_hash text check (length(password_hash) between 50 and 200);
    alter table traders add constraint traders_login_has_email check (password_hash is null or email is not null);
    create unique index traders_login on traders (partner_id, lower(email collate "C")) where password_hash is not null;
  `)
}

// A trader's credentials get a life: a partner can disable them, and a password can be reset by a token that the partner
// delivers. Sessions of traders are ended together, and listed for the operator.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- While it is set the trader cannot log in; orders under the partner's key are not concerned.
    alter table traders add column disabled_at timestamptz;

    -- One reset of a trader is open at most; of the token only a peppered hash is kept.
    create table password_resets (
      trader_id  text collate "C" primary key references traders (id),
      hash       bytea not null unique check (octet_length(hash) = 32),
      expires_at timestamptz not null
    );
    create index password_resets_expires_at on password_resets (expires_at);

    create index sessions_trader on sessions (trader_id) where trader_id is not null;
  `)
}

// Tokens of the broker's newer API expire. What renews one is sealed like the token itself and belongs to one version of it:
// a process of the previous version, which replaces a token and writes none of these columns, leaves them without effect.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table broker_accounts
      -- The token_version that the columns below belong to.
      add column renewal_version int,
      add column refresh_key_id text,
      add column refresh_sealed bytea,
      -- Accounts of one trader under the same refresh token are renewed together: it may be good once.
      add column refresh_digest text,
      add column token_expires_at timestamptz,
      -- When a worker checks it next: to renew the token, to try again, or to reject the account at its end.
      add column renew_at timestamptz,
      -- A worker is renewing it until then.
      add column renewing_until timestamptz,
      add constraint refresh_sealed_with_key check ((refresh_key_id is null) = (refresh_sealed is null));
    create index broker_accounts_renewal on broker_accounts (renew_at) where renew_at is not null;
  `)
}

// Responses stored for a repeat of the same request: who sends an Idempotency-Key with a POST, PATCH or DELETE gets the first
// response again for 24 hours. A response may hold what is shown once (an API key, a session), so it is stored sealed.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table idempotency_keys (
      partner_id text collate "C" not null references partners (id),
      key text collate "C" not null check (char_length(key) between 8 and 64),
      -- HMAC of operation, acting party, path, query and body: the same key with anything else is refused.
      fingerprint bytea not null check (octet_length(fingerprint) = 32),
      -- The request that runs now, and until when it may; after that a repeat takes its place.
      holder uuid not null,
      leased_until timestamptz not null,
      created_at timestamptz not null default now(),
      answered_at timestamptz,
      -- Body and header fields of the response, sealed with AES-256-GCM under this key and bound to partner and key.
      token_key_id text check (char_length(token_key_id) <= 32),
      answer bytea check (octet_length(answer) <= 1100000),
      primary key (partner_id, key),
      check ((answered_at is null) = (answer is null) and (answer is null) = (token_key_id is null))
    );
    create index idempotency_keys_created_at on idempotency_keys (created_at);
    create index idempotency_keys_token_key_id on idempotency_keys (token_key_id) where token_key_id is not null;
  `)
}

// Partners, their keys, secrets of the installation, and the audit log of what operators did.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table partners (
      id                text collate "C" primary key,
      name              text not null check (length(name) between 1 and 120),
      plan              text not null check (plan in ('LAUNCH', 'PRO', 'SCALE')),
      -- Whether the fee is paid, and whether the operator stopped the partner, are two things.
      plan_active       boolean not null default true,
      suspended_at      timestamptz,
      suspended_reason  text,
      broker_app_id     text not null check (length(broker_app_id) between 1 and 64),
      broker_dialect    text not null check (broker_dialect in ('v3', 'next')),
      created_at        timestamptz not null default now()
    );

    -- One row per key. The 16 hex characters find it; of the rest only a peppered hash is kept.
    create table api_keys (
      id            text collate "C" primary key,
      partner_id    text not null references partners,
      lookup        text not null unique check (lookup ~ '^[0-9a-f]{16}$'),
      hash          bytea not null check (length(hash) = 32),
      label         text check (length(label) <= 80),
      scopes        text[] not null,
      created_at    timestamptz not null default now(),
      last_used_at  timestamptz,
      revoked_at    timestamptz
    );
    create index api_keys_partner on api_keys (partner_id, created_at);

    -- Secrets of the installation (the pepper), sealed with the token keys.
    create table secrets (
      name    text primary key,
      key_id  text not null,
      sealed  bytea not null
    );

    -- What operators did: who, when, to what. Never changed.
    create table audit_log (
      id       text collate "C" primary key,
      at       timestamptz not null default now(),
      actor    text not null,
      action   text not null,
      target   text,
      details  jsonb not null default '{}'
    );
    create index audit_log_at on audit_log (at desc);
  `)
}

// Broker requests, which only a worker can serve (live balance, a sale, a specification …), and their short-lived
// responses. Unlogged: nothing here outlives its request, and a crash of the database loses only waits.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create unlogged table asks (
      id          text collate "C" primary key,
      kind        text not null,
      -- equal reads of one moment share one row
      key         text not null,
      data        jsonb not null,
      state       text not null default 'waiting' check (state in ('waiting', 'answered', 'refused')),
      answer      jsonb,
      error       jsonb,
      origin      text not null,
      created_at  timestamptz not null default now(),
      expires_at  timestamptz not null,
      answered_at timestamptz
    );
    create unique index asks_waiting on asks (kind, key) where state = 'waiting';
    create index asks_expiry on asks (expires_at);
  `)
}

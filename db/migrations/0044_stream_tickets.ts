// Tickets with which a browser opens one socket of the stream, as hashes; used once, gone within a minute.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table stream_tickets (
      hash                bytea primary key,
      partner_id          text collate "C" not null references partners,
      key_id              text collate "C" not null references api_keys,
      trader_external_id  text not null,
      channels            text[] not null,
      expires_at          timestamptz not null
    );
    create index stream_tickets_expiry on stream_tickets (expires_at);
  `)
}

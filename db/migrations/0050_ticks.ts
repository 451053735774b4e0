// Live prices for the stream: which assets the api processes want, which worker forwards the ticks of a dialect, and what a
// ticket may subscribe to. Processes of the previous version want none, and forward none.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- A row per api process and dialect; without its process it ends by itself.
    create table tick_wants (
      process       text collate "C" not null,
      dialect       text not null,
      -- Applications of the partners that want them: market data is read under one of these.
      app_ids       text[] not null,
      assets        text[] not null,
      wanted_since  timestamptz not null default clock_timestamp(),
      wanted_until  timestamptz not null,
      primary key (process, dialect)
    );
    create table tick_leases (
      dialect      text primary key,
      worker       text collate "C" not null,
      -- Counts the workers that had the lease: what an earlier one still sends is ignored.
      term         int not null,
      lease_until  timestamptz not null
    );
    -- Both are written every few seconds and hold a few rows.
    alter table tick_wants set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
    alter table tick_leases set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
    -- The assets whose ticks the ticket may subscribe to; null for any.
    alter table stream_tickets add column assets text[];
  `)
}

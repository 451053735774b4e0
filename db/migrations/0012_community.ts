// The community of one partner: profiles, messages, shared bots. A party is a trader, or the partner itself.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table community_profiles (
      -- the trader's id or the partner's
      party_id      text collate "C" primary key,
      partner_id    text collate "C" not null references partners,
      display_name  text check (length(display_name) <= 60),
      bio           text check (length(bio) <= 500),
      avatar_url    text check (length(avatar_url) <= 1024),
      is_public     boolean not null default false,
      updated_at    timestamptz not null default now()
    );
    create index community_profiles_public on community_profiles (partner_id) where is_public;

    create table community_messages (
      id          text collate "C" primary key,
      partner_id  text collate "C" not null references partners,
      party_id    text collate "C" not null,
      content     text not null check (length(content) between 1 and 1000),
      created_at  timestamptz not null default clock_timestamp()
    );
    create index community_messages_newest on community_messages (partner_id, created_at desc, id desc);

    create table community_bots (
      id           text collate "C" primary key,
      partner_id   text collate "C" not null references partners,
      party_id     text collate "C" not null,
      name         text not null check (length(name) between 3 and 80),
      description  text check (length(description) <= 1000),
      symbol       text check (length(symbol) <= 32),
      config       jsonb not null default '{}',
      -- kept with community_likes by whoever holds this row
      likes        int not null default 0 check (likes >= 0),
      created_at   timestamptz not null default clock_timestamp()
    );
    create index community_bots_newest on community_bots (partner_id, created_at desc, id desc);

    create table community_likes (
      bot_id      text collate "C" not null references community_bots on delete cascade,
      party_id    text collate "C" not null,
      created_at  timestamptz not null default now(),
      primary key (bot_id, party_id)
    );

    -- What leaderboards add up: the closed orders of a trader in a span of time, without reading the table.
    create index orders_closed_trader on orders (trader_id, closed_at) include (pnl) where phase = 'closed';
  `)
}

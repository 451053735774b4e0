// Copy trading: who follows whom. An order remembers whether its trader had followers when it was placed, so
// that buying it stores the fan-out in the same transaction.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table follows (
      id                  text collate "C" primary key,
      partner_id          text not null references partners,
      trader_id           text not null references traders,
      trader_external_id  text not null,
      leader_id           text not null references traders,
      risk_pct            numeric not null check (risk_pct between 1 and 200),
      max_drawdown_pct    numeric not null check (max_drawdown_pct between 5 and 90),
      status              text not null check (status in ('ACTIVE', 'PAUSED_DRAWDOWN', 'STOPPED')),
      -- the follower's balance when it began (again) to follow, and since when losses count
      base_balance        numeric not null check (base_balance >= 0),
      since               timestamptz not null default now(),
      created_at          timestamptz not null default now(),
      unique (trader_id, leader_id),
      check (trader_id <> leader_id)
    );
    create index follows_leader on follows (leader_id, id) where status = 'ACTIVE';

    alter table orders add constraint orders_follow foreign key (follow_id) references follows;
    alter table orders add column leads boolean not null default false;
    create index orders_follow_copies on orders (follow_id, queued_at) where follow_id is not null;
    create index orders_leader_record on orders (trader_id, closed_at) where phase = 'closed' and copied_from is null;
  `)
}

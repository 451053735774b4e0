// Which traders have archived orders, and the newest of each: a list that comes to the end of the live orders need not plan and
// open every month of the archive to find nothing. The archive itself notes it, whichever version of a worker moves orders.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table archived_traders (
      trader_id  text collate "C" primary key,
      partner_id text collate "C" not null,
      -- The newest created_at of its orders that were archived, also of those that were dropped.
      newest     timestamptz not null
    );
    create index archived_traders_partner on archived_traders (partner_id, newest);

    create function note_archived_traders() returns trigger language plpgsql as $$
    begin
      insert into archived_traders as a (trader_id, partner_id, newest)
      select trader_id, partner_id, max(created_at) from fresh group by 1, 2 order by 1
      on conflict (trader_id) do update set newest = excluded.newest where a.newest < excluded.newest;
      return null;
    end $$;
    create trigger note_archived_traders after insert on orders_archive referencing new table as fresh
      for each statement execute function note_archived_traders();

    -- The trigger is there first, and what moves meanwhile waits for it.
    insert into archived_traders (trader_id, partner_id, newest)
    select trader_id, partner_id, max(created_at) from orders_archive group by 1, 2;
  `)
}

// What a follow's copies made, kept with the follow in the transaction that closes them: whether it is to pause is
// checked at every settlement and for every follower before each fan-out, and must not add up its history each time.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- Of all closed copies, and of those placed since it began (again) to follow.
    alter table follows add column pnl numeric not null default 0, add column since_pnl numeric not null default 0;
    update follows f
       set pnl = s.pnl, since_pnl = s.since_pnl
      from (select o.follow_id, sum(o.pnl) as pnl, coalesce(sum(o.pnl) filter (where o.queued_at >= g.since), 0) as since_pnl
              from orders o join follows g on g.id = o.follow_id where o.phase = 'closed' group by o.follow_id) s
     where f.id = s.follow_id;
  `)
}

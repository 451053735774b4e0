// What traders made, day by day, so that leaderboards and leaders' records need not add up a million orders.
// The orders stay the truth: a row here is computed from them and can be computed again at any time.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- Closed orders of a trader on one day (UTC), those of them that are not copies, and how these ran: the highest
    -- and lowest sum within the day, counted from its start, and the deepest fall from a high.
    create table trader_days (
      partner_id  text collate "C" not null references partners,
      trader_id   text collate "C" not null references traders,
      day         date not null,
      trades      int not null,
      wins        int not null,
      pnl         numeric not null,
      own_trades  int not null,
      own_wins    int not null,
      own_pnl     numeric not null,
      own_stake   numeric not null,
      own_peak    numeric not null,
      own_low     numeric not null,
      own_fall    numeric not null,
      primary key (partner_id, trader_id, day)
    );

    -- Orders closed before that instant are in trader_days, save those marked as late.
    create table trader_days_until (
      single  boolean primary key default true check (single),
      until   timestamptz not null
    );
    insert into trader_days_until (until) values (now() - interval '31 days');

    -- Days in which an order was closed, or its result changed, that may have been added up before. The mark is part
    -- of the transaction that closes, so whoever sees the order sees the mark. Rows are added and deleted, never
    -- shared: a mark that is there already may be on its way out.
    create table trader_days_late (
      partner_id  text collate "C" not null,
      trader_id   text collate "C" not null,
      day         date not null
    );
    create function mark_late_order() returns trigger language plpgsql as $$
    begin
      insert into trader_days_late values (new.partner_id, new.trader_id, (new.closed_at at time zone 'UTC')::date);
      return null;
    end $$;
    -- What closed within five minutes is not added up yet: most settlements pass this with one comparison.
    create trigger orders_late after insert or update of phase, closed_at, pnl, stake on orders for each row
      when (new.phase = 'closed' and new.closed_at < now() - interval '5 minutes' and new.closed_at > now() - interval '31 days')
      execute function mark_late_order();

    -- One index for every sum over closed orders; it holds all that is added up.
    drop index orders_closed_at;
    drop index orders_closed_trader;
    drop index orders_leader_record;
    create index orders_closed on orders (partner_id, closed_at) include (trader_id, pnl, stake, copied_from)
      where phase = 'closed';
  `)
}

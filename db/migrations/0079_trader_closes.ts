// Closed contracts by quarters of an hour in lists, so that the part of a day at either end of a window of traders is read from some
// hundred rows instead of from its orders; and the numbers of traders beside their ids in the chunks of running totals, since numbers
// are compared and joined much faster. A process of the previous version neither reads nor writes the lists; the triggers mark its late
// changes, and another gives its chunks their numbers.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- A sum whose state is the sum: where a hundred thousand groups have a row or two each, sum() takes several times as long.
    create aggregate sum_few(numeric) (sfunc = numeric_add, stype = numeric, parallel = safe);

    create unique index traders_number on traders (number);

    -- Contracts closed in a quarter of an hour. Each list has an entry for each of them, in the order of numbers and of their closes.
    create table analytics_closes (
      partner_id      text collate "C" not null,
      account_mode    text collate "C" not null,
      -- empty where the orders have none
      currency        text collate "C" not null,
      -- Its start.
      quarter         timestamptz not null,
      -- Of traders.
      numbers         int[] not null,
      closed_at       timestamptz[] not null,
      stake           numeric[] not null,
      pnl             numeric[] not null,
      -- null where it is not known
      markup          numeric[] not null,
      markup_unknown  int not null,
      primary key (partner_id, account_mode, currency, quarter)
    );
    -- Unpacking takes longer than reading.
    alter table analytics_closes
      alter column numbers set storage external, alter column closed_at set storage external, alter column stake set storage external,
      alter column pnl set storage external, alter column markup set storage external;

    -- Contracts closed before that instant, always the start of a quarter, are in analytics_closes, save those marked as late. A mark
    -- of its own beside that of analytics_until, so that both are added up at once.
    create table analytics_closes_until (
      single  boolean primary key default true check (single),
      until   timestamptz not null,
      -- When these lists began to exist.
      since   timestamptz not null default now()
    );

    -- Quarters in which a contract was closed that changed late; written and deleted as analytics_late_quarters are.
    create table analytics_late_closes (
      partner_id  text collate "C" not null,
      quarter     timestamptz not null
    );
    alter table analytics_late_closes set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

    alter table analytics_total_chunks add column numbers int[];
    create function number_chunk() returns trigger language plpgsql as $$
    begin
      new.numbers := coalesce(new.numbers, '{}') || array(
        select t.number from unnest(new.traders[coalesce(cardinality(new.numbers), 0) + 1:]) with ordinality u (id, place)
          join traders t on t.id = u.id order by u.place);
      return new;
    end $$;
    create trigger number_chunk before insert or update on analytics_total_chunks for each row
      when (cardinality(new.numbers) is distinct from cardinality(new.traders)) execute function number_chunk();
    -- The trigger numbers what is there.
    update analytics_total_chunks set numbers = null;

    -- Whoever has written orders by the function of before is through.
    lock table orders in share row exclusive mode;
    insert into analytics_closes_until (until)
    select date_bin('1 day', least(now() - interval '1 hour', min(first.at)), timestamptz '2000-01-01 00:00+00')
      from partners p
     cross join lateral (select min(closed_at) as at from orders where partner_id = p.id and phase = 'closed'
                         union all select min(closed_at) from orders_archive where partner_id = p.id and phase = 'closed') first;

    create or replace function mark_late_analytics() returns trigger language plpgsql as $$
    begin
      if new.opened_at < now() - interval '5 minutes' then
        insert into analytics_late_quarters
        values (new.partner_id, date_bin('15 minutes', new.opened_at, timestamptz '2000-01-01 00:00+00'));
      end if;
      if new.closed_at < now() - interval '5 minutes' then
        insert into analytics_late_closes
        values (new.partner_id, date_bin('15 minutes', new.closed_at, timestamptz '2000-01-01 00:00+00'));
        insert into analytics_late_days values (new.partner_id, new.trader_id, (new.closed_at at time zone 'UTC')::date);
        insert into analytics_late_totals values (new.partner_id, new.trader_id, (new.closed_at at time zone 'UTC')::date);
      end if;
      if tg_op = 'UPDATE' then
        if old.opened_at <> new.opened_at and old.opened_at < now() - interval '5 minutes' then
          insert into analytics_late_quarters
          values (old.partner_id, date_bin('15 minutes', old.opened_at, timestamptz '2000-01-01 00:00+00'));
        end if;
        if old.closed_at <> new.closed_at and old.closed_at < now() - interval '5 minutes' then
          insert into analytics_late_closes
          values (old.partner_id, date_bin('15 minutes', old.closed_at, timestamptz '2000-01-01 00:00+00'));
          insert into analytics_late_days values (old.partner_id, old.trader_id, (old.closed_at at time zone 'UTC')::date);
          insert into analytics_late_totals values (old.partner_id, old.trader_id, (old.closed_at at time zone 'UTC')::date);
        end if;
      end if;
      return null;
    end $$;
  `)
}

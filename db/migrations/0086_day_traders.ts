// Traders of each day of UTC with the quarters of an hour in which they bought first and last: how many different traders a part of a
// day has that begins or ends with it is then a sum of 96 numbers, and not a count of all traders of its quarters. Triggers take the
// row of a day away with any change of its quarters and mark the day, so that those of a process of the previous version count too;
// a day without a row is counted from its quarters. All days that exist are marked, the workers make them.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table analytics_day_traders (
      partner_id    text collate "C" not null,
      account_mode  text collate "C" not null,
      day           date not null,
      currency      text collate "C" not null,
      -- Of traders, ascending.
      numbers       int[] not null,
      -- Of each of them, the quarters of the day, from 0.
      firsts        smallint[] not null,
      lasts         smallint[] not null,
      -- Of each of the 96 quarters, how many have it as their first, and as their last.
      begun         int[] not null,
      ended         int[] not null,
      primary key (partner_id, account_mode, day, currency)
    );
    -- Unpacking takes longer than reading.
    alter table analytics_day_traders
      alter column numbers set storage external, alter column firsts set storage external, alter column lasts set storage external;

    -- Days whose rows of analytics_day_traders are to be made; written and deleted as analytics_late_quarters are.
    create table analytics_late_day_traders (
      partner_id  text collate "C" not null,
      day         date not null
    );
    alter table analytics_late_day_traders set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

    create function mark_day_traders() returns trigger language plpgsql as $$
    begin
      with days as materialized (
        select distinct partner_id, (quarter at time zone 'UTC')::date as day from changed where grouping_by = ''
      ), marked as (
        insert into analytics_late_day_traders select partner_id, day from days
      )
      delete from analytics_day_traders d using days
       where d.partner_id = days.partner_id and d.account_mode in ('REAL', 'DEMO', 'ALL') and d.day = days.day;
      return null;
    end $$;
    create trigger mark_inserted after insert on analytics_quarters referencing new table as changed
      for each statement execute function mark_day_traders();
    create trigger mark_updated after update on analytics_quarters referencing new table as changed
      for each statement execute function mark_day_traders();
    create trigger mark_deleted after delete on analytics_quarters referencing old table as changed
      for each statement execute function mark_day_traders();
    create function forget_day_traders() returns trigger language plpgsql as $$
    begin
      truncate analytics_day_traders, analytics_late_day_traders;
      return null;
    end $$;
    create trigger forget_days after truncate on analytics_quarters for each statement execute function forget_day_traders();

    insert into analytics_late_day_traders select distinct partner_id, day from analytics_days where grouping_by = '';
  `)
}

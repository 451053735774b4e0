// Running totals of traders, so that the traders of a long window are two rows of arrays for each hundred of them instead of a row for
// each trader and day. They are kept only where many trade: a day of a partner, mode and currency with a thousand traders begins
// them. A process of the previous version neither reads nor writes them; the marks for what it adds up late are written by the trigger.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- Which partners, modes and currencies have running totals, and of which days: from 'since' until before 'until'.
    create table analytics_total_groups (
      partner_id    text collate "C" not null,
      account_mode  text collate "C" not null,
      currency      text collate "C" not null,
      since         date not null,
      until         date not null,
      primary key (partner_id, account_mode, currency)
    );
    insert into analytics_total_groups
    select partner_id, account_mode, currency, min(day), min(day)
      from (select partner_id, account_mode, currency, day from analytics_trader_days
             where day < (select (until at time zone 'UTC')::date from analytics_until)
             group by partner_id, account_mode, currency, day having count(*) >= 1000) busy
     group by partner_id, account_mode, currency;

    -- The traders of such a group, by chunks. A trader keeps its chunk and its place in it.
    create table analytics_total_chunks (
      partner_id    text collate "C" not null,
      account_mode  text collate "C" not null,
      currency      text collate "C" not null,
      chunk         int not null,
      traders       text[] collate "C" not null,
      primary key (partner_id, account_mode, currency, chunk)
    );

    -- What the traders of a chunk closed since the group's totals began, up to and with a day of UTC; each list by their places. There is
    -- a row for each day on which one of them closed something.
    create table analytics_totals (
      partner_id      text collate "C" not null,
      account_mode    text collate "C" not null,
      currency        text collate "C" not null,
      chunk           int not null,
      day             date not null,
      trades          int[] not null,
      stake           numeric[] not null,
      pnl             numeric[] not null,
      markup          numeric[] not null,
      last_at         timestamptz[] not null,
      -- null where it is 0 for all
      markup_unknown  int[],
      primary key (partner_id, account_mode, currency, chunk, day)
    );
    -- Rows stay in their pages uncompressed, since unpacking takes long.
    alter table analytics_total_chunks set (toast_tuple_target = 8160);
    alter table analytics_totals set (toast_tuple_target = 8160);

    -- Days of traders that changed, by which the totals have to be made anew; written and deleted as analytics_late_days are.
    create table analytics_late_totals (
      partner_id  text collate "C" not null,
      trader_id   text collate "C" not null,
      day         date not null
    );
    alter table analytics_late_totals set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

    -- Whoever has written orders by the function of before is through, so that each of its marks is here twice.
    lock table orders in share row exclusive mode;
    insert into analytics_late_totals (partner_id, trader_id, day) select partner_id, trader_id, day from analytics_late_days;

    create or replace function mark_late_analytics() returns trigger language plpgsql as $$
    begin
      if new.opened_at < now() - interval '5 minutes' then
        insert into analytics_late_quarters
        values (new.partner_id, date_bin('15 minutes', new.opened_at, timestamptz '2000-01-01 00:00+00'));
      end if;
      if new.closed_at < now() - interval '5 minutes' then
        insert into analytics_late_days values (new.partner_id, new.trader_id, (new.closed_at at time zone 'UTC')::date);
        insert into analytics_late_totals values (new.partner_id, new.trader_id, (new.closed_at at time zone 'UTC')::date);
      end if;
      if tg_op = 'UPDATE' then
        if old.opened_at <> new.opened_at and old.opened_at < now() - interval '5 minutes' then
          insert into analytics_late_quarters
          values (old.partner_id, date_bin('15 minutes', old.opened_at, timestamptz '2000-01-01 00:00+00'));
        end if;
        if old.closed_at <> new.closed_at and old.closed_at < now() - interval '5 minutes' then
          insert into analytics_late_days values (old.partner_id, old.trader_id, (old.closed_at at time zone 'UTC')::date);
          insert into analytics_late_totals values (old.partner_id, old.trader_id, (old.closed_at at time zone 'UTC')::date);
        end if;
      end if;
      return null;
    end $$;
  `)
}

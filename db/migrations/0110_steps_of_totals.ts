// Running totals of traders at steps of their contracts instead of at whole days: a step follows where so many were closed since the last that
// reading them takes as long as reading the totals, so no window has much beside two steps. They are made from the lists of closes, as whole
// numbers in long lists, which are read several times as fast as numeric ones; a late change is kept beside them until they are rebuilt.
// The totals by days are emptied and stay so: a process of the previous version reads its windows from days of traders then, as it does where a
// group of traders has no totals. Until workers have made the steps, pages of traders are read from lists of closes.
import type { Knex } from 'knex'

const group = `partner_id    text collate "C" not null,
      account_mode  text collate "C" not null,
      currency      text collate "C" not null`

const key = 'partner_id, account_mode, currency'
const referencing = {
  insert: 'new table as now_listed',
  update: 'old table as was_listed new table as now_listed',
  delete: 'old table as was_listed'
}

/** A trigger of lists of closes that changes what steps have of them. `counted` are rows that are new, which count towards the next step. */
function counting(event: keyof typeof referencing, { lists, counted }: { lists: string; counted?: string }): string {
  return `create function count_closes_${event}() returns trigger language plpgsql as $$
    declare changes int;
    begin${
      counted
        ? `
      insert into analytics_step_groups as g (${key}, listed)
      select ${key}, sum(cardinality(numbers)) from ${counted} group by ${key} order by ${key}
      on conflict (${key}) do update set listed = g.listed + excluded.listed;`
        : ''
    }
      with lists as materialized (
        select l.* from (${lists}) l
          join analytics_step_groups g using (${key}) where l.quarter < g.until
      ), changed as (
        insert into analytics_step_changes as c (${key}, quarter, number, odd, trades, stake, pnl, markup, markup_unknown, had, last_at)
        select ${key}, quarter, number, false, sum(sign), sum(sign * u.stake), sum(sign * u.pnl), sum(sign * coalesce(u.markup, 0)),
               coalesce(sum(sign) filter (where u.markup is null), 0), max(at) filter (where sign = -1), max(at) filter (where sign = 1)
          from lists cross join lateral unnest(numbers, closed_at, stake, pnl, markup) u (number, at, stake, pnl, markup)
         group by ${key}, quarter, number
        having (sum(sign), sum(sign * u.stake), sum(sign * u.pnl), sum(sign * coalesce(u.markup, 0)), coalesce(sum(sign) filter (where u.markup is null), 0))
                 <> (0, 0, 0, 0, 0)
            or max(at) filter (where sign = -1) is distinct from max(at) filter (where sign = 1)
        on conflict (${key}, quarter, number, odd) do update
          set trades = c.trades + excluded.trades, stake = c.stake + excluded.stake, pnl = c.pnl + excluded.pnl, markup = c.markup + excluded.markup,
              markup_unknown = c.markup_unknown + excluded.markup_unknown, last_at = excluded.last_at
        returning 1
      )
      select count(*) into changes from changed;
      if changes > 0 then
        delete from analytics_step_changes c using (select distinct ${key}, quarter from (${lists}) l) l
         where (c.partner_id, c.account_mode, c.currency, c.quarter) = (l.partner_id, l.account_mode, l.currency, l.quarter) and not odd
           and (trades, stake, pnl, markup, markup_unknown) = (0, 0, 0, 0, 0) and had is not distinct from last_at;
      end if;
      return null;
    end $$;
    create trigger count_${event} after ${event} on analytics_closes referencing ${referencing[event]}
      for each statement execute function count_closes_${event}();`
}

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- Whoever makes lists or totals is through, and nobody begins.
    lock table analytics_closes_until in exclusive mode;

    -- Partners, modes and currencies with lists of closes: the last step, of how many contracts since, about, and how many traders the totals
    -- have.
    create table analytics_step_groups (
      ${group},
      until    timestamptz,
      listed   int not null default 0,
      traders  int not null default 0,
      primary key (partner_id, account_mode, currency)
    );

    -- Instants between quarters of an hour up to which totals were made. The first of a group has none: nothing was closed before it.
    create table analytics_steps (
      ${group},
      at              timestamptz not null,
      -- Of all traders: contracts closed before it whose markup is not known.
      markup_unknown  bigint not null,
      primary key (partner_id, account_mode, currency, at)
    );

    -- The traders of a group by chunks of 4,096. A trader keeps its place: chunk and position follow from it.
    create table analytics_step_places (
      ${group},
      number  int not null,
      -- From 0.
      place   int not null,
      primary key (partner_id, account_mode, currency, number)
    );
    create table analytics_step_chunks (
      ${group},
      chunk    int not null,
      numbers  int[] not null,
      primary key (partner_id, account_mode, currency, chunk)
    );

    -- What each trader of a chunk closed before a step. There is a row for each step before which one of them closed something since the
    -- step before it. Amounts are in units of 0.00000001.
    create table analytics_step_totals (
      ${group},
      chunk    int not null,
      at       timestamptz not null,
      trades   int[] not null,
      stake    bigint[] not null,
      pnl      bigint[] not null,
      markup   bigint[] not null,
      last_at  timestamptz[] not null,
      primary key (partner_id, account_mode, currency, chunk, at)
    );
    -- Unpacking takes longer than reading.
    alter table analytics_step_chunks alter column numbers set storage external;
    alter table analytics_step_totals
      alter column trades set storage external, alter column stake set storage external, alter column pnl set storage external,
      alter column markup set storage external, alter column last_at set storage external;

    -- What the totals of steps after a quarter of an hour lack of its list: what changed late, and (odd) amounts that are no whole number of
    -- those units or too large for the totals.
    create table analytics_step_changes (
      ${group},
      quarter         timestamptz not null,
      number          int not null,
      odd             boolean not null,
      trades          int not null,
      stake           numeric not null,
      pnl             numeric not null,
      markup          numeric not null,
      markup_unknown  int not null,
      -- The last close of the quarter in the totals, and in its list.
      had             timestamptz,
      last_at         timestamptz,
      primary key (partner_id, account_mode, currency, quarter, number, odd)
    );

    -- Lists count once, whoever writes them: what the last step has of them is changed beside it.
    ${counting('insert', { lists: `select 1 as sign, * from now_listed`, counted: 'now_listed' })}
    ${counting('update', { lists: `select 1 as sign, * from now_listed union all select -1, * from was_listed` })}
    ${counting('delete', { lists: `select -1 as sign, * from was_listed` })}
    create function forget_steps() returns trigger language plpgsql as $$
    begin
      truncate analytics_step_groups, analytics_steps, analytics_step_places, analytics_step_chunks, analytics_step_totals, analytics_step_changes;
      return null;
    end $$;
    create trigger forget_steps after truncate on analytics_closes for each statement execute function forget_steps();

    -- The amounts of a list in the same units, null where one of them is not in them or too large, and of lists that the version before wrote.
    alter table analytics_closes add column stake_units bigint[], add column pnl_units bigint[], add column markup_units bigint[];
    alter table analytics_closes
      alter column stake_units set storage external, alter column pnl_units set storage external, alter column markup_units set storage external;
    create aggregate sum_few(bigint) (sfunc = int8pl, stype = int8, parallel = safe);

    insert into analytics_step_groups (partner_id, account_mode, currency, listed)
    select partner_id, account_mode, currency, sum(cardinality(numbers)) from analytics_closes group by 1, 2, 3;

    -- Whoever has written orders by the function of before is through.
    lock table orders in share row exclusive mode;
    create function no_total_group() returns trigger language plpgsql as $$
    begin
      return null;
    end $$;
    create trigger no_total_group before insert on analytics_total_groups for each row execute function no_total_group();
    truncate analytics_total_groups, analytics_total_chunks, analytics_totals, analytics_late_totals;

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
        end if;
      end if;
      return null;
    end $$;
  `)
}

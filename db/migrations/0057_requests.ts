// The request log of partners, in daily partitions, and one pair of functions that makes and drops the daily partitions of every
// log. The functions that events and webhook attempts had of their own stay for processes of the previous version, and call the pair.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  const { rows } = await db.raw('select quote_ident(current_schema()) as name')
  const [schema] = rows as [{ name: string }]
  await db.raw(`
    create sequence requests_n;
    create table requests (
      partner_id  text collate "C" not null,
      -- The day (UTC) on which it was written.
      day         date not null,
      -- Grows with each row of a process; breaks ties of 'at'.
      n           bigint not null default nextval('requests_n'),
      at          timestamptz not null,
      request_id  text collate "C" not null,
      key_id      text collate "C",
      operation   text collate "C" not null,
      method      text collate "C" not null,
      path        text not null,
      status      smallint not null,
      error       text collate "C",
      trader      text,
      ms          real not null,
      primary key (day, n)
    ) partition by range (day);
    create index requests_partner on requests (partner_id, at, n);
    create index requests_id on requests using hash (request_id);

    -- The processes' role may not create or drop tables; its owner's functions do it, for these tables alone.
    create function check_day_partitions(parent text) returns void language plpgsql immutable as $$
    begin
      if parent not in ('events', 'webhook_attempts', 'requests') then
        raise exception '% has no daily partitions', parent;
      end if;
    end $$;

    -- Makes the partitions of the days that lack one. Returns how many were made.
    create function make_day_partitions(parent text, first date, last date) returns int language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      day date := first;
      made int := 0;
    begin
      perform check_day_partitions(parent);
      -- Several processes may find at once that a day is missing.
      perform pg_advisory_xact_lock(hashtext('day partitions of ' || parent));
      while day <= last loop
        if to_regclass(parent || '_' || to_char(day, 'YYYYMMDD')) is null then
          execute format('create table %I partition of %I for values from (%L) to (%L)',
            parent || '_' || to_char(day, 'YYYYMMDD'), parent, day, day + 1);
          made := made + 1;
        end if;
        day := day + 1;
      end loop;
      return made;
    end $$;

    -- The oldest partition, where its day is before 'first'.
    create function oldest_day_partition(parent text, first date, out part regclass, out day date) language plpgsql
      set search_path = ${schema.name}, pg_temp as $$
    begin
      perform check_day_partitions(parent);
      select c.oid::regclass, to_date(right(c.relname, 8), 'YYYYMMDD') into part, day
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = parent::regclass order by c.relname limit 1;
      if day >= first then
        part := null;
        day := null;
      end if;
    end $$;

    -- Drops the oldest day before 'first'; of events with what cursors need to know of it. Returns the day, or null.
    create function drop_day_partition(parent text, first date) returns date language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      oldest record;
    begin
      select * into oldest from oldest_day_partition(parent, first);
      if oldest.day is null then return null; end if;
      if parent = 'events' then
        execute format('update event_positions p set dropped = d.position
                          from event_positions q cross join lateral
                               (select e.position from %s e where e.partner_id = q.partner_id order by e.day desc, e.position desc limit 1) d
                         where p.partner_id = q.partner_id', oldest.part);
      end if;
      execute format('drop table %s', oldest.part);
      return oldest.day;
    end $$;

    create or replace function make_event_days(first date, last date) returns int language sql as
      $$ select make_day_partitions('events', first, last) $$;
    create or replace function drop_event_day(first date) returns date language sql as
      $$ select drop_day_partition('events', first) $$;
    create or replace function make_webhook_days(first date, last date) returns int language sql as
      $$ select make_day_partitions('webhook_attempts', first, last) $$;
    create or replace function drop_webhook_day(first date) returns date language sql as
      $$ select drop_day_partition('webhook_attempts', first) $$;

    select make_day_partitions('requests', (now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 3);
  `)
}

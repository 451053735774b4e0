// The request log in packed rows: what a partner's requests of five seconds were is one row of text, so that an entry costs no row and
// no index entry of its own. db/partners/request-groups.ts has the format.
//
// Safe while processes of the previous version run: what they write into `requests` is packed by a trigger. They list, until they are
// restarted, what they and others of their version wrote. The rows that were there before are packed by 0072, which reads them while
// others go on; the first of them that is not the trigger's is kept for it in requests_packed.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create sequence request_groups_n;
    create table request_groups (
      partner_id  text collate "C" not null,
      -- The day (UTC) on which it was written.
      day         date not null,
      n           bigint not null default nextval('request_groups_n'),
      -- Its entries arrived from from_at to last_at.
      from_at     timestamptz not null,
      last_at     timestamptz not null,
      entries     smallint not null,
      -- The greatest status of its entries.
      worst       smallint not null,
      -- Hashes of the request ids, as request_id_hash makes them.
      ids         int[] not null,
      shapes      text not null,
      data        text not null,
      primary key (day, n)
    ) partition by range (day);
    -- Stored as they are: compressing would take CPU at every write.
    alter table request_groups
      alter column ids set storage external, alter column shapes set storage external, alter column data set storage external;
    create index request_groups_partner on request_groups (partner_id, last_at, n) include (day, from_at, entries, ids);

    create or replace function check_day_partitions(parent text) returns void language plpgsql immutable as $$
    begin
      if parent not in ('events', 'webhook_attempts', 'requests', 'request_groups') then
        raise exception '% has no daily partitions', parent;
      end if;
    end $$;
    select make_day_partitions('request_groups', (now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 3);

    -- FNV-1a of 32 bits, signed.
    create function request_id_hash(id text) returns int language plpgsql immutable strict as $$
    declare
      hash bigint := 2166136261;
    begin
      for i in 1..length(id) loop
        hash := ((hash # ascii(substr(id, i, 1))) * 16777619) & 4294967295;
      end loop;
      return (hash - case when hash > 2147483647 then 4294967296 else 0 end)::int;
    end $$;

    create function pack_requests() returns trigger language plpgsql as $$
    begin
      ${packed('written')};
      return null;
    end $$;
    -- Waits for statements that write into requests, and they for it.
    create trigger pack_requests after insert on requests referencing new table as written
      for each statement execute function pack_requests();
    create table requests_packed as select last_value as before from requests_n;
  `)
}

/** Inserts the rows of a table of the form of `requests` as groups. */
export const packed = (source: string): string => `
  with placed as (
    select *, floor(extract(epoch from at) / 5) as span,
           concat_ws(E'\\t', operation, method, status, coalesce(error, ''), coalesce(key_id, ''), path) collate "C" as shape
      from ${source}
  ), cut as (
    select *, (row_number() over (partition by partner_id, day, span order by n) - 1) / 500 as part from placed
  ), numbered as (
    select *, dense_rank() over (partition by partner_id, day, span, part order by shape) - 1 as shape_n from cut
  )
  insert into request_groups (partner_id, day, from_at, last_at, entries, worst, ids, shapes, data)
  select partner_id, day, to_timestamp(span * 5), max(date_trunc('milliseconds', at)), count(*), max(status),
         array_agg(request_id_hash(request_id) order by n), string_agg(distinct shape, E'\\n' order by shape),
         string_agg(concat_ws(E'\\t', shape_n, floor((extract(epoch from at) - span * 5) * 1000), round(ms::numeric, 1), request_id,
                              coalesce(trader, '')), E'\\n' order by n)
    from numbered group by partner_id, day, span, part order by min(n)`

// Orders at their end move to an archive in monthly partitions with few indexes, and their clientOrderIds to a narrow table,
// which is kept for ever. Nothing moves while a process of the previous version may run: workers of this version move orders,
// and only those that ended 40 days ago. A process of the previous version does not look there: it would list and replay
// without them, so restart all processes within ARCHIVE_AFTER_DAYS of the oldest order, or set ARCHIVE_AFTER_DAYS=0 meanwhile.
//
// Two foreign keys to orders go: an order in the archive keeps its copies and findings. Both refer to a row that the same
// transaction has read, and orders are never deleted but by the move and by dropping an archived month.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  const { rows } = await db.raw('select quote_ident(current_schema()) as name')
  const [schema] = rows as [{ name: string }]
  await db.raw(`
    alter table orders drop constraint orders_copied_from_fkey;
    alter table contract_breaks drop constraint contract_breaks_order_id_fkey;

    -- The columns of orders, in their order: a statement that reads both selects * of each.
    create table orders_archive (
      like orders including generated,
      constraint orders_archive_final check (phase in ('closed', 'failed')),
      primary key (id, created_at)
    ) partition by range (created_at);
    create index orders_archive_page on orders_archive (partner_id, created_at);
    create index orders_archive_trader on orders_archive (partner_id, trader_external_id, created_at);
    create index orders_archive_failed on orders_archive (partner_id, created_at) where phase = 'failed';
    create index orders_archive_opened on orders_archive (partner_id, opened_at) where opened_at is not null;
    create index orders_archive_closed on orders_archive (partner_id, closed_at) where phase = 'closed';
    create index orders_archive_contract on orders_archive (broker_order_id) where broker_order_id is not null;
    create index orders_archive_follow on orders_archive (follow_id) where follow_id is not null;

    -- A clientOrderId in 16 bytes: probing the index for each order that is placed stays in memory for longer.
    create function order_name(partner_id text, client_order_id text) returns uuid language sql immutable parallel safe as
      $$ select encode(substring(sha256(convert_to(partner_id || ' ' || client_order_id, 'UTF8')) for 16), 'hex')::uuid $$;

    -- The clientOrderIds of archived orders, also of those that were dropped.
    create table archived_names (
      name       uuid primary key,
      order_id   text collate "C" not null,
      created_at timestamptz not null
    );

    create table archive_months (
      month    date primary key,
      -- Archived ones that are still there.
      orders   bigint not null,
      -- Of the months that were dropped: how many orders, and when the last time.
      dropped  bigint not null default 0,
      dropped_at timestamptz
    );

    -- The statement that stores an order looks for its clientOrderId among the archived ones as of its own snapshot. The order
    -- of that id may have moved since, and then the unique key of orders lets a second one in. This looks again, after that
    -- key has waited for the move. The error has the statement run again, with a snapshot that has the archived order.
    create function refuse_archived_name() returns trigger language plpgsql as $$
    begin
      if exists (select from archived_names where name = order_name(new.partner_id, new.client_order_id)) then
        raise exception 'the order of this clientOrderId was archived meanwhile' using errcode = 'serialization_failure';
      end if;
      return null;
    end $$;
    create trigger refuse_archived_name after insert on orders for each row when (new.client_order_id is not null)
      execute function refuse_archived_name();

    -- An order that is archived was bought weeks ago, so a contract bought today needs no look into the archive.
    create function refuse_archived_contract() returns trigger language plpgsql as $$
    begin
      if exists (select from orders_archive where broker_order_id = new.broker_order_id and account_id = new.account_id) then
        raise exception 'the contract % of % has an order in the archive', new.broker_order_id, new.account_id
          using errcode = 'unique_violation', constraint = 'orders_contract';
      end if;
      return null;
    end $$;
    create trigger refuse_archived_contract after update of broker_order_id on orders for each row
      when (new.broker_order_id is distinct from old.broker_order_id and new.opened_at < now() - interval '1 day')
      execute function refuse_archived_contract();

    -- The processes' role may not create or drop tables; its owner's functions do it, for this table alone.
    create function archive_partition(month date) returns text language sql immutable as
      $$ select 'orders_archive_' || to_char(month, 'YYYYMM') $$;

    -- Makes the partitions of these months, first days, that lack one. Attaching waits for no reader, unlike creating
    -- a partition does.
    create function make_archive_months(months date[]) returns int language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      month date;
      made int := 0;
    begin
      perform pg_advisory_xact_lock(hashtext('months of orders_archive'));
      foreach month in array months loop
        month := date_trunc('month', month)::date;
        if to_regclass(archive_partition(month)) is null then
          execute format('create table %I (like orders_archive including all)', archive_partition(month));
          execute format('alter table orders_archive attach partition %I for values from (%L) to (%L)', archive_partition(month),
            to_char(month, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(month + interval '1 month', 'YYYY-MM-DD') || ' 00:00:00+00');
          made := made + 1;
        end if;
      end loop;
      return made;
    end $$;

    -- How many orders the month has, and a sum over all of their columns that does not depend on their order.
    create function sum_archive_month(month date, out orders bigint, out checksum text) language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    begin
      if to_regclass(archive_partition(month)) is null then
        orders := 0;
        checksum := '0';
        return;
      end if;
      execute format($sum$
        select count(*), coalesce(sum(('x' || encode(substring(sha256(convert_to(to_jsonb(o)::text, 'UTF8')) for 7), 'hex'))::bit(56)::bigint), 0)::text
          from %I o $sum$, archive_partition(month)) into orders, checksum;
    end $$;

    -- Drops the month if it has exactly the orders that were exported; returns whether it did.
    create function drop_archive_month(month date, exported bigint, exported_checksum text) returns boolean language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      found record;
    begin
      perform pg_advisory_xact_lock(hashtext('months of orders_archive'));
      if to_regclass(archive_partition(month)) is null then
        return false;
      end if;
      -- Nothing is added or changed from here on; readers go on.
      execute format('lock table %I in share mode', archive_partition(month));
      select * into found from sum_archive_month(month);
      if found.orders <> exported or found.checksum <> exported_checksum then
        return false;
      end if;
      execute format('drop table %I', archive_partition(month));
      update archive_months a set orders = 0, dropped = a.dropped + exported, dropped_at = now() where a.month = drop_archive_month.month;
      return true;
    end $$;
  `)
}

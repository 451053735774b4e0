// Up to when the sums of analytics have contracts that were dropped with their month, exactly: what is compared with the orders, or added
// up again from them, begins after that. It was estimated, as 40 days before the drop or a year after the month, and a multiplier may be open
// for longer: its sums differed from the orders for ever, and a repair deleted them. The months that were dropped so far keep the estimate.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  const { rows } = await db.raw('select quote_ident(current_schema()) as name')
  const [schema] = rows as [{ name: string }]
  await db.raw(`
    -- When the last of the dropped orders was bought or ended; null while none was dropped.
    alter table archive_months add column dropped_until timestamptz;
    update archive_months
       set dropped_until = least(dropped_at - interval '40 days', (month + interval '13 months') at time zone 'UTC')
     where dropped > 0;

    -- As before, and notes that instant.
    create or replace function drop_archive_month(month date, exported bigint, exported_checksum text) returns boolean language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      found record;
      until timestamptz;
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
      execute format('select max(greatest(opened_at, closed_at)) from %I', archive_partition(month)) into until;
      execute format('drop table %I', archive_partition(month));
      update archive_months a
         set orders = 0, dropped = a.dropped + exported, dropped_at = now(),
             dropped_until = greatest(a.dropped_until, until, drop_archive_month.month::timestamp at time zone 'UTC')
       where a.month = drop_archive_month.month;
      return true;
    end $$;
  `)
}

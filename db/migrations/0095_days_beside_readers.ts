// A partition that is made as part of its table locks that table against readers. Behind a transaction that has read it and stays open,
// as a dump does for hours, the making waited for 10 s, and all readers and the sequencer behind it, each time housekeeping came.
// Made by itself and attached then, it waits for no reader, and no reader waits for it.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  const { rows } = await db.raw('select quote_ident(current_schema()) as name')
  const [schema] = rows as [{ name: string }]
  await db.raw(`
    create or replace function make_day_partitions(parent text, first date, last date) returns int language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      day date := first;
      made int := 0;
      part text;
    begin
      perform check_day_partitions(parent);
      -- Several processes may find at once that a day is missing.
      perform pg_advisory_xact_lock(hashtext('day partitions of ' || parent));
      while day <= last loop
        part := parent || '_' || to_char(day, 'YYYYMMDD');
        if to_regclass(part) is null then
          execute format('create table %I (like %I including all)', part, parent);
          execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, part, day, day + 1);
          made := made + 1;
        end if;
        day := day + 1;
      end loop;
      return made;
    end $$;
  `)
}

// Columns that refer to an identifier take the identifier's collation. PostgreSQL compares two columns of
// different collations in one of them only, and then an index in the other is of no use: a join scanned all orders.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    do $$
    declare
      reference record;
    begin
      for reference in
        select distinct c.conrelid::regclass as referring, a.attname
          from pg_constraint c
         cross join lateral unnest(c.conkey, c.confkey) as k (own, other)
          join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.own
          join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.other
          join pg_collation l on l.oid = b.attcollation
         where c.contype = 'f' and c.connamespace = current_schema()::regnamespace
           and a.attcollation <> b.attcollation and l.collname = 'C'
      loop
        execute format('alter table %s alter column %I type text collate "C"', reference.referring, reference.attname);
      end loop;
    end $$;
  `)
}

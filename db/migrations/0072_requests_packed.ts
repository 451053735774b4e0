// The request log's rows of the days before are packed, a day at a time, as those written since are. Nothing is locked: processes go on,
// of the previous version too. A row took 20 to 48 µs on a busy machine, so a million takes less than a minute. The old rows expire with
// their days; the table, its trigger and request_id_hash go with a later version.
import type { Knex } from 'knex'
import { packed } from './0071_request_groups.ts'

export async function up(db: Knex): Promise<void> {
  const { rows: days } = await db.raw(`
    select c.relname as part, make_day_partitions('request_groups', d.day, d.day) as made
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
     cross join lateral (select to_date(right(c.relname, 8), 'YYYYMMDD') as day) d
     where i.inhparent = 'requests'::regclass order by c.relname
  `)
  for (const { part } of days as { part: string }[])
    await db.raw(packed(`(select * from ${part} where n <= (select before from requests_packed)) as before`))
  await db.raw('drop table requests_packed')
}

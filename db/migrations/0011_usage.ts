// How many requests each partner made, hour by hour, written in bulk.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table usage_hours (
      partner_id  text collate "C" not null references partners,
      hour        timestamptz not null,
      requests    bigint not null check (requests >= 0),
      -- responses with a status of 400 or above
      errors      bigint not null check (errors between 0 and requests),
      primary key (partner_id, hour)
    ) with (fillfactor = 50);
    create index usage_hours_old on usage_hours (hour);
  `)
}

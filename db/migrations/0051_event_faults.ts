// Events that cannot be shown: their record is gone, or is not what this version reads. Readers pass over them, and the doctor
// names them.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table event_faults (
      event_id    uuid primary key,
      partner_id  text collate "C" not null,
      position    bigint not null,
      type        text not null,
      reason      text not null,
      found_at    timestamptz not null default clock_timestamp()
    );
  `)
}

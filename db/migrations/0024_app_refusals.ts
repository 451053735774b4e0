// Applications the broker refused, as the workers meet them: one refused application stops every trader of its partners,
// and no account row shows it, since their tokens are not at fault.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table broker_app_refusals (
      dialect     text not null,
      app_id      text not null check (length(app_id) between 1 and 64),
      broker_code text not null,
      first_at    timestamptz not null default now(),
      last_at     timestamptz not null default now(),
      primary key (dialect, app_id)
    );
  `)
}

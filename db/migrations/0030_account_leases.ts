// A broker counts an account's calls and connections, so one worker should serve an account: then one count is enough.
// The row names that worker; the worker's lease in `followers` shows whether it lives. What decides who may send an order
// is still the order's own row. Workers of the previous version know nothing of this and go on claiming.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table account_leases (
      account_id  text primary key,
      worker      text collate "C" not null,
      leased_at   timestamptz not null default clock_timestamp()
    );
    create index account_leases_worker on account_leases (worker);
    alter table account_leases set (autovacuum_vacuum_scale_factor = 0.05, fillfactor = 85);
  `)
}

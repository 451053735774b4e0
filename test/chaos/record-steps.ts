// Has the database record every step of every order, for the traces and figures at the end of a run.
import type { Db } from '../../db/postgres/connection.ts'

/** Makes the table chaos_steps and the triggers that write it. */
export async function recordSteps(db: Db): Promise<void> {
  await db.raw(`
    create table chaos_steps (
      id bigint generated always as identity primary key, at timestamptz not null default clock_timestamp(), order_id text not null,
      phase text not null, attempt int, sender text, checks int, sent_at timestamptz, permit_until timestamptz, resolve_at timestamptz,
      expires_at timestamptz, broker_order_id text, error_code text, error_message text, backend int default pg_backend_pid());
    create index on chaos_steps (order_id);
    create function chaos_step() returns trigger language plpgsql as $$ begin
      insert into chaos_steps (order_id, phase, attempt, sender, checks, sent_at, permit_until, resolve_at, expires_at, broker_order_id,
                               error_code, error_message)
      values (new.id, new.phase, new.attempt, new.sender, new.checks, new.sent_at, new.permit_until, new.resolve_at, new.expires_at,
              new.broker_order_id, new.error_code, new.error_message);
      return null; end $$;
    create trigger chaos_first after insert on orders for each row execute function chaos_step();
    create trigger chaos_next after update on orders for each row when (old.phase is distinct from new.phase)
      execute function chaos_step();
  `)
}

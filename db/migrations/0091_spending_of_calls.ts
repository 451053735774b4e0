// A call of a quota that workers share is counted under a lock. A worker held it over four round trips, and the others of its machine
// waited in a line for it whenever that worker had no processor: 0.4 s on average beside a restart of five of ten on a full machine.
// Here one statement takes the lock, counts and lets go.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- Spends up to 'wanted' calls of a scope within all its windows, an array of {"windowMs", "limit"}; 'retry_ms' is when some are
    -- left where none are. Each statement in here sees what others recorded before the lock was free. Calls of about a second share a
    -- row, which is as old as the last of them may be: an hour is some thousand rows to add up.
    create function spend_calls(of_scope text, by_worker text, wanted int, windows jsonb, keep_ms int, within_ms int,
                                out granted int, out retry_ms float8) language plpgsql as $$
    declare
      asked_at timestamptz;
      last_call timestamptz;
    begin
      perform pg_advisory_xact_lock(hashtextextended(of_scope, 0));
      asked_at := clock_timestamp();
      last_call := asked_at + within_ms * interval '1 millisecond';
      with spent as (
        select w."limit" - coalesce(r.calls, 0) as left_over,
               extract(epoch from r.oldest - asked_at) * 1000 + w."windowMs" as retry_ms
          from jsonb_to_recordset(windows) as w ("windowMs" int, "limit" int)
         cross join lateral (select sum(calls) as calls, min(spent_until) as oldest from call_records
                              where scope = of_scope and spent_until > asked_at - w."windowMs" * interval '1 millisecond') r
      )
      select greatest(0, least(wanted, min(s.left_over)))::int, greatest(0, max(s.retry_ms) filter (where s.left_over <= 0))::float8
        into granted, retry_ms from spent s;
      retry_ms := coalesce(retry_ms, 0);
      if granted > 0 then
        update call_records set calls = calls + granted
         where ctid = (select ctid from call_records where scope = of_scope and class = 'shared' and spent_until >= last_call
                        order by spent_until desc limit 1);
        if not found then
          insert into call_records (scope, worker, class, window_ms, calls, spent_until)
          values (of_scope, by_worker, 'shared', keep_ms, granted, last_call + interval '1 second');
        end if;
      end if;
    end $$;
  `)
}

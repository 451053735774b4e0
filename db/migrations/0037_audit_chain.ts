// The audit log only grows, and each line carries the hash of the one before: what was changed or taken out by whoever gets
// past the triggers shows in `operator audit verify`. The order of the chain is that of commits: a lock keeps two
// transactions from taking the same predecessor. Lines written so far are chained in the order of their ids.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- Nobody may write between the chaining of what is there and the first line that chains itself.
    lock table audit_log in exclusive mode;
    alter table audit_log add column seq bigint, add column hash bytea;

    create function audit_hash(previous bytea, line audit_log) returns bytea language sql stable as $$
      select sha256(coalesce(previous, ''::bytea) || convert_to(jsonb_build_array(
        line.seq, line.id, to_char(line.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), line.actor, line.action,
        line.target, line.details)::text, 'UTF8'))
    $$;

    do $$
    declare
      line audit_log;
      previous bytea;
      place bigint := 0;
    begin
      for line in select * from audit_log order by id loop
        place := place + 1;
        line.seq := place;
        previous := audit_hash(previous, line);
        update audit_log set seq = place, hash = previous where id = line.id;
      end loop;
    end $$;

    alter table audit_log
      alter column seq set not null,
      alter column hash set not null,
      add constraint audit_log_seq unique (seq);

    create function audit_chain() returns trigger language plpgsql as $$
    declare
      last_seq bigint;
      last_hash bytea;
    begin
      perform pg_advisory_xact_lock(hashtext('audit_log'));
      select seq, hash into last_seq, last_hash from audit_log order by seq desc limit 1;
      new.seq := coalesce(last_seq, 0) + 1;
      new.hash := audit_hash(last_hash, new);
      return new;
    end $$;
    create trigger chain before insert on audit_log for each row execute function audit_chain();

    create function audit_refuse() returns trigger language plpgsql as $$
    begin
      raise exception 'the audit log only grows: % is refused', lower(tg_op) using errcode = 'restrict_violation';
    end $$;
    create trigger no_change before update or delete on audit_log for each row execute function audit_refuse();
    create trigger no_truncate before truncate on audit_log for each statement execute function audit_refuse();
  `)
}

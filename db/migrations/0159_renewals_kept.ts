// A worker older than 0157 renews a token whose life the broker leaves out, and notes no next renewal: also after that migration, while it
// runs beside this version, or is started again. The database notes that renewal, as for a token that lives an hour.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create function keep_renewal() returns trigger language plpgsql as $$
    begin
      new.renew_at := now() + interval '50 minutes';
      return new;
    end $$;
    create trigger keep_renewal before update of renew_at on broker_accounts
      for each row when (new.renew_at is null and new.refresh_digest is not null and new.renewal_version = new.token_version
                         and new.token_expires_at is null)
      execute function keep_renewal();
  `)
}

// After a failover to a standby that lacked the last commits, or a restore to an earlier point, the broker holds contracts
// of which this database knows nothing. Each history the database has been on is noted; a new one makes every account's
// books be compared before its next purchase. Workers of the previous version do not check: stop them before a restore.
import type { Knex } from 'knex'
import { databaseIdentity } from '../postgres/lineage.ts'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table database_lineage (
      generation  int primary key,
      identity    text not null,
      -- Until when the history before this one is certain to be in the database; null for the first.
      good_until  timestamptz,
      -- When this history was last seen to go on.
      seen_at     timestamptz not null default clock_timestamp()
    );
    insert into database_lineage (generation, identity) values (0, ${databaseIdentity});

    -- The history up to which the account's books have been compared.
    alter table broker_accounts add column compared_generation int not null default 0;

    -- Contracts that a comparison found at the broker and no order owned: an order of the same terms is not sent.
    create table unowned_contracts (
      account_id   text not null,
      contract_id  text not null,
      evidence     jsonb not null,
      found_at     timestamptz not null default now(),
      primary key (account_id, contract_id)
    );
  `)
}

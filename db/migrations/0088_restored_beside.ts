// A dump restored on the server that it was made on, into another database or over its own, has the identity that was noted
// before: the contracts that it lacks were not looked for. Which tables the noted history is in distinguishes them.
import type { Knex } from 'knex'
import { tableIdentity } from '../postgres/lineage.ts'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- Of the database and of this table; null where a process of the version before noted the history.
    alter table database_lineage add column table_identity text;
    -- Where no worker runs this may be such a dump by now: as after a restore, books are compared before the next purchases.
    update database_lineage
       set table_identity = case when seen_at < clock_timestamp() - interval '1 minute' and exists (select from broker_accounts)
                                 then 'unknown' else ${tableIdentity} end
     where generation = (select max(generation) from database_lineage);
  `)
}

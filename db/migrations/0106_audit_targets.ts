// What operators did to one target, without reading the whole log: of a million lines 230 MB were read for ten, as `operator audit` and the
// export of a trader ask for them. Writers wait while the index is built, 4 s for a million lines on a busy machine: operators, keys that
// are made or revoked, and refunds.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw('create index audit_log_target on audit_log (target, id desc) where target is not null')
}

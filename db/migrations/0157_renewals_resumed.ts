// Tokens on whose life the broker stated nothing when it renewed them: processes until lately renewed these no more, although what renews
// them was kept. Those of the previous version that run yet would do that again: the renewals are due once they have ended.
import type { Knex } from 'knex'

const DUE_IN_MINUTES = 10
// Rows that are locked at a time.
const AT_ONCE = 500

export const config = { transaction: false }

export async function up(db: Knex): Promise<void> {
  for (let changed = AT_ONCE; changed === AT_ONCE; ) changed = await resumeSome(db)
}

/** Has some of them renewed again; returns how many. */
async function resumeSome(db: Knex): Promise<number> {
  const { rowCount } = (await db.raw(
    `update broker_accounts set renew_at = now() + interval '${DUE_IN_MINUTES} minutes'
      where id = any(array(select id from broker_accounts
                            where refresh_digest is not null and renewal_version = token_version
                              and token_expires_at is null and renew_at is null
                            order by id limit ${AT_ONCE} for no key update))`
  )) as { rowCount: number }
  return rowCount
}

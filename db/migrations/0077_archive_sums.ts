// The sum over an archived month does not depend on the settings of the session that computes it: an export writes the same
// texts, in UTC.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter function sum_archive_month(date) set timezone = 'UTC';
    alter function sum_archive_month(date) set bytea_output = 'hex';
  `)
}

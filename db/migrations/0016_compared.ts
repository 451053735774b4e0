// Whose turn it was and what was compared are two facts: a worker that dies between them must not make the
// books of that time count as compared.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- When the account's turn was taken last: audited_at. Up to when its books were compared, and every contract found its
    -- order or was reported: compared_at.
    alter table broker_accounts add column compared_at timestamptz;
    update broker_accounts set compared_at = audited_at;
  `)
}

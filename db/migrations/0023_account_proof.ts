// Why the broker refused an account, and whether it has accepted the token that is stored now: an account whose token
// nobody has tried must not take part in what is shared by all who trade on the same broker account.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table broker_accounts
      -- Only meaningful while status is REJECTED; processes of the version before write neither column.
      add column rejected_reason text check (rejected_reason in
        ('TOKEN_REFUSED', 'MODE_MISMATCH', 'CURRENCY_MISMATCH', 'TOKEN_EXPIRED', 'ACCOUNT_NOT_FOUND')),
      -- The token_version that the broker accepted last for this account. Accounts stored before are checked when next opened.
      add column proven_version int;
  `)
}

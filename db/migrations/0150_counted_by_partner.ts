// Broker accounts and follows of a partner are counted, for its bounds.
import type { Knex } from 'knex'
import { buildIndex } from '../postgres/build-index.ts'

/** Accounts and follows are written all the time. */
export const config = { transaction: false }

export async function up(db: Knex): Promise<void> {
  await buildIndex(db, 'broker_accounts_partner', 'broker_accounts (partner_id)')
  await buildIndex(db, 'follows_partner', 'follows (partner_id)')
}

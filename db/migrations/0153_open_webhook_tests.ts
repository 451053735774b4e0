// Tests of webhooks that have no result yet are counted, for the bound of a partner.
import type { Knex } from 'knex'
import { buildIndex } from '../postgres/build-index.ts'

/** Tests are stored while it runs. */
export const config = { transaction: false }

export async function up(db: Knex): Promise<void> {
  await buildIndex(db, 'webhook_tests_open', 'webhook_tests (partner_id) where result is null')
}

// Broker accounts and follows of a partner are counted, for its bounds.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create index broker_accounts_partner on broker_accounts (partner_id);
    create index follows_partner on follows (partner_id)`)
}

// Sums of a day are kept for each mode and currency: what was made in yen must not be added to dollars, nor virtual money
// to real. The sums are recomputed from the orders by the workers; until then readers add up the orders themselves.
// A worker of the previous version fails to add up after this, and changes nothing.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    delete from trader_days;
    delete from trader_days_late;
    update trader_days_until set until = now() - interval '31 days';
    alter table trader_days
      add column account_mode text collate "C" not null,
      -- empty where the order has none
      add column currency text collate "C" not null,
      drop constraint trader_days_pkey,
      add primary key (partner_id, trader_id, day, account_mode, currency);

    create index orders_closed_sums on orders (partner_id, closed_at)
      include (trader_id, pnl, stake, copied_from, account_mode, currency) where phase = 'closed';
    drop index orders_closed;
    alter index orders_closed_sums rename to orders_closed;
  `)
}

// The sums of stakes of a day are in the currency of its account, as all its other amounts: of accounts in other currencies
// than USD, those in USD were added up. Their days are recomputed by the workers; readers add up the orders until then.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    insert into trader_days_late (partner_id, trader_id, day)
    select distinct partner_id, trader_id, (closed_at at time zone 'UTC')::date from orders
     where phase = 'closed' and stake_in_account is not null and closed_at > now() - interval '32 days'
       and (partner_id, trader_id, (closed_at at time zone 'UTC')::date) in (select partner_id, trader_id, day from trader_days);

    drop trigger orders_late on orders;
    create trigger orders_late after insert or update of phase, closed_at, pnl, stake, stake_in_account on orders for each row
      when (new.phase = 'closed' and new.closed_at < now() - interval '5 minutes' and new.closed_at > now() - interval '31 days')
      execute function mark_late_order();

    create index orders_closed_sums on orders (partner_id, closed_at)
      include (trader_id, pnl, stake, stake_in_account, copied_from, account_mode, currency) where phase = 'closed';
    drop index orders_closed;
    alter index orders_closed_sums rename to orders_closed;
  `)
}

// An event shows its order as it was at its moment. Limits that the trader changes at the broker, and commission and markup that come with
// the contract's state, were shown in events from before: the same event was one thing to who read it at once, and another to who read it later.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create or replace function order_events() returns trigger language plpgsql as $$
    declare
      told text := case new.phase when 'closed' then 'order.closed' when 'failed' then 'order.failed'
                     when 'review' then 'order.review' else 'order.opened' end;
      -- Binary contracts have none.
      limits jsonb := case when new.kind = 'MULTIPLIER' then
        jsonb_build_object('stop_loss', new.stop_loss, 'take_profit', new.take_profit) end;
    begin
      if new.phase = 'open' and old.phase = 'open' then told := 'order.review'; end if;
      if new.phase = 'closed' and old.phase <> 'open' then
        insert into event_outbox (partner_id, type, subject, trader, facts)
        values (new.partner_id, 'order.opened', new.id, new.trader_external_id, limits);
      end if;
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, told, new.id, new.trader_external_id,
        case when told in ('order.failed', 'order.review') then jsonb_build_object(
          'status', new.status, 'error_code', new.error_code, 'error_message', new.error_message, 'retryable', new.retryable,
          'currency', new.currency, 'stake_in_account', new.stake_in_account, 'exchange_rate', new.exchange_rate,
          'broker_order_id', new.broker_order_id, 'buy_price', new.buy_price, 'payout', new.payout, 'opened_at', new.opened_at,
          'commission', new.commission, 'markup', new.markup) || coalesce(limits, '{}')
          when told = 'order.opened' then limits end);
      return null;
    end $$;
  `)
}

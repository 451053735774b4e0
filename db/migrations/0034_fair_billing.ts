// Nobody is charged for time in which it is locked out, and a retired bot takes no new money.
//
// - next_plan: a downgrade waits for the end of the period that is paid. active_since: when a suspension or an unpaid
//   time last ended; what is renewed after it begins then, not in the time before.
// - billing_anchor of a subscription: the day of the month on which its periods end, once they were moved; else the day
//   on which it began. The refund of its last payment is noted as that of a purchase is.
// - A process of the previous version charges by its own rules until it is replaced; it reads none of these columns.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table partners
      add column if not exists next_plan text check (next_plan in ('LAUNCH', 'PRO', 'SCALE')),
      add column if not exists active_since timestamptz(3);
    alter table marketplace_subscriptions
      add column if not exists billing_anchor timestamptz(3),
      add column if not exists refunded_at timestamptz(3),
      add column if not exists refund_reason text check (length(refund_reason) between 3 and 500);
    create index if not exists marketplace_subscriptions_bot on marketplace_subscriptions (bot_id) where status <> 'CANCELED';
    create index if not exists marketplace_subscriptions_partner on marketplace_subscriptions (partner_id) where status <> 'CANCELED';
    update marketplace_subscriptions s set cancel_at_period_end = true
      from marketplace_bots b where b.id = s.bot_id and b.status = 'RETIRED' and s.status <> 'CANCELED'`)
}

// What a test side shows of the fee of its partner, since it is never charged itself: the event of its plan has what the wallet of its partner
// lacks, not its own play money, and its next fee is that of the plan its partner changes to.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create or replace function plan_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.id, case when new.plan_active then 'plan.active' else 'plan.inactive' end, new.id,
        jsonb_build_object('plan', new.plan, 'plan_active', new.plan_active, 'suspended', new.suspended_at is not null,
          'period_end', new.period_end,
          'balance', (select coalesce(sum(balance), 0)::text from ledger_accounts where id = 'wallet:' || coalesce(new.test_of, new.id))));
      return null;
    end $$;

    create or replace function mirror_test_side() returns trigger language plpgsql as $$
    begin
      update partners set name = new.name, plan = new.plan, next_plan = new.next_plan, plan_active = new.plan_active,
             suspended_at = new.suspended_at, suspended_reason = new.suspended_reason, key_limit = new.key_limit,
             trader_limit = new.trader_limit, period_start = new.period_start, period_end = new.period_end, active_since = new.active_since
       where test_of = new.id;
      return null;
    end $$;
    create or replace trigger mirror_test_side after update of name, plan, next_plan, plan_active, suspended_at, suspended_reason, key_limit,
      trader_limit, period_start, period_end, active_since on partners
      for each row when (new.test_of is null) execute function mirror_test_side();
    update partners t set next_plan = p.next_plan from partners p where t.test_of = p.id and t.next_plan is distinct from p.next_plan;
  `)
}

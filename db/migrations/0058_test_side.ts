// The test side of a partner: a partner of its own (test_of names the real one), so that everything that keeps partners apart keeps
// test keys and live keys apart. It has no money, is never billed, and trades with the test broker alone. Its name, plan, standing and
// limits are those of the real partner. Where rows of several partners meet, triggers hold the two sides apart.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    alter table partners add column test_of text collate "C" references partners;
    alter table partners add constraint partners_test_of_key unique (test_of);
    alter table partners drop constraint partners_broker_dialect_check;
    alter table partners add constraint partners_broker_dialect_check
      check (broker_dialect in ('v3', 'next', 'test') and (broker_dialect = 'test') = (test_of is not null));

    -- Each test side has an application of its own at the test broker.
    create sequence test_applications start 1000;

    alter table api_keys add column test boolean not null default false;

    create function is_test_side(partner text) returns boolean language sql stable as $$
      select test_of is not null from partners where id = partner
    $$;

    -- What the real partner is, its test side is, too.
    create function mirror_test_side() returns trigger language plpgsql as $$
    begin
      update partners set name = new.name, plan = new.plan, plan_active = new.plan_active, suspended_at = new.suspended_at,
             suspended_reason = new.suspended_reason, key_limit = new.key_limit, trader_limit = new.trader_limit,
             period_start = new.period_start, period_end = new.period_end
       where test_of = new.id;
      return null;
    end $$;
    create trigger mirror_test_side after update of name, plan, plan_active, suspended_at, suspended_reason, key_limit, trader_limit,
      period_start, period_end on partners for each row when (new.test_of is null) execute function mirror_test_side();

    create function keep_test_side() returns trigger language plpgsql as $$
    begin
      if tg_op = 'UPDATE' and new.test_of is distinct from old.test_of then
        raise exception 'a partner cannot change its side' using errcode = 'restrict_violation';
      end if;
      if new.test_of is not null and is_test_side(new.test_of) then
        raise exception 'a test side has no test side' using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger keep_test_side before insert or update of test_of on partners for each row execute function keep_test_side();

    create function key_of_its_side() returns trigger language plpgsql as $$
    begin
      if new.test <> is_test_side(new.partner_id) then
        raise exception 'a test key belongs to a test side, and no other key does' using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger key_of_its_side before insert or update of test, partner_id on api_keys for each row execute function key_of_its_side();

    -- Accounts of the broker are shared by the partners that name them, with their queue and their doubts: ids of the test broker
    -- are of a form that no account of the real one has.
    create function account_of_its_side() returns trigger language plpgsql as $$
    begin
      if (new.account_id like 'TST%') <> is_test_side(new.partner_id) then
        raise exception 'accounts of the test broker begin with TST, and no others do' using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger account_of_its_side before insert or update of account_id, partner_id on broker_accounts for each row
      execute function account_of_its_side();

    create function order_of_its_side() returns trigger language plpgsql as $$
    begin
      if (new.account_id like 'TST%') <> (new.dialect = 'test') then
        raise exception 'an order of the test side goes to the test broker, and no other does' using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger order_of_its_side before insert on orders for each row execute function order_of_its_side();

    create function follow_of_its_side() returns trigger language plpgsql as $$
    begin
      if is_test_side(new.partner_id) <> (select is_test_side(partner_id) from traders where id = new.leader_id) then
        raise exception 'a follow does not cross sides' using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger follow_of_its_side before insert on follows for each row execute function follow_of_its_side();

    -- What test keys have no scope for: money, the marketplace, sites.
    create function refuse_test_side() returns trigger language plpgsql as $$
    begin
      if is_test_side(new.partner_id) then
        raise exception 'a test side has no %', tg_table_name using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger refuse_test_side before insert on marketplace_bots for each row execute function refuse_test_side();
    create trigger refuse_test_side before insert on marketplace_purchases for each row execute function refuse_test_side();
    create trigger refuse_test_side before insert on marketplace_subscriptions for each row execute function refuse_test_side();
    create trigger refuse_test_side before insert on deployments for each row execute function refuse_test_side();
    create function refuse_test_money() returns trigger language plpgsql as $$
    begin
      if is_test_side(nullif(split_part(new.id, ':', 2), '')) then
        raise exception 'a test side has no money' using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger refuse_test_side before insert on ledger_accounts for each row execute function refuse_test_money();

    create or replace function key_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.partner_id, case when new.revoked_at is null then 'key.created' else 'key.revoked' end, new.id,
        jsonb_build_object('id', new.id, 'partner_id', new.partner_id, 'lookup', new.lookup, 'label', new.label, 'scopes', new.scopes,
          'created_at', new.created_at, 'last_used_at', new.last_used_at, 'revoked_at', new.revoked_at, 'test', new.test));
      return null;
    end $$;
  `)
}

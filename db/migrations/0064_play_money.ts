// Marketplace, wallets and sites of test sides, with play money. Rows of a partner are on its side as before; bots are also sold across
// partners, and movements also touch accounts of the platform, so bots and ledger accounts carry their side, and triggers keep sales,
// reviews and movements on one side. Sites of test sides have addresses that no other site can have.
//
// An api process of the previous version lists published bots of test sides beside the others until it is restarted; it cannot sell them
// to the live side.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    drop trigger refuse_test_side on marketplace_bots;
    drop trigger refuse_test_side on marketplace_purchases;
    drop trigger refuse_test_side on marketplace_subscriptions;
    drop trigger refuse_test_side on deployments;
    drop trigger refuse_test_side on ledger_accounts;
    drop function refuse_test_side();
    drop function refuse_test_money();

    -- The side of the bot's partner, also of what is listed of it.
    alter table marketplace_bots add column test boolean not null default false;
    alter table marketplace_words add column test boolean not null default false;
    alter table marketplace_changes add column test boolean not null default false;

    create function bot_of_its_side() returns trigger language plpgsql as $$
    begin
      new.test := is_test_side(new.partner_id);
      return new;
    end $$;
    create trigger bot_of_its_side before insert or update of partner_id, test on marketplace_bots
      for each row execute function bot_of_its_side();

    create function of_the_bots_side() returns trigger language plpgsql as $$
    begin
      if is_test_side(new.partner_id) <> (select test from marketplace_bots where id = new.bot_id) then
        raise exception '% does not cross sides', tg_table_name using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger of_the_bots_side before insert or update of bot_id, partner_id on marketplace_purchases
      for each row execute function of_the_bots_side();
    create trigger of_the_bots_side before insert or update of bot_id, partner_id on marketplace_subscriptions
      for each row execute function of_the_bots_side();
    create trigger of_the_bots_side before insert or update of bot_id, partner_id on marketplace_reviews
      for each row execute function of_the_bots_side();

    -- The side is a filter of every list, so it is in the index as the others are.
    drop index marketplace_bots_newest;
    drop index marketplace_bots_rated;
    drop index marketplace_bots_downloaded;
    create index marketplace_bots_newest on marketplace_bots (published_at desc, id desc)
      include (category, risk_level, test) where status = 'PUBLISHED';
    create index marketplace_bots_rated on marketplace_bots (rating desc, rating_count desc, id desc)
      include (category, risk_level, test) where status = 'PUBLISHED';
    create index marketplace_bots_downloaded on marketplace_bots (downloads desc, id desc)
      include (category, risk_level, test) where status = 'PUBLISHED';
    -- The few of test sides, which would else be looked for among all.
    create index marketplace_bots_test on marketplace_bots (published_at desc, id desc) where status = 'PUBLISHED' and test;

    -- Play money comes from accounts of its own, and goes there.
    alter table ledger_accounts add column test boolean not null default false;
    alter table ledger_accounts drop constraint ledger_accounts_name;
    alter table ledger_accounts add constraint ledger_accounts_name
      check (id in ('fees', 'world', 'test_fees', 'test_world') or id ~ '^(wallet|earnings|held):[^:]+$');

    create function account_of_its_money() returns trigger language plpgsql as $$
    begin
      new.test := coalesce(is_test_side(nullif(split_part(new.id, ':', 2), '')), new.id in ('test_fees', 'test_world'));
      return new;
    end $$;
    create trigger account_of_its_money before insert or update of test on ledger_accounts
      for each row execute function account_of_its_money();
    insert into ledger_accounts (id) values ('test_fees'), ('test_world');

    -- Each side of a transfer is whole, so that none moves anything between the sides.
    create or replace function ledger_check_entries() returns trigger language plpgsql as $$
    declare wrong text;
    begin
      select t.id into wrong
        from ledger_transfers t join ledger_entries e on e.transfer_id = t.id join ledger_accounts a on a.id = e.account_id
       where t.id in (select transfer_id from fresh)
       group by t.id, a.test
      having sum(e.amount) <> 0 or sum(e.amount) filter (where e.amount > 0) is distinct from t.amount
       limit 1;
      if wrong is not null then
        raise exception 'transfer % does not balance', wrong using errcode = 'check_violation';
      end if;
      return null;
    end $$;

    -- test~<name>: a name that no site of the live side can have, and each test side's sites have.
    alter table deployments drop constraint deployments_tenant_slug_check;
    alter table deployments add constraint deployments_tenant_slug_check
      check (tenant_slug ~ '^(test~){0,1}[a-z0-9][a-z0-9-]{1,30}[a-z0-9]$');
    create function site_of_its_side() returns trigger language plpgsql as $$
    begin
      if (new.tenant_slug like 'test~%') <> is_test_side(new.partner_id) then
        raise exception 'sites of test sides begin with test~, and no others do' using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger site_of_its_side before insert or update of tenant_slug, partner_id on deployments
      for each row execute function site_of_its_side();

    -- Since when a partner may use what it pays for decides what its subscriptions cost, on both sides.
    create or replace function mirror_test_side() returns trigger language plpgsql as $$
    begin
      update partners set name = new.name, plan = new.plan, plan_active = new.plan_active, suspended_at = new.suspended_at,
             suspended_reason = new.suspended_reason, key_limit = new.key_limit, trader_limit = new.trader_limit,
             period_start = new.period_start, period_end = new.period_end, active_since = new.active_since
       where test_of = new.id;
      return null;
    end $$;
    drop trigger mirror_test_side on partners;
    create trigger mirror_test_side after update of name, plan, plan_active, suspended_at, suspended_reason, key_limit, trader_limit,
      period_start, period_end, active_since on partners for each row when (new.test_of is null) execute function mirror_test_side();
  `)
}

// The event log. Triggers insert a thin row into the outbox in the statement that changes a record, so that no statement can
// forget it; the sequencer (db/events/sequence.ts) moves these rows into the log, where each partner's have dense positions.
// What a row of the log lacks is read from the record; what the record may lose later (an error that a retry clears, a status)
// is kept in `facts`. Processes of the previous version change records as ever: the triggers write their events, too.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  const { rows } = await db.raw('select quote_ident(current_schema()) as name')
  const [schema] = rows as [{ name: string }]
  await db.raw(`
    create table event_outbox (
      id          bigint generated always as identity primary key,
      partner_id  text collate "C" not null,
      type        text not null,
      -- The record's id.
      subject     text collate "C" not null,
      -- The trader's external id; null where the event is the partner's own.
      trader      text,
      at          timestamptz not null default clock_timestamp(),
      facts       jsonb
    );
    -- Rows live for milliseconds: what is dead must go before the index of the ids grows.
    alter table event_outbox set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
      autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_threshold = 1000000000);

    -- The newest position of each partner, and the newest that retention has dropped.
    create table event_positions (
      partner_id  text collate "C" primary key,
      position    bigint not null,
      dropped     bigint not null default 0
    );
    alter table event_positions set (fillfactor = 50);

    -- The installation's epoch (changed after a restore to an earlier point), and the day of the newest partition written to.
    create table event_epoch (
      single  boolean primary key default true check (single),
      epoch   int not null check (epoch > 0),
      day     date not null
    );
    insert into event_epoch (epoch, day)
    values (1 + floor(random() * 2000000000)::int, (now() at time zone 'UTC')::date);

    create table events (
      partner_id  text collate "C" not null,
      -- Never less than that of the position before.
      day         date not null,
      position    bigint not null,
      id          uuid not null,
      type        text not null,
      subject     text collate "C" not null,
      trader      text,
      at          timestamptz not null,
      facts       jsonb,
      primary key (partner_id, day, position)
    ) partition by range (day);
    create index events_id on events (id);

    -- The processes' role may not create or drop tables; its owner's functions do it.
    create function make_event_days(first date, last date) returns int language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      day date := first;
      made int := 0;
    begin
      while day <= last loop
        if to_regclass('events_' || to_char(day, 'YYYYMMDD')) is null then
          execute format('create table %I partition of events for values from (%L) to (%L)',
            'events_' || to_char(day, 'YYYYMMDD'), day, day + 1);
          made := made + 1;
        end if;
        day := day + 1;
      end loop;
      return made;
    end $$;

    -- Drops the oldest day before 'first', with what cursors need to know of it. Returns the day, or null.
    create function drop_event_day(first date) returns date language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      part regclass;
      oldest date;
    begin
      select c.oid::regclass, to_date(right(c.relname, 8), 'YYYYMMDD') into part, oldest
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = 'events'::regclass order by c.relname limit 1;
      if part is null or oldest >= first then return null; end if;
      execute format('update event_positions p set dropped = d.position
                        from event_positions q cross join lateral
                             (select e.position from %s e where e.partner_id = q.partner_id order by e.day desc, e.position desc limit 1) d
                       where p.partner_id = q.partner_id', part);
      execute format('drop table %s', part);
      return oldest;
    end $$;

    select make_event_days((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 3);

    -- A UUIDv7 of now.
    create function event_id() returns uuid language sql volatile as $$
      select encode(set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
        52, 1), 53, 1), 'hex')::uuid
    $$;

    create function order_events() returns trigger language plpgsql as $$
    declare
      told text := case new.phase when 'closed' then 'order.closed' when 'failed' then 'order.failed'
                     when 'review' then 'order.review' else 'order.opened' end;
    begin
      if new.phase = 'open' and old.phase = 'open' then told := 'order.review'; end if;
      if new.phase = 'closed' and old.phase <> 'open' then
        insert into event_outbox (partner_id, type, subject, trader)
        values (new.partner_id, 'order.opened', new.id, new.trader_external_id);
      end if;
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, told, new.id, new.trader_external_id,
        case when told in ('order.failed', 'order.review') then jsonb_build_object(
          'status', new.status, 'error_code', new.error_code, 'error_message', new.error_message, 'retryable', new.retryable,
          'currency', new.currency, 'stake_in_account', new.stake_in_account, 'exchange_rate', new.exchange_rate,
          'broker_order_id', new.broker_order_id, 'buy_price', new.buy_price, 'payout', new.payout, 'opened_at', new.opened_at) end);
      return null;
    end $$;
    create trigger events after update of phase, error_code on orders for each row
      when (new.phase in ('open', 'closed', 'failed', 'review')
            and (old.phase <> new.phase or (new.phase = 'open' and new.error_code = 'REVIEW_REQUIRED' and old.error_code is null)))
      execute function order_events();

    create function external_id_of(trader_id text) returns text language sql stable as $$
      select external_id from traders where id = trader_id
    $$;

    -- When its transaction commits: then it is known which account of the trader is active.
    create function account_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      select new.partner_id, case new.status when 'REJECTED' then 'account.rejected' else 'account.connected' end, new.id, t.external_id,
             jsonb_build_object('id', new.id, 'account_id', new.account_id, 'account_mode', new.account_mode, 'currency', new.currency,
               'status', new.status, 'rejected_reason', new.rejected_reason, 'connected_at', new.connected_at,
               'active_account_id', t.active_account_id)
        from traders t where t.id = new.trader_id;
      return null;
    end $$;
    create constraint trigger events_connected after insert on broker_accounts deferrable initially deferred for each row
      execute function account_events();
    create constraint trigger events_changed after update of status, connected_at on broker_accounts deferrable initially deferred for each row
      when (new.connected_at <> old.connected_at or new.status <> old.status)
      execute function account_events();

    create function follow_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      select new.partner_id, 'follow.paused', new.id, new.trader_external_id,
             to_jsonb(new) || jsonb_build_object('account_id', coalesce(new.account_id, a.account_id),
               'account_mode', coalesce(new.account_mode, a.account_mode), 'currency', coalesce(new.currency, a.currency),
               'open_copies', (select count(*) from orders o where o.follow_id = new.id
                                  and o.phase in ('unproven', 'queued', 'sending', 'open', 'review')))
        from traders t join broker_accounts a on a.id = coalesce(new.broker_account_id, t.active_account_id)
       where t.id = new.trader_id;
      return null;
    end $$;
    create trigger events after update of status on follows for each row
      when (new.status like 'PAUSED%' and new.status <> old.status) execute function follow_events();

    create function payout_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, 'payout.' || lower(new.status), new.id, external_id_of(new.party_id),
        to_jsonb(new) || jsonb_build_object('amount', new.amount::text, 'trader_external_id', external_id_of(new.party_id)));
      return null;
    end $$;
    create trigger events after update of status on payouts for each row
      when (new.status in ('APPROVED', 'PAID', 'REJECTED') and new.status <> old.status) execute function payout_events();

    create function plan_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.id, case when new.plan_active then 'plan.active' else 'plan.inactive' end, new.id,
        jsonb_build_object('plan', new.plan, 'plan_active', new.plan_active, 'suspended', new.suspended_at is not null,
          'period_end', new.period_end,
          'balance', (select coalesce(sum(balance), 0)::text from ledger_accounts where id = 'wallet:' || new.id)));
      return null;
    end $$;
    create trigger events after update of plan_active on partners for each row
      when (new.plan_active <> old.plan_active) execute function plan_events();

    -- To the buyer, and to the creator without anything of the buyer.
    create function purchase_events() returns trigger language plpgsql as $$
    declare
      told text := case new.status when 'REFUNDED' then 'bot.refunded' else 'bot.purchased' end;
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, told, new.id, external_id_of(new.party_id),
        jsonb_build_object('side', 'buyer', 'id', new.id, 'bot_id', new.bot_id, 'price', new.price::text, 'status', new.status,
          'purchased_at', new.purchased_at, 'refunded_at', new.refunded_at));
      insert into event_outbox (partner_id, type, subject, trader, facts)
      select b.partner_id, told, new.id, external_id_of(b.party_id),
             jsonb_build_object('side', 'creator', 'id', new.id, 'bot_id', new.bot_id, 'price', new.price::text,
               'net', (new.price - new.fee)::text, 'status', new.status)
        from marketplace_bots b where b.id = new.bot_id;
      return null;
    end $$;
    create trigger events_bought after insert on marketplace_purchases for each row execute function purchase_events();
    create trigger events_refunded after update of status on marketplace_purchases for each row
      when (new.status = 'REFUNDED' and old.status <> 'REFUNDED') execute function purchase_events();

    create function subscription_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, trader, facts)
      values (new.partner_id, 'subscription.past_due', new.id, external_id_of(new.party_id),
        to_jsonb(new) || jsonb_build_object('price', new.price::text));
      return null;
    end $$;
    create trigger events after update of status on marketplace_subscriptions for each row
      when (new.status = 'PAST_DUE' and old.status <> 'PAST_DUE') execute function subscription_events();

    create function key_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.partner_id, case when new.revoked_at is null then 'key.created' else 'key.revoked' end, new.id,
        jsonb_build_object('id', new.id, 'partner_id', new.partner_id, 'lookup', new.lookup, 'label', new.label, 'scopes', new.scopes,
          'created_at', new.created_at, 'last_used_at', new.last_used_at, 'revoked_at', new.revoked_at));
      return null;
    end $$;
    create trigger events_created after insert on api_keys for each row execute function key_events();
    create trigger events_revoked after update of revoked_at on api_keys for each row
      when (new.revoked_at is not null and old.revoked_at is null) execute function key_events();

    create function deployment_events() returns trigger language plpgsql as $$
    begin
      insert into event_outbox (partner_id, type, subject, facts)
      values (new.partner_id, 'deployment.' || lower(new.status), new.id, to_jsonb(new));
      return null;
    end $$;
    create trigger events after update of status on deployments for each row
      when (new.status in ('LIVE', 'FAILED') and new.status <> old.status) execute function deployment_events();
  `)
}

// Analytics: contracts added up by quarters of an hour of their purchase, and closed contracts by trader and day, so that revenue
// and traders need not be added up from millions of orders. Quarters, since the offsets of time zones are multiples of them.
// The orders stay the truth: a row here is computed from them and can be computed again at any time. Also what the broker
// itself reports of an application's markup. A process of the previous version writes orders as ever: the triggers mark its changes.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- A whole number instead of the id, in sets of traders.
    alter table traders add column number int generated always as identity;

    -- Contracts bought in a quarter of an hour. Grouping is what 'value' means: '' (all contracts; value ''), asset, contractType or
    -- kind. Of each mode, and of both together (ALL), since a trader may be active in both.
    create table analytics_quarters (
      partner_id      text collate "C" not null references partners,
      grouping_by     text collate "C" not null check (grouping_by in ('', 'asset', 'contractType', 'kind')),
      account_mode    text collate "C" not null check (account_mode in ('REAL', 'DEMO', 'ALL')),
      -- Its start.
      quarter         timestamptz not null,
      -- empty where the orders have none
      currency        text collate "C" not null,
      value           text collate "C" not null,
      contracts       int not null,
      -- of these, not closed yet
      open            int not null,
      stake           numeric not null,
      payout          numeric not null,
      markup          numeric not null,
      markup_unknown  int not null,
      commission      numeric not null,
      traders_pnl     numeric not null,
      -- Their numbers, each once.
      traders         int[] not null,
      primary key (partner_id, grouping_by, account_mode, quarter, currency, value)
    );

    -- The same by whole days of UTC, with the number of different traders.
    create table analytics_days (
      partner_id      text collate "C" not null references partners,
      grouping_by     text collate "C" not null,
      account_mode    text collate "C" not null,
      day             date not null,
      currency        text collate "C" not null,
      value           text collate "C" not null,
      contracts       int not null,
      open            int not null,
      stake           numeric not null,
      payout          numeric not null,
      markup          numeric not null,
      markup_unknown  int not null,
      commission      numeric not null,
      traders_pnl     numeric not null,
      traders         int not null,
      primary key (partner_id, grouping_by, account_mode, day, currency, value)
    );

    -- Contracts closed by a trader on a day of UTC.
    create table analytics_trader_days (
      partner_id      text collate "C" not null references partners,
      day             date not null,
      account_mode    text collate "C" not null,
      currency        text collate "C" not null,
      trader_id       text collate "C" not null references traders,
      trades          int not null,
      won             int not null,
      stake           numeric not null,
      payout          numeric not null,
      pnl             numeric not null,
      markup          numeric not null,
      markup_unknown  int not null,
      copied          int not null,
      first_at        timestamptz not null,
      last_at         timestamptz not null,
      primary key (partner_id, day, account_mode, currency, trader_id)
    );

    -- Orders opened before that instant, always the start of a quarter, are in analytics_quarters, and orders closed before it in
    -- analytics_trader_days, save those marked as late.
    create table analytics_until (
      single  boolean primary key default true check (single),
      until   timestamptz not null
    );
    insert into analytics_until (until)
    select date_bin('1 day', coalesce(min(opened_at), now() - interval '1 hour'), timestamptz '2000-01-01 00:00+00')
      from orders where opened_at is not null;

    -- The last comparison of samples of these sums with the orders.
    create table analytics_checks (
      single       boolean primary key default true check (single),
      checked_at   timestamptz not null default now(),
      -- What was compared: orders bought or closed on these days of these partners.
      samples      int not null,
      differences  int not null
    );

    -- Quarters of purchases, and days of a trader's closes, in which something changed that may have been added up before. The mark
    -- is part of the transaction that makes the change, so whoever sees the change sees the mark. Rows are added and deleted,
    -- never shared: a mark that is there already may be on its way out.
    create table analytics_late_quarters (
      partner_id  text collate "C" not null,
      quarter     timestamptz not null
    );
    create table analytics_late_days (
      partner_id  text collate "C" not null,
      trader_id   text collate "C" not null,
      day         date not null
    );
    alter table analytics_late_quarters set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
    alter table analytics_late_days set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

    -- What was opened or closed within five minutes is not added up yet: most changes pass the condition of the trigger.
    create function mark_late_analytics() returns trigger language plpgsql as $$
    begin
      if new.opened_at < now() - interval '5 minutes' then
        insert into analytics_late_quarters
        values (new.partner_id, date_bin('15 minutes', new.opened_at, timestamptz '2000-01-01 00:00+00'));
      end if;
      if new.closed_at < now() - interval '5 minutes' then
        insert into analytics_late_days values (new.partner_id, new.trader_id, (new.closed_at at time zone 'UTC')::date);
      end if;
      if tg_op = 'UPDATE' then
        if old.opened_at <> new.opened_at and old.opened_at < now() - interval '5 minutes' then
          insert into analytics_late_quarters
          values (old.partner_id, date_bin('15 minutes', old.opened_at, timestamptz '2000-01-01 00:00+00'));
        end if;
        if old.closed_at <> new.closed_at and old.closed_at < now() - interval '5 minutes' then
          insert into analytics_late_days values (old.partner_id, old.trader_id, (old.closed_at at time zone 'UTC')::date);
        end if;
      end if;
      return null;
    end $$;
    create trigger analytics_inserted after insert on orders for each row
      when (new.phase in ('open', 'closed') and new.opened_at < now() - interval '5 minutes')
      execute function mark_late_analytics();
    create trigger analytics_changed
      after update of phase, opened_at, closed_at, pnl, buy_price, stake_in_account, markup, commission, currency, account_mode
      on orders for each row
      when (least(new.opened_at, old.opened_at) < now() - interval '5 minutes'
            and (new.phase in ('open', 'closed') or old.phase in ('open', 'closed'))
            and (new.phase <> old.phase or new.markup is distinct from old.markup or new.commission is distinct from old.commission
                 or new.pnl is distinct from old.pnl or new.closed_at is distinct from old.closed_at or new.opened_at <> old.opened_at
                 or new.buy_price <> old.buy_price or new.stake_in_account is distinct from old.stake_in_account
                 or new.currency is distinct from old.currency or new.account_mode <> old.account_mode))
      execute function mark_late_analytics();

    create index orders_opened on orders (partner_id, opened_at) where opened_at is not null;
  `)
}

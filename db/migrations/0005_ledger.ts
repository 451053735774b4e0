// The ledger, the partners' billing periods, and payouts. PostgreSQL itself keeps the promises: entries are
// only ever added, balances follow from entries, a transfer is whole and balanced when its statement ends,
// no wallet goes below zero. These rules hold for the owner of the tables too, not only for our code.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    -- Whole cents. A column type with two digits would round 0.005 silently; this refuses it.
    create domain usd as numeric check (value = round(value, 2) and abs(value) < 1000000000000000);

    -- wallet:<partner>, earnings:<partner>, held:<partner> (payouts requested and not yet paid), fees (the
    -- platform's) and world (everything outside). Opened at zero by their first transfer.
    create table ledger_accounts (
      id          text collate "C" primary key,
      kind        text not null generated always as (split_part(id, ':', 1)) stored,
      partner_id  text collate "C" generated always as (nullif(split_part(id, ':', 2), '')) stored references partners,
      balance     usd not null default 0.00,
      -- the number of entries so far
      version     bigint not null default 0,
      opened_at   timestamptz not null default now(),
      constraint ledger_accounts_name check (id in ('fees', 'world') or id ~ '^(wallet|earnings|held):[^:]+$'),
      constraint ledger_accounts_covered check (kind not in ('wallet', 'held') or balance >= 0)
    ) with (fillfactor = 50);

    -- One row per movement of money; the reference makes a repeat visible.
    create table ledger_transfers (
      id          text collate "C" primary key,
      reference   text collate "C" not null unique check (length(reference) between 1 and 200),
      kind        text not null check (kind ~ '^[a-z_]{1,40}$'),
      -- what changed hands: the sum of the entries above zero
      amount      usd not null check (amount > 0),
      details     jsonb not null default '{}',
      created_at  timestamptz not null default now()
    );

    -- What a transfer added to an account (above zero) or took from it, and the balance it left.
    create table ledger_entries (
      account_id   text collate "C" not null references ledger_accounts,
      version      bigint not null,
      transfer_id  text collate "C" not null references ledger_transfers,
      amount       usd not null check (amount <> 0),
      balance      usd not null,
      primary key (account_id, version),
      unique (transfer_id, account_id)
    );

    insert into ledger_accounts (id) values ('fees'), ('world');

    create function ledger_refuse() returns trigger language plpgsql as $$
    begin
      raise exception 'the ledger only grows: % of % is refused', lower(tg_op), tg_table_name
        using errcode = 'restrict_violation';
    end $$;

    create trigger append_only before update or delete on ledger_transfers
      for each row execute function ledger_refuse();
    create trigger append_only before update or delete on ledger_entries
      for each row execute function ledger_refuse();
    create trigger not_deleted before delete on ledger_accounts
      for each row execute function ledger_refuse();
    create trigger not_truncated before truncate on ledger_transfers execute function ledger_refuse();
    create trigger not_truncated before truncate on ledger_entries execute function ledger_refuse();
    create trigger not_truncated before truncate on ledger_accounts execute function ledger_refuse();
    -- A balance changes only through an entry, that is from within the trigger below.
    create trigger changed_by_entries_only before update on ledger_accounts
      for each row when (pg_trigger_depth() < 1) execute function ledger_refuse();

    create function ledger_opens_empty() returns trigger language plpgsql as $$
    begin
      if new.balance <> 0 or new.version <> 0 then
        raise exception 'account % must be opened empty', new.id using errcode = 'restrict_violation';
      end if;
      return new;
    end $$;
    create trigger opens_empty before insert on ledger_accounts
      for each row execute function ledger_opens_empty();

    create function ledger_apply_entry() returns trigger language plpgsql as $$
    begin
      update ledger_accounts set balance = round(balance + new.amount, 2), version = version + 1
       where id = new.account_id
       returning balance, version into new.balance, new.version;
      if not found then
        raise exception 'account % is not open', new.account_id using errcode = 'foreign_key_violation';
      end if;
      return new;
    end $$;
    create trigger apply before insert on ledger_entries for each row execute function ledger_apply_entry();

    -- At the end of each statement every transfer touched is whole: its entries sum to zero and those above
    -- zero to its amount. The latter also keeps entries from being added to an older transfer.
    create function ledger_check_entries() returns trigger language plpgsql as $$
    declare wrong text;
    begin
      select t.id into wrong
        from ledger_transfers t join ledger_entries e on e.transfer_id = t.id
       where t.id in (select transfer_id from fresh)
       group by t.id
      having sum(e.amount) <> 0 or sum(e.amount) filter (where e.amount > 0) is distinct from t.amount
       limit 1;
      if wrong is not null then
        raise exception 'transfer % does not balance', wrong using errcode = 'check_violation';
      end if;
      return null;
    end $$;
    create trigger balanced after insert on ledger_entries
      referencing new table as fresh for each statement execute function ledger_check_entries();

    create function ledger_check_transfers() returns trigger language plpgsql as $$
    declare wrong text;
    begin
      select t.id into wrong from fresh t
       where not exists (select from ledger_entries e where e.transfer_id = t.id) limit 1;
      if wrong is not null then
        raise exception 'transfer % has no entries', wrong using errcode = 'check_violation';
      end if;
      return null;
    end $$;
    create trigger has_entries after insert on ledger_transfers
      referencing new table as fresh for each statement execute function ledger_check_transfers();

    -- The paid (or trial) period a partner is in. Periods end on the anchor's day of the month, or on the
    -- month's last day where it has none. Milliseconds, so that a JavaScript Date holds them exactly.
    alter table partners
      add column period_start    timestamptz(3) not null default now(),
      add column period_end      timestamptz(3) not null default now() + interval '30 days',
      add column billing_anchor  timestamptz(3) not null default now() + interval '30 days',
      add constraint partners_period check (period_end >= period_start);
    create index partners_due on partners (period_end, id) where plan_active;
    create index partners_unpaid on partners (id) where not plan_active;

    create table payouts (
      id                   text collate "C" primary key,
      partner_id           text collate "C" not null references partners,
      amount               usd not null check (amount > 0),
      destination_address  text not null check (length(destination_address) = 34),
      status               text not null default 'REQUESTED'
                             check (status in ('REQUESTED', 'APPROVED', 'PAID', 'REJECTED')),
      requested_at         timestamptz not null default now(),
      decided_at           timestamptz,
      paid_at              timestamptz,
      -- the operator's proof of payment
      reference            text check (length(reference) between 1 and 200),
      reason               text check (length(reason) between 3 and 500),
      check ((status = 'REQUESTED') = (decided_at is null)),
      check ((status = 'PAID') = (paid_at is not null and reference is not null)),
      check ((status = 'REJECTED') = (reason is not null))
    );
    create index payouts_partner on payouts (partner_id, requested_at desc, id desc);
    create index payouts_status on payouts (status, requested_at, id);
  `)
}

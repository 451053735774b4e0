// Webhooks: a cursor over the partner's event log for each endpoint. An event has a row of its own only while it failed or waits
// (webhook_pending), so a backlog, a replay and a pause are each one column. Attempts are kept in daily partitions.
// A worker holds endpoints under one lease (webhook_senders); `lease` changes with each holder and each change of the settings, and
// nothing is written under an older one.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  const { rows } = await db.raw('select quote_ident(current_schema()) as name')
  const [schema] = rows as [{ name: string }]
  await db.raw(`
    create table webhook_endpoints (
      id               text collate "C" primary key,
      partner_id       text collate "C" not null references partners,
      url              text not null,
      -- null: all.
      types            text[],
      description      text,
      enabled          boolean not null default true,
      disabled_reason  text check (disabled_reason in ('PARTNER', 'OPERATOR', 'GONE', 'FAILURES')),
      disabled_at      timestamptz,
      secret_key_id    text not null,
      secret_sealed    bytea not null,
      -- The secret before the last rotation; both sign until then.
      old_key_id       text,
      old_sealed       bytea,
      old_until        timestamptz,
      created_at       timestamptz not null default now(),
      -- Everything up to this position of the log is delivered, FAILED, in webhook_pending, or one of the gaps.
      position         bigint not null,
      day              date not null,
      gaps             bigint[] not null default '{}',
      -- Failed attempts since the last success, and since when there are nothing but failures.
      failures         int not null default 0,
      failing_since    timestamptz,
      last_error       text,
      paused_until     timestamptz,
      -- Events that retention dropped before they could be delivered.
      missed           bigint not null default 0,
      -- While no worker holds it: when the next waiting event is due.
      next_at          timestamptz,
      worker           text collate "C",
      lease            int not null default 0,
      -- Changes when rows of webhook_pending or webhook_replays are added from outside.
      version          int not null default 0,
      check (enabled = (disabled_at is null))
    );
    alter table webhook_endpoints set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1);
    create index webhook_endpoints_partner on webhook_endpoints (partner_id, id);
    create index webhook_endpoints_worker on webhook_endpoints (worker);

    create table webhook_senders (
      worker       text collate "C" primary key,
      lease_until  timestamptz not null
    );

    -- Events behind an endpoint's position that are neither delivered nor FAILED.
    create table webhook_pending (
      endpoint_id  text collate "C" not null references webhook_endpoints on delete cascade,
      partner_id   text collate "C" not null,
      position     bigint not null,
      day          date not null,
      event_id     uuid not null,
      type         text not null,
      subject      text collate "C" not null,
      -- Of its next attempt.
      delivery_id  uuid not null,
      attempts     int not null,
      replay       boolean not null,
      next_at      timestamptz not null,
      created_at   timestamptz not null default now(),
      primary key (endpoint_id, position)
    );
    alter table webhook_pending set (autovacuum_vacuum_scale_factor = 0.05);

    -- Events to be sent again: those after 'position' up to 'until_position'.
    create table webhook_replays (
      id              bigint generated always as identity primary key,
      endpoint_id     text collate "C" not null references webhook_endpoints on delete cascade,
      partner_id      text collate "C" not null,
      position        bigint not null,
      day             date not null,
      until_position  bigint not null,
      types           text[],
      created_at      timestamptz not null default now()
    );
    create index webhook_replays_endpoint on webhook_replays (endpoint_id, id);

    create table webhook_attempts (
      endpoint_id  text collate "C" not null,
      partner_id   text collate "C" not null,
      day          date not null,
      id           uuid not null,
      event_id     uuid,
      -- null: a test, which is in no log.
      position     bigint,
      event_day    date,
      type         text not null,
      subject      text collate "C",
      attempt      int not null,
      status       text not null check (status in ('DELIVERED', 'RETRYING', 'FAILED')),
      http_status  int,
      ms           int,
      error        text,
      response     text,
      at           timestamptz not null,
      next_at      timestamptz,
      replay       boolean not null,
      primary key (endpoint_id, id, day)
    ) partition by range (day);

    -- The processes' role may not create or drop tables; its owner's functions do it.
    create function make_webhook_days(first date, last date) returns int language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      day date := first;
      made int := 0;
    begin
      while day <= last loop
        if to_regclass('webhook_attempts_' || to_char(day, 'YYYYMMDD')) is null then
          execute format('create table %I partition of webhook_attempts for values from (%L) to (%L)',
            'webhook_attempts_' || to_char(day, 'YYYYMMDD'), day, day + 1);
          made := made + 1;
        end if;
        day := day + 1;
      end loop;
      return made;
    end $$;

    -- Drops the oldest day before 'first'. Returns the day, or null.
    create function drop_webhook_day(first date) returns date language plpgsql
      security definer set search_path = ${schema.name}, pg_temp as $$
    declare
      part regclass;
      oldest date;
    begin
      select c.oid::regclass, to_date(right(c.relname, 8), 'YYYYMMDD') into part, oldest
        from pg_inherits i join pg_class c on c.oid = i.inhrelid
       where i.inhparent = 'webhook_attempts'::regclass order by c.relname limit 1;
      if part is null or oldest >= first then return null; end if;
      execute format('drop table %s', part);
      return oldest;
    end $$;

    select make_webhook_days((now() at time zone 'UTC')::date, (now() at time zone 'UTC')::date + 3);

    -- Test events that partners requested; a worker sends each once and writes its result here.
    create table webhook_tests (
      id           text collate "C" primary key,
      endpoint_id  text collate "C" not null references webhook_endpoints on delete cascade,
      partner_id   text collate "C" not null,
      channel      text not null,
      worker       text collate "C",
      created_at   timestamptz not null default clock_timestamp(),
      result       jsonb
    );
    create index webhook_tests_waiting on webhook_tests (created_at) where worker is null;
    create index webhook_tests_endpoint on webhook_tests (endpoint_id);
  `)
}

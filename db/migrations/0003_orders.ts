// Orders. The row is the truth about an order: `phase` is how far it got, `status` is what partners see.
//
//   queued ──> sending ──> open ──> closed
//     │ ^         │  └──────────────> closed
//     │ └─────────┤ (verifiably not sent, time left)
//     v           v
//   failed <──────┘ (refused, too late, proven absent)
//   sending ──> review ──> open | closed | failed (by the operator)
//   failed (retryable) ──> queued (same clientOrderId again)
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table orders (
      id                  text collate "C" primary key,
      partner_id          text not null references partners,
      trader_id           text not null references traders,
      trader_external_id  text not null,
      broker_account_id   text not null references broker_accounts,
      account_id          text not null,
      account_mode        text not null,
      currency            text,
      app_id              text not null,
      dialect             text not null,

      kind                text not null check (kind in ('BINARY', 'MULTIPLIER')),
      client_order_id     text check (length(client_order_id) between 8 and 64),
      request_hash        bytea not null,
      asset               text not null,
      contract_type       text,
      direction           text check (direction in ('up', 'down')),
      multiplier          numeric,
      stake               numeric not null check (stake > 0),
      duration            int check (duration >= 1),
      duration_unit       text check (duration_unit in ('t', 's', 'm', 'h', 'd')),
      barrier             text,
      stop_loss           numeric,
      take_profit         numeric,

      phase               text not null check (phase in ('queued', 'sending', 'open', 'closed', 'failed', 'review')),
      status              text not null generated always as (
                            case phase when 'open' then 'OPEN' when 'closed' then 'CLOSED' when 'failed' then 'FAILED' else 'PENDING' end
                          ) stored,
      attempt             int not null default 1,
      created_at          timestamptz not null default clock_timestamp(),
      queued_at           timestamptz not null default clock_timestamp(),
      expires_at          timestamptz not null,
      -- set when the intent to buy is committed; the buy leaves before permit_until or never
      sent_at             timestamptz,
      permit_until        timestamptz,
      sender              text,
      reconcile_at        timestamptz,
      looks               int not null default 0,

      broker_order_id     text,
      transaction_id      text,
      buy_price           numeric,
      payout              numeric,
      commission          numeric,
      opened_at           timestamptz,
      expiry_at           timestamptz,
      current_value       numeric,
      unrealized_pnl      numeric,
      marked_at           timestamptz,
      pnl                 numeric,
      entry_price         numeric,
      exit_price          numeric,
      closed_at           timestamptz,

      error_code          text,
      error_message       text,
      error_extras        jsonb,
      retryable           boolean not null default false,
      evidence            jsonb,

      -- whoever follows the contract's stream holds a short lease
      follower            text,
      lease_until         timestamptz,
      -- the process that waits for this order, to be woken
      origin              text,
      copied_from         text references orders,
      follow_id           text,

      constraint orders_client_order_id unique (partner_id, client_order_id),
      constraint orders_named check (client_order_id is not null or copied_from is not null),
      constraint orders_bought check (phase not in ('open', 'closed') or
        (broker_order_id is not null and buy_price is not null and opened_at is not null)),
      constraint orders_settled check (phase <> 'closed' or (pnl is not null and closed_at is not null)),
      constraint orders_refused check (phase <> 'failed' or error_code is not null),
      constraint orders_permit check (phase <> 'sending' or
        (sent_at is not null and permit_until <= expires_at and reconcile_at > permit_until))
    );

    -- At most one order in doubt per broker account; a contract belongs to at most one order; a leader's
    -- order is copied at most once per follow.
    create unique index orders_one_in_doubt on orders (account_id) where phase = 'sending';
    create unique index orders_contract on orders (account_id, broker_order_id) where broker_order_id is not null;
    create unique index orders_copy on orders (copied_from, follow_id) where copied_from is not null;

    create index orders_queue on orders (account_id, queued_at, id) where phase = 'queued';
    create index orders_waiting on orders (expires_at) where phase = 'queued';
    create index orders_doubt on orders (reconcile_at) where phase = 'sending';
    create index orders_lease on orders (lease_until nulls first) where phase = 'open';
    create index orders_review on orders (created_at) where phase = 'review';

    create index orders_page on orders (partner_id, created_at desc, id desc);
    create index orders_page_status on orders (partner_id, status, created_at desc, id desc);
    create index orders_page_trader on orders (partner_id, trader_external_id, created_at desc, id desc);
    create index orders_open_trader on orders (partner_id, trader_external_id) where phase = 'open';
    create index orders_closed_at on orders (partner_id, closed_at desc) where phase = 'closed';

    alter table orders set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02, fillfactor = 85);
  `)
}

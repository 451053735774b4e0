// Records of trades made elsewhere, as partners report them.
import type { Knex } from 'knex'

export async function up(db: Knex): Promise<void> {
  await db.raw(`
    create table trade_records (
      id                      text collate "C" primary key,
      partner_id              text collate "C" not null references partners,
      broker_contract_id      text collate "C" not null check (length(broker_contract_id) between 1 and 64),
      client_broker_loginid   text collate "C" not null check (length(client_broker_loginid) between 1 and 32),
      contract_type           text not null check (length(contract_type) between 1 and 32),
      stake_amount            numeric not null check (stake_amount > 0),
      profit_loss             numeric not null,
      payout_amount           numeric,
      currency                text check (length(currency) <= 8),
      trader_external_id      text collate "C" check (length(trader_external_id) between 1 and 128),
      symbol                  text check (length(symbol) between 1 and 32),
      metadata                jsonb,
      -- as it was given, and as it was read
      trade_timestamp         text not null check (length(trade_timestamp) between 10 and 40),
      traded_at               timestamptz not null,
      collected_at            timestamptz not null default now(),
      -- A contract is recorded once, however often it is reported.
      unique (partner_id, broker_contract_id)
    );
    create index trade_records_history on trade_records (partner_id, traded_at desc, id desc);
    -- What the leaderboard adds up.
    create index trade_records_trader on trade_records (partner_id, trader_external_id, traded_at)
      include (profit_loss, client_broker_loginid, broker_contract_id) where trader_external_id is not null;
  `)
}

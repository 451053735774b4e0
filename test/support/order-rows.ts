// Orders as rows, for tests of what is counted over many of them; how orders come about is tested elsewhere.
import { randomUUID } from 'node:crypto'
import type { Db } from '../../db/postgres/connection.ts'
import type { TestTrader } from './harness.ts'

/** Inserts `count` orders of an exchanged trader, created (and closed, with `pnl`) at `at`. */
export async function insertOrderRows(
  db: Db,
  trader: TestTrader,
  {
    kind = 'BINARY',
    phase = 'closed',
    pnl = '1',
    at = new Date(),
    count = 1,
    brokerOrderId
  }: {
    kind?: 'BINARY' | 'MULTIPLIER'
    phase?: 'unproven' | 'queued' | 'open' | 'closed' | 'failed'
    pnl?: string
    at?: Date
    count?: number
    /** Of a single order. */
    brokerOrderId?: string
  } = {}
): Promise<void> {
  const bought = phase === 'open' || phase === 'closed'
  await db.raw(
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency,
       app_id, dialect, kind, client_order_id, request_hash, asset, stake, phase, created_at, expires_at,
       broker_order_id, buy_price, opened_at, pnl, closed_at, error_code)
     select 'ord_' || left(replace(cast(gen_random_uuid() as text), '-', ''), 26), t.partner_id, t.id, t.external_id, a.id, a.account_id,
       a.account_mode, a.currency, '1', case when a.account_id like 'TST%' then 'test' else (select broker_dialect from partners where id = t.partner_id) end, :kind, cast(gen_random_uuid() as text), '\\x00', 'R_100', 10, :phase, :at, :at,
       case when :bought then coalesce(:brokerOrderId, cast(gen_random_uuid() as text)) end,
       case when :bought then 10 end, case when :bought then cast(:at as timestamptz) end,
       case when :phase = 'closed' then cast(:pnl as numeric) end,
       case when :phase = 'closed' then cast(:at as timestamptz) end,
       case when :phase = 'failed' then 'BROKER_UPSTREAM' end
     from traders t join broker_accounts a on a.id = t.active_account_id, generate_series(1, :count)
     where t.id = :traderId`,
    {
      kind,
      phase,
      bought,
      pnl,
      at,
      count,
      traderId: trader.traderId,
      brokerOrderId: brokerOrderId ?? (count === 1 ? randomUUID() : null)
    }
  )
}

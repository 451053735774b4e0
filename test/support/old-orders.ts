// Orders that ended long ago, as rows, with identifiers of their time, as those of the service are.
import { randomUUID } from 'node:crypto'
import { hashTerms } from '../../db/orders/inserting.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { orderIdAt } from '../../schemas/fields/ids.ts'
import type { TestTrader } from './harness.ts'

export const DAY_MS = 86_400_000
export const daysAgo = (days: number): Date => new Date(Date.now() - days * DAY_MS)

/** The body of a request, and what it is compared by. */
export function binaryOrder(trader: TestTrader, clientOrderId: string = randomUUID()) {
  const body = {
    traderExternalId: trader.traderExternalId,
    clientOrderId,
    asset: 'R_100',
    contractType: 'CALL',
    stake: 10,
    duration: 1,
    durationUnit: 'h'
  } as const
  const terms = {
    kind: 'BINARY' as const,
    asset: body.asset,
    contractType: body.contractType,
    direction: null,
    multiplier: null,
    stake: '10',
    duration: body.duration,
    durationUnit: body.durationUnit,
    barrier: null,
    stopLoss: null,
    takeProfit: null
  }
  return { body, terms, hash: hashTerms(trader.traderExternalId, terms) }
}

let made = 0

/** Stores an order created and ended at `at`, that `binaryOrder` of its clientOrderId is a repeat of; returns its id. */
export async function insertOldOrder(
  db: Db,
  trader: TestTrader,
  { at, clientOrderId = randomUUID(), ...columns }: { at: Date; clientOrderId?: string } & Record<string, unknown>
): Promise<string> {
  const account = await db('broker_accounts').where({ account_id: trader.accountId }).first()
  const id = `${orderIdAt(at.getTime()).slice(0, -6)}${String(++made).padStart(6, '0')}`
  await db('orders').insert({
    id,
    partner_id: account.partner_id,
    trader_id: trader.traderId,
    trader_external_id: trader.traderExternalId,
    broker_account_id: account.id,
    account_id: trader.accountId,
    account_mode: account.account_mode,
    currency: account.currency,
    app_id: '1',
    dialect: 'v3',
    kind: 'BINARY',
    client_order_id: clientOrderId,
    request_hash: binaryOrder(trader, clientOrderId).hash,
    asset: 'R_100',
    contract_type: 'CALL',
    stake: 10,
    duration: 1,
    duration_unit: 'h',
    phase: 'closed',
    created_at: at,
    queued_at: at,
    expires_at: at,
    broker_order_id: String(1e12 + made),
    buy_price: 10,
    payout: 19.5,
    opened_at: at,
    pnl: 9.5,
    closed_at: at,
    ...columns
  })
  return id
}

/** What an order has that the broker never bought. */
export const unbought = {
  phase: 'failed',
  broker_order_id: null,
  buy_price: null,
  payout: null,
  opened_at: null,
  pnl: null,
  closed_at: null,
  error_code: 'BROKER_UPSTREAM',
  error_message: 'It was not placed.'
}

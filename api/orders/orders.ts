// The operations on binary orders: placing, closing and the list. Placing itself is in placing.ts.

import { number, presentConverted, presentEntry, time } from '../../db/orders/entry.ts'
import type { OrderTerms } from '../../db/orders/inserting.ts'
import { listEntries } from '../../db/orders/listing.ts'
import { getOrder, type OrderRow, type Outcome } from '../../db/orders/reading.ts'
import { rejectionOf } from '../../db/traders/accounts.ts'
import { getTrader } from '../../db/traders/traders.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { pathId } from '../../schemas/fields/fields.ts'
import { OrderPage, OrdersQuery } from '../../schemas/order-entries.ts'
import { BinaryOrder, checkContract, Order, settlesInline } from '../../schemas/orders.ts'
import type { ApiServices, Operation, OperationRequest } from '../operation.ts'
import { requestFromBroker } from '../request/broker-requests.ts'
import { place, placingErrors } from './placing.ts'
import { isSettlementInReview, settlementReviewError } from './waiting.ts'

export const placeBinaryOrder: Operation<{ body: BinaryOrder }> = {
  name: 'placeBinaryOrder',
  method: 'POST',
  path: '/v1/orders/binary',
  tag: 'Orders',
  summary: 'Place a binary or digit contract',
  description:
    'Tick contracts, and others with waitForSettle that last up to about 110 seconds, return their closed result; the rest return OPEN and settle by themselves. Time-outs of the client and of proxies on the way must be longer than 140 seconds. Idempotent on clientOrderId: a repeat returns the same order (Idempotent-Replayed: true), other parameters under the same id are a 409. After a 502 or a lost connection, repeat the request with the same clientOrderId: it never buys twice.',
  auth: 'key',
  scope: 'trading:write',
  body: BinaryOrder,
  response: Order,
  headers: ['Idempotent-Replayed'],
  batched: true,
  proves: true,
  errors: placingErrors,
  async handle(request, services) {
    const { body } = request
    try {
      checkContract(body)
    } catch (error) {
      // Records are checked before rules: the trader, and whether its account has a token that can be used.
      const { partnerId } = request.partner
      const trading = await services.batched.trading({ partnerId, externalId: body.traderExternalId })
      if (!trading) throw new ApiError('TRADER_NOT_FOUND')
      throw trading.account.status === 'REJECTED' ? rejectionOf(trading.account) : error
    }
    const terms: OrderTerms = {
      kind: 'BINARY',
      asset: body.asset,
      contractType: body.contractType,
      direction: null,
      multiplier: null,
      stake: decimal(body.stake),
      duration: body.duration,
      durationUnit: body.durationUnit,
      barrier: body.barrier ?? null,
      stopLoss: null,
      takeProfit: null
    }
    return place(request, services, {
      clientOrderId: body.clientOrderId,
      traderExternalId: body.traderExternalId,
      terms,
      accountMode: body.expectedAccountMode,
      settle: settlesInline(body),
      present: presentOrder
    })
  }
}

/** A JSON number as a decimal without exponent. */
export function decimal(value: number): string {
  return /e/i.test(String(value)) ? value.toFixed(8).replace(/\.?0+$/, '') : String(value)
}

/** A bought order in the responses of placing and closing. */
function presentOrder(row: Outcome): Order {
  const opened = {
    orderId: row.id,
    brokerOrderId: row.broker_order_id as string,
    status: row.status,
    stake: Number(row.stake),
    ...presentConverted(row),
    potentialPayout: Number(row.payout ?? 0),
    buyPrice: Number(row.buy_price),
    openedAt: time(row.opened_at) as string
  }
  if (row.phase !== 'closed') return opened
  return {
    ...opened,
    pnl: Number(row.pnl),
    entryPrice: number(row.entry_price),
    exitPrice: number(row.exit_price),
    closedAt: time(row.closed_at) as string
  }
}

export const closeOrder: Operation<{ params: { id: string } }> = {
  name: 'closeOrder',
  method: 'POST',
  path: '/v1/orders/{id}/close',
  tag: 'Orders',
  summary: 'Force-close an open contract',
  description:
    'Sells the contract at the market. Closing a closed order returns it again; a contract the broker will not buy back is a 422.',
  auth: 'key',
  scope: 'trading:write',
  params: { type: 'object', required: ['id'], properties: { id: pathId('ord', 'orderId of the order.') } },
  response: Order,
  errors: ['NOT_FOUND', 'CONFLICT', 'BROKER_DISCONNECTED', 'INVALID_CONTRACT', 'MARKET_CLOSED', 'BROKER_UPSTREAM'],
  async handle(request, services) {
    return presentOrder(await close(request, services, { orderId: request.params.id, kind: 'BINARY' }))
  }
}

/** Sells an order's contract, and returns the closed row. Throws NOT_FOUND for another kind's id too. */
export async function close(
  request: Pick<OperationRequest<object>, 'partner' | 'signal' | 'trace'>,
  services: ApiServices,
  { orderId, kind }: { orderId: string; kind: OrderRow['kind'] }
): Promise<OrderRow> {
  const { partner, trace } = request
  const row = await getOrder(services.db, partner.partnerId, orderId)
  if (row.kind !== kind) throw new ApiError('NOT_FOUND', `There is no ${kind.toLowerCase()} order ${orderId}.`)
  if (row.phase === 'closed') return row
  if (row.phase !== 'open')
    throw new ApiError('CONFLICT', `The order is ${row.status}; only an OPEN order can be CLOSED.`)
  const sale = { kind: 'close', key: row.id, data: { orderId: row.id }, timeoutMs: 30_000 }
  const refusal = await requestFromBroker<object>(services, {
    ...sale,
    partnerId: partner.partnerId,
    signal: request.signal,
    trace
  }).then(
    () =>
      new ApiError('BROKER_UPSTREAM', 'The sale is not confirmed yet; repeat the request.', { extras: { orderId } }),
    (error: unknown) => error
  )
  // Its contract may have ended while the sale waited, or was refused.
  const now = await getOrder(services.db, partner.partnerId, orderId)
  if (now.phase === 'closed') return now
  throw isSettlementInReview(now) ? settlementReviewError(now) : refusal
}

export const listOrders: Operation<{ query: OrdersQuery }> = {
  name: 'listOrders',
  method: 'GET',
  path: '/v1/orders',
  tag: 'Orders',
  summary: 'Order history',
  description:
    'Binary and multiplier orders, newest first. Page with cursor; the pages stay stable while new orders arrive.',
  auth: 'key',
  scope: 'trading:read',
  query: OrdersQuery,
  response: OrderPage,
  errors: ['TRADER_NOT_FOUND'],
  weight: 'page',
  replica: true,
  async handle({ partner, query }, { db }) {
    const { orders, nextCursor } = await listEntries(db, {
      ...query,
      partnerId: partner.partnerId,
      limit: query.limit ?? 50
    })
    // Only a trader without orders may be unknown.
    if (orders.length === 0 && query.traderExternalId !== undefined)
      await getTrader(db, partner.partnerId, query.traderExternalId)
    return { data: orders.map(presentEntry), nextCursor }
  }
}

// Multiplier orders and the broker's offers of them. They are placed, resolved, watched and closed on the same path as
// binary orders.

import { number, presentConverted, time } from '../../db/orders/entry.ts'
import type { OrderTerms } from '../../db/orders/inserting.ts'
import type { Outcome } from '../../db/orders/reading.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { asset, pathId } from '../../schemas/fields/fields.ts'
import type { MultiplierSpec as Offered } from '../../schemas/market.ts'
import { MultiplierOrder, MultiplierOrderRequest, MultiplierSpec } from '../../schemas/multipliers.ts'
import type { Operation } from '../operation.ts'
import { requestFromBroker } from '../request/broker-requests.ts'
import { close, decimal } from './orders.ts'
import { place, placingErrors } from './placing.ts'

export const placeMultiplierOrder: Operation<{ body: MultiplierOrderRequest }> = {
  name: 'placeMultiplierOrder',
  method: 'POST',
  path: '/v1/orders/multiplier',
  tag: 'Orders',
  summary: 'Place a multiplier contract',
  description:
    'Returns the open order; it closes by stop-out, stop loss, take profit or by request. Idempotent on clientOrderId, in one namespace with binary orders.',
  auth: 'key',
  scope: 'trading:write',
  body: MultiplierOrderRequest,
  response: MultiplierOrder,
  headers: ['Idempotent-Replayed'],
  batched: true,
  proves: true,
  errors: placingErrors,
  async handle(request, services) {
    const { body } = request
    const terms: OrderTerms = {
      kind: 'MULTIPLIER',
      asset: body.asset,
      contractType: null,
      direction: body.direction,
      multiplier: decimal(body.multiplier),
      stake: decimal(body.stake),
      duration: null,
      durationUnit: null,
      barrier: null,
      // 0 means no limit.
      stopLoss: body.stopLoss ? decimal(body.stopLoss) : null,
      takeProfit: body.takeProfit ? decimal(body.takeProfit) : null
    }
    const { clientOrderId, traderExternalId, expectedAccountMode } = body
    return place(request, services, {
      clientOrderId,
      traderExternalId,
      terms,
      accountMode: expectedAccountMode,
      settle: false,
      present: presentMultiplier
    })
  }
}

/** A bought multiplier order as the wire shows it. */
function presentMultiplier(row: Outcome) {
  const opened = {
    orderId: row.id,
    brokerOrderId: row.broker_order_id,
    status: row.status,
    asset: row.asset,
    direction: row.direction,
    multiplier: Number(row.multiplier),
    stake: Number(row.stake),
    ...presentConverted(row),
    buyPrice: Number(row.buy_price),
    commission: number(row.commission),
    stopLoss: number(row.stop_loss),
    takeProfit: number(row.take_profit),
    openedAt: time(row.opened_at)
  }
  if (row.phase !== 'closed') return opened
  return {
    ...opened,
    pnl: Number(row.pnl),
    entryPrice: number(row.entry_price),
    exitPrice: number(row.exit_price),
    closedAt: time(row.closed_at)
  }
}

export const closeMultiplierOrder: Operation<{ params: { orderId: string } }> = {
  name: 'closeMultiplierOrder',
  method: 'POST',
  path: '/v1/orders/multiplier/{orderId}/close',
  tag: 'Orders',
  summary: 'Close a multiplier order',
  description: 'Sells the contract at the market. Closing a closed order returns it again.',
  auth: 'key',
  scope: 'trading:write',
  params: {
    type: 'object',
    required: ['orderId'],
    properties: { orderId: pathId('ord', 'orderId of the multiplier order.') }
  },
  response: MultiplierOrder,
  errors: ['NOT_FOUND', 'CONFLICT', 'BROKER_DISCONNECTED', 'INVALID_CONTRACT', 'MARKET_CLOSED', 'BROKER_UPSTREAM'],
  async handle(request, services) {
    return presentMultiplier(await close(request, services, { orderId: request.params.orderId, kind: 'MULTIPLIER' }))
  }
}

export const getMultiplierSpec: Operation<{ params: { asset: string } }> = {
  name: 'getMultiplierSpec',
  method: 'GET',
  path: '/v1/multipliers/spec/{asset}',
  tag: 'Orders',
  summary: 'What the broker offers for an asset',
  description:
    'Multipliers, stake limits, commission and deal cancellation of an asset in USD, and whether its market is open.',
  auth: 'key',
  scope: 'trading:read',
  params: { type: 'object', required: ['asset'], properties: { asset } },
  response: MultiplierSpec,
  errors: ['NOT_FOUND', 'BROKER_UPSTREAM'],
  async handle({ partner, params, signal }, services) {
    const { brokerAppId: appId, brokerDialect: dialect } = partner
    const spec = await requestFromBroker<Offered>(services, {
      partnerId: partner.partnerId,
      kind: 'multiplierSpec',
      key: `${dialect} ${appId} ${params.asset}`,
      data: { asset: params.asset, currency: 'USD', appId, dialect },
      signal
    })
    if (spec.multipliers.length === 0)
      throw new ApiError('NOT_FOUND', `The broker offers no multipliers on ${params.asset}.`)
    return {
      asset: spec.asset,
      currency: spec.currency,
      multipliers: spec.multipliers,
      minStake: Number(spec.minStake),
      maxStake: number(spec.maxStake),
      commissionPct: number(spec.commissionPct),
      cancellation: spec.cancellation,
      marketOpen: spec.marketOpen,
      ...(!spec.marketOpen && spec.secondsUntilOpen !== null ? { secondsUntilOpen: spec.secondsUntilOpen } : {})
    }
  }
}

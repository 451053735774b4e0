// GET /v1/positions: open contracts of both kinds. For one trader the values are read live; for all of a
// partner's traders they are the last ones a worker heard.

import { listPositions, type OrderRow } from '../db/orders.ts'
import { number, time } from '../db/orders-entry.ts'
import { getTrader } from '../db/traders.ts'
import { PositionList, PositionsQuery } from '../schemas/multipliers.ts'
import { ask } from './ask.ts'
import type { Operation } from './operations.ts'

export const listOpenPositions: Operation<{ query: PositionsQuery }> = {
  name: 'listOpenPositions',
  method: 'GET',
  path: '/v1/positions',
  tag: 'Positions',
  summary: 'Open positions',
  description:
    'Open contracts, newest first, at most 1000. With traderExternalId the values are read live from the broker; without it they are the last known ones, see markedAt.',
  auth: 'key',
  scope: 'trading:read',
  query: PositionsQuery,
  response: PositionList,
  errors: ['TRADER_NOT_FOUND', 'BROKER_DISCONNECTED', 'BROKER_UPSTREAM'],
  async handle({ partner, query, signal }, open) {
    const { traderExternalId } = query
    if (traderExternalId !== undefined) {
      const { traderId } = await getTrader(open.db, partner.partnerId, traderExternalId)
      const rows = await listPositions(open.db, { partnerId: partner.partnerId, traderExternalId })
      if (rows.length > 0)
        await ask(open, { kind: 'mark', key: traderId, data: { orderIds: rows.map(({ id }) => id) }, signal })
    }
    const rows = await listPositions(open.db, {
      partnerId: partner.partnerId,
      ...(traderExternalId === undefined ? {} : { traderExternalId })
    })
    return { data: rows.map(presentPosition) }
  }
}

function presentPosition(row: OrderRow) {
  return {
    orderId: row.id,
    brokerOrderId: row.broker_order_id,
    kind: row.kind,
    traderExternalId: row.trader_external_id,
    asset: row.asset,
    ...(row.kind === 'BINARY' ? { contractType: row.contract_type } : { direction: row.direction }),
    stake: Number(row.stake),
    buyPrice: Number(row.buy_price),
    currentValue: number(row.current_value),
    unrealizedPnl: number(row.unrealized_pnl),
    markedAt: time(row.marked_at),
    openedAt: time(row.opened_at),
    expiresAt: time(row.expiry_at)
  }
}

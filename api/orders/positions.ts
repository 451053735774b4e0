// GET /v1/positions: open contracts of both kinds. For one trader the newest 50 values are read live; for all of a partner's
// traders they are the last known ones, and each request has old ones renewed for the next.

import { number, presentConverted, time } from '../../db/orders/entry.ts'
import { listPositions, type OrderRow } from '../../db/orders/reading.ts'
import { getTrader } from '../../db/traders/traders.ts'
import { PositionList, PositionsQuery } from '../../schemas/multipliers.ts'
import type { ApiServices, Operation } from '../operation.ts'
import { requestFromBroker } from '../request/broker-requests.ts'

export const listOpenPositions: Operation<{ query: PositionsQuery }> = {
  name: 'listOpenPositions',
  weight: 5,
  method: 'GET',
  path: '/v1/positions',
  tag: 'Positions',
  summary: 'Open positions',
  description:
    'Open contracts, newest first, at most 1000. With traderExternalId the values of the newest 50 are read live from the broker; all others are the last known ones, see markedAt. Without it some that are more than a minute old are then read for the next call.',
  auth: 'key',
  scope: 'trading:read',
  query: PositionsQuery,
  response: PositionList,
  errors: ['TRADER_NOT_FOUND', 'BROKER_DISCONNECTED', 'BROKER_UPSTREAM'],
  async handle(request, services) {
    const { partner, query } = request
    const { traderExternalId } = query
    if (traderExternalId !== undefined) {
      const { traderId } = await getTrader(services.db, partner.partnerId, traderExternalId)
      const rows = await listPositions(services.db, { partnerId: partner.partnerId, traderExternalId })
      if (rows.length > 0) {
        const data = { orderIds: rows.map(({ id }) => id) }
        await requestFromBroker(services, {
          partnerId: partner.partnerId,
          kind: 'mark',
          key: traderId,
          data,
          signal: request.signal
        })
      }
    }
    const rows = await listPositions(services.db, {
      partnerId: partner.partnerId,
      ...(traderExternalId === undefined ? {} : { traderExternalId })
    })
    if (traderExternalId === undefined) refresh(services, partner.partnerId, rows)
    return { data: rows.map(presentPosition) }
  }
}

const OLD_MS = 60_000
// Contracts whose values are read for one request: each costs one of the few calls that its account has a minute.
const REFRESHED = 50
const REFRESHED_OF_AN_ACCOUNT = 3

/** Has some of the oldest values read again; no request waits for it. */
function refresh({ batched, bus, log }: ApiServices, partnerId: string, positions: OrderRow[]): void {
  const since = Date.now() - OLD_MS
  const old = positions.filter(({ marked_at }) => marked_at === null || marked_at.getTime() < since)
  // Starts at a random place, so that contracts that cannot be read do not always come first.
  const start = Math.floor(Math.random() * old.length)
  const ofAccount = new Map<string, number>()
  const orderIds: string[] = []
  for (const { id, broker_account_id: account } of [...old.slice(start), ...old.slice(0, start)]) {
    const count = ofAccount.get(account) ?? 0
    if (count < REFRESHED_OF_AN_ACCOUNT && orderIds.length < REFRESHED) orderIds.push(id)
    ofAccount.set(account, count + 1)
  }
  if (orderIds.length === 0) return
  const request = {
    partnerId,
    kind: 'markSome',
    key: partnerId,
    data: { orderIds },
    replyChannel: bus.replyChannel,
    timeoutMs: 15_000
  }
  batched.storeBrokerRequest(request).catch((error: unknown) => log.warn({ err: error }, 'old values are not read'))
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
    ...presentConverted(row),
    buyPrice: Number(row.buy_price),
    currentValue: number(row.current_value),
    unrealizedPnl: number(row.unrealized_pnl),
    markedAt: time(row.marked_at),
    openedAt: time(row.opened_at),
    expiresAt: time(row.expiry_at)
  }
}

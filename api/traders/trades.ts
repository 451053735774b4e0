// Trade records: partners report trades made elsewhere, and read them back.
import { requireRoomUnless } from '../../db/platform/bounds.ts'
import { collectTrade as collect, findTrade, listTrades, type StoredTrade } from '../../db/traders/trades.ts'
import { checkFreeform } from '../../schemas/fields/freeform.ts'
import {
  CollectedTrade,
  readTradeTimestamp,
  TradeList,
  TradeRecord,
  TradesQuery
} from '../../schemas/traders/trades.ts'
import type { Operation } from '../operation.ts'

export const collectTrade: Operation<{ body: TradeRecord }> = {
  name: 'collectTrade',
  method: 'POST',
  path: '/v1/trades/collect',
  tag: 'Trade records',
  summary: 'Record a trade',
  description:
    'Records a trade that was made elsewhere. The same broker_contract_id again changes nothing and returns the first record with duplicate: true. Records of traders with a public profile count on the leaderboard; one of a contract that was placed here as an order counts once.',
  auth: 'key',
  scope: 'trades:write',
  body: TradeRecord,
  response: CollectedTrade,
  atomic: true,
  errors: [],
  async handle({ partner, body }, { db }): Promise<CollectedTrade> {
    if (body.metadata) checkFreeform(body.metadata, '/body/metadata')
    const { partnerId } = partner
    await requireRoomUnless(db, 'trades', partnerId, () => findTrade(db, partnerId, body.broker_contract_id))
    const { tradeId, duplicate, collectedAt } = await collect(db, {
      partnerId,
      brokerContractId: body.broker_contract_id,
      clientBrokerLoginid: body.client_broker_loginid,
      contractType: body.contract_type,
      stakeAmount: String(body.stake_amount),
      profitLoss: String(body.profit_loss),
      payoutAmount: body.payout_amount === undefined ? null : String(body.payout_amount),
      currency: body.currency ?? null,
      traderExternalId: body.trader_external_id ?? null,
      symbol: body.symbol ?? null,
      metadata: body.metadata ?? null,
      tradeTimestamp: body.trade_timestamp,
      tradedAt: readTradeTimestamp(body.trade_timestamp)
    })
    return { tradeId, duplicate, collectedAt: collectedAt.toISOString() }
  }
}

export const listTradeHistory: Operation<{ query: TradesQuery }> = {
  name: 'listTradeHistory',
  method: 'GET',
  path: '/v1/trades/history',
  tag: 'Trade records',
  summary: 'Recorded trades',
  description: 'Records of the partner, the newest trade first, in the field names they were given in.',
  auth: 'key',
  scope: 'trades:read',
  query: TradesQuery,
  response: TradeList,
  errors: [],
  weight: 'page',
  replica: true,
  async handle({ partner, query }, { db }) {
    const trades = await listTrades(db, { partnerId: partner.partnerId, limit: query.limit ?? 50 })
    return { data: trades.map(presentTrade) }
  }
}

function presentTrade(trade: StoredTrade) {
  return {
    tradeId: trade.tradeId,
    stake_amount: Number(trade.stakeAmount),
    contract_type: trade.contractType,
    broker_contract_id: trade.brokerContractId,
    client_broker_loginid: trade.clientBrokerLoginid,
    profit_loss: Number(trade.profitLoss),
    trade_timestamp: trade.tradeTimestamp,
    payout_amount: trade.payoutAmount === null ? null : Number(trade.payoutAmount),
    currency: trade.currency,
    trader_external_id: trade.traderExternalId,
    symbol: trade.symbol,
    metadata: trade.metadata,
    collectedAt: trade.collectedAt.toISOString()
  }
}

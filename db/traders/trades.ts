// Trade records: collected once for each contract of a partner, read newest first.
import { newId } from '../../schemas/fields/ids.ts'
import { type Db, rows } from '../postgres/connection.ts'

interface NewTrade {
  partnerId: string
  brokerContractId: string
  clientBrokerLoginid: string
  contractType: string
  stakeAmount: string
  profitLoss: string
  payoutAmount: string | null
  currency: string | null
  traderExternalId: string | null
  symbol: string | null
  metadata: object | null
  /** As given, and as read. */
  tradeTimestamp: string
  tradedAt: Date
}

export interface StoredTrade extends NewTrade {
  tradeId: string
  collectedAt: Date
}

interface TradeRow {
  id: string
  partner_id: string
  broker_contract_id: string
  client_broker_loginid: string
  contract_type: string
  stake_amount: string
  profit_loss: string
  payout_amount: string | null
  currency: string | null
  trader_external_id: string | null
  symbol: string | null
  metadata: object | null
  trade_timestamp: string
  traded_at: Date
  collected_at: Date
}

/** Stores a record unless its contract has one; then the first one stays as it is and is returned. */
export async function collectTrade(
  db: Db,
  trade: NewTrade
): Promise<{ tradeId: string; collectedAt: Date; duplicate: boolean }> {
  const { metadata, ...plain } = trade
  const [stored] = await rows<{ id: string; collected_at: Date }>(
    db,
    `insert into trade_records (id, partner_id, broker_contract_id, client_broker_loginid, contract_type, stake_amount,
       profit_loss, payout_amount, currency, trader_external_id, symbol, metadata, trade_timestamp, traded_at)
     values (:id, :partnerId, :brokerContractId, :clientBrokerLoginid, :contractType, :stakeAmount,
       :profitLoss, :payoutAmount, :currency, :traderExternalId, :symbol, :metadata, :tradeTimestamp, :tradedAt)
     on conflict (partner_id, broker_contract_id) do nothing
     returning id, collected_at`,
    { id: newId('trade'), ...plain, metadata: metadata && JSON.stringify(metadata) }
  )
  if (stored) return { tradeId: stored.id, collectedAt: stored.collected_at, duplicate: false }
  const known = (await db('trade_records')
    .where({ partner_id: trade.partnerId, broker_contract_id: trade.brokerContractId })
    .first('id', 'collected_at')) as { id: string; collected_at: Date }
  return { tradeId: known.id, collectedAt: known.collected_at, duplicate: true }
}

/** The partner's records, the newest trade first. */
export async function listTrades(
  db: Db,
  { partnerId, limit }: { partnerId: string; limit: number }
): Promise<StoredTrade[]> {
  const found = (await db('trade_records')
    .where({ partner_id: partnerId })
    .orderBy([
      { column: 'traded_at', order: 'desc' },
      { column: 'id', order: 'desc' }
    ])
    .limit(limit)) as TradeRow[]
  return found.map(row => ({
    tradeId: row.id,
    partnerId: row.partner_id,
    brokerContractId: row.broker_contract_id,
    clientBrokerLoginid: row.client_broker_loginid,
    contractType: row.contract_type,
    stakeAmount: row.stake_amount,
    profitLoss: row.profit_loss,
    payoutAmount: row.payout_amount,
    currency: row.currency,
    traderExternalId: row.trader_external_id,
    symbol: row.symbol,
    metadata: row.metadata,
    tradeTimestamp: row.trade_timestamp,
    tradedAt: row.traded_at,
    collectedAt: row.collected_at
  }))
}

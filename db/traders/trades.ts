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

interface CollectedRow {
  id: string
  collected_at: Date
}

/** Stores a record unless its contract has one; then the first one stays as it is and is returned. */
export async function collectTrade(
  db: Db,
  trade: NewTrade
): Promise<{ tradeId: string; collectedAt: Date; duplicate: boolean }> {
  const { metadata, ...plain } = trade
  const [stored] = await rows<CollectedRow>(
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
  const known = (await findTrade(db, trade.partnerId, trade.brokerContractId)) as CollectedRow
  return { tradeId: known.id, collectedAt: known.collected_at, duplicate: true }
}

/** The partner's record of the contract. */
export async function findTrade(
  db: Db,
  partnerId: string,
  brokerContractId: string
): Promise<CollectedRow | undefined> {
  return db('trade_records')
    .where({ partner_id: partnerId, broker_contract_id: brokerContractId })
    .first('id', 'collected_at')
}

/** The partner's records, the newest trade first. */
export function listTrades(db: Db, { partnerId, limit }: { partnerId: string; limit: number }): Promise<StoredTrade[]> {
  return rows<StoredTrade>(
    db,
    `select id as "tradeId", partner_id as "partnerId", broker_contract_id as "brokerContractId",
            client_broker_loginid as "clientBrokerLoginid", contract_type as "contractType", stake_amount as "stakeAmount",
            profit_loss as "profitLoss", payout_amount as "payoutAmount", currency, trader_external_id as "traderExternalId", symbol,
            metadata, trade_timestamp as "tradeTimestamp", traded_at as "tradedAt", collected_at as "collectedAt"
       from trade_records where partner_id = :partnerId order by traded_at desc, id desc limit :limit`,
    { partnerId, limit }
  )
}

// Contracts in the books of a simulated broker inside the test, with the open orders they belong to: as many as a test
// wants, without placing each.
import { type Db, rows } from '../../db/postgres/connection.ts'
import type { SimulatedContract } from '../../worker/simulator/engine/records.ts'
import type { Simulator } from '../../worker/simulator/server.ts'
import { appIds, type DialectName } from './dialects.ts'
import type { TestTrader } from './harness.ts'

/**
 * Buys `count` contracts of 15 s (as the broker scales time) for an account, and inserts their open orders, which name no
 * worker, or one that is gone (`holder`); their rows have ended `endedSecondsAgo`.
 */
export async function insertContracts(
  { db, simulator, dialect }: { db: Db; simulator: Pick<Simulator, 'engine'>; dialect: DialectName },
  { traderId, accountId }: Pick<TestTrader, 'traderId' | 'accountId'>,
  {
    count,
    endedSecondsAgo,
    seconds = 15,
    holder = null
  }: { count: number; endedSecondsAgo: number; seconds?: number; holder?: string | null }
): Promise<SimulatedContract[]> {
  const { engine } = simulator
  const appId = dialect === 'v3' ? Number(appIds.v3) : appIds.next
  const account = engine.accounts.create({ loginid: accountId, balance: 100_000_000 })
  const contracts = Array.from({ length: count }, (_, index) => {
    const type = index % 2 === 0 ? 'CALL' : 'PUT'
    const terms = { type, symbol: 'R_100', currency: 'USD', amount: 10, duration: seconds, unit: 's' } as const
    return engine.buy(account, { appId, terms: { ...terms, basis: 'stake' }, maxCents: 100_000 })
  })
  await rows(
    db,
    `insert into orders (id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, account_mode, currency,
       app_id, dialect, kind, contract_type, duration, duration_unit, client_order_id, request_hash, asset, stake, phase,
       created_at, expires_at, broker_order_id, buy_price, payout, opened_at, expiry_at, lease_holder)
     select 'ord_' || left(replace(gen_random_uuid()::text, '-', ''), 26), t.partner_id, t.id, t.external_id, a.id, a.account_id,
       a.account_mode, a.currency, :appId, :dialect, 'BINARY', c.type, :seconds, 's', gen_random_uuid()::text, '\\x00', 'R_100', 10,
       'open', c.opened, c.opened, c.id, c.price, c.payout, c.opened, now() - :endedSecondsAgo * interval '1 second', :holder
     from jsonb_to_recordset(:contracts::jsonb) as c (id text, type text, price numeric, payout numeric, opened timestamptz),
          traders t join broker_accounts a on a.trader_id = t.id and a.account_id = :accountId
     where t.id = :traderId`,
    {
      traderId,
      accountId,
      appId: String(appId),
      dialect,
      seconds,
      endedSecondsAgo,
      holder,
      contracts: JSON.stringify(
        contracts.map(({ id, offer, buyCents, payoutCents, boughtMs }) => ({
          id: String(id),
          type: offer.type,
          price: buyCents / 100,
          payout: payoutCents / 100,
          opened: new Date(boughtMs).toISOString()
        }))
      )
    }
  )
  return contracts
}

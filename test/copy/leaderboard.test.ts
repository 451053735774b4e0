// The leaderboard: closed orders and collected trades of 30 days, of traders with a public profile.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getLeaderboard, updateCommunityProfile } from '../../api/community/community.ts'
import { collectTrade } from '../../api/traders/trades.ts'
import { insertTraderSession } from '../../db/partners/sessions.ts'
import { closeAll, openHarness, type TestPartner, type TestTrader } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'

const harness = await openHarness()
const { db, pepper } = harness.services
const leaderboard = suite('GET /v1/community/leaderboard')

/** A trader with a profile of that name. */
async function makeTrader(partner: TestPartner, displayName: string, isPublic = true): Promise<TestTrader> {
  const trader = await partner.makeTrader()
  const session = { partnerId: partner.partnerId, traderId: trader.traderId, ttlHours: 1 }
  const { token } = await insertTraderSession(db, pepper, session)
  const body = { displayName, isPublic, avatarUrl: `https://a.example/${displayName}.png` }
  await partner.call(updateCommunityProfile, { body, headers: { 'x-trader-session': token } })
  return trader
}

const collect = (partner: TestPartner, trader: TestTrader, more: object = {}) =>
  partner.call(collectTrade, {
    body: {
      stake_amount: 10,
      contract_type: 'CALL',
      broker_contract_id: Math.random().toString(),
      client_broker_loginid: trader.accountId,
      profit_loss: 1,
      trade_timestamp: new Date().toISOString(),
      trader_external_id: trader.traderExternalId,
      ...more
    }
  })

const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000)

leaderboard('is empty without trades of public profiles', async () => {
  const partner = await harness.makePartner()
  const [hidden, idle] = [await makeTrader(partner, 'hidden', false), await makeTrader(partner, 'idle')]
  const unknown = await partner.makeTrader()
  await insertOrderRows(db, hidden)
  await insertOrderRows(db, unknown)
  await insertOrderRows(db, idle, { phase: 'open' })
  await insertOrderRows(db, idle, { phase: 'failed' })
  await insertOrderRows(db, idle, { at: daysAgo(30.01) })
  await collect(partner, idle, { trade_timestamp: daysAgo(30.01).toISOString() })
  await collect(partner, idle, { trader_external_id: undefined })
  assert.equal((await partner.call(getLeaderboard)).body, { data: [] })
})

leaderboard('ranks by profit, counting closed orders and collected trades alike', async () => {
  const partner = await harness.makePartner()
  const [ada, bob, eve] = [
    await makeTrader(partner, 'Ada'),
    await makeTrader(partner, 'Bob'),
    await makeTrader(partner, 'Eve')
  ]
  await insertOrderRows(db, ada, { pnl: '9.53', count: 2 })
  await insertOrderRows(db, ada, { pnl: '-10', at: daysAgo(29.9) })
  await insertOrderRows(db, bob, { pnl: '100.1' })
  await collect(partner, bob, { profit_loss: 0.2 })
  await collect(partner, bob, { profit_loss: 0, trade_timestamp: daysAgo(29.9).toISOString() })
  await collect(partner, eve, { profit_loss: -3 })
  const entry = (displayName: string, rest: object) => ({
    accountMode: 'DEMO',
    currency: 'USD',
    displayName,
    avatarUrl: `https://a.example/${displayName}.png`,
    ...rest
  })
  assert.equal((await partner.call(getLeaderboard)).body.data, [
    { rank: 1, ...entry('Bob', { trades: 3, winRatePct: 66.67, pnl: 100.3 }) },
    { rank: 2, ...entry('Ada', { trades: 3, winRatePct: 66.67, pnl: 9.06 }) },
    { rank: 3, ...entry('Eve', { trades: 1, winRatePct: 0, pnl: -3 }) }
  ])
})

leaderboard('ranks within one mode and currency, REAL before DEMO, and adds nothing of different ones', async () => {
  const partner = await harness.makePartner()
  const [ada, bob, eve] = [
    await makeTrader(partner, 'Ada'),
    await makeTrader(partner, 'Bob'),
    await makeTrader(partner, 'Eve')
  ]
  const change = async (trader: TestTrader, pnl: string, columns: object) => {
    await insertOrderRows(db, trader, { pnl })
    await db('orders').where({ trader_id: trader.traderId, pnl }).update(columns)
  }
  await change(ada, '10000', { account_mode: 'REAL', currency: 'JPY' })
  await change(ada, '5000', { account_mode: 'DEMO', currency: 'USD' })
  await change(bob, '15.3', { account_mode: 'REAL', currency: 'USD' })
  await change(eve, '20', { account_mode: 'REAL', currency: 'USD' })
  await change(eve, '7', { account_mode: 'REAL', currency: null })
  // Collected trades carry their currency themselves; their mode follows from the account.
  await collect(partner, bob, { profit_loss: 3, currency: 'jpy' })
  await collect(partner, bob, { profit_loss: 4 })
  const board = async (query: Record<string, string> = {}) =>
    (await partner.call(getLeaderboard, { query })).body.data.map(
      ({ rank, displayName, accountMode, currency, pnl }: Record<string, unknown>) =>
        [rank, displayName, accountMode, currency, pnl].join(' ')
    )
  const all = await board()
  assert.equal(all, [
    '1 Ada REAL JPY 10000',
    '1 Eve REAL USD 20',
    '2 Bob REAL USD 15.3',
    '1 Eve REAL  7',
    '1 Bob DEMO JPY 3',
    '1 Ada DEMO USD 5000',
    '2 Bob DEMO USD 4'
  ])
  assert.equal(await board({ accountMode: 'DEMO' }), all.slice(4))
  assert.equal(await board({ currency: 'USD' }), [all[1], all[2], all[5], all[6]])
  assert.equal(await board({ accountMode: 'REAL', currency: 'JPY' }), [all[0]])
  assert.equal(await board({ currency: 'GBP' }), [])
})

leaderboard('counts a contract once that was placed here and reported as well', async () => {
  const partner = await harness.makePartner()
  const ada = await makeTrader(partner, 'Ada')
  await insertOrderRows(db, ada, { pnl: '5', brokerOrderId: 'c-1' })
  await collect(partner, ada, { broker_contract_id: 'c-1', profit_loss: 5 })
  await collect(partner, ada, { broker_contract_id: 'c-1', client_broker_loginid: 'CR2', profit_loss: 5 })
  await collect(partner, ada, { broker_contract_id: 'c-2', profit_loss: 7 })
  const sum = async () => {
    const [{ trades, pnl }] = (await partner.call(getLeaderboard)).body.data
    return [trades, pnl]
  }
  assert.equal(await sum(), [2, 12])
  // Another partner's order on the same account hides nothing here, nor does its account count a trade twice.
  const other = await harness.makePartner()
  await insertOrderRows(db, await other.makeTrader({ accountId: ada.accountId }), { brokerOrderId: 'c-2' })
  assert.equal(await sum(), [2, 12])
  // What is dated far ahead would stay for ever.
  await db('trade_records')
    .where({ partner_id: partner.partnerId, broker_contract_id: 'c-2' })
    .update({ traded_at: daysAgo(-2) })
  assert.equal(await sum(), [1, 5])
})

leaderboard('shows nothing of another partner, even where its traders are called alike', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const [ada, twin] = [await makeTrader(partner, 'Ada'), await makeTrader(other, 'Twin')]
  await insertOrderRows(db, twin)
  await collect(other, twin, { trader_external_id: ada.traderExternalId })
  assert.equal((await partner.call(getLeaderboard)).body.data, [])
  assert.is((await other.call(getLeaderboard)).body.data[0].displayName, 'Twin')
})

leaderboard('drops a trader at once whose profile becomes private', async () => {
  const partner = await harness.makePartner()
  const ada = await makeTrader(partner, 'Ada')
  await insertOrderRows(db, ada)
  assert.is((await partner.call(getLeaderboard)).body.data.length, 1)
  await db('community_profiles').where({ party_id: ada.traderId }).update({ is_public: false })
  assert.is((await partner.call(getLeaderboard)).body.data.length, 0)
})

leaderboard('ends after a hundred places', async () => {
  const partner = await harness.makePartner()
  for (let i = 0; i < 102; i++) await insertOrderRows(db, await makeTrader(partner, `t${i}`), { pnl: String(i) })
  const { data } = (await partner.call(getLeaderboard)).body
  assert.equal([data.length, data[0].displayName, data[99].displayName], [100, 't101', 't2'])
})

leaderboard.after(closeAll)
leaderboard.run()

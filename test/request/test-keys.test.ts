// Test keys: a side of its own for each partner, which trades with the test broker alone. What each operation reaches of the other
// side is in sides.test.ts.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listLeaders } from '../../api/copy.ts'
import { listEvents } from '../../api/events/events.ts'
import { createKey, listKeys, revokeKey } from '../../api/keys.ts'
import { getMe } from '../../api/me.ts'
import { listRequests } from '../../api/operations.ts'
import { getOrder } from '../../api/orders/by-id.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { getUsage } from '../../api/usage.ts'
import { sequenceEvents } from '../../db/events/sequence.ts'
import { checkBilling } from '../../db/money/billing-check.ts'
import { debitWallet, topUp } from '../../db/money/wallets.ts'
import { insertKey } from '../../db/partners/keys.ts'
import { countOfApplication, listPartners, setLimits } from '../../db/partners/partners.ts'
import { insertPartnerSession } from '../../db/partners/sessions.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import { parseApiKey } from '../../db/platform/crypto.ts'
import { announceHalts, haltTrading, resumeTrading } from '../../db/platform/halts.ts'
import { rows } from '../../db/postgres/connection.ts'
import { defaultScopes } from '../../schemas/fields/scopes.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { call, closeAll, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { makeTestSide } from '../support/test-side.ts'

const live = await startSimulator({ tickMs: 10, seed: 3, limits: 'off' })
const testing = await startSimulator({ tickMs: 10, seed: 4, limits: 'off' })
onClose(() => Promise.all([live.close(), testing.close()]))
const harness = await openHarness({
  env: { BROKER_URL: live.url, BROKER_DIALECT: 'v3', TEST_BROKER_URL: testing.url, SWEEP_MS: '200' }
})
const { address, services } = harness
const { db, pepper, config } = services
await startTestWorker(harness.env)

const issuing = suite('test keys')
const apart = suite('the test side')

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

const testSideOf = (partner: TestPartner) => makeTestSide(harness, partner)

const order = (traderExternalId: string, clientOrderId: string = randomUUID()) => ({
  body: {
    traderExternalId,
    clientOrderId,
    asset: 'R_100',
    contractType: 'CALL',
    stake: 1,
    duration: 1,
    durationUnit: 't'
  }
})

issuing('are made by the session with test: true, marked everywhere, and revoked like others', async () => {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const made = await call(address, createKey, { headers: { cookie }, body: { label: 'ci', test: true } })
  assert.is(made.status, 200, JSON.stringify(made.body))
  const { key, keyId } = made.body
  assert.match(key, /^service_test_[0-9a-f]{16}_[0-9a-f]{48}$/)
  assert.equal([made.body.test, made.body.scopes], [true, defaultScopes])
  const me = await call(address, getMe, { headers: bearer(key) })
  assert.equal([me.status, me.headers.get('test-mode'), me.body.test], [200, 'true', true])
  const own = await partner.call(getMe)
  assert.equal([own.headers.get('test-mode'), 'test' in own.body], [null, false])
  assert.equal([me.body.name, me.body.plan], [own.body.name, own.body.plan])
  assert.is.not(me.body.partnerId, own.body.partnerId)
  const entries = (await call(address, listKeys, { headers: { cookie } })).body.data as Record<string, unknown>[]
  assert.equal(
    entries.map(({ keyId, test, hint }) => [keyId, test, String(hint).slice(0, 13)]),
    [
      [keyId, true, 'service_test_'],
      [partner.keyId, undefined, 'service_live_']
    ]
  )
  assert.is((await call(address, revokeKey, { params: { id: keyId }, headers: { cookie } })).status, 200)
  assert.is((await call(address, getMe, { headers: bearer(key) })).body.error, 'KEY_REVOKED')
})

issuing('are no keys with the other prefix, and no row makes one a key of the other side', async () => {
  const partner = await harness.makePartner()
  const side = await testSideOf(partner)
  for (const key of [side.key.replace('_test_', '_live_'), partner.key.replace('_live_', '_test_')]) {
    assert.is(parseApiKey(key), undefined)
    assert.is((await call(address, getMe, { headers: bearer(key) })).status, 401)
  }
  const moved = db('api_keys').where({ id: side.keyId }).update({ partner_id: partner.partnerId })
  assert.match(String(await moved.catch((error: unknown) => error)), /belongs to a test side/)
  // Even with the triggers out of the way.
  await db.transaction(async trx => {
    await trx.raw('set local session_replication_role = replica')
    await trx('api_keys').where({ id: side.keyId }).update({ partner_id: partner.partnerId, test: false })
  })
  assert.is((await side.call(getMe)).status, 401)
})

issuing('have the scopes of other keys: admin by the operator alone', async () => {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const create = (scopes: string[]) => call(address, createKey, { headers: { cookie }, body: { test: true, scopes } })
  assert.equal((await create(['marketplace:read'])).body.scopes, ['marketplace:read'])
  const refused = await create(['trading:read', 'admin:write'])
  assert.equal([refused.status, refused.body.details[0].path], [400, '/body/scopes/1'])
  const granted = await makeTestSide(harness, partner, { scopes: ['admin:write'] })
  assert.equal((await granted.call(getMe)).body.scopes, ['admin:write'])
})

apart('places its orders with the test broker, and the live side with its own', async () => {
  const partner = await harness.makePartner()
  const side = await testSideOf(partner)
  const [trader, testTrader] = [await partner.makeTrader(), await side.makeTrader()]
  const clientOrderId = randomUUID()
  const placed = await partner.call(placeBinaryOrder, order(trader.traderExternalId, clientOrderId))
  const tested = await side.call(placeBinaryOrder, order(testTrader.traderExternalId, clientOrderId))
  assert.equal(
    [placed.body.status, tested.body.status],
    ['CLOSED', 'CLOSED'],
    JSON.stringify([placed.body, tested.body])
  )
  assert.is.not(placed.body.orderId, tested.body.orderId)
  const of = (simulator: typeof live, accountId: string) =>
    simulator.ledger().filter(entry => entry.loginid === accountId).length
  assert.equal(
    [
      of(live, trader.accountId),
      of(live, testTrader.accountId),
      of(testing, trader.accountId),
      of(testing, testTrader.accountId)
    ],
    [1, 0, 0, 1]
  )
})

apart('has traders, orders, events and requests of its own under the same names', async () => {
  const partner = await harness.makePartner()
  const side = await testSideOf(partner)
  const [trader, testTrader] = [
    await partner.makeTrader({ externalId: 'same' }),
    await side.makeTrader({ externalId: 'same' })
  ]
  assert.is.not(trader.traderId, testTrader.traderId)
  const { body } = await side.call(placeBinaryOrder, order('same'))
  const ids = async (who: TestPartner) =>
    (await who.call(listOrders)).body.data.map(({ orderId }: { orderId: string }) => orderId)
  assert.equal([await ids(partner), await ids(side)], [[], [body.orderId]])
  assert.is((await partner.call(getOrder, { params: { id: body.orderId } })).status, 404)
  await until('the events', async () => {
    await sequenceEvents(db)
    const types = (await side.call(listEvents)).body.data.map(({ type }: { type: string }) => type)
    return types.includes('order.closed')
  })
  const ofLive = (await partner.call(listEvents)).body.data as { type: string }[]
  assert.not.ok(ofLive.some(({ type }) => type.startsWith('order.')))
  const requests = (await partner.call(listRequests)).body.data as { keyId: string }[]
  assert.not.ok(requests.some(({ keyId }) => keyId === side.keyId))
  const used = await side.call(getUsage)
  assert.equal([used.status, used.body.orders.placed, used.body.wallet.balanceUsd], [200, 1, 10_000])
})

apart('takes accounts of the test broker alone, and the live side none of them', async () => {
  const partner = await harness.makePartner()
  const side = await testSideOf(partner)
  const exchange = (accountId: string) => ({
    body: { traderExternalId: 'one', accounts: [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO' }] }
  })
  for (const [who, accountId] of [
    [partner, 'TST1234'],
    [partner, 'TSTX99'],
    [side, 'VRTC1234'],
    [side, 'CR1234'],
    [side, 'TSTX99']
  ] as const) {
    const { status, body } = await who.call(exchangeTokens, exchange(accountId))
    assert.equal([status, body.details?.[0].path], [400, '/body/accounts/0/accountId'], accountId)
  }
  const mine = await side.makeTrader()
  for (const changes of [{ account_id: 'VRTC77' }, { partner_id: partner.partnerId }]) {
    const changed = db('broker_accounts').where({ account_id: mine.accountId }).update(changes)
    assert.match(String(await changed.catch((error: unknown) => error)), /begin with TST/)
  }
})

apart('follows its partner in plan, limits and standing, and is nowhere among partners', async () => {
  const partner = await harness.makePartner({ plan: 'PRO' })
  const side = await testSideOf(partner)
  await setLimits(db, partner.partnerId, { perKeyPerMinute: 17 })
  assert.is((await side.call(getUsage)).body.rateLimit.perKeyPerMinute, 17)
  await suspendPartner(db, partner.partnerId, 'for a test')
  assert.is((await side.call(getMe)).body.error, 'PARTNER_SUSPENDED')
  await db.transaction(trx => resumePartner(trx, partner.partnerId))
  assert.is((await side.call(getMe)).status, 200)
  assert.not.ok((await listPartners(db)).some(({ partnerId }) => partnerId === side.partnerId))
  // What a suspension costs no fee for begins anew with its end, on both sides.
  const since = await db('partners').whereIn('id', [partner.partnerId, side.partnerId]).distinct('active_since')
  assert.is(since.length, 1)
  // A cheaper plan waits for the end of the period that is paid.
  await db('partners').where({ id: partner.partnerId }).update({ next_plan: 'LAUNCH' })
  assert.is((await side.call(getUsage)).body.wallet.feeUsd, Number(config.planPrices.LAUNCH))
  const refused = [
    () => suspendPartner(db, side.partnerId, 'for a test'),
    () => setLimits(db, side.partnerId, { perKeyPerMinute: 1 }),
    () => insertPartnerSession(db, pepper, { partnerId: side.partnerId, ttlHours: 1 }),
    () =>
      db.transaction(trx => insertKey(trx, pepper, { partnerId: side.partnerId, label: null, scopes: [], test: true }))
  ]
  for (const attempt of refused) assert.match(String(await attempt().catch((error: unknown) => error)), /test side of/)
  assert.is((await side.call(getMe)).status, 200)
  for (const pay of [topUp, debitWallet]) {
    const paid = db.transaction(trx =>
      pay(trx, { partnerId: side.partnerId, amountUsd: '1', reason: 'a test', prices: config.planPrices })
    )
    assert.match(String(await paid.catch((error: unknown) => error)), /test side of/)
  }
})

apart('is made with the limits and the standing that its partner has by then', async () => {
  const partner = await harness.makePartner()
  await setLimits(db, partner.partnerId, { perKeyPerMinute: 17, perTraderPerMinute: 7 })
  await suspendPartner(db, partner.partnerId, 'for a test')
  const side = await testSideOf(partner)
  assert.is((await side.call(getMe)).body.error, 'PARTNER_SUSPENDED')
  await db.transaction(trx => resumePartner(trx, partner.partnerId))
  assert.equal((await side.call(getUsage)).body.rateLimit, { perKeyPerMinute: 17, perTraderPerMinute: 7 })
})

apart('pays nothing: it is not billed, and shows what its partner lacks', async () => {
  const partner = await harness.makePartner({ plan: 'LAUNCH' })
  const side = await testSideOf(partner)
  const past = new Date(Date.now() - 1000)
  const [start, end] = [new Date(past.getTime() - 1000), past]
  await db('partners').where({ id: partner.partnerId }).update({ period_start: start, period_end: end })
  const prices = { prices: config.planPrices, feePct: config.marketplaceFeePct }
  await checkBilling(db, prices)
  const standing = await rows<{ active: boolean }>(
    db,
    `select plan_active as active from partners where id = :id or test_of = :of`,
    {
      id: partner.partnerId,
      of: partner.partnerId
    }
  )
  assert.equal(standing, [{ active: false }, { active: false }])
  const refused = await side.call(getMe)
  assert.equal([refused.status, refused.body.topUpUsd], [402, 49])
})

apart('is a side for ever, and the database marks what belongs to it, too', async () => {
  const partner = await harness.makePartner()
  const side = await testSideOf(partner)
  const [trader, testTrader] = [await partner.makeTrader(), await side.makeTrader()]
  const partners = () => db('partners')
  const copied = (changes: string) =>
    db.raw(`insert into partners select (jsonb_populate_record(p, ${changes})).* from partners p where id = ?`, [
      partner.partnerId
    ])
  const follow = {
    id: 'fol_x',
    partner_id: partner.partnerId,
    trader_id: trader.traderId,
    leader_id: testTrader.traderId
  }
  const attempts: [Promise<unknown>, RegExp][] = [
    [partners().where({ id: side.partnerId }).update({ test_of: null }), /cannot change its side/],
    [
      copied(`jsonb_build_object('id', 'ptn_x', 'broker_dialect', 'test', 'test_of', '${side.partnerId}')`),
      /has no test side/
    ],
    [db('orders').insert({ id: 'ord_x', account_id: testTrader.accountId, dialect: 'v3' }), /goes to the test broker/],
    [db('orders').insert({ id: 'ord_x', account_id: trader.accountId, dialect: 'test' }), /goes to the test broker/],
    [db('follows').insert({ ...follow, risk_pct: 1, max_drawdown_pct: 1 }), /does not cross sides/]
  ]
  for (const [attempt, refusal] of attempts)
    assert.match(String(await attempt.catch((error: unknown) => error)), refusal)
})

apart('trades on while a partner is halted whose application has the number of its own', async () => {
  const [side, other] = [await testSideOf(await harness.makePartner()), await harness.makePartner()]
  const [testTrader, trader] = [await side.makeTrader(), await other.makeTrader()]
  const { broker_app_id: application } = await db('partners').where({ id: side.partnerId }).first()
  await db('partners').where({ id: other.partnerId }).update({ broker_app_id: application })
  assert.is(await countOfApplication(db, application), 1)
  const halt = { scope: 'application', subject: application } as const
  await haltTrading(db, { ...halt, reason: 'the broker has closed it', actor: 'cli:test' })
  announceHalts(services.bus)
  const refused = await other.call(placeBinaryOrder, order(trader.traderExternalId))
  const tested = await side.call(placeBinaryOrder, order(testTrader.traderExternalId))
  await resumeTrading(db, halt)
  announceHalts(services.bus)
  assert.equal(
    [refused.body.error, tested.body.status],
    ['TRADING_HALTED', 'CLOSED'],
    JSON.stringify([refused.body, tested.body])
  )
})

apart('shows leaders of its own side alone, also with scope=global', async () => {
  const partners = [await harness.makePartner(), await harness.makePartner()] as const
  const sides = [await testSideOf(partners[0]), await testSideOf(partners[1])] as const
  const leaders: string[] = []
  for (const who of [partners[0], sides[0]]) {
    const trader = await who.makeTrader()
    await insertOrderRows(db, trader, { count: 12 })
    await db('community_profiles').insert({ party_id: who.partnerId, partner_id: who.partnerId, is_public: true })
    leaders.push(trader.traderId)
  }
  const seen = async (who: TestPartner) =>
    (await who.call(listLeaders, { query: { scope: 'global' } })).body.data
      .map(({ leaderId }: { leaderId: string }) => leaderId)
      .filter((id: string) => leaders.includes(id))
  assert.equal(await seen(partners[1]), [leaders[0]])
  assert.equal(await seen(sides[1]), [leaders[1]])
})

apart.after(closeAll)
issuing.run()
apart.run()

// Test keys: a side of its own for each partner, which shares nothing with the live one, and trades with the test broker alone.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listLeaders } from '../../api/copy.ts'
import { listEvents } from '../../api/events/events.ts'
import { createKey, listKeys, revokeKey } from '../../api/keys.ts'
import { listMarketplaceBots } from '../../api/marketplace/listings.ts'
import { getMe } from '../../api/me.ts'
import { operations } from '../../api/operations.ts'
import { getOrder } from '../../api/orders/by-id.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { listRequests } from '../../api/requests.ts'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { getUsage } from '../../api/usage.ts'
import { sequenceEvents } from '../../db/events/sequence.ts'
import { checkBilling } from '../../db/money/billing-check.ts'
import { accounts, move, transfer } from '../../db/money/ledger.ts'
import { insertKey } from '../../db/partners/keys.ts'
import { listPartners, setLimits } from '../../db/partners/partners.ts'
import { insertPartnerSession } from '../../db/partners/sessions.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import { parseApiKey } from '../../db/platform/crypto.ts'
import { rows } from '../../db/postgres/connection.ts'
import { allScopes, testScopes } from '../../schemas/fields/scopes.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { makeCrossings } from '../support/crossing.ts'
import { call, closeAll, newAccountId, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'

const live = await startSimulator({ tickMs: 10, seed: 3, limits: 'off' })
const testing = await startSimulator({ tickMs: 10, seed: 4, limits: 'off' })
onClose(() => Promise.all([live.close(), testing.close()]))
const harness = await openHarness({
  env: { BROKER_URL: live.url, BROKER_DIALECT: 'v3', TEST_BROKER_URL: testing.url, SWEEP_MS: '200' }
})
const { address, services } = harness
const { db, pepper, config } = services
const worker = await startTestWorker(harness.env)

const issuing = suite('test keys')
const apart = suite('the test side')
const crossing = suite('between the two sides')

const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

/** The partner's test side, with a key of it, called as a partner is. */
async function testSideOf(partner: TestPartner): Promise<TestPartner> {
  const made = await db.transaction(trx =>
    insertKey(trx, pepper, { partnerId: partner.partnerId, label: null, scopes: testScopes, test: true })
  )
  const side: TestPartner = {
    ...partner,
    partnerId: made.partnerId,
    keyId: made.keyId,
    key: made.key,
    call: (row, input = {}) => call(address, row, { ...input, headers: { ...bearer(made.key), ...input.headers } }),
    async makeTrader({
      externalId = `user-${randomUUID()}`,
      accountId = testAccount(),
      token = `sim-${accountId}`
    } = {}) {
      const { status, body } = await side.call(exchangeTokens, {
        body: { traderExternalId: externalId, accounts: [{ accountId, token, accountMode: 'DEMO', currency: 'USD' }] }
      })
      assert.is(status, 200, JSON.stringify(body))
      return { traderExternalId: externalId, traderId: body.traderId, accountId }
    }
  }
  return side
}

const testAccount = () => newAccountId().replace('VRTC', 'TST')

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

issuing('are made by the session with test: true, told apart everywhere, and revoked like others', async () => {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const made = await call(address, createKey, { headers: { cookie }, body: { label: 'ci', test: true } })
  assert.is(made.status, 200, JSON.stringify(made.body))
  const { key, keyId } = made.body
  assert.match(key, /^service_test_[0-9a-f]{16}_[0-9a-f]{48}$/)
  assert.equal([made.body.test, made.body.scopes], [true, testScopes])
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

issuing('have no scope of money, marketplace, sites and admin, and none is given', async () => {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const body = { test: true, scopes: ['trading:read', 'marketplace:read'] }
  const refused = await call(address, createKey, { headers: { cookie }, body })
  assert.equal([refused.status, refused.body.details[0].path], [400, '/body/scopes/1'])
  const side = await testSideOf(partner)
  for (const row of operations.filter(
    ({ scope, auth }) => auth !== 'session' && scope && !testScopes.includes(scope)
  )) {
    const { body } = await side.call(row, { params: { id: 'nothing', slug: 'nothing' } })
    assert.is(body.error, 'INSUFFICIENT_SCOPE', row.name)
  }
  assert.ok(allScopes.length > testScopes.length)
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
  assert.equal([used.status, used.body.orders.placed, used.body.wallet.balanceUsd], [200, 1, 0])
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
  const refused = [
    () => suspendPartner(db, side.partnerId, 'for a test'),
    () => setLimits(db, side.partnerId, { perKeyPerMinute: 1 }),
    () => insertPartnerSession(db, pepper, { partnerId: side.partnerId, ttlHours: 1 }),
    () =>
      db.transaction(trx => insertKey(trx, pepper, { partnerId: side.partnerId, label: null, scopes: [], test: true }))
  ]
  for (const attempt of refused) assert.match(String(await attempt().catch((error: unknown) => error)), /test side of/)
})

apart('pays nothing: it is not billed, has no wallet, and tells what its partner lacks', async () => {
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
  const paid = transfer(db, {
    reference: randomUUID(),
    kind: 'topup',
    entries: move(accounts.world, accounts.wallet(side.partnerId), '10'),
    details: {}
  })
  assert.match(String(await paid.catch((error: unknown) => error)), /has no money/)
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

// The table of the tenancy tests once more: the partner's own test key reaches as little of the live side as another partner does.
const owner = await harness.makePartner()
const ownersTestSide = await testSideOf(owner)
const other = await harness.makePartner()
const crossings = await makeCrossings(harness, owner, other)
crossing('is asked about while no worker changes the live side', () => worker.stop())

for (const row of operations.filter(({ name, auth }) => crossings[name] && auth !== 'session'))
  crossing(`a test key reaches nothing of the live side by ${row.name}`, async () => {
    const { input } = crossings[row.name] as (typeof crossings)[string]
    const before = await liveRows()
    const answer = await ownersTestSide.call(row, input)
    const told = crossings[row.name]?.told
    if (row.scope && !testScopes.includes(row.scope)) assert.is(answer.body.error, 'INSUFFICIENT_SCOPE')
    else if (row.name === 'exchangeTokens') assert.is(answer.status, 400)
    else if (typeof told === 'string') assert.ok(answer.status >= 400, JSON.stringify(answer.body))
    else if (told?.data) assert.equal(answer.body.data, told.data)
    assert.equal(await liveRows(), before)
  })

/** Digests of what the owner has in the tables that its test key could have reached. */
async function liveRows(): Promise<Record<string, string | null>> {
  const names = [
    'traders',
    'broker_accounts',
    'orders',
    'follows',
    'community_messages',
    'community_bots',
    'webhook_endpoints',
    'trade_records'
  ]
  const found = await rows<{ name: string; digest: string | null }>(
    db,
    names
      .map(
        name =>
          `select '${name}' as name, md5(string_agg(r::text, ';' order by r::text)) as digest from ${name} r where partner_id = '${owner.partnerId}'`
      )
      .join(' union all ')
  )
  return Object.fromEntries(found.map(({ name, digest }) => [name, digest]))
}

crossing('no live key lists what the test side has, in the marketplace either', async () => {
  assert.is((await ownersTestSide.call(listMarketplaceBots)).body.error, 'INSUFFICIENT_SCOPE')
  for (const [table, row] of [
    ['marketplace_bots', { id: 'bot_x', partner_id: ownersTestSide.partnerId }],
    ['deployments', { id: 'dep_x', partner_id: ownersTestSide.partnerId }]
  ] as const) {
    const inserted = db(table).insert(row)
    assert.match(String(await inserted.catch((error: unknown) => error)), /a test side has no/)
  }
})

crossing.after(closeAll)
issuing.run()
apart.run()
crossing.run()

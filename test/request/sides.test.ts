// The table of the tenancy tests for the two sides of a partner: no operation with a test key reaches a live row, and none with a
// live key a row of the test side, although both are of one partner; and what each of them writes stays on its side.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { refundPurchase, refundSubscription } from '../../api/admin.ts'
import { requestPayout } from '../../api/marketplace/earnings.ts'
import { listMarketplaceBots } from '../../api/marketplace/listings.ts'
import { purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { operations } from '../../api/operations.ts'
import { deployTemplate, listMyDeployments } from '../../api/sites/templates.ts'
import { getTraderMe, signUpTrader } from '../../api/traders/traders.ts'
import { getUsage } from '../../api/usage.ts'
import { approve, recordPaid, reject } from '../../cli/money/payouts.ts'
import { listPurchases } from '../../db/marketplace/sales.ts'
import { checkBilling } from '../../db/money/billing-check.ts'
import { accounts, balanceOf, move, outsideOf, transfer } from '../../db/money/ledger.ts'
import { listPayouts } from '../../db/money/payouts.ts'
import { LEAST_PLAY_MONEY_USD, PLAY_MONEY_USD } from '../../db/money/play-money.ts'
import { verifyLedger } from '../../db/money/verify.ts'
import { rows } from '../../db/postgres/connection.ts'
import { errors } from '../../schemas/errors/errors.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { type Crossing, makeCrossings } from '../support/crossing.ts'
import { closeAll, openHarness, type TestPartner, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { books, fund, makeBot, makeDraft } from '../support/marketplace-makers.ts'
import { startTestWorker } from '../support/processes.ts'
import { makeTestSide } from '../support/test-side.ts'

const harness = await openHarness()
const { address, services } = harness
const { db, config } = services

const crossing = suite('between the two sides of a partner')
const market = suite('the marketplace of the test side')
const sites = suite('sites of the test side')

/** Both sides of a new partner. Both keys have every scope, admin's too: what is out of reach is so by its side alone. */
async function makeBothSides() {
  const live = await harness.makePartner()
  return { live, test: await makeTestSide(harness, live, { scopes: allScopes }) }
}

// Who owns the rows makes no calls while they are reached for, so that its rows are the same before and after.
const [first, second] = [await makeBothSides(), await makeBothSides()]
const { live, test } = first
const creator = await makeTestSide(harness, await harness.makePartner())
const ways = [
  {
    to: 'the live side with a test key',
    owner: first.live,
    requester: first.test,
    crossings: await makeCrossings(harness, first.live, first.test),
    published: await makeBot(first.live, { oneTimePriceUsd: 1, monthlyPriceUsd: 1 })
  },
  {
    to: 'the test side with a live key',
    owner: second.test,
    requester: second.live,
    crossings: await makeCrossings(harness, second.test, second.live, { creator }),
    published: await makeBot(second.test, { oneTimePriceUsd: 1, monthlyPriceUsd: 1 })
  }
]
await services.usage.flush()
await services.requests.flush()

for (const { to, owner, requester, crossings, published } of ways) {
  const others: Record<string, Partial<Crossing>> = {
    exchangeTokens: { expected: 'VALIDATION_FAILED' },
    refundPurchase: { expected: 'NOT_FOUND' },
    refundSubscription: { expected: 'NOT_FOUND' },
    // Another partner sees these; another side does not.
    ...Object.fromEntries(
      ['getMarketplaceBot', 'listBotReviews', 'reviewBot', 'purchaseBot', 'subscribeToBot'].map(name => [
        name,
        { input: { ...crossings[name]?.input, params: { id: published } } }
      ])
    )
  }
  for (const row of operations.filter(({ name, auth }) => crossings[name] && auth !== 'session'))
    crossing(`reaches nothing of ${to}: ${row.name}`, async () => {
      const { input, expected } = { ...(crossings[row.name] as Crossing), ...others[row.name] }
      const before = await rowsOf(owner)
      const response = await requester.call(row, input)
      if (typeof expected === 'string')
        assert.equal([response.status, response.body.error], [errors[expected].status, expected])
      else
        assert.equal([response.status, response.body.data], [200, expected.data ?? response.body.data], expected.fine)
      assert.equal(await rowsOf(owner), before, 'something changed')
    })

  // What is of one trader names it, and is among those above.
  const lists = operations.filter(
    ({ method, path, auth, query }) =>
      method === 'GET' &&
      !path.includes('{') &&
      auth === 'key' &&
      !((query?.required ?? []) as string[]).includes('traderExternalId')
  )
  for (const row of lists)
    crossing(`shows nothing of ${to}: ${row.name}`, async () => {
      const theirs = await idsOf(owner)
      assert.ok(theirs.length > 15)
      const { status, body } = await requester.call(row, { query: queries[row.name] ?? {} })
      assert.is(status, 200, JSON.stringify(body))
      // Paths in the request log are the caller's own words.
      const shown = JSON.stringify(body, (name, value) => (name === 'path' ? undefined : value))
      for (const id of theirs) assert.not.ok(shown.includes(id), `${row.name} shows ${id}`)
    })
}

// What these need; the trader is none of the caller's.
const today = new Date().toISOString()
const window = { from: new Date(Date.now() - 86_400_000).toISOString(), to: today }
const queries: Record<string, Record<string, string>> = {
  listLeaders: { scope: 'global' },
  getLeaderboard: { scope: 'global' },
  getRevenue: window,
  getActivity: window,
  getMarketplaceAnalytics: window
}
/** Ids of everything a partner has. */
async function idsOf({ partnerId }: TestPartner): Promise<string[]> {
  const tables = await rows<{ name: string }>(
    db,
    `select o.table_name as name from information_schema.columns o join information_schema.columns i using (table_schema, table_name)
       join information_schema.tables t using (table_schema, table_name)
      where table_schema = 'public' and t.table_type = 'BASE TABLE' and o.column_name = 'partner_id'
        and i.column_name = 'id' and i.data_type = 'text'`
  )
  const found = await rows<{ id: string }>(
    db,
    tables.map(({ name }) => `select id from ${name} where partner_id = :partnerId`).join(' union all '),
    { partnerId }
  )
  return found.map(({ id }) => id).concat(partnerId)
}

/** A digest of each table's rows of a partner. */
async function rowsOf({ partnerId }: TestPartner): Promise<Record<string, string | null>> {
  const tables = await rows<{ name: string }>(
    db,
    `select table_name as name from information_schema.columns join information_schema.tables t using (table_schema, table_name)
      where table_schema = 'public' and t.table_type = 'BASE TABLE' and column_name = 'partner_id'`
  )
  const found = await rows<{ name: string; digest: string | null }>(
    db,
    tables
      .map(
        ({ name }) =>
          `select '${name}' as name, md5(string_agg(r::text, ';' order by r::text)) as digest from ${name} r where partner_id = :partnerId`
      )
      .join(' union all '),
    { partnerId }
  )
  return Object.fromEntries(found.map(({ name, digest }) => [name, digest]))
}

const botIds = async (who: TestPartner, query = {}) => {
  const { body } = await who.call(listMarketplaceBots, { query: { limit: 50, ...query } })
  return { total: body.total, ids: body.data.map(({ botId }: { botId: string }) => botId) as string[] }
}

crossing('knows no session and no Idempotency-Key of the other side', async () => {
  const sides = await makeBothSides()
  const ways = [
    [sides.live, sides.test],
    [sides.test, sides.live]
  ] as const
  const headers = { 'idempotency-key': randomUUID() }
  const body = { email: `${randomUUID()}@example.com`, password: 'correct horse battery' }
  const traders: string[] = []
  for (const [one, other] of ways) {
    const own = await one.call(signUpTrader, { headers, body })
    assert.is(own.status, 200, JSON.stringify(own.body))
    traders.push(own.body.traderId)
    const session = { 'x-trader-session': own.body.sessionToken }
    assert.is((await one.call(getTraderMe, { headers: session })).status, 200)
    assert.is((await other.call(getTraderMe, { headers: session })).body.error, 'UNAUTHENTICATED')
    assert.is((await other.call(listMarketplaceBots, { headers: session })).body.error, 'UNAUTHENTICATED')
  }
  assert.is(new Set(traders).size, 2)
})

market('lists and counts the bots of its side alone, by words too, also after each change', async () => {
  const sides = [live, await makeTestSide(harness, await harness.makePartner())] as const
  const search = 'zebra'
  for (const side of sides) assert.is((await botIds(side, { search })).total, 0)
  // Two and one: what a process remembers of one side must not serve the other.
  const bots: string[][] = [[], []]
  for (const [i, side] of [live, live, test].entries())
    bots[i === 2 ? 1 : 0]?.unshift(await makeBot(side, { name: 'Zebra stripes', category: 'grid' }))
  for (const [i, side] of sides.entries())
    for (const query of [{ search }, { category: 'grid' }]) {
      const { total, ids } = await botIds(side, query)
      assert.equal([total, ids], [bots[i]?.length, bots[i]], JSON.stringify(query))
    }
})

market('begins with play money, sells on its side alone, and moves nothing of the live money', async () => {
  const outside = () => Promise.all([balanceOf(db, accounts.fees), balanceOf(db, accounts.world)])
  const before = await outside()
  const creator = await makeTestSide(harness, await harness.makePartner())
  const buyer = await makeTestSide(harness, await harness.makePartner(), { scopes: allScopes })
  assert.equal(await books(db, buyer), [PLAY_MONEY_USD, '0.00', '0.00'])
  assert.is((await buyer.call(getUsage)).body.wallet.balanceUsd, Number(PLAY_MONEY_USD))
  const botId = await makeBot(creator, { oneTimePriceUsd: 100, monthlyPriceUsd: 10 })
  const bought = await buyer.call(purchaseBot, { params: { id: botId } })
  assert.is(bought.status, 200, JSON.stringify(bought.body))
  assert.is((await buyer.call(subscribeToBot, { params: { id: botId } })).status, 200)
  assert.equal(
    [await books(db, buyer), await books(db, creator)],
    [
      ['9890.00', '0.00', '0.00'],
      [PLAY_MONEY_USD, '88.00', '0.00']
    ]
  )
  const params = { id: bought.body.purchaseId }
  const refunded = await buyer.call(refundPurchase, { params, body: { reason: 'a test of it' } })
  assert.is(refunded.body.status, 'REFUNDED')
  assert.equal(
    [await balanceOf(db, accounts.wallet(buyer.partnerId)), (await books(db, creator))[1]],
    ['9990.00', '8.00']
  )
  assert.equal(await outside(), before)
  const { broken } = await verifyLedger(db)
  assert.is(broken, null)
  // The operator's lists are of the live side.
  assert.not.ok((await listPurchases(db, { limit: 1000 })).some(({ id }) => id === params.id))
})

market('is renewed by the billing check, which charges no plan there', async () => {
  const creator = await makeTestSide(harness, await harness.makePartner())
  const buyer = await makeTestSide(harness, await harness.makePartner())
  const botId = await makeBot(creator, { monthlyPriceUsd: 10 })
  const { body } = await buyer.call(subscribeToBot, { params: { id: botId } })
  const over = new Date(Date.now() - 1000)
  await db('marketplace_subscriptions').where({ id: body.subscriptionId }).update({ current_period_end: over })
  const fees = await balanceOf(db, accounts.fees)
  const testFees = Number(await balanceOf(db, accounts.testFees))
  await billing()
  assert.is(await balanceOf(db, accounts.wallet(buyer.partnerId)), '9980.00')
  assert.equal(
    [await balanceOf(db, accounts.fees), Number(await balanceOf(db, accounts.testFees))],
    [fees, testFees + 2]
  )
})

market('has its payouts decided by the billing check, and the operator sees none of them', async () => {
  const creator = await makeTestSide(harness, await harness.makePartner())
  const buyer = await makeTestSide(harness, await harness.makePartner())
  await buyer.call(purchaseBot, { params: { id: await makeBot(creator, { oneTimePriceUsd: 100 }) } })
  const requestOne = async (amountUsd: number) => {
    const destinationAddress = `T${'a'.repeat(33)}`
    const { status, body } = await creator.call(requestPayout, { body: { amountUsd, destinationAddress } })
    assert.is(status, 200, JSON.stringify(body))
    return body.payoutId as string
  }
  const [paid, rejected] = [await requestOne(50), await requestOne(20.01)]
  const seen = async () => (await listPayouts(db, { page: 1, limit: 100 })).payouts.map(({ payoutId }) => payoutId)
  assert.equal(
    (await seen()).filter(id => id === paid || id === rejected),
    []
  )
  const world = await balanceOf(db, accounts.world)
  const opened = { db, actor: 'test', confirm: async () => {} } as unknown as Parameters<typeof approve>[0]
  const decided = [
    () => approve(opened, { payoutId: paid, reason: 'it is asked for' }),
    () => recordPaid(opened, { payoutId: paid, reference: 'never' }),
    () => reject(opened, { payoutId: paid, reason: 'it is asked for' })
  ]
  for (const attempt of decided) assert.match(String(await attempt().catch((error: unknown) => error)), /play money/)
  await billing()
  const { payouts } = await listPayouts(db, { partnerId: creator.partnerId, page: 1, limit: 10 })
  const states = Object.fromEntries(payouts.map(({ payoutId, status }) => [payoutId, status]))
  assert.equal(states, { [paid]: 'PAID', [rejected]: 'REJECTED' })
  assert.equal((await books(db, creator)).slice(1), ['30.00', '0.00'])
  assert.is(await balanceOf(db, accounts.world), world)
})

market('has its wallet filled up when it is nearly empty, once a day', async () => {
  const side = await makeTestSide(harness, await harness.makePartner())
  const wallet = accounts.wallet(side.partnerId)
  const spend = (amountUsd: string, reference: string) =>
    transfer(db, { reference, kind: 'debit', entries: move(wallet, outsideOf(true).world, amountUsd) })
  await spend('9000.00', `spent-1:${side.partnerId}`)
  await billing()
  assert.is(await balanceOf(db, wallet), LEAST_PLAY_MONEY_USD)
  await spend('0.01', `spent-2:${side.partnerId}`)
  await billing()
  assert.is(await balanceOf(db, wallet), PLAY_MONEY_USD)
  await spend('9999.00', `spent-3:${side.partnerId}`)
  await billing()
  assert.is(await balanceOf(db, wallet), '1.00')
})

market('is dealt with once by checks that run at once, and none of them reports a failure', async () => {
  const creator = await makeTestSide(harness, await harness.makePartner())
  const buyer = await makeTestSide(harness, await harness.makePartner())
  await buyer.call(purchaseBot, { params: { id: await makeBot(creator, { oneTimePriceUsd: 9000.01 }) } })
  for (const amountUsd of Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? 10 : 10.01)))
    await creator.call(requestPayout, { body: { amountUsd, destinationAddress: `T${'a'.repeat(33)}` } })
  const wallet = accounts.wallet(buyer.partnerId)
  const world = await balanceOf(db, accounts.testWorld)
  // What is spent when the checks have found the wallet nearly empty is filled up as well.
  const spending = await db.transaction()
  await transfer(spending, {
    reference: `spent-late:${buyer.partnerId}`,
    kind: 'debit',
    entries: move(wallet, accounts.testFees, '100')
  })
  const checks = Promise.all([billing(), billing(), billing()])
  await untilLockWaits(db, { count: 3 })
  await spending.commit()
  await checks
  const { payouts } = await listPayouts(db, { partnerId: creator.partnerId, page: 1, limit: 100 })
  assert.equal([...new Set(payouts.map(({ amountUsd, status }) => `${amountUsd} ${status}`))].sort(), [
    '10.00 PAID',
    '10.01 REJECTED'
  ])
  assert.is(await balanceOf(db, wallet), PLAY_MONEY_USD)
  const moved = Number(await balanceOf(db, accounts.testWorld)) - Number(world)
  assert.is(moved.toFixed(2), (10 * 10 - 9100.01).toFixed(2))
  assert.is((await verifyLedger(db)).broken, null)
})

market('is held apart by the database too: no sale, review or transfer crosses sides', async () => {
  const [mine, theirs] = [await makeBot(live), await makeBot(test)]
  const facts = { price: 0, status: 'COMPLETED', fee: 0 }
  const attempts = [
    db('marketplace_purchases').insert({
      id: 'pur_x',
      bot_id: theirs,
      partner_id: live.partnerId,
      party_id: 'x',
      ...facts
    }),
    db('marketplace_purchases').insert({
      id: 'pur_x',
      bot_id: mine,
      partner_id: test.partnerId,
      party_id: 'x',
      ...facts
    }),
    db('marketplace_subscriptions').insert({
      id: 'sub_x',
      bot_id: theirs,
      partner_id: live.partnerId,
      party_id: 'x',
      price: 0,
      current_period_end: new Date()
    }),
    db('marketplace_reviews').insert({
      id: 'rev_x',
      bot_id: mine,
      partner_id: test.partnerId,
      party_id: 'x',
      rating: 5
    })
  ]
  for (const attempt of attempts)
    assert.match(String(await attempt.catch((error: unknown) => error)), /does not cross sides/)
  await fund(harness, live, '1')
  for (const [from, to] of [
    [accounts.wallet(live.partnerId), accounts.wallet(test.partnerId)],
    [accounts.testWorld, accounts.wallet(live.partnerId)],
    [accounts.wallet(test.partnerId), accounts.fees]
  ] as const) {
    const crossed = transfer(db, { reference: `${from}-${to}`, kind: 'topup', entries: move(from, to, '1.00') })
    assert.match(String(await crossed.catch((error: unknown) => error)), /does not balance/)
  }
  // A bot, an account and a site are of the side of their partner, whatever is written.
  await db('marketplace_bots').where({ id: theirs }).update({ test: false })
  assert.equal(await db('marketplace_bots').where({ id: theirs }).first('test'), { test: true })
  const named = db('deployments').insert({
    id: 'dep_x',
    partner_id: test.partnerId,
    template: 'horizon',
    tenant_slug: 'no-side',
    brand_name: 'Brand',
    primary_color: '#000000',
    status: 'QUEUED'
  })
  assert.match(String(await named.catch((error: unknown) => error)), /begin with test~/)
})

market('keeps drafts and refunds of the other side out of reach of an admin key', async () => {
  const creator = await makeTestSide(harness, await harness.makePartner())
  const botId = await makeBot(creator, { oneTimePriceUsd: 1, monthlyPriceUsd: 1 })
  const draft = await makeDraft(creator)
  const { purchaseId } = (await test.call(purchaseBot, { params: { id: botId } })).body
  const { subscriptionId } = (await test.call(subscribeToBot, { params: { id: botId } })).body
  for (const [row, id] of [
    [refundPurchase, purchaseId],
    [refundSubscription, subscriptionId],
    [purchaseBot, draft]
  ] as const) {
    const body = { reason: 'mine' }
    assert.is((await live.call(row, { params: { id }, body })).body.error, 'NOT_FOUND', row.name)
  }
  assert.is(
    (await test.call(refundSubscription, { params: { id: subscriptionId }, body: { reason: 'mine' } })).status,
    200
  )
})

sites('have addresses of their own: the same name is free on both sides, and each serves its own', async () => {
  const body = (brandName: string) => ({ tenantSlug: 'twin-site', brandName })
  const deploy = (who: TestPartner, name: string) =>
    who.call(deployTemplate, { params: { slug: 'horizon' }, body: body(name) })
  const [one, other] = [await deploy(live, 'Live brand'), await deploy(test, 'Test brand')]
  assert.equal([one.status, other.status], [200, 200], JSON.stringify([one.body, other.body]))
  assert.equal([one.body.tenantSlug, other.body.tenantSlug], ['twin-site', 'twin-site'])
  assert.is.not(one.body.deploymentId, other.body.deploymentId)
  assert.match(other.body.url, /\/sites\/test~twin-site\/$/)
  const stranger = await makeTestSide(harness, await harness.makePartner())
  assert.is((await deploy(stranger, 'Another')).body.error, 'TENANT_SLUG_TAKEN')
  await startTestWorker(harness.env)
  for (const who of [live, test])
    await until('the site to be live', async () => (await who.call(listMyDeployments)).body.data[0].status === 'LIVE')
  for (const [path, brand, mode] of [
    ['twin-site', 'Live brand', null],
    ['test~twin-site', 'Test brand', 'true']
  ] as const) {
    const page = await fetch(`${address}/sites/${path}/`)
    assert.equal([page.status, page.headers.get('test-mode')], [200, mode])
    assert.match(await page.text(), brand)
  }
  const { data } = (await test.call(listMyDeployments)).body
  assert.equal(
    data.map(({ deploymentId, tenantSlug, url }: Record<string, string>) => [deploymentId, tenantSlug, url]),
    [[other.body.deploymentId, 'twin-site', other.body.url]]
  )
  const refused = await test.call(deployTemplate, {
    params: { slug: 'horizon' },
    body: { tenantSlug: 'test~site', brandName: 'Brand' }
  })
  assert.is(refused.body.error, 'VALIDATION_FAILED')
})

function billing() {
  return checkBilling(db, { prices: config.planPrices, feePct: config.marketplaceFeePct })
}

sites.after(closeAll)
for (const tests of [crossing, market, sites]) tests.run()

// Subscriptions: the first month, renewals by the billing check, cancellation.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { retireBot, updateCreatorBot } from '../../api/marketplace/creator.ts'
import { getCreatorEarnings } from '../../api/marketplace/earnings.ts'
import { getMarketplaceBot, reviewBot } from '../../api/marketplace/listings.ts'
import { cancelSubscription, listMySubscriptions, purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { disableTrader, enableTrader } from '../../api/traders/credentials.ts'
import { signUpTrader } from '../../api/traders/traders.ts'
import { refundSubscription } from '../../db/marketplace/refunds.ts'
import { endOfPeriod } from '../../db/money/billing.ts'
import { checkBilling } from '../../db/money/billing-check.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import { closeAll, openHarness, type TestPartner } from '../support/harness.ts'
import { books, draft, fund, makeBot } from '../support/marketplace-makers.ts'
import { makeTestSide } from '../support/test-side.ts'

// Plans cost nothing here, so that what moves is what subscriptions cost.
const env = { PLAN_PRICE_LAUNCH: '0', PLAN_PRICE_PRO: '0', PLAN_PRICE_SCALE: '0' }
const harness = await openHarness({ env })
const { db, config } = harness.services
const of = (id: string) => ({ params: { id } })
const DAY = 86_400_000
const check = (now: Date) => checkBilling(db, { now, prices: config.planPrices, feePct: config.marketplaceFeePct })
const after = (time: string, days: number) => new Date(Date.parse(time) + days * DAY)

/** A creator with a bot at this price a month, and a buyer with this much in its wallet. */
async function market(monthlyPriceUsd: number, wallet: string) {
  const [creator, buyer] = [await harness.makePartner(), await harness.makePartner()]
  const botId = await makeBot(creator, { monthlyPriceUsd })
  if (wallet !== '0') await fund(harness, buyer, wallet)
  return { creator, buyer, botId }
}

const mine = async (partner: TestPartner) => (await partner.call(listMySubscriptions)).body.data[0]

const subscribing = suite('POST /v1/marketplace/bots/{id}/subscribe')

subscribing("is refused for one's own bot, one without a monthly price, and one that is not published", async () => {
  const { creator, buyer, botId } = await market(5, '50')
  assert.is((await creator.call(subscribeToBot, of(botId))).status, 409)
  const oneTime = await makeBot(creator, { oneTimePriceUsd: 1 })
  assert.is((await buyer.call(subscribeToBot, of(oneTime))).status, 409)
  await creator.call(retireBot, of(botId))
  assert.is((await buyer.call(subscribeToBot, of(botId))).status, 404)
})

subscribing('is refused when the wallet cannot pay the first month', async () => {
  const { buyer, botId } = await market(5, '4.99')
  const { status, body } = await buyer.call(subscribeToBot, of(botId))
  assert.is(status, 402)
  assert.equal([body.requiredUsd, body.balanceUsd], [5, 4.99])
  assert.is(await mine(buyer), undefined)
})

subscribing('pays the first month, and ends it a month on', async () => {
  const { creator, buyer, botId } = await market(5, '12')
  const { status, body } = await buyer.call(subscribeToBot, of(botId))
  assert.is(status, 200)
  assert.is(body.status, 'ACTIVE')
  assert.is(body.priceUsd, 5)
  assert.is(body.cancelAtPeriodEnd, false)
  const days = (Date.parse(body.currentPeriodEnd) - Date.parse(body.createdAt)) / DAY
  assert.ok(days >= 28 && days <= 31, `${days} days`)
  assert.equal(await books(db, buyer), ['7.00', '0.00', '0.00'])
  assert.equal(await books(db, creator), ['0.00', '4.00', '0.00'])
})

subscribing('three times at once, or again later, has one effect', async () => {
  const { buyer, botId } = await market(5, '12')
  const responses = await Promise.all([1, 2, 3].map(() => buyer.call(subscribeToBot, of(botId))))
  assert.is(new Set(responses.map(({ body }) => body.subscriptionId)).size, 1)
  await buyer.call(subscribeToBot, of(botId))
  assert.equal(await books(db, buyer), ['7.00', '0.00', '0.00'])
})

subscribing('is possible beside a purchase, and either gives the code', async () => {
  const creator = await harness.makePartner()
  const buyer = await harness.makePartner()
  const botId = await makeBot(creator, { monthlyPriceUsd: 0, oneTimePriceUsd: 0 })
  await buyer.call(purchaseBot, of(botId))
  assert.is((await buyer.call(subscribeToBot, of(botId))).status, 200)
  assert.is((await buyer.call(getMarketplaceBot, of(botId))).body.downloads, 2)
})

const renewing = suite('the billing check')

renewing('leaves alone what is not due', async () => {
  const { buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await check(new Date(Date.parse(body.currentPeriodEnd) - 1))
  assert.equal(await books(db, buyer), ['45.00', '0.00', '0.00'])
})

renewing('pays each month once, however often and by however many it is run', async () => {
  const { creator, buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  const due = new Date(body.currentPeriodEnd)
  await Promise.all([check(due), check(due), check(due)])
  await check(due)
  assert.equal(await books(db, buyer), ['40.00', '0.00', '0.00'])
  assert.equal(await books(db, creator), ['0.00', '8.00', '0.00'])
  const renewed = await mine(buyer)
  assert.is(renewed.status, 'ACTIVE')
  assert.ok(renewed.currentPeriodEnd > body.currentPeriodEnd)
  const { body: earned } = await creator.call(getCreatorEarnings)
  assert.equal(earned.bots[0], { botId, name: draft.name, sales: 0, subscribers: 1, grossUsd: 10, netUsd: 8 })
})

renewing('pays every month that went by when it was not run for long', async () => {
  const { buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await check(after(body.currentPeriodEnd, 62))
  assert.equal(await books(db, buyer), ['30.00', '0.00', '0.00'])
})

renewing('ends months where months end', async () => {
  const { buyer, botId } = await market(1, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await db('marketplace_subscriptions')
    .where({ id: body.subscriptionId })
    .update({ created_at: '2029-01-31T10:00:00Z', current_period_end: '2029-02-28T10:00:00Z' })
  const ends: string[] = []
  for (const now of ['2029-02-28T10:00:00Z', '2029-03-31T10:00:00Z', '2029-04-30T10:00:00Z']) {
    await check(new Date(now))
    ends.push((await mine(buyer)).currentPeriodEnd.slice(0, 10))
  }
  assert.equal(ends, ['2029-03-31', '2029-04-30', '2029-05-31'])
})

renewing('keeps the price of the day one subscribed', async () => {
  const { creator, buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await creator.call(updateCreatorBot, { ...of(botId), body: { monthlyPriceUsd: 50 } })
  await check(new Date(body.currentPeriodEnd))
  assert.equal(await books(db, buyer), ['40.00', '0.00', '0.00'])
  assert.is((await mine(buyer)).priceUsd, 5)
})

renewing(
  'takes no new money for a retired bot: subscribers see the end, have it until then, and it comes',
  async () => {
    const { creator, buyer, botId } = await market(5, '50')
    const { body } = await buyer.call(subscribeToBot, of(botId))
    await creator.call(retireBot, of(botId))
    assert.equal(await mine(buyer), { ...body, cancelAtPeriodEnd: true })
    assert.is((await buyer.call(getMarketplaceBot, of(botId))).body.code, draft.code)
    await check(new Date(body.currentPeriodEnd))
    assert.is((await mine(buyer)).status, 'CANCELED')
    assert.equal(await books(db, buyer), ['45.00', '0.00', '0.00'])
    assert.is((await creator.call(getCreatorEarnings)).body.bots[0].subscribers, 0)
  }
)

renewing('takes no new money for a bot that was retired before its subscriptions were notified', async () => {
  const { creator, buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await creator.call(retireBot, of(botId))
  await db('marketplace_subscriptions').where({ bot_id: botId }).update({ cancel_at_period_end: false })
  await check(new Date(body.currentPeriodEnd))
  assert.is((await mine(buyer)).status, 'CANCELED')
  assert.equal(await books(db, buyer), ['45.00', '0.00', '0.00'])
})

const lockOut = {
  'whose plan is inactive': {
    begin: ({ partnerId }: TestPartner) => db('partners').where({ id: partnerId }).update({ plan_active: false }),
    end: ({ partnerId }: TestPartner, at: Date) =>
      db('partners').where({ id: partnerId }).update({ plan_active: true, active_since: at })
  },
  'that is suspended': {
    begin: ({ partnerId }: TestPartner, at: Date) => suspendPartner(db, partnerId, 'a reason', at),
    end: ({ partnerId }: TestPartner, at: Date) => db.transaction(trx => resumePartner(trx, partnerId, at))
  }
}

for (const [standing, { begin, end }] of Object.entries(lockOut)) {
  renewing(`charges no partner ${standing}: PAST_DUE, then CANCELED after three days`, async () => {
    const { buyer, botId } = await market(5, '50')
    const { body } = await buyer.call(subscribeToBot, of(botId))
    const subscription = () => db('marketplace_subscriptions').where({ id: body.subscriptionId }).first()
    await begin(buyer, new Date(body.currentPeriodEnd))
    // Plans cost nothing here: as a plan that stays unpaid.
    const prices = { LAUNCH: '49', PRO: '199', SCALE: '799' }
    const locked = (now: Date) => checkBilling(db, { now, prices, feePct: '20' })
    await locked(new Date(body.currentPeriodEnd))
    assert.is((await subscription()).status, 'PAST_DUE')
    assert.equal(await books(db, buyer), ['45.00', '0.00', '0.00'])
    await locked(after(body.currentPeriodEnd, 3))
    assert.is((await subscription()).status, 'CANCELED')
    assert.equal(await books(db, buyer), ['45.00', '0.00', '0.00'])
  })

  renewing(`begins the next month of a partner ${standing} when that is over`, async () => {
    const { buyer, botId } = await market(5, '50')
    const { body } = await buyer.call(subscribeToBot, of(botId))
    const over = after(body.currentPeriodEnd, 2)
    await begin(buyer, new Date(body.currentPeriodEnd))
    await end(buyer, over)
    await check(over)
    const renewed = await mine(buyer)
    assert.is(renewed.status, 'ACTIVE')
    assert.is(renewed.currentPeriodEnd, endOfPeriod(over, over).toISOString())
    assert.equal(await books(db, buyer), ['40.00', '0.00', '0.00'])
    const { details } = await db('ledger_transfers')
      .where({ reference: `subscription:${body.subscriptionId}:2` })
      .first()
    assert.is(details.periodStart, over.toISOString())
  })
}

renewing('lengthens a month that is paid by a suspension in it', async () => {
  const { buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await suspendPartner(db, buyer.partnerId, 'a reason', after(body.currentPeriodEnd, -10))
  await db.transaction(trx => resumePartner(trx, buyer.partnerId, after(body.currentPeriodEnd, -3)))
  await check(new Date(body.currentPeriodEnd))
  assert.equal(await books(db, buyer), ['45.00', '0.00', '0.00'])
  assert.is((await mine(buyer)).currentPeriodEnd, after(body.currentPeriodEnd, 7).toISOString())
  await check(after(body.currentPeriodEnd, 7))
  assert.equal(await books(db, buyer), ['40.00', '0.00', '0.00'])
})

renewing('keeps the day of its months over two suspensions, also where a short month follows', async () => {
  const { buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await db('marketplace_subscriptions')
    .where({ id: body.subscriptionId })
    .update({ created_at: '2027-01-31T00:00:00Z', current_period_end: '2027-02-28T00:00:00Z' })
  for (const day of ['2027-02-10', '2027-02-11']) {
    await suspendPartner(db, buyer.partnerId, 'a reason', new Date(`${day}T00:00:00Z`))
    await db.transaction(trx => resumePartner(trx, buyer.partnerId, new Date(`${day}T01:00:00Z`)))
  }
  await check(new Date('2027-02-28T02:00:00Z'))
  assert.is((await mine(buyer)).currentPeriodEnd, '2027-03-31T02:00:00.000Z')
})

renewing('revives nothing with the end of a suspension that was paid back before it', async () => {
  const { buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await db.transaction(trx => refundSubscription(trx, body.subscriptionId, { reason: 'does not work' }))
  await suspendPartner(db, buyer.partnerId, 'a reason', after(body.currentPeriodEnd, -10))
  await db.transaction(trx => resumePartner(trx, buyer.partnerId, after(body.currentPeriodEnd, -9)))
  assert.equal([(await mine(buyer)).status, ...(await books(db, buyer))], ['CANCELED', '50.00', '0.00', '0.00'])
})

renewing('ends no month that is paid in a suspension, however long: its rest comes afterwards', async () => {
  const { creator, buyer, botId } = await market(5, '50')
  const side = await makeTestSide(harness, buyer)
  const seller = await makeTestSide(harness, creator)
  const testBot = await makeBot(seller, { monthlyPriceUsd: 5 })
  const { body } = await buyer.call(subscribeToBot, of(botId))
  const canceled = await buyer.call(subscribeToBot, of(await makeBot(creator, { monthlyPriceUsd: 5 })))
  await buyer.call(cancelSubscription, of(canceled.body.subscriptionId))
  await side.call(subscribeToBot, of(testBot))
  const began = after(body.currentPeriodEnd, -10)
  await suspendPartner(db, buyer.partnerId, 'a reason', began)
  for (const days of [0, 3, 40]) await check(after(body.currentPeriodEnd, days))
  await db.transaction(trx => resumePartner(trx, buyer.partnerId, after(body.currentPeriodEnd, 40)))
  const states = async (partner: TestPartner) =>
    (await partner.call(listMySubscriptions)).body.data.map((each: Record<string, string>) => [
      each.status,
      Math.round((Date.parse(each.currentPeriodEnd as string) - Date.parse(body.currentPeriodEnd)) / DAY)
    ])
  assert.equal(await states(buyer), [
    ['ACTIVE', 50],
    ['ACTIVE', 50]
  ])
  assert.equal(await states(side), [['ACTIVE', 50]])
  await check(after(body.currentPeriodEnd, 51))
  assert.equal((await states(buyer)).map(([status]: [string]) => status).sort(), ['ACTIVE', 'CANCELED'])
  assert.equal(await books(db, buyer), ['35.00', '0.00', '0.00'])
})

renewing(
  'cancels that of a trader that is disabled, which nobody else could cancel, and keeps it where it is enabled again',
  async () => {
    const { creator, buyer, botId } = await market(5, '50')
    const another = await makeBot(creator, { monthlyPriceUsd: 5 })
    const signedUp = { email: `${botId}@example.com`, password: 'correct horse battery' }
    const { body: trader } = await buyer.call(signUpTrader, { body: signedUp })
    const params = { traderId: trader.traderId }
    const as = { headers: { 'x-trader-session': trader.sessionToken } }
    const { body } = await buyer.call(subscribeToBot, { ...of(botId), ...as })
    await buyer.call(disableTrader, { params })
    await buyer.call(enableTrader, { params })
    await check(new Date(body.currentPeriodEnd))
    assert.equal(await books(db, buyer), ['40.00', '0.00', '0.00'])
    await buyer.call(subscribeToBot, of(another))
    await buyer.call(disableTrader, { params })
    await check(after(body.currentPeriodEnd, 40))
    // Two more months of the partner's own.
    assert.equal(await books(db, buyer), ['25.00', '0.00', '0.00'])
    const states = await db('marketplace_subscriptions').where({ partner_id: buyer.partnerId }).orderBy('created_at')
    assert.equal(
      states.map(({ status, periods }) => [status, periods]),
      [
        ['CANCELED', 2],
        ['ACTIVE', 3]
      ]
    )
  }
)

renewing('renews a free subscription without money', async () => {
  const { buyer, botId } = await market(0, '0')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await check(new Date(body.currentPeriodEnd))
  const renewed = await mine(buyer)
  assert.is(renewed.status, 'ACTIVE')
  assert.ok(renewed.currentPeriodEnd > body.currentPeriodEnd)
})

renewing(
  'makes an unpaid subscription PAST_DUE, which still shows the code, and CANCELED after three days',
  async () => {
    const { creator, buyer, botId } = await market(5, '5')
    const { body } = await buyer.call(subscribeToBot, of(botId))
    const code = async () => (await buyer.call(getMarketplaceBot, of(botId))).body.code
    await check(new Date(body.currentPeriodEnd))
    assert.is((await mine(buyer)).status, 'PAST_DUE')
    assert.is(await code(), draft.code)
    await check(after(body.currentPeriodEnd, 2.9))
    assert.is((await mine(buyer)).status, 'PAST_DUE')
    await check(after(body.currentPeriodEnd, 3))
    assert.is((await mine(buyer)).status, 'CANCELED')
    assert.is(await code(), undefined)
    assert.is((await buyer.call(reviewBot, { ...of(botId), body: { rating: 1 } })).status, 409)
    assert.is((await creator.call(getCreatorEarnings)).body.bots[0].subscribers, 0)
    assert.equal(await books(db, buyer), ['0.00', '0.00', '0.00'])
  }
)

renewing('takes a late payment for the month that is due', async () => {
  const { buyer, botId } = await market(5, '5')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await check(new Date(body.currentPeriodEnd))
  await fund(harness, buyer, '5')
  await check(after(body.currentPeriodEnd, 2))
  const paid = await mine(buyer)
  assert.is(paid.status, 'ACTIVE')
  const days = (Date.parse(paid.currentPeriodEnd) - Date.parse(body.currentPeriodEnd)) / DAY
  assert.ok(days >= 28 && days <= 31, `${days} days`)
})

renewing('lets a party subscribe again after the end', async () => {
  const { buyer, botId } = await market(5, '5')
  const { body: first } = await buyer.call(subscribeToBot, of(botId))
  await check(after(first.currentPeriodEnd, 4))
  await fund(harness, buyer, '5')
  const { body: second } = await buyer.call(subscribeToBot, of(botId))
  assert.is(second.status, 'ACTIVE')
  assert.is.not(second.subscriptionId, first.subscriptionId)
  assert.equal(await books(db, buyer), ['0.00', '0.00', '0.00'])
})

const canceling = suite('POST /v1/marketplace/subscriptions/{id}/cancel')

canceling("is a 404 for another party's subscription", async () => {
  const { creator, buyer, botId } = await market(0, '0')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  assert.is((await creator.call(cancelSubscription, of(body.subscriptionId))).status, 404)
  assert.is((await buyer.call(cancelSubscription, of('sub_unknown'))).status, 404)
})

canceling('keeps what is paid until its end, charges no more, and may be repeated', async () => {
  const { buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  for (const _ of [1, 2]) {
    const { body: canceled } = await buyer.call(cancelSubscription, of(body.subscriptionId))
    assert.equal(canceled, { ...body, cancelAtPeriodEnd: true })
  }
  assert.is((await buyer.call(getMarketplaceBot, of(botId))).body.code, draft.code)
  await check(new Date(body.currentPeriodEnd))
  assert.is((await mine(buyer)).status, 'CANCELED')
  assert.is((await buyer.call(getMarketplaceBot, of(botId))).body.code, undefined)
  assert.equal(await books(db, buyer), ['45.00', '0.00', '0.00'])
  const again = await buyer.call(cancelSubscription, of(body.subscriptionId))
  assert.is(again.status, 409)
  assert.match(again.body.message, /CANCELED.*ACTIVE/)
})

canceling('is taken back by subscribing again before the end', async () => {
  const { buyer, botId } = await market(5, '50')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await buyer.call(cancelSubscription, of(body.subscriptionId))
  assert.equal((await buyer.call(subscribeToBot, of(botId))).body, body)
  assert.equal(await books(db, buyer), ['45.00', '0.00', '0.00'])
})

canceling('ends one that is PAST_DUE at once', async () => {
  const { creator, buyer, botId } = await market(5, '5')
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await check(new Date(body.currentPeriodEnd))
  assert.is((await buyer.call(cancelSubscription, of(body.subscriptionId))).body.status, 'CANCELED')
  assert.is((await creator.call(getCreatorEarnings)).body.bots[0].subscribers, 0)
})

canceling(
  'needs an id that the list shows, also of one that runs behind more canceled ones than it has places',
  async () => {
    const { buyer, botId } = await market(5, '50')
    const { body } = await buyer.call(subscribeToBot, of(botId))
    await db.raw(
      `insert into marketplace_subscriptions (id, bot_id, partner_id, party_id, price, status, canceled_at, current_period_end, created_at)
     select 'sub_' || lpad(g::text, 26, '0'), bot_id, partner_id, party_id, price, 'CANCELED', now(), current_period_end,
            created_at + g * interval '1 second'
       from marketplace_subscriptions, generate_series(1, 1000) g where id = ?`,
      [body.subscriptionId]
    )
    const { data } = (await buyer.call(listMySubscriptions)).body
    assert.equal([data.length, data.at(-1).subscriptionId, data.at(-1).status], [1000, body.subscriptionId, 'ACTIVE'])
    assert.ok(data[0].createdAt > data[1].createdAt)
  }
)

canceling('needs an id of a list that comes in pages, which miss none that is canceled in between', async () => {
  const { creator, buyer, botId } = await market(0, '0')
  const { partnerId } = buyer
  // 1002 that run, each of a bot of its own, and as many canceled ones.
  await db.raw(
    `with copied as (
       insert into marketplace_bots (id, partner_id, party_id, name, description, category, risk_level, strategy_type, supported_assets, screenshots,
              version, code)
       select 'bot_' || lpad(g::text, 26, '0'), partner_id, party_id, name, description, category, risk_level, strategy_type, supported_assets,
              screenshots, version, code
         from marketplace_bots, generate_series(1, 1002) g where id = :botId returning id)
     insert into marketplace_subscriptions (id, bot_id, partner_id, party_id, price, status, canceled_at, current_period_end, created_at)
     select (case status when 'ACTIVE' then 'sub_r' else 'sub_c' end) || right(copied.id, 25), copied.id, :partnerId, :partnerId, 0, status,
            case status when 'CANCELED' then now() end, now() + interval '1 day', now() + right(copied.id, 25)::int * interval '1 ms'
       from copied cross join (values ('ACTIVE'), ('CANCELED')) as s (status)`,
    { botId, partnerId }
  )
  const first = (await buyer.call(listMySubscriptions)).body
  assert.equal(new Set(first.data.map(({ status }: { status: string }) => status)), new Set(['ACTIVE']))
  // The last of the page, after which the next one begins.
  await db('marketplace_subscriptions')
    .where({ id: first.data.at(-1).subscriptionId })
    .update({ status: 'CANCELED', canceled_at: new Date() })
  const found = new Set<string>(first.data.map(({ subscriptionId }: { subscriptionId: string }) => subscriptionId))
  for (let { nextCursor: cursor } = first; cursor !== null; ) {
    const { data, nextCursor } = (await buyer.call(listMySubscriptions, { query: { cursor } })).body
    for (const { subscriptionId } of data) found.add(subscriptionId)
    cursor = nextCursor
  }
  assert.is(found.size, 2004)
  const foreign = await creator.call(listMySubscriptions, { query: { cursor: first.nextCursor } })
  assert.equal([foreign.status, foreign.body.details[0].path], [400, '/query/cursor'])
})

canceling.after(closeAll)
subscribing.run()
renewing.run()
canceling.run()

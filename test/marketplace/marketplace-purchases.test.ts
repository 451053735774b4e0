// Buying bots and paying them back: who may, what moves, and that it moves once.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { refundPurchase, refundSubscription } from '../../api/admin.ts'
import { retireBot, updateCreatorBot } from '../../api/marketplace/creator.ts'
import { getCreatorEarnings } from '../../api/marketplace/earnings.ts'
import { getMarketplaceBot, listBotReviews, reviewBot } from '../../api/marketplace/listings.ts'
import { cancelSubscription, listMyPurchases, purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { signUpTrader } from '../../api/traders/traders.ts'
import { balanceOf } from '../../db/money/ledger.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import { listAudit } from '../../db/platform/audit.ts'
import { defaultScopes } from '../../schemas/fields/scopes.ts'
import { closeAll, openHarness, type TestPartner } from '../support/harness.ts'
import { books, draft, fund, makeBot, makeDraft } from '../support/marketplace-makers.ts'

const harness = await openHarness()
const { db } = harness.services
const of = (id: string) => ({ params: { id } })
const reason = 'does not do what it says'
const admin = await harness.makePartner({ scopes: ['admin:write'] })

/** A creator with a bot at this price, and a buyer with this much in its wallet. */
async function market(oneTimePriceUsd: number, wallet: string) {
  const [creator, buyer] = [await harness.makePartner(), await harness.makePartner()]
  const botId = await makeBot(creator, { oneTimePriceUsd })
  if (wallet !== '0') await fund(harness, buyer, wallet)
  return { creator, buyer, botId }
}

const session = async (partner: TestPartner) => {
  const email = `t${Math.random().toString(36).slice(2)}@example.com`
  const { body } = await partner.call(signUpTrader, { body: { email, password: 'correct horse battery' } })
  return { 'x-trader-session': body.sessionToken as string }
}

const buying = suite('POST /v1/marketplace/bots/{id}/purchase')

buying('is refused for a bot that is unknown, a draft or retired', async () => {
  const { creator, buyer, botId } = await market(5, '50')
  const draftId = await makeDraft(creator, { oneTimePriceUsd: 5 })
  await creator.call(retireBot, of(botId))
  for (const id of ['bot_unknown', draftId, botId]) assert.is((await buyer.call(purchaseBot, of(id))).status, 404)
  assert.equal(await books(db, buyer), ['50.00', '0.00', '0.00'])
})

buying('at an expected price is refused once the price is another, names it, and moves nothing', async () => {
  const { creator, buyer, botId } = await market(5, '50')
  await creator.call(updateCreatorBot, { ...of(botId), body: { oneTimePriceUsd: 7.5, monthlyPriceUsd: 2 } })
  for (const [row, priceUsd] of [
    [purchaseBot, 7.5],
    [subscribeToBot, 2]
  ] as const) {
    const { status, body } = await buyer.call(row, { ...of(botId), body: { expectedPriceUsd: 5 } })
    assert.equal([status, body.error, body.priceUsd], [409, 'PRICE_CHANGED', priceUsd])
  }
  assert.equal(await books(db, buyer), ['50.00', '0.00', '0.00'])
  const fine = await buyer.call(purchaseBot, { ...of(botId), body: { expectedPriceUsd: 7.5 } })
  assert.equal([fine.status, fine.body.priceUsd], [200, 7.5])
  // Who has the bot gets the first purchase again: no price is charged.
  assert.equal((await buyer.call(purchaseBot, { ...of(botId), body: { expectedPriceUsd: 5 } })).body, fine.body)
})

buying("is refused for one's own bot, and for one without a one-time price", async () => {
  const creator = await harness.makePartner()
  const buyer = await harness.makePartner()
  const own = await creator.call(purchaseBot, of(await makeBot(creator, { oneTimePriceUsd: 0 })))
  assert.is(own.status, 409)
  assert.is(own.body.error, 'CONFLICT')
  const monthly = await buyer.call(purchaseBot, of(await makeBot(creator, { monthlyPriceUsd: 1 })))
  assert.is(monthly.status, 409)
})

buying('is refused when the wallet cannot pay, with what is required and there', async () => {
  const { creator, buyer, botId } = await market(19.9, '19.89')
  const { status, body } = await buyer.call(purchaseBot, of(botId))
  assert.is(status, 402)
  assert.is(body.error, 'WALLET_INSUFFICIENT')
  assert.is(body.requiredUsd, 19.9)
  assert.is(body.balanceUsd, 19.89)
  assert.equal(await books(db, buyer), ['19.89', '0.00', '0.00'])
  assert.equal(await books(db, creator), ['0.00', '0.00', '0.00'])
  const { body: bot } = await buyer.call(getMarketplaceBot, of(botId))
  assert.is(bot.downloads, 0)
  assert.is(bot.owned, false)
})

buying('moves the price from the wallet to the fees and the earnings, to the cent', async () => {
  const { creator, buyer, botId } = await market(19.99, '20')
  const feesBefore = Number(await balanceOf(db, 'fees'))
  const { status, body } = await buyer.call(purchaseBot, of(botId))
  assert.is(status, 200)
  assert.is(body.priceUsd, 19.99)
  assert.is(body.status, 'COMPLETED')
  assert.is(body.refundedAt, null)
  assert.equal(await books(db, buyer), ['0.01', '0.00', '0.00'])
  // 20 % are 3.998, rounded half up.
  assert.equal(await books(db, creator), ['0.00', '15.99', '0.00'])
  assert.is(Math.round((Number(await balanceOf(db, 'fees')) - feesBefore) * 100), 400)
  assert.is((await buyer.call(getMarketplaceBot, of(botId))).body.downloads, 1)
})

buying('of a free bot moves nothing', async () => {
  const { creator, buyer, botId } = await market(0, '0')
  const { status, body } = await buyer.call(purchaseBot, of(botId))
  assert.is(status, 200)
  assert.is(body.priceUsd, 0)
  assert.equal(await books(db, creator), ['0.00', '0.00', '0.00'])
})

buying('twice returns the first purchase and moves no money, whatever the price is by now', async () => {
  const { creator, buyer, botId } = await market(10, '30')
  const { body: first } = await buyer.call(purchaseBot, of(botId))
  await creator.call(updateCreatorBot, { ...of(botId), body: { oneTimePriceUsd: 12 } })
  assert.equal((await buyer.call(purchaseBot, of(botId))).body, first)
  await creator.call(updateCreatorBot, { ...of(botId), body: { oneTimePriceUsd: null } })
  assert.equal((await buyer.call(purchaseBot, of(botId))).body, first)
  assert.equal(await books(db, buyer), ['20.00', '0.00', '0.00'])
  assert.is((await buyer.call(getMarketplaceBot, of(botId))).body.downloads, 1)
})

buying('returns what one has of a bot that was retired since, and moves no money', async () => {
  const { creator, buyer, botId } = await market(10, '30')
  await creator.call(updateCreatorBot, { ...of(botId), body: { monthlyPriceUsd: 2 } })
  const { body: bought } = await buyer.call(purchaseBot, of(botId))
  const { body: subscribed } = await buyer.call(subscribeToBot, of(botId))
  await creator.call(retireBot, of(botId))
  assert.equal((await buyer.call(purchaseBot, of(botId))).body, bought)
  assert.equal((await buyer.call(subscribeToBot, of(botId))).body, { ...subscribed, cancelAtPeriodEnd: true })
  assert.equal(await books(db, buyer), ['18.00', '0.00', '0.00'])
})

buying('is refused while the partner of the creator is suspended; who has the bot keeps it', async () => {
  const { creator, buyer, botId } = await market(10, '30')
  await creator.call(updateCreatorBot, { ...of(botId), body: { monthlyPriceUsd: 2 } })
  const other = await harness.makePartner()
  await fund(harness, other, '30')
  const { body: bought } = await buyer.call(purchaseBot, of(botId))
  await db.transaction(trx => suspendPartner(trx, creator.partnerId, reason))
  for (const row of [purchaseBot, subscribeToBot]) {
    const { status, body } = await other.call(row, of(botId))
    assert.equal([status, body.error, body.message], [409, 'CONFLICT', 'The bot is not for sale at present.'])
  }
  assert.equal(await books(db, other), ['30.00', '0.00', '0.00'])
  assert.equal((await buyer.call(purchaseBot, of(botId))).body, bought)
  assert.is((await buyer.call(getMarketplaceBot, of(botId))).body.code, draft.code)
  await db.transaction(trx => resumePartner(trx, creator.partnerId))
  for (const row of [purchaseBot, subscribeToBot]) assert.is((await other.call(row, of(botId))).status, 200)
})

buying('five times at once has one effect', async () => {
  const { creator, buyer, botId } = await market(10, '100')
  const responses = await Promise.all(Array.from({ length: 5 }, () => buyer.call(purchaseBot, of(botId))))
  assert.equal(new Set(responses.map(({ status }) => status)), new Set([200]))
  assert.is(new Set(responses.map(({ body }) => body.purchaseId)).size, 1)
  assert.equal(await books(db, buyer), ['90.00', '0.00', '0.00'])
  assert.equal(await books(db, creator), ['0.00', '8.00', '0.00'])
})

buying('of two bots at once never takes the wallet below zero', async () => {
  const { creator, buyer, botId } = await market(10, '15')
  const other = await makeBot(creator, { oneTimePriceUsd: 10 })
  const responses = await Promise.all([botId, other].map(id => buyer.call(purchaseBot, of(id))))
  assert.equal(responses.map(({ status }) => status).sort(), [200, 402])
  assert.equal(await books(db, buyer), ['5.00', '0.00', '0.00'])
})

buying('by two partners from each other at once ends well', async () => {
  const one = await market(10, '10')
  const bots = [one.botId, await makeBot(one.buyer, { oneTimePriceUsd: 10 })] as const
  await fund(harness, one.creator, '10')
  const responses = await Promise.all([
    one.buyer.call(purchaseBot, of(bots[0])),
    one.creator.call(purchaseBot, of(bots[1]))
  ])
  assert.equal(
    responses.map(({ status }) => status),
    [200, 200]
  )
  assert.equal(await books(db, one.buyer), ['0.00', '8.00', '0.00'])
  assert.equal(await books(db, one.creator), ['0.00', '8.00', '0.00'])
})

const acting = suite('a trader in the marketplace')

acting('is a party of its own: buys with the wallet of its partner, and owns alone', async () => {
  const { buyer, botId } = await market(10, '30')
  const [ann, bob] = [await session(buyer), await session(buyer)]
  const { body } = await buyer.call(purchaseBot, { ...of(botId), headers: ann })
  assert.is(body.status, 'COMPLETED')
  const seen = async (headers: Record<string, string> = {}) =>
    (await buyer.call(getMarketplaceBot, { ...of(botId), headers })).body.code
  assert.equal([await seen(ann), await seen(bob), await seen()], [draft.code, undefined, undefined])
  assert.is((await buyer.call(listMyPurchases, { headers: ann })).body.data.length, 1)
  assert.is((await buyer.call(listMyPurchases)).body.data.length, 0)
  await buyer.call(purchaseBot, of(botId))
  assert.equal(await books(db, buyer), ['10.00', '0.00', '0.00'])
})

acting('publishes its own bots, which its partner may buy and not change', async () => {
  const partner = await harness.makePartner()
  await fund(harness, partner, '10')
  const ann = await session(partner)
  const botId = await makeBot(partner, { oneTimePriceUsd: 10 }, ann)
  assert.is((await partner.call(purchaseBot, { ...of(botId), headers: ann })).status, 409)
  assert.is((await partner.call(retireBot, of(botId))).status, 404)
  const { body: bot } = await partner.call(getMarketplaceBot, of(botId))
  assert.is(bot.creator.displayName, 'Independent creator')
  assert.is((await partner.call(purchaseBot, of(botId))).status, 200)
  assert.equal(await books(db, partner), ['0.00', '8.00', '0.00'])
})

const refunding = suite('POST /v1/admin/marketplace/purchases/{id}/refund')

refunding('needs admin:write, which a key does not have unless the operator grants it', async () => {
  const { buyer } = await market(10, '10')
  const plain = await harness.makePartner({ scopes: defaultScopes })
  for (const partner of [plain, await harness.makePartner({ scopes: ['admin:read'] })]) {
    const { status, body } = await partner.call(refundPurchase, { ...of('pur_unknown'), body: { reason } })
    assert.is(status, 403)
    assert.is(body.requiredScope, 'admin:write')
  }
  assert.is((await buyer.call(refundPurchase, { ...of('pur_unknown'), body: { reason } })).status, 404)
})

refunding('needs a reason of three characters, and a purchase', async () => {
  for (const body of [{}, { reason: 'no' }])
    assert.is((await admin.call(refundPurchase, { ...of('pur_unknown'), body })).status, 400)
  assert.is((await admin.call(refundPurchase, { ...of('pur_unknown'), body: { reason } })).status, 404)
})

refunding('mirrors the sale, fee included, and takes the bot away', async () => {
  const { creator, buyer, botId } = await market(19.99, '20')
  const fees = await balanceOf(db, 'fees')
  const { body: purchase } = await buyer.call(purchaseBot, of(botId))
  const { status, body } = await admin.call(refundPurchase, { ...of(purchase.purchaseId), body: { reason } })
  assert.is(status, 200)
  assert.is(body.status, 'REFUNDED')
  assert.ok(body.refundedAt)
  assert.equal(await books(db, buyer), ['20.00', '0.00', '0.00'])
  assert.equal(await books(db, creator), ['0.00', '0.00', '0.00'])
  assert.is(await balanceOf(db, 'fees'), fees)
  assert.is((await buyer.call(getMarketplaceBot, of(botId))).body.code, undefined)
  assert.is((await buyer.call(reviewBot, { ...of(botId), body: { rating: 1 } })).status, 409)
  const [line] = (await listAudit(db, { limit: 1 })).data
  assert.is(line?.action, 'purchases.refund')
  assert.is(line?.target, purchase.purchaseId)
  assert.is(line?.actor, `key:${admin.keyId}`)
})

refunding('happens once: a second is a 409 that names both states', async () => {
  const { creator, buyer, botId } = await market(10, '10')
  const { body: purchase } = await buyer.call(purchaseBot, of(botId))
  const refund = () => admin.call(refundPurchase, { ...of(purchase.purchaseId), body: { reason } })
  const responses = await Promise.all([refund(), refund(), refund()])
  assert.equal(responses.map(({ status }) => status).sort(), [200, 409, 409])
  assert.match((await refund()).body.message, /REFUNDED.*COMPLETED/)
  assert.equal(await books(db, buyer), ['10.00', '0.00', '0.00'])
  assert.equal(await books(db, creator), ['0.00', '0.00', '0.00'])
})

refunding('lets the buyer buy again, as a new purchase', async () => {
  const { creator, buyer, botId } = await market(10, '10')
  const { body: first } = await buyer.call(purchaseBot, of(botId))
  await admin.call(refundPurchase, { ...of(first.purchaseId), body: { reason } })
  const { body: second } = await buyer.call(purchaseBot, of(botId))
  assert.is.not(second.purchaseId, first.purchaseId)
  assert.is(second.status, 'COMPLETED')
  assert.equal(await books(db, creator), ['0.00', '8.00', '0.00'])
  assert.equal(
    (await buyer.call(listMyPurchases)).body.data.map(({ status }: { status: string }) => status),
    ['COMPLETED', 'REFUNDED']
  )
  const { body: earned } = await creator.call(getCreatorEarnings)
  assert.equal(earned.bots[0], { botId, name: draft.name, sales: 1, subscribers: 0, grossUsd: 10, netUsd: 8 })
})

refunding('and buying again at the same time end in one of the two orders', async () => {
  const { creator, buyer, botId } = await market(10, '20')
  const { body: first } = await buyer.call(purchaseBot, of(botId))
  const [refunded, bought] = await Promise.all([
    admin.call(refundPurchase, { ...of(first.purchaseId), body: { reason } }),
    buyer.call(purchaseBot, of(botId))
  ])
  assert.is(refunded.status, 200)
  assert.is(bought.status, 200)
  const again = bought.body.purchaseId !== first.purchaseId
  assert.equal(await books(db, buyer), [again ? '10.00' : '20.00', '0.00', '0.00'])
  assert.equal(await books(db, creator), ['0.00', again ? '8.00' : '0.00', '0.00'])
})

const reviews = async (partner: TestPartner, botId: string) => {
  const { rating, reviews: count, downloads } = (await partner.call(getMarketplaceBot, of(botId))).body
  return [rating, count, downloads]
}

refunding("takes its download and its review back out of the bot's figures", async () => {
  const { creator, buyer, botId } = await market(10, '20')
  const other = await harness.makePartner()
  await fund(harness, other, '10')
  const { body } = await buyer.call(purchaseBot, of(botId))
  await other.call(purchaseBot, of(botId))
  await buyer.call(reviewBot, { ...of(botId), body: { rating: 1 } })
  await other.call(reviewBot, { ...of(botId), body: { rating: 5 } })
  assert.equal(await reviews(creator, botId), [3, 2, 2])
  await admin.call(refundPurchase, { ...of(body.purchaseId), body: { reason } })
  assert.equal(await reviews(creator, botId), [5, 1, 1])
  assert.is((await creator.call(listBotReviews, of(botId))).body.data.length, 1)
})

refunding('of a subscription pays its last month back once and ends it', async () => {
  const { creator, buyer } = await market(10, '20')
  const botId = await makeBot(creator, { monthlyPriceUsd: 10 })
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await buyer.call(reviewBot, { ...of(botId), body: { rating: 2 } })
  const refund = () => admin.call(refundSubscription, { ...of(body.subscriptionId), body: { reason } })
  const responses = await Promise.all([refund(), refund(), refund()])
  assert.equal(responses.map(({ status }) => status).sort(), [200, 409, 409])
  const { body: ended } = responses.find(({ status }) => status === 200) as { body: Record<string, unknown> }
  assert.is(ended.status, 'CANCELED')
  assert.ok(ended.refundedAt)
  assert.equal(await books(db, buyer), ['20.00', '0.00', '0.00'])
  assert.equal(await books(db, creator), ['0.00', '0.00', '0.00'])
  assert.equal(await reviews(creator, botId), [null, 0, 0])
  const { body: earned } = await creator.call(getCreatorEarnings)
  const figures = earned.bots.find((bot: { botId: string }) => bot.botId === botId)
  assert.equal([figures.subscribers, figures.grossUsd, figures.netUsd], [0, 0, 0])
  assert.is((await admin.call(refundSubscription, { ...of('sub_unknown'), body: { reason } })).status, 404)
})

refunding('of a subscription that has ended keeps when it did, and ends it no second time', async () => {
  const { creator, buyer } = await market(10, '20')
  const other = await harness.makePartner()
  await fund(harness, other, '20')
  const botId = await makeBot(creator, { monthlyPriceUsd: 10 })
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await other.call(subscribeToBot, of(botId))
  const subscription = () => db('marketplace_subscriptions').where({ id: body.subscriptionId })
  await subscription().update({ status: 'PAST_DUE' })
  assert.is((await buyer.call(cancelSubscription, of(body.subscriptionId))).body.status, 'CANCELED')
  const { canceled_at: ended } = await subscription().first()
  assert.is((await admin.call(refundSubscription, { ...of(body.subscriptionId), body: { reason } })).status, 200)
  assert.equal((await subscription().first()).canceled_at, ended)
  const { body: earned } = await creator.call(getCreatorEarnings)
  const figures = earned.bots.find((bot: { botId: string }) => bot.botId === botId)
  assert.equal([figures.subscribers, figures.grossUsd, figures.netUsd], [1, 10, 8])
})

refunding('leaves the review of a party that has the bot by other means', async () => {
  const { creator, buyer } = await market(10, '30')
  const botId = await makeBot(creator, { monthlyPriceUsd: 10, oneTimePriceUsd: 10 })
  const { body } = await buyer.call(subscribeToBot, of(botId))
  await buyer.call(purchaseBot, of(botId))
  await buyer.call(reviewBot, { ...of(botId), body: { rating: 2 } })
  await admin.call(refundSubscription, { ...of(body.subscriptionId), body: { reason } })
  assert.equal(await reviews(creator, botId), [2, 1, 1])
})

const mine = suite('GET /v1/marketplace/my/purchases')

mine('shows no party what others bought', async () => {
  const { buyer, creator, botId } = await market(0, '0')
  await buyer.call(purchaseBot, of(botId))
  assert.equal((await creator.call(listMyPurchases)).body.data, [])
  assert.is((await buyer.call(listMyPurchases)).body.data[0].botId, botId)
})

mine('comes in pages, newest first', async () => {
  const { buyer, botId } = await market(0, '0')
  const { purchaseId } = (await buyer.call(purchaseBot, of(botId))).body
  await db.raw(
    `insert into marketplace_purchases (id, bot_id, partner_id, party_id, price, fee, status, purchased_at, refunded_at, refund_reason)
     select 'pur_' || lpad(g::text, 26, '0'), bot_id, partner_id, party_id, 0, 0, 'REFUNDED', purchased_at + (g / 2) * interval '1 s', now(), 'a test'
       from marketplace_purchases, generate_series(2, 1001) g where id = ?`,
    [purchaseId]
  )
  const first = (await buyer.call(listMyPurchases)).body
  const last = (await buyer.call(listMyPurchases, { query: { cursor: first.nextCursor } })).body
  const ids = [...first.data, ...last.data].map((each: { purchaseId: string }) => each.purchaseId)
  assert.equal([first.data.length, new Set(ids).size, ids.at(-1), last.nextCursor], [1000, 1001, purchaseId, null])
})

mine('always adds up: all balances of the books sum to zero', async () => {
  const { rows } = (await db.raw('select sum(balance)::text as total from ledger_accounts')) as {
    rows: [{ total: string }]
  }
  assert.is(Number(rows[0].total), 0)
})

mine.after(closeAll)
buying.run()
acting.run()
refunding.run()
mine.run()

// The marketplace for its visitors and creators: states, who sees what, and reviews.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { updateCommunityProfile } from '../../api/community/community.ts'
import {
  createCreatorBot,
  listCreatorBots,
  publishBot,
  retireBot,
  updateCreatorBot
} from '../../api/marketplace/creator.ts'
import { getMarketplaceBot, listBotReviews, listMarketplaceBots, reviewBot } from '../../api/marketplace/listings.ts'
import { cancelSubscription, purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { saveReview } from '../../db/marketplace/reviews.ts'
import { closeAll, openHarness, type TestPartner } from '../support/harness.ts'
import { draft, fund, makeBot, makeDraft } from '../support/marketplace-makers.ts'
import { readBeside } from '../support/read-beside.ts'

const harness = await openHarness()
const creator = await harness.makePartner({ name: 'Acme' })
const stranger = await harness.makePartner()
const of = (id: string) => ({ params: { id } })

const writing = suite('POST /v1/marketplace/creator/bots')

writing('refuses what is missing or out of bounds, naming every field', async () => {
  const { status, body } = await creator.call(createCreatorBot, { body: { name: 'ab', category: 'lucky' } })
  assert.is(status, 400)
  assert.is(body.error, 'VALIDATION_FAILED')
  assert.equal(
    body.details.map(({ path }: { path: string }) => path).sort(),
    ['category', 'code', 'description', 'name', 'riskLevel', 'strategyType'].map(field => `/body/${field}`)
  )
})

writing('refuses prices below zero, finer than a cent, or beyond bounds', async () => {
  for (const price of [-1, 0.001, 19.999, 0.1 + 0.2, 1e-7, 100_000.01, 1e15])
    for (const field of ['oneTimePriceUsd', 'monthlyPriceUsd']) {
      const { status, body } = await creator.call(createCreatorBot, { body: { ...draft, [field]: price } })
      assert.is(status, 400, `${field} ${price}`)
      assert.is(body.details[0].path, `/body/${field}`)
    }
})

writing('refuses addresses that are not http or https, and text that PostgreSQL cannot keep', async () => {
  const wrong = [
    { demoVideoUrl: 'javascript:alert(1)' },
    { demoVideoUrl: 'not an address' },
    { screenshots: ['https://example.com/a.png', 'file:///etc/passwd'] },
    { screenshots: Array.from({ length: 21 }, () => 'https://example.com/a.png') },
    { supportedAssets: Array.from({ length: 101 }, () => 'R_50') },
    { longDescription: 'x'.repeat(5001) },
    { code: '' },
    { code: 'a\u0000b' },
    { name: 'two\nlines' }
  ]
  for (const fields of wrong)
    assert.is(
      (await creator.call(createCreatorBot, { body: { ...draft, ...fields } })).status,
      400,
      JSON.stringify(fields)
    )
})

writing('returns a DRAFT with everything but its code', async () => {
  const { status, body } = await creator.call(createCreatorBot, {
    body: { ...draft, oneTimePriceUsd: 19.9, monthlyPriceUsd: 0, supportedAssets: ['R_50'], secret: 'ignored' }
  })
  assert.is(status, 200)
  assert.is(body.status, 'DRAFT')
  assert.is(body.oneTimePriceUsd, 19.9)
  assert.is(body.monthlyPriceUsd, 0)
  assert.is(body.version, '1.0.0')
  assert.is(body.publishedAt, null)
  assert.is(body.rating, null)
  assert.is('code' in body || 'secret' in body, false)
})

const states = suite('the states of a bot')

states('refuse every step they do not allow, naming both states', async () => {
  const botId = await makeDraft(creator)
  const retired = await creator.call(retireBot, of(botId))
  assert.is(retired.status, 409)
  assert.match(retired.body.message, /DRAFT.*PUBLISHED.*RETIRED/)
  await creator.call(publishBot, of(botId))
  const again = await creator.call(publishBot, of(botId))
  assert.is(again.status, 409)
  assert.match(again.body.message, /PUBLISHED.*DRAFT or RETIRED/)
})

states('are changed by the creator alone', async () => {
  const botId = await makeDraft(creator)
  for (const row of [publishBot, retireBot]) assert.is((await stranger.call(row, of(botId))).status, 404)
  assert.is((await stranger.call(updateCreatorBot, { ...of(botId), body: { name: 'Mine now' } })).status, 404)
  assert.is((await creator.call(getMarketplaceBot, of(botId))).body.name, draft.name)
})

states('change once when two request it at the same time', async () => {
  const botId = await makeDraft(creator)
  const responses = await Promise.all([creator.call(publishBot, of(botId)), creator.call(publishBot, of(botId))])
  assert.equal(responses.map(({ status }) => status).sort(), [200, 409])
})

states('hide a draft and a retired bot from all but the creator', async () => {
  const botId = await makeDraft(creator)
  const seenBy = async (partner: TestPartner) => [
    (await partner.call(getMarketplaceBot, of(botId))).status,
    (await partner.call(listBotReviews, of(botId))).status
  ]
  assert.equal(await seenBy(stranger), [404, 404])
  assert.equal(await seenBy(creator), [200, 200])
  await creator.call(publishBot, of(botId))
  assert.equal(await seenBy(stranger), [200, 200])
  await creator.call(retireBot, of(botId))
  assert.equal(await seenBy(stranger), [404, 404])
  assert.equal(await seenBy(creator), [200, 200])
})

states('keep the first day of publication through retirement', async () => {
  const botId = await makeBot(creator)
  const { publishedAt } = (await creator.call(retireBot, of(botId))).body
  const { body } = await creator.call(publishBot, of(botId))
  assert.is(body.status, 'PUBLISHED')
  assert.is(body.publishedAt, publishedAt)
})

const changing = suite('PATCH /v1/marketplace/creator/bots/{id}')

changing('refuses what creation refuses', async () => {
  const botId = await makeDraft(creator)
  for (const body of [
    { name: 'ab' },
    { description: 'x'.repeat(501) },
    { oneTimePriceUsd: 0.001 },
    { riskLevel: 'none' }
  ])
    assert.is((await creator.call(updateCreatorBot, { ...of(botId), body })).status, 400, JSON.stringify(body))
})

changing('changes the fields given, takes prices away with null, and leaves the rest', async () => {
  const botId = await makeDraft(creator, { oneTimePriceUsd: 5, longDescription: 'long' })
  const { body } = await creator.call(updateCreatorBot, {
    ...of(botId),
    body: { name: 'Day Range', oneTimePriceUsd: null, monthlyPriceUsd: 0.29 }
  })
  assert.is(body.name, 'Day Range')
  assert.is(body.oneTimePriceUsd, null)
  assert.is(body.monthlyPriceUsd, 0.29)
  assert.is(body.longDescription, 'long')
  assert.is(body.description, draft.description)
  const own = (await creator.call(listCreatorBots)).body.data
  assert.is(own[0].name, 'Day Range')
})

const code = suite('the code of a bot')

code('is shown to the creator, buyers and subscribers alone', async () => {
  const botId = await makeBot(creator, { oneTimePriceUsd: 0, monthlyPriceUsd: 0 })
  const buyer = await harness.makePartner()
  const subscriber = await harness.makePartner()
  await buyer.call(purchaseBot, of(botId))
  await subscriber.call(subscribeToBot, of(botId))
  const see = async (partner: TestPartner) => (await partner.call(getMarketplaceBot, of(botId))).body
  assert.is((await see(stranger)).code, undefined)
  assert.is((await see(stranger)).owned, false)
  assert.is((await see(creator)).code, draft.code)
  for (const owner of [buyer, subscriber]) {
    assert.is((await see(owner)).code, draft.code)
    assert.is((await see(owner)).owned, true)
  }
})

code('stays with buyers and subscribers when the bot is retired', async () => {
  const botId = await makeBot(creator, { oneTimePriceUsd: 0, monthlyPriceUsd: 0 })
  const buyer = await harness.makePartner()
  const subscriber = await harness.makePartner()
  await buyer.call(purchaseBot, of(botId))
  const { body: subscription } = await subscriber.call(subscribeToBot, of(botId))
  await creator.call(retireBot, of(botId))
  for (const owner of [buyer, subscriber])
    assert.is((await owner.call(getMarketplaceBot, of(botId))).body.code, draft.code)
  await subscriber.call(cancelSubscription, of(subscription.subscriptionId))
  assert.is((await subscriber.call(getMarketplaceBot, of(botId))).body.code, draft.code, 'until the period ends')
})

code('is never in a list', async () => {
  await makeBot(creator, { code: 'needle-in-code' })
  for (const response of [await creator.call(listMarketplaceBots), await creator.call(listCreatorBots)])
    assert.not(JSON.stringify(response.body).includes('needle-in-code'))
})

const reviews = suite('/v1/marketplace/bots/{id}/reviews')

async function owner(botId: string): Promise<TestPartner> {
  const partner = await harness.makePartner()
  await partner.call(purchaseBot, of(botId))
  return partner
}

reviews('refuse a rating outside 1 to 5, and a comment that is too long', async () => {
  const botId = await makeBot(creator, { oneTimePriceUsd: 0 })
  const buyer = await owner(botId)
  for (const body of [{}, { rating: 0 }, { rating: 6 }, { rating: 4.5 }, { rating: 5, comment: 'x'.repeat(2001) }])
    assert.is((await buyer.call(reviewBot, { ...of(botId), body })).status, 400)
})

reviews('need a purchase or a subscription', async () => {
  const botId = await makeBot(creator, { oneTimePriceUsd: 0 })
  for (const partner of [stranger, creator]) {
    const { status, body } = await partner.call(reviewBot, { ...of(botId), body: { rating: 5 } })
    assert.is(status, 409)
    assert.is(body.error, 'CONFLICT')
  }
  const unknown = await stranger.call(reviewBot, { ...of('bot_unknown'), body: { rating: 5 } })
  assert.is(unknown.status, 404)
})

reviews('make the average, one for each party, the newest replacing the one before', async () => {
  const botId = await makeBot(creator, { oneTimePriceUsd: 0 })
  const [one, two, three] = [await owner(botId), await owner(botId), await owner(botId)]
  await one.call(reviewBot, { ...of(botId), body: { rating: 1, comment: 'bad' } })
  await two.call(reviewBot, { ...of(botId), body: { rating: 4 } })
  await three.call(reviewBot, { ...of(botId), body: { rating: 5 } })
  const { body: replaced } = await one.call(reviewBot, { ...of(botId), body: { rating: 5 } })
  assert.is(replaced.comment, null)
  const { body: bot } = await stranger.call(getMarketplaceBot, of(botId))
  assert.is(bot.reviews, 3)
  assert.is(bot.rating, 4.67)
  const { body } = await one.call(listBotReviews, { ...of(botId), query: { limit: 2 } })
  assert.is(body.total, 3)
  assert.equal(
    body.data.map(({ rating, mine }: { rating: number; mine: boolean }) => [rating, mine]),
    [
      [5, true],
      [5, false]
    ]
  )
  assert.is((await one.call(listBotReviews, { ...of(botId), query: { limit: 2, page: 2 } })).body.data[0].rating, 4)
})

reviews('are as many as their total, also while another is written', async () => {
  const botId = await makeBot(creator, { oneTimePriceUsd: 0 })
  const [one, two] = [await owner(botId), await owner(botId)]
  await one.call(reviewBot, { ...of(botId), body: { rating: 1 } })
  const party = { partnerId: two.partnerId, partyId: two.partnerId, test: false }
  const { body } = await readBeside(harness.services.db, 'marketplace_reviews', {
    read: () => one.call(listBotReviews, of(botId)),
    change: trx => saveReview(trx, party, { botId, rating: 5, comment: null })
  })
  assert.is(body.data.length, body.total)
})

reviews('count once when one party sends two at the same time', async () => {
  const botId = await makeBot(creator, { oneTimePriceUsd: 0 })
  const buyer = await owner(botId)
  await Promise.all([1, 3, 5].map(rating => buyer.call(reviewBot, { ...of(botId), body: { rating } })))
  const { data } = (await buyer.call(listBotReviews, of(botId))).body
  const { body: bot } = await buyer.call(getMarketplaceBot, of(botId))
  assert.is(data.length, 1)
  assert.is(bot.reviews, 1)
  assert.is(bot.rating, data[0].rating)
})

reviews('show who wrote them only where a profile is public', async () => {
  const botId = await makeBot(creator, { oneTimePriceUsd: 5 })
  const buyer = await harness.makePartner({ name: 'Secret Customer' })
  await fund(harness, buyer, '5')
  await buyer.call(purchaseBot, of(botId))
  await buyer.call(reviewBot, { ...of(botId), body: { rating: 5 } })
  const authorAsSeen = async () => (await stranger.call(listBotReviews, of(botId))).body.data[0].author.displayName
  assert.is(await authorAsSeen(), 'Verified buyer')
  await buyer.call(updateCommunityProfile, { body: { displayName: 'Ann', isPublic: false } })
  assert.is(await authorAsSeen(), 'Verified buyer')
  await buyer.call(updateCommunityProfile, { body: { isPublic: true } })
  assert.is(await authorAsSeen(), 'Ann')
  await buyer.call(updateCommunityProfile, { body: { displayName: '' } })
  assert.is(await authorAsSeen(), 'Verified buyer')
})

reviews('and bots carry the name of a public profile, else the partner’s for its own bots', async () => {
  const maker = await harness.makePartner({ name: 'Makers Ltd' })
  const botId = await makeBot(maker)
  const creatorAsSeen = async () => (await stranger.call(getMarketplaceBot, of(botId))).body.creator.displayName
  assert.is(await creatorAsSeen(), 'Makers Ltd')
  await maker.call(updateCommunityProfile, { body: { displayName: 'The Makers', isPublic: false } })
  assert.is(await creatorAsSeen(), 'Makers Ltd')
  await maker.call(updateCommunityProfile, { body: { isPublic: true } })
  assert.is(await creatorAsSeen(), 'The Makers')
  await maker.call(updateCommunityProfile, { body: { displayName: '' } })
  assert.is(await creatorAsSeen(), 'Makers Ltd')
})

reviews('refuse an id that PostgreSQL cannot read', async () => {
  for (const row of [getMarketplaceBot, listBotReviews])
    assert.is((await stranger.call(row, of('bot_\u0000'))).status, 400)
})

reviews.after(closeAll)
writing.run()
states.run()
changing.run()
code.run()
reviews.run()

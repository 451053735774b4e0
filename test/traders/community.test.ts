// The community of one partner: profiles, messages, shared bots, in the name of a trader or of the partner.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import {
  createCommunityBot,
  deleteCommunityBot,
  likeCommunityBot,
  listCommunityBots
} from '../../api/community/bots.ts'
import {
  deleteMessage,
  getCommunityProfile,
  listMessages,
  postMessage,
  updateCommunityProfile
} from '../../api/community/community.ts'
import { insertTraderSession } from '../../db/partners/sessions.ts'
import { newToken } from '../../db/platform/crypto.ts'
import { closeAll, openHarness, type TestPartner } from '../support/harness.ts'

const harness = await openHarness()
const { db, pepper } = harness.services
const profile = suite('/v1/community/profile')
const messages = suite('/v1/community/messages')
const bots = suite('/v1/community/bots')
const acting = suite('the acting party')

/** Headers with which a new trader of the partner acts. */
async function makeActor(partner: TestPartner) {
  const { traderId } = await partner.makeTrader()
  const { token } = await insertTraderSession(db, pepper, { partnerId: partner.partnerId, traderId, ttlHours: 1 })
  return { traderId, as: { headers: { 'x-trader-session': token } } }
}

acting('is refused when the session sent along is not good, rather than taken for the partner', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const stranger = await makeActor(other)
  for (const headers of [
    { 'x-trader-session': newToken() },
    { 'x-trader-session': '' },
    { cookie: `trader_session=${newToken()}` },
    stranger.as.headers
  ] as Record<string, string>[])
    for (const [row, input] of [
      [getCommunityProfile, {}],
      [postMessage, { body: { content: 'hello' } }],
      [createCommunityBot, { body: { name: 'bot' } }]
    ] as const) {
      const response = await partner.call(row, { ...input, headers })
      assert.equal([response.status, response.body.error], [401, 'UNAUTHENTICATED'], row.name)
    }
  assert.is((await partner.call(listMessages)).body.data.length, 0)
})

acting('by cookie is refused when a header shows that another site sent it', async () => {
  const partner = await harness.makePartner()
  const { as } = await makeActor(partner)
  const cookie = `trader_session=${as.headers['x-trader-session']}`
  const body = { content: 'hello' }
  const crossed = await partner.call(postMessage, { body, headers: { cookie, 'sec-fetch-site': 'cross-site' } })
  assert.is(crossed.body.error, 'CROSS_SITE_REFUSED')
  assert.is((await partner.call(postMessage, { body, headers: { cookie } })).status, 200)
})

profile('refuses unknown properties and broken values, naming each', async () => {
  const partner = await harness.makePartner()
  for (const [path, body] of [
    ['/body/nickname', { displayName: 'Ada', nickname: 'x' }],
    ['/body/displayName', { displayName: 'x'.repeat(61) }],
    ['/body/displayName', { displayName: 'a\nb' }],
    ['/body/displayName', { displayName: null }],
    ['/body/bio', { bio: 'x'.repeat(501) }],
    ['/body/bio', { bio: '\u0000' }],
    ['/body/isPublic', { isPublic: 'true' }],
    ['/body/avatarUrl', { avatarUrl: 'javascript:alert(1)' }],
    ['/body/avatarUrl', { avatarUrl: 'ftp://example.com/a.png' }],
    ['/body/avatarUrl', { avatarUrl: '//example.com/a.png' }],
    ['/body/avatarUrl', { avatarUrl: 'https://a b' }],
    ['/body/avatarUrl', { avatarUrl: `https://example.com/${'x'.repeat(1010)}` }]
  ] as const) {
    const response = await partner.call(updateCommunityProfile, { body })
    assert.is(response.status, 400, JSON.stringify(body))
    assert.is(response.body.details[0].path, path)
  }
  assert.is((await partner.call(getCommunityProfile)).body.updatedAt, null)
})

profile('is private and unnamed before its first change', async () => {
  const partner = await harness.makePartner({ name: 'Acme' })
  const empty = { bio: null, avatarUrl: null, isPublic: false, updatedAt: null }
  assert.equal((await partner.call(getCommunityProfile)).body, { displayName: 'Acme', ...empty })
  const { traderId, as } = await makeActor(partner)
  assert.equal((await partner.call(getCommunityProfile, as)).body, {
    displayName: `Trader ${traderId.slice(-4).toUpperCase()}`,
    ...empty
  })
})

profile('changes what is given and keeps the rest, for each party its own', async () => {
  const partner = await harness.makePartner({ name: 'Acme' })
  const { as } = await makeActor(partner)
  const avatarUrl = 'https://cdn.example.com/ada.png?size=2'
  const full = { displayName: 'Ada', bio: 'Two\nlines 🙂', avatarUrl, isPublic: true }
  await partner.call(updateCommunityProfile, { ...as, body: full })
  const { updatedAt, ...rest } = (await partner.call(updateCommunityProfile, { ...as, body: { avatarUrl: null } })).body
  assert.equal(rest, { ...full, avatarUrl: null })
  assert.ok(Date.parse(updatedAt) > Date.now() - 60_000)
  assert.equal((await partner.call(updateCommunityProfile, { ...as, body: {} })).body.bio, full.bio)
  assert.is(
    (await partner.call(updateCommunityProfile, { ...as, body: { displayName: '' } })).body.displayName.slice(0, 7),
    'Trader '
  )
  assert.is((await partner.call(getCommunityProfile)).body.displayName, 'Acme')
})

profile('keeps every field when several are changed at once', async () => {
  const partner = await harness.makePartner()
  await Promise.all(
    [{ displayName: 'Ada' }, { bio: 'words' }, { isPublic: true }].map(body =>
      partner.call(updateCommunityProfile, { body })
    )
  )
  const { body } = await partner.call(getCommunityProfile)
  assert.equal([body.displayName, body.bio, body.isPublic], ['Ada', 'words', true])
})

messages('refuses an empty and an overlong one', async () => {
  const partner = await harness.makePartner()
  for (const body of [{}, { content: '' }, { content: 'x'.repeat(1001) }, { content: 'a\u0000' }, { content: 7 }])
    assert.is((await partner.call(postMessage, { body })).status, 400)
  assert.is((await partner.call(postMessage, { body: { content: '🙂'.repeat(1000) } })).status, 200)
})

messages('are seen by the whole community, newest first, with their authors, and by no other', async () => {
  const [partner, other] = [await harness.makePartner({ name: 'Acme' }), await harness.makePartner()]
  const { as } = await makeActor(partner)
  await partner.call(updateCommunityProfile, {
    ...as,
    body: { displayName: 'Ada', avatarUrl: 'https://a.example/a.png' }
  })
  const first = await partner.call(postMessage, { ...as, body: { content: 'one', author: 'me' } })
  const second = await partner.call(postMessage, { body: { content: 'two' } })
  assert.equal(
    [first.body.mine, first.body.author],
    [true, { displayName: 'Ada', avatarUrl: 'https://a.example/a.png' }]
  )
  const { data } = (await partner.call(listMessages)).body
  assert.equal(data, [second.body, { ...first.body, mine: false }])
  assert.is(second.body.author.displayName, 'Acme')
  assert.is((await other.call(listMessages)).body.data.length, 0)
})

messages('are listed up to the newest 100', async () => {
  const partner = await harness.makePartner()
  for (let i = 0; i < 103; i++) await partner.call(postMessage, { body: { content: `message ${i}` } })
  const { data } = (await partner.call(listMessages)).body
  assert.equal([data.length, data[0].content, data[99].content], [100, 'message 102', 'message 3'])
})

messages('are kept up to the newest 1000', async () => {
  const partner = await harness.makePartner()
  await db.raw(
    `insert into community_messages (id, partner_id, party_id, content, created_at)
     select 'msg_' || lpad(n::text, 26, '0'), :partnerId, :partnerId, n::text, now() - interval '1 hour' + n * interval '1 second'
       from generate_series(1, 1020) n`,
    { partnerId: partner.partnerId }
  )
  await partner.call(postMessage, { body: { content: 'newest' } })
  const kept = await db('community_messages')
    .where({ partner_id: partner.partnerId })
    .orderBy('created_at')
    .select('content')
  assert.equal([kept.length, kept[0].content, kept.at(-1).content], [1000, '22', 'newest'])
})

messages('are deleted by their author and by the partner, by nobody else', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const [ada, bob] = [await makeActor(partner), await makeActor(partner)]
  const post = async (input: object) =>
    (await partner.call(postMessage, { ...input, body: { content: 'hello' } })).body.messageId
  const [ofAda, ofBob, ofPartner] = [await post(ada.as), await post(bob.as), await post({})]
  const remove = async (by: TestPartner, id: string, input: object = {}) =>
    (await by.call(deleteMessage, { ...input, params: { id } })).status
  assert.equal(
    [
      await remove(partner, ofBob, ada.as),
      await remove(partner, ofPartner, ada.as),
      await remove(other, ofAda),
      await remove(partner, 'msg_none')
    ],
    [404, 404, 404, 404]
  )
  assert.is((await partner.call(listMessages)).body.data.length, 3)
  const response = await partner.call(deleteMessage, { ...ada.as, params: { id: ofAda } })
  assert.equal(response.body, { messageId: ofAda, deleted: true })
  assert.equal([await remove(partner, ofAda, ada.as), await remove(partner, ofBob)], [404, 200])
  assert.equal(
    (await partner.call(listMessages)).body.data.map((m: { messageId: string }) => m.messageId),
    [ofPartner]
  )
})

bots('refuse a body that breaks its limits', async () => {
  const partner = await harness.makePartner()
  for (const [path, body] of [
    ['/body/name', {}],
    ['/body/name', { name: 'ab' }],
    ['/body/name', { name: 'x'.repeat(81) }],
    ['/body/description', { name: 'bot', description: 'x'.repeat(1001) }],
    ['/body/symbol', { name: 'bot', symbol: 'x'.repeat(33) }],
    ['/body/config', { name: 'bot', config: [] }],
    ['/body/config/a', { name: 'bot', config: { a: 'x\u0000' } }],
    ['/body/config', { name: 'bot', config: { a: 'x'.repeat(16_400) } }]
  ] as const) {
    const response = await partner.call(createCommunityBot, { body })
    assert.is(response.status, 400, JSON.stringify(body).slice(0, 100))
    assert.is(response.body.details[0].path, path)
  }
})

bots('are shared with the community, newest first', async () => {
  const [partner, other] = [await harness.makePartner({ name: 'Acme' }), await harness.makePartner()]
  const { as } = await makeActor(partner)
  const full = {
    name: 'Rider',
    description: 'Two\nlines',
    symbol: 'R_100',
    config: { stake: 1.5, deep: { list: [1] } }
  }
  const first = await partner.call(createCommunityBot, { body: { ...full, likes: 99 } })
  assert.equal(
    { ...first.body, botId: '', createdAt: '' },
    {
      botId: '',
      ...full,
      author: { displayName: 'Acme', avatarUrl: null },
      likes: 0,
      liked: false,
      createdAt: ''
    }
  )
  const second = await partner.call(createCommunityBot, { ...as, body: { name: 'bot' } })
  assert.equal([second.body.description, second.body.symbol, second.body.config], [null, null, {}])
  assert.equal((await partner.call(listCommunityBots)).body.data, [second.body, first.body])
  assert.is((await other.call(listCommunityBots)).body.data.length, 0)
})

bots('are liked once by each party, and the like can be taken back', async () => {
  const partner = await harness.makePartner()
  const [ada, bob] = [await makeActor(partner), await makeActor(partner)]
  const { botId } = (await partner.call(createCommunityBot, { body: { name: 'bot' } })).body
  const like = async (input: object) => (await partner.call(likeCommunityBot, { ...input, params: { id: botId } })).body
  assert.equal(await like(ada.as), { botId, liked: true, likes: 1 })
  assert.equal(await like(bob.as), { botId, liked: true, likes: 2 })
  assert.equal(await like(ada.as), { botId, liked: false, likes: 1 })
  const seen = async (input: object) => {
    const [{ likes, liked }] = (await partner.call(listCommunityBots, input)).body.data
    return [likes, liked]
  }
  assert.equal(
    [await seen(ada.as), await seen(bob.as), await seen({})],
    [
      [1, false],
      [1, true],
      [1, false]
    ]
  )
})

bots('count likes exactly when many parties toggle many times at once', async () => {
  const partner = await harness.makePartner()
  const actors = await Promise.all(Array.from({ length: 5 }, () => makeActor(partner)))
  const { botId } = (await partner.call(createCommunityBot, { body: { name: 'bot' } })).body
  // The first three toggle seven times each, the others eight times.
  const toggles = actors.flatMap(({ as }, i) => Array.from({ length: i < 3 ? 7 : 8 }, () => as))
  const responses = await Promise.all(
    toggles.map(as => partner.call(likeCommunityBot, { ...as, params: { id: botId } }))
  )
  assert.is(responses.filter(({ body }) => body.liked).length - responses.filter(({ body }) => !body.liked).length, 3)
  assert.is((await partner.call(listCommunityBots)).body.data[0].likes, 3)
  assert.is((await db('community_likes').where({ bot_id: botId })).length, 3)
})

bots(
  'are deleted by their author and by the partner, by nobody else, and not liked from outside the community',
  async () => {
    const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
    const [ada, bob] = [await makeActor(partner), await makeActor(partner)]
    const { botId } = (await partner.call(createCommunityBot, { ...ada.as, body: { name: 'bot' } })).body
    const params = { id: botId }
    await partner.call(likeCommunityBot, { ...bob.as, params })
    for (const row of [deleteCommunityBot, likeCommunityBot]) assert.is((await other.call(row, { params })).status, 404)
    assert.is((await partner.call(deleteCommunityBot, { ...bob.as, params })).status, 404)
    assert.is((await partner.call(listCommunityBots)).body.data[0].likes, 1)
    assert.equal((await partner.call(deleteCommunityBot, { ...ada.as, params })).body, { botId, deleted: true })
    assert.is((await partner.call(likeCommunityBot, { params })).status, 404)
    const second = (await partner.call(createCommunityBot, { ...bob.as, body: { name: 'bot' } })).body.botId
    assert.is((await partner.call(deleteCommunityBot, { params: { id: second } })).status, 200)
    assert.is((await partner.call(listCommunityBots)).body.data.length, 0)
  }
)

bots.after(closeAll)
acting.run()
profile.run()
messages.run()
bots.run()

// The header Idempotency-Key: what is requested twice under one key is done once, and returned twice.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import {
  createCommunityBot,
  deleteCommunityBot,
  likeCommunityBot,
  listCommunityBots
} from '../../api/community/bots.ts'
import { describe } from '../../api/description/spec.ts'
import { createKey } from '../../api/keys.ts'
import { requestPayout } from '../../api/marketplace/earnings.ts'
import { purchaseBot } from '../../api/marketplace/sales.ts'
import { operations } from '../../api/operations.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { once } from '../../api/request/idempotency.ts'
import { logInTrader, logOutTrader, signUpTrader } from '../../api/traders/traders.ts'
import { openVault } from '../../db/platform/crypto.ts'
import { deleteOldKeys, resealResponses } from '../../db/platform/idempotency.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { call, closeAll, openHarness, TOKEN_KEYS, until } from '../support/harness.ts'
import { books, fund, makeBot } from '../support/marketplace-makers.ts'

const harness = await openHarness()
const { services, address } = harness
const { db } = services
const partner = await harness.makePartner()

const under = (key: string) => ({ headers: { 'idempotency-key': key } })
const bot = (name: string) => ({ name, config: { a: 1, b: 2 } })
const botsNamed = async (name: string, of = partner) =>
  (await of.call(listCommunityBots)).body.data.filter((entry: { name: string }) => entry.name === name).length

const described = suite('the description')
const repeating = suite('a repeat under an Idempotency-Key')
const secrets = suite('responses that are shown once')
const crashing = suite('a request whose process died')

described('offers the key on every operation that changes something, but the placing of orders', () => {
  const { paths } = describe(operations, 'https://api.example.com') as {
    paths: Record<string, Record<string, unknown>>
  }
  for (const { name, path, method } of operations) {
    const methods = paths[path] ?? {}
    const { parameters = [], responses } = methods[method.toLowerCase()] as {
      parameters?: { name: string }[]
      responses: Record<string, { headers?: object }>
    }
    const offered = parameters.some(parameter => parameter.name === 'Idempotency-Key')
    const wanted = method !== 'GET' && !['placeBinaryOrder', 'placeMultiplierOrder'].includes(name)
    assert.is(offered, wanted, name)
    if (wanted) assert.ok('Idempotent-Replayed' in (responses['200']?.headers ?? {}), name)
  }
})

repeating("gets the first request's response, and nothing is done twice", async () => {
  const key = randomUUID()
  const first = await partner.call(createCommunityBot, { body: bot('once only'), ...under(key) })
  const again = await partner.call(createCommunityBot, { body: bot('once only'), ...under(`"${key}"`) })
  assert.equal([first.status, first.headers.get('idempotent-replayed')], [200, null])
  assert.equal([again.status, again.headers.get('idempotent-replayed')], [200, 'true'])
  assert.equal(again.body, first.body)
  assert.is(await botsNamed('once only'), 1)
})

repeating('is the same request whatever the order of its fields', async () => {
  const key = randomUUID()
  await partner.call(createCommunityBot, { body: bot('in any order'), ...under(key) })
  const body = '{"config":{"b":2,"a":1},"name":"in any order"}'
  assert.is(
    (await partner.call(createCommunityBot, { body, ...under(key) })).headers.get('idempotent-replayed'),
    'true'
  )
})

repeating('is 422 with another body, operation, path or trader session', async () => {
  const key = randomUUID()
  const signup = { body: { email: `${key}@example.com`, password: `quite ${key}` } }
  const { body: trader } = await partner.call(signUpTrader, signup)
  const { body: made } = await partner.call(createCommunityBot, { body: bot('mine'), ...under(key) })
  const others = [
    partner.call(createCommunityBot, { body: bot('another'), ...under(key) }),
    partner.call(deleteCommunityBot, { params: { id: made.botId }, ...under(key) }),
    partner.call(createCommunityBot, {
      body: bot('mine'),
      headers: { 'idempotency-key': key, 'x-trader-session': trader.sessionToken }
    })
  ]
  for (const { status, body } of await Promise.all(others))
    assert.equal([status, body.error], [422, 'IDEMPOTENCY_KEY_REUSED'])
  // Another operation on the same record, without a body either.
  const sent = { params: { id: made.botId }, ...under(randomUUID()) }
  assert.is((await partner.call(likeCommunityBot, sent)).status, 200)
  const { status, body } = await partner.call(deleteCommunityBot, sent)
  assert.equal([status, body.error], [422, 'IDEMPOTENCY_KEY_REUSED'])
  assert.is(await botsNamed('another'), 0)
})

repeating("of another partner's key is a request of its own", async () => {
  const other = await harness.makePartner()
  const key = randomUUID()
  const first = await partner.call(createCommunityBot, { body: bot('shared key'), ...under(key) })
  const second = await other.call(createCommunityBot, { body: bot('shared key'), ...under(key) })
  assert.is.not(first.body.botId, second.body.botId)
  assert.is(second.headers.get('idempotent-replayed'), null)
})

repeating('at the same moment is done once: the others wait for Retry-After, or get the response', async () => {
  const key = randomUUID()
  const responses = await Promise.all(
    Array.from({ length: 20 }, () => partner.call(createCommunityBot, { body: bot('at once'), ...under(key) }))
  )
  assert.is(responses.filter(({ status, headers }) => status === 200 && !headers.get('idempotent-replayed')).length, 1)
  for (const { status, body, headers } of responses) {
    if (status === 200) continue
    assert.equal([status, body.error], [409, 'IDEMPOTENCY_IN_PROGRESS'])
    assert.match(headers.get('retry-after') ?? '', /^[1-5]$/)
  }
  assert.is(await botsNamed('at once'), 1)
})

repeating('runs again after a refusal, with whatever body', async () => {
  const key = randomUUID()
  const none = { params: { id: 'cbt_nothing' }, ...under(key) }
  assert.is((await partner.call(deleteCommunityBot, none)).status, 404)
  assert.is((await partner.call(deleteCommunityBot, none)).status, 404)
  assert.is((await partner.call(createCommunityBot, { body: bot('after a refusal'), ...under(key) })).status, 200)
})

repeating('is a new request after 24 hours, when the response is deleted', async () => {
  const key = randomUUID()
  const create = () => partner.call(createCommunityBot, { body: bot('daily'), ...under(key) })
  const age = () =>
    db('idempotency_keys')
      .where({ key })
      .update({ created_at: db.raw("now() - interval '25 hours'") })
  await create()
  await age()
  assert.is((await create()).headers.get('idempotent-replayed'), null)
  assert.is(await botsNamed('daily'), 2)
  await age()
  await deleteOldKeys(db)
  assert.equal(await db('idempotency_keys').where({ key }), [])
})

repeating('needs a key of 8 to 64 visible characters; placing orders ignores it', async () => {
  for (const key of ['short', 'x'.repeat(65), 'with a blank', '"only one quote'])
    assert.equal(
      (await partner.call(createCommunityBot, { body: bot('never'), ...under(key) })).body.details[0].path,
      '/header/Idempotency-Key'
    )
  const order = { traderExternalId: 'nobody', clientOrderId: randomUUID(), asset: 'R_100', contractType: 'CALL' }
  const placed = await partner.call(placeBinaryOrder, {
    body: { ...order, stake: 1, duration: 5, durationUnit: 't' },
    ...under('short')
  })
  assert.is(placed.body.error, 'TRADER_NOT_FOUND')
})

repeating('of a payout holds the amount once', async () => {
  const creator = await harness.makePartner()
  const buyer = await harness.makePartner()
  const botId = await makeBot(creator, { oneTimePriceUsd: 100 })
  await fund(harness, buyer, '100')
  await buyer.call(purchaseBot, { params: { id: botId } })
  const body = { amountUsd: 30, destinationAddress: 'T'.repeat(34) }
  const key = randomUUID()
  const first = await creator.call(requestPayout, { body, ...under(key) })
  const again = await creator.call(requestPayout, { body, ...under(key) })
  assert.equal([first.status, again.body], [200, first.body])
  assert.is(first.body.traderExternalId, null)
  assert.equal(await books(db, creator), ['0.00', '50.00', '30.00'])
})

repeating('has what waits for a change woken after its commit, not before', async () => {
  const { bus } = services
  const [early, marker] = [randomUUID(), randomUUID()]
  const seen: string[] = []
  const stop = await bus.listen(bus.replyChannel, ({ id }) => void seen.push(id))
  const requested = { party: partner.partnerId, params: {}, query: {}, body: bot('hinted') }
  await once({ request: { headers: { 'idempotency-key': randomUUID() } } } as never, services, {
    row: { ...createCommunityBot, atomic: true },
    partner: { partnerId: partner.partnerId } as never,
    requested,
    handle: async inside => {
      inside.bus.publish(bus.replyChannel, 'test', early)
      // Sent later, hence received later.
      bus.publish(bus.replyChannel, 'test', marker)
      await until('what was sent later', () => seen.includes(marker))
      assert.equal(seen, [marker])
      return {}
    }
  })
  await until('the hint', () => seen.includes(early))
  stop()
})

secrets('are replayed, and stored sealed: no key and no session is in the database', async () => {
  const { cookie } = await partner.makeSession()
  const key = randomUUID()
  const issue = () => call(address, createKey, { body: { label: 'x' }, headers: { cookie, 'idempotency-key': key } })
  const first = await issue()
  assert.equal((await issue()).body, first.body)
  const login = randomUUID()
  const credentials = { email: `${login}@example.com`, password: `quite ${login}` }
  const signup = await partner.call(signUpTrader, { body: credentials, ...under(`signup-${login}`) })
  const replayed = await partner.call(signUpTrader, { body: credentials, ...under(`signup-${login}`) })
  assert.is(replayed.body.sessionToken, signup.body.sessionToken)
  assert.is(replayed.headers.get('set-cookie'), signup.headers.get('set-cookie'))
  await partner.call(logInTrader, { body: credentials, ...under(`login-${login}`) })
  const kept = (await db('idempotency_keys').where({ partner_id: partner.partnerId })) as { answer: Buffer }[]
  const everything = Buffer.concat(kept.map(({ answer }) => answer ?? Buffer.alloc(0))).toString('latin1')
  for (const secret of [first.body.key, signup.body.sessionToken, 'Set-Cookie', 'keyId'])
    assert.not.ok(everything.includes(secret), secret.slice(0, 8))
})

secrets('bring no ended session back to life', async () => {
  const key = randomUUID()
  const body = { email: `${key}@example.com`, password: `quite ${key}` }
  const { body: first } = await partner.call(signUpTrader, { body, ...under(key) })
  const session = { headers: { 'x-trader-session': first.sessionToken } }
  assert.is((await partner.call(logOutTrader, session)).status, 200)
  await partner.call(signUpTrader, { body, ...under(key) })
  assert.is((await partner.call(logOutTrader, session)).status, 401)
})

secrets('are sealed again when the token keys change', async () => {
  const fresh = openVault(`t2:${Buffer.alloc(32, 9).toString('base64')},${TOKEN_KEYS}`)
  const key = randomUUID()
  const first = await partner.call(createCommunityBot, { body: bot('rotated'), ...under(key) })
  // One that is damaged keeps no other from its turn.
  const damaged = await harness.makePartner()
  const broken = randomUUID()
  await damaged.call(createCommunityBot, { body: bot('damaged'), ...under(broken) })
  await db('idempotency_keys')
    .where({ key: broken })
    .update({ answer: Buffer.alloc(64) })
  const unreadable = []
  let resealed = 0
  let step: Awaited<ReturnType<typeof resealResponses>> | undefined
  do {
    step = await resealResponses(db, fresh, { oldKeyId: 't1', after: step?.after ?? null, limit: 1 })
    unreadable.push(...step.unreadable)
    resealed += step.resealed
  } while (step.after)
  assert.ok(resealed > 0)
  assert.equal(unreadable, [{ partnerId: damaged.partnerId, key: broken }])
  const again = await once(
    { request: { headers: { 'idempotency-key': key } } } as never,
    { ...services, vault: openVault(`t2:${Buffer.alloc(32, 9).toString('base64')}`) },
    {
      row: createCommunityBot,
      partner: { partnerId: partner.partnerId } as never,
      requested: { party: partner.partnerId, params: {}, query: {}, body: bot('rotated') },
      handle: () => Promise.reject(new Error('ran again'))
    }
  )
  assert.equal((again as { body: unknown }).body, first.body)
})

crashing('is taken over by its repeat when its lease has ended, and not before', async () => {
  const key = randomUUID()
  const create = () => partner.call(createCommunityBot, { body: bot('crashed'), ...under(key) })
  await create()
  // As a process leaves it that dies before its transaction commits.
  const left = { answered_at: null, answer: null, token_key_id: null }
  const leased = (until: string) =>
    db('idempotency_keys')
      .where({ key })
      .update({ ...left, leased_until: db.raw(until) })
  await leased("now() + interval '1 minute'")
  assert.is((await create()).body.error, 'IDEMPOTENCY_IN_PROGRESS')
  await leased("now() - interval '1 second'")
  assert.equal([(await create()).status, (await create()).headers.get('idempotent-replayed')], [200, 'true'])
})

crashing('leaves neither effect nor response when its lease was lost before the end', async () => {
  const key = randomUUID()
  const body = bot('overtaken')
  const running = once({ request: { headers: { 'idempotency-key': key } } } as never, services, {
    row: createCommunityBot,
    partner: { partnerId: partner.partnerId } as never,
    requested: { party: partner.partnerId, params: {}, query: {}, body },
    async handle(opened) {
      const request = { partner: { partnerId: partner.partnerId }, params: {}, query: {}, body }
      const response = await createCommunityBot.handle(request as never, opened)
      await db('idempotency_keys').where({ key }).update({ holder: randomUUID() })
      return response
    }
  })
  const error = await running.then(
    () => undefined,
    (thrown: ApiError) => thrown
  )
  assert.is(error instanceof ApiError && error.code, 'UNAVAILABLE')
  assert.is(await botsNamed('overtaken'), 0)
})

crashing.after(closeAll)
for (const one of [described, repeating, secrets, crashing]) one.run()

// The partner behind the key, and what happens to keys that are not (or no longer) good.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getTraderAnalytics } from '../../api/analytics/traders.ts'
import { listLeaders } from '../../api/copy.ts'
import { getMe } from '../../api/me.ts'
import { listAccounts } from '../../api/traders/accounts.ts'
import { revokeKey } from '../../db/partners/keys.ts'
import { resumePartner, suspendPartner } from '../../db/partners/standing.ts'
import { newApiKey } from '../../db/platform/crypto.ts'
import { call, closeAll, openHarness } from '../support/harness.ts'

const harness = await openHarness()
const { db } = harness.services
const me = suite('GET /v1/me')

me('refuses a request without a key, with a malformed one and with an unknown one', async () => {
  for (const authorization of ['', 'Bearer', 'Basic abc', 'Bearer service_live_x', `Bearer ${newApiKey().key}`]) {
    const response = await call(harness.address, getMe, { headers: authorization ? { authorization } : {} })
    assert.is(response.status, 401, authorization)
    assert.is(response.body.error, 'UNAUTHENTICATED')
    assert.ok(response.headers.get('www-authenticate'))
  }
})

me('refuses a key whose last digits were changed, without reading the database', async () => {
  const { key } = await harness.makePartner()
  const other = key.at(-1) === '0' ? '1' : '0'
  const response = await call(harness.address, getMe, {
    headers: { authorization: `Bearer ${key.slice(0, -1)}${other}` }
  })
  assert.is(response.body.error, 'UNAUTHENTICATED')
})

me('refuses a revoked key at once', async () => {
  const partner = await harness.makePartner()
  assert.is((await partner.call(getMe)).status, 200)
  await revokeKey(db, partner.keyId)
  const response = await partner.call(getMe)
  assert.is(response.status, 403)
  assert.is(response.body.error, 'KEY_REVOKED')
})

me('names the first of several refusals: the key, the suspension, the plan', async () => {
  const partner = await harness.makePartner()
  const refusal = async () => (await partner.call(getMe)).body.error
  await db('partners').where({ id: partner.partnerId }).update({ plan_active: false })
  assert.is(await refusal(), 'SUBSCRIPTION_INACTIVE')
  await suspendPartner(db, partner.partnerId, 'unpaid invoice')
  assert.is(await refusal(), 'PARTNER_SUSPENDED')
  await revokeKey(db, partner.keyId)
  assert.is(await refusal(), 'KEY_REVOKED')
})

me('refuses a suspended partner, and serves it again when resumed', async () => {
  const partner = await harness.makePartner()
  await suspendPartner(db, partner.partnerId, 'unpaid invoice')
  const response = await partner.call(getMe)
  assert.is(response.status, 403)
  assert.is(response.body.error, 'PARTNER_SUSPENDED')
  await resumePartner(db, partner.partnerId)
  assert.is((await partner.call(getMe)).status, 200)
})

me('returns the partner as it is now', async () => {
  const partner = await harness.makePartner({ name: 'Acme', plan: 'PRO', scopes: ['trading:read', 'trading:write'] })
  await partner.makeTrader()
  const { status, body } = await partner.call(getMe)
  assert.is(status, 200)
  assert.equal(body, {
    partnerId: partner.partnerId,
    name: 'Acme',
    plan: 'PRO',
    saasStatus: 'ACTIVE',
    tradersCount: 1,
    scopes: ['trading:read', 'trading:write']
  })
})

me("repeats the caller's request id when it has the right form, and makes one otherwise", async () => {
  const partner = await harness.makePartner()
  const own = randomUUID()
  assert.is((await partner.call(getMe, { headers: { 'x-request-id': own } })).headers.get('x-request-id'), own)
  const response = await partner.call(getMe, { headers: { 'x-request-id': 'too short'.slice(0, 5) } })
  assert.match(response.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/)
})

const limits = suite('rate limits')
const strict = await openHarness({ url: harness.url, env: { RATE_LIMIT_LAUNCH: '3', RATE_LIMIT_TRADER: '2' } })

limits('count each key, show what is left in every response, and refuse with Retry-After', async () => {
  const partner = await strict.makePartner({ plan: 'LAUNCH' })
  const first = await partner.call(getMe)
  assert.is(first.headers.get('ratelimit-policy'), '"key";q=3;w=60')
  assert.match(first.headers.get('ratelimit') ?? '', /^"key";r=2;t=\d+$/)
  await partner.call(getMe)
  await partner.call(getMe)
  const refused = await partner.call(getMe)
  assert.is(refused.status, 429)
  assert.is(refused.body.error, 'RATE_LIMITED')
  assert.ok(Number(refused.headers.get('retry-after')) >= 1)
  assert.is((await (await strict.makePartner({ plan: 'LAUNCH' })).call(getMe)).status, 200)
})

limits('below the calls that an operation counts as let one of it through', async () => {
  const partner = await strict.makePartner({ plan: 'LAUNCH' })
  const first = await partner.call(listLeaders)
  assert.equal([first.status, /r=(\d+)/.exec(first.headers.get('ratelimit') ?? '')?.[1]], [200, '0'])
  assert.is((await partner.call(listLeaders)).status, 429)
})

limits('count a call that lacks its scope, and come before it', async () => {
  const partner = await strict.makePartner({ plan: 'LAUNCH', scopes: ['copy:read'] })
  const refusals = []
  for (let i = 0; i < 4; i++)
    refusals.push((await partner.call(listAccounts, { query: { traderExternalId: 'one' } })).status)
  assert.equal(refusals, [403, 403, 403, 429])
})

limits('count each trader that is named', async () => {
  const partner = await strict.makePartner({ plan: 'PRO' })
  const list = (name: string) => partner.call(listAccounts, { query: { traderExternalId: name } })
  assert.match((await list('one')).headers.get('ratelimit-policy') ?? '', /^"key";q=\d+;w=60, "trader";q=2;w=60$/)
  await list('one')
  assert.is((await list('one')).status, 429)
  assert.is((await list('two')).status, 404)
})

limits('count a trader that is named in the path', async () => {
  const partner = await strict.makePartner({ plan: 'PRO' })
  const read = (name: string) => partner.call(getTraderAnalytics, { params: { traderExternalId: name } })
  assert.match((await read('one')).headers.get('ratelimit-policy') ?? '', /^"key";q=\d+;w=60, "trader";q=2;w=60$/)
  await partner.call(listAccounts, { query: { traderExternalId: 'one' } })
  assert.is((await read('one')).status, 429)
  assert.is((await read('two')).status, 404)
})

limits.after(closeAll)
me.run()
limits.run()

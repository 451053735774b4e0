// Key management with the partner's session.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { createKey, listKeys, revokeKey } from '../../api/keys.ts'
import { getMe } from '../../api/me.ts'
import { signUpTrader } from '../../api/traders/traders.ts'
import { deleteOldSessions, insertTraderSession, revokeSession } from '../../db/partners/sessions.ts'
import { suspendPartner } from '../../db/partners/standing.ts'
import { newToken } from '../../db/platform/crypto.ts'
import { isCrossSite, readCookie, setCookie } from '../../schemas/fields/cookies.ts'
import { defaultScopes } from '../../schemas/fields/scopes.ts'
import { call, closeAll, openHarness } from '../support/harness.ts'
import { operator as runOperator } from '../support/operator.ts'

const harness = await openHarness()
const { db, pepper } = harness.services
const { address } = harness
const sessions = suite('service_session')
const creating = suite('POST /v1/keys')
const listing = suite('GET /v1/keys')
const revoking = suite('DELETE /v1/keys/{id}')

sessions('is required: nothing, a key, and what only looks like a session are 401', async () => {
  const partner = await harness.makePartner()
  const invalidHeaders: Record<string, string>[] = [
    {},
    { authorization: `Bearer ${partner.key}` },
    { cookie: `service_session=${partner.key}` },
    { cookie: 'service_session=' },
    { cookie: `service_session=${newToken()}` },
    { cookie: `other_session=${newToken()}` }
  ]
  for (const row of [createKey, listKeys, revokeKey])
    for (const headers of invalidHeaders) {
      const response = await call(address, row, { headers, params: { id: partner.keyId } })
      assert.is(response.status, 401, `${row.name} ${JSON.stringify(headers)}`)
      assert.is(response.body.error, 'UNAUTHENTICATED')
    }
})

sessions('does not open what needs a key', async () => {
  const { cookie } = await (await harness.makePartner()).makeSession()
  assert.is((await call(address, getMe, { headers: { cookie } })).status, 401)
})

sessions('of a trader is not one of its partner', async () => {
  const partner = await harness.makePartner()
  const { traderId } = await partner.makeTrader()
  const { token } = await insertTraderSession(db, pepper, { partnerId: partner.partnerId, traderId, ttlHours: 1 })
  assert.is((await call(address, listKeys, { headers: { cookie: `service_session=${token}` } })).status, 401)
})

sessions('ends when it is revoked and when its time is over', async () => {
  const partner = await harness.makePartner()
  const [revoked, expired] = [await partner.makeSession(), await partner.makeSession()]
  const status = async ({ cookie }: { cookie: string }) =>
    (await call(address, listKeys, { headers: { cookie } })).status
  assert.equal([await status(revoked), await status(expired)], [200, 200])
  await revokeSession(db, revoked.sessionId)
  await db('sessions').where({ id: expired.sessionId }).update({ expires_at: new Date() })
  assert.equal([await status(revoked), await status(expired)], [401, 401])
})

sessions('that ended an hour ago are deleted, others stay', async () => {
  const partner = await harness.makePartner()
  const [old, late, good] = [await partner.makeSession(), await partner.makeSession(), await partner.makeSession()]
  const ended = async ({ sessionId }: { sessionId: string }, minutesAgo: number) =>
    db('sessions')
      .where({ id: sessionId })
      .update({ expires_at: new Date(Date.now() - minutesAgo * 60_000) })
  await ended(old, 61)
  await ended(late, 59)
  await deleteOldSessions(db)
  const left = await db('sessions').where({ partner_id: partner.partnerId }).orderBy('created_at').pluck('id')
  assert.equal(left, [late.sessionId, good.sessionId])
})

sessions('is refused when another site makes the browser send it', async () => {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { 'sec-fetch-site': 'cross-site' },
    { origin: address, 'sec-fetch-site': 'cross-site' }
  ]
  for (const headers of foreign) {
    const created = await call(address, createKey, { headers: { ...headers, cookie }, body: {} })
    assert.is(created.status, 403, JSON.stringify(headers))
    assert.is(created.body.error, 'CROSS_SITE_REFUSED')
    const response = await call(address, revokeKey, { headers: { ...headers, cookie }, params: { id: partner.keyId } })
    assert.is(response.body.error, 'CROSS_SITE_REFUSED')
  }
  assert.is((await partner.call(getMe)).status, 200, 'the key was not revoked')
  const own: Record<string, string>[] = [{ origin: address }, { 'sec-fetch-site': 'same-origin' }]
  for (const headers of own)
    assert.is((await call(address, createKey, { headers: { ...headers, cookie } })).status, 200)
})

sessions('knows its own site by host, by BASE_URL and by the domain of the cookie', () => {
  const config = { baseUrl: 'https://api.trade.example', sessionCookieDomain: '.trade.example' }
  const crossSite = (origin: string | undefined) =>
    isCrossSite({ origin, fetchSite: undefined, hostname: 'api.trade.example' }, config)
  for (const own of [
    undefined,
    'https://api.trade.example',
    'https://trade.example',
    'https://console.trade.example:444'
  ])
    assert.not(crossSite(own), own)
  for (const other of [
    'http://api.trade.example',
    'https://eviltrade.example',
    'https://trade.example.evil',
    'null',
    '',
    'file://'
  ])
    assert.ok(crossSite(other), other)
  assert.ok(
    isCrossSite(
      { origin: 'https://console.trade.example', fetchSite: undefined, hostname: 'api.trade.example' },
      { ...config, sessionCookieDomain: undefined }
    ),
    'a subdomain counts only where the cookie is shared'
  )
})

sessions('is written HttpOnly, SameSite=Lax, Secure but on loopback, for the domain it is shared with', () => {
  const session = { token: 't', expiresAt: new Date(Date.UTC(2026, 0, 2)) }
  assert.is(
    setCookie('service_session', session, {
      baseUrl: 'https://api.trade.example',
      sessionCookieDomain: '.trade.example'
    }),
    'service_session=t; Path=/; Expires=Fri, 02 Jan 2026 00:00:00 GMT; Domain=trade.example; HttpOnly; Secure; SameSite=Lax'
  )
  const secure = (baseUrl: string) =>
    setCookie('a', session, { baseUrl, sessionCookieDomain: undefined }).includes('; Secure')
  assert.equal(
    ['http://127.0.0.1:8080', 'http://[::1]:8080', 'http://localhost', 'http://10.0.0.1', 'https://localhost'].map(
      secure
    ),
    [false, false, false, true, true]
  )
  assert.is(readCookie('a=1; service_session=abc; b=2', 'service_session'), 'abc')
  assert.is(readCookie('xservice_session=abc; service_session=', 'service_session'), undefined)
})

for (const [standing, status, error] of [
  ['suspended', 403, 'PARTNER_SUSPENDED'],
  ['unpaid', 402, 'SUBSCRIPTION_INACTIVE']
] as const)
  sessions(`is refused while the partner is ${standing}`, async () => {
    const partner = await harness.makePartner()
    const { cookie } = await partner.makeSession()
    if (standing === 'suspended') await suspendPartner(db, partner.partnerId, 'test')
    else await db('partners').where({ id: partner.partnerId }).update({ plan_active: false })
    for (const row of [createKey, listKeys, revokeKey]) {
      const response = await call(address, row, { headers: { cookie }, params: { id: partner.keyId } })
      assert.is(response.status, status)
      assert.is(response.body.error, error)
    }
  })

creating('refuses admin scopes, unknown ones and a long label, naming each', async () => {
  const { cookie } = await (await harness.makePartner()).makeSession()
  for (const body of [
    { scopes: ['admin:read'] },
    { scopes: ['trading:read', 'admin:write'] },
    { scopes: ['trading:all'] },
    { scopes: 'trading:read' },
    { scopes: [1] },
    { label: 'x'.repeat(81) },
    { label: 'nul \u0000' },
    { label: 7 },
    []
  ]) {
    const response = await call(address, createKey, { headers: { cookie }, body })
    assert.is(response.status, 400, JSON.stringify(body))
    assert.is(response.body.error, 'VALIDATION_FAILED')
  }
})

creating('makes a key with every scope but admin when nothing is requested', async () => {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const { status, body } = await call(address, createKey, { headers: { cookie } })
  assert.is(status, 200)
  assert.equal(body.scopes, [...defaultScopes])
  assert.is(body.label, null)
  const me = await call(address, getMe, { headers: { authorization: `Bearer ${body.key}` } })
  assert.is(me.body.partnerId, partner.partnerId)
  assert.equal(me.body.scopes, [...defaultScopes])
})

creating('makes a key with the label and the scopes requested, each once', async () => {
  const { cookie } = await (await harness.makePartner()).makeSession()
  const body = { label: 'Büro', scopes: ['trading:read', 'usage:read', 'trading:read'], unknown: 1 }
  const response = await call(address, createKey, { headers: { cookie }, body })
  assert.is(response.body.label, 'Büro')
  assert.equal(response.body.scopes, ['trading:read', 'usage:read'])
})

creating('stops at 200 keys, however many requests come at once, until one is revoked', async () => {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  await db.raw(
    `insert into api_keys (id, partner_id, lookup, hash, scopes)
     select 'key_' || i || :partnerId, :partnerId, lpad(to_hex(i), 16, '0'), decode(repeat('00', 32), 'hex'), '{}'
       from generate_series(1, 195) i`,
    { partnerId: partner.partnerId }
  )
  const responses = await Promise.all(
    Array.from({ length: 10 }, () => call(address, createKey, { headers: { cookie } }))
  )
  assert.equal(responses.map(({ status }) => status).sort(), [200, 200, 200, 200, ...Array(6).fill(409)])
  await call(address, revokeKey, { headers: { cookie }, params: { id: partner.keyId } })
  assert.is((await call(address, createKey, { headers: { cookie } })).status, 200)
})

listing('shows every key of the partner, newest first, and never the key itself', async () => {
  const partner = await harness.makePartner()
  await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const made = await call(address, createKey, { headers: { cookie }, body: { label: 'second' } })
  const { body } = await call(address, listKeys, { headers: { cookie } })
  assert.equal(
    body.data.map(({ keyId }: { keyId: string }) => keyId),
    [made.body.keyId, partner.keyId]
  )
  assert.is(body.data[0].hint, `${made.body.key.slice(0, 29)}_…`)
  assert.not(JSON.stringify(body).includes(made.body.key.slice(30)))
})

listing('shows a key that is good however many newer ones were revoked', async () => {
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  await db.raw(
    `insert into api_keys (id, partner_id, lookup, hash, scopes, revoked_at)
     select 'key_' || lpad(cast(i as text), 26, '0'), :partnerId, lpad(to_hex(4096 + i), 16, '0'), decode(repeat('00', 32), 'hex'), '{}', now()
       from generate_series(1, 1001) i`,
    { partnerId: partner.partnerId }
  )
  const { body } = await call(address, listKeys, { headers: { cookie } })
  const keys = body.data as { keyId: string; revokedAt: string | null }[]
  assert.is(keys.length, 1000)
  assert.equal(
    keys.filter(({ revokedAt }) => !revokedAt).map(({ keyId }) => keyId),
    [partner.keyId]
  )
})

revoking('returns 404 for a key that is not there and for one of another partner, which stays good', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const { cookie } = await partner.makeSession()
  for (const id of ['key_nothing', other.keyId, partner.partnerId]) {
    const response = await call(address, revokeKey, { headers: { cookie }, params: { id } })
    assert.is(response.status, 404)
    assert.is(response.body.error, 'NOT_FOUND')
  }
  assert.is((await other.call(getMe)).status, 200)
})

revoking('holds at once on every process, and stays as it was when repeated', async () => {
  const second = await openHarness({ url: harness.url })
  const partner = await harness.makePartner()
  const { cookie } = await partner.makeSession()
  const authorization = `Bearer ${partner.key}`
  assert.is((await call(second.address, getMe, { headers: { authorization } })).status, 200)
  const first = await call(address, revokeKey, { headers: { cookie }, params: { id: partner.keyId } })
  assert.is(first.body.keyId, partner.keyId)
  const refused = await call(second.address, getMe, { headers: { authorization } })
  assert.is(refused.body.error, 'KEY_REVOKED')
  assert.equal(
    (await call(address, revokeKey, { headers: { cookie }, params: { id: partner.keyId } })).body,
    first.body
  )
  const { body } = await call(address, listKeys, { headers: { cookie } })
  assert.is(body.data[0].revokedAt, first.body.revokedAt)
})

const command = suite('operator sessions')

async function operator(...args: string[]) {
  const { exitCode, stdout } = await runOperator(harness.env, 'sessions', ...args, '--json')
  return { exit: exitCode, document: exitCode === 0 ? JSON.parse(stdout) : undefined }
}

command('issue, list and revoke one, each written to the audit log', async () => {
  const partner = await harness.makePartner()
  const { partnerId } = partner
  const credentials = { email: `${randomUUID()}@example.com`, password: 'rather-Long-4711-password' }
  const { body: trader } = await partner.call(signUpTrader, { body: credentials })
  assert.is((await operator('issue', '--partner', 'ptn_nobody')).exit, 1)
  assert.is((await operator('issue')).exit, 2)
  const { document: issued } = await operator('issue', '--partner', partnerId)
  assert.match(issued.cookie, /^service_session=[A-Za-z0-9_-]{43}$/)
  assert.ok(issued.setCookie.startsWith(`${issued.cookie}; Path=/; `))
  assert.is(Math.round((Date.parse(issued.expiresAt) - Date.now()) / 3_600_000), 12)
  const headers = { cookie: issued.cookie }
  assert.is((await call(address, listKeys, { headers })).status, 200)
  const { document: listed } = await operator('list', '--partner', partnerId)
  assert.equal(Object.keys(listed.data[0]), ['sessionId', 'traderId', 'createdAt', 'expiresAt', 'revokedAt'])
  assert.equal(
    listed.data.map(({ traderId }: { traderId: string | null }) => traderId),
    [null, trader.traderId]
  )
  assert.is((await operator('revoke', issued.sessionId)).exit, 1, 'it prompts, and here nobody can confirm')
  assert.is((await operator('revoke', issued.sessionId, '--yes')).exit, 0)
  assert.is((await call(address, listKeys, { headers })).status, 401)
  const actions = await db('audit_log').where({ target: issued.sessionId }).orderBy('at').pluck('action')
  assert.equal(actions, ['sessions.issue', 'sessions.revoke'])
})

command.after(closeAll)
sessions.run()
creating.run()
listing.run()
revoking.run()
command.run()

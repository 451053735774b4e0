// Traders' own accounts: signing up, logging in, the session.
import { createHook } from 'node:async_hooks'
import { createHash } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { getTraderMe, logInTrader, logOutTrader, signUpTrader } from '../../api/traders/traders.ts'
import { newToken } from '../../db/platform/crypto.ts'
import { hashPassword } from '../../db/platform/passwords.ts'
import { Overloaded } from '../../db/postgres/batch.ts'
import {
  call,
  closeAll,
  FEW_LOOKS_MS,
  type Harness,
  newAccountId,
  openHarness,
  type TestPartner,
  until
} from '../support/harness.ts'
import { startRedis, type TestRedis } from '../support/redis.ts'

const harness = await openHarness()
const { db } = harness.services
const password = 'correct horse battery staple'
let made = 0
const newEmail = () => `Trader${++made}@Example.com`
const signUp = (partner: TestPartner, email = newEmail()) =>
  partner.call(signUpTrader, { body: { email, password, name: 'Ada' } })
const as = (sessionToken: string) => ({ headers: { 'x-trader-session': sessionToken } })

const signing = suite('POST /v1/traders/signup')
const login = suite('POST /v1/traders/login')
const me = suite('GET /v1/traders/me')
const logout = suite('POST /v1/traders/logout')

signing('refuses a body that breaks its limits, naming what is wrong', async () => {
  const partner = await harness.makePartner()
  const good = { email: 'a@b.example', password }
  for (const [path, body] of [
    ['/body/email', { password }],
    ['/body/password', { email: good.email }],
    ['/body/email', { ...good, email: 'a@b' }],
    ['/body/email', { ...good, email: 'not an address' }],
    ['/body/email', { ...good, email: `${'x'.repeat(250)}@b.example` }],
    ['/body/password', { ...good, password: '1234567' }],
    ['/body/password', { ...good, password: 'x'.repeat(257) }],
    ['/body/name', { ...good, name: 'x'.repeat(129) }],
    ['/body/name', { ...good, name: 'a\u0000' }]
  ] as const) {
    const response = await partner.call(signUpTrader, { body })
    assert.is(response.status, 400, JSON.stringify(body))
    assert.ok(
      response.body.details.some((detail: { path: string }) => detail.path === path),
      path
    )
  }
})

signing('refuses an e-mail that has an account, in whatever case, but not one of another partner', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const email = newEmail()
  assert.is((await signUp(partner, email)).status, 200)
  for (const same of [email, email.toUpperCase(), email.toLowerCase()]) {
    const response = await signUp(partner, same)
    assert.is(response.status, 409)
    assert.is(response.body.error, 'EMAIL_TAKEN')
  }
  assert.is((await signUp(other, email)).status, 200)
})

signing('makes one account when the same e-mail comes many times at once', async () => {
  const partner = await harness.makePartner()
  const email = newEmail()
  const responses = await Promise.all(Array.from({ length: 6 }, () => signUp(partner, email)))
  assert.equal(responses.map(({ status }) => status).sort(), [200, 409, 409, 409, 409, 409])
})

signing('returns the trader with its session, in the body and as a cookie', async () => {
  const partner = await harness.makePartner()
  const { headers, body } = await signUp(partner, 'Ada.Example@Example.com')
  assert.is(body.traderExternalId, body.traderId)
  assert.equal([body.email, body.name], ['Ada.Example@Example.com', 'Ada'])
  const cookie = headers.get('set-cookie') ?? ''
  assert.match(cookie, new RegExp(`^trader_session=${body.sessionToken}; Path=/; Expires=.*; HttpOnly; SameSite=Lax$`))
  assert.is(Math.round((Date.parse(body.expiresAt) - Date.now()) / 3_600_000), 12)
})

signing('keeps nothing of password and session but hashes', async () => {
  const { body } = await signUp(await harness.makePartner())
  const [trader, session] = await Promise.all([
    db('traders').where({ id: body.traderId }).first(),
    db('sessions').where({ trader_id: body.traderId }).first()
  ])
  assert.match(trader.password_hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  assert.not(JSON.stringify([trader, session]).includes(body.sessionToken))
})

signing('leaves the e-mail of an exchanged trader to its partner: it may repeat, and be signed up', async () => {
  const partner = await harness.makePartner()
  const email = newEmail()
  for (const traderExternalId of ['one', 'two']) {
    const accounts = [{ accountId: newAccountId(), token: 'sim-token-0001', accountMode: 'DEMO' }]
    assert.is((await partner.call(exchangeTokens, { body: { traderExternalId, email, accounts } })).status, 200)
  }
  assert.is((await signUp(partner, email)).status, 200)
})

signing('makes a trader that is TRADER_NOT_FOUND until its tokens are exchanged under its own id', async () => {
  const partner = await harness.makePartner()
  const { body } = await signUp(partner)
  const { traderExternalId, traderId, sessionToken, email } = body
  const before = await partner.call(listAccounts, { query: { traderExternalId } })
  assert.equal([before.status, before.body.error], [404, 'TRADER_NOT_FOUND'])
  const accounts = [{ accountId: newAccountId(), token: 'sim-token-0001', accountMode: 'DEMO' }]
  const exchange = { traderExternalId, email: 'another@example.com', accounts }
  assert.is((await partner.call(exchangeTokens, { body: exchange })).body.traderId, traderId)
  const after = await partner.call(getTraderMe, as(sessionToken))
  assert.is(after.body.accounts[0].accountId, accounts[0]?.accountId)
  assert.is(after.body.email, email, 'the e-mail it logs in with stays')
})

login('returns the same for a wrong password and an unknown e-mail', async () => {
  const partner = await harness.makePartner()
  const { body } = await signUp(partner)
  const wrong = await partner.call(logInTrader, { body: { email: body.email, password: `${password}!` } })
  const unknown = await partner.call(logInTrader, { body: { email: newEmail(), password } })
  const invalid = await partner.call(logInTrader, { body: { email: '-----', password } })
  for (const response of [wrong, unknown, invalid]) {
    assert.is(response.status, 401)
    assert.is(response.body.error, 'INVALID_CREDENTIALS')
    assert.equal({ ...response.body, requestId: '' }, { ...wrong.body, requestId: '' })
  }
})

login('computes a password hash whether or not the e-mail is known', async () => {
  const partner = await harness.makePartner()
  const cpuMs = async (emails: string[]) => {
    const before = process.cpuUsage()
    for (const email of emails) await partner.call(logInTrader, { body: { email, password: 'wrong password' } })
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1000
  }
  const known = [(await signUp(partner)).body.email, (await signUp(partner)).body.email]
  const rounds = (emails: string[]) => [...emails, ...emails, ...emails, ...emails]
  await cpuMs(known)
  const [ofKnown, ofUnknown] = [await cpuMs(rounds(known)), await cpuMs(rounds([newEmail(), newEmail()]))]
  // Without the hash a login costs a tenth of it; what is compared is the work done, not the clock.
  assert.ok(ofUnknown > ofKnown / 2, `${ofUnknown} ms of work for unknown e-mails, ${ofKnown} ms for known ones`)
})

login('does not know an exchanged trader, nor a trader of another partner', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const { body } = await signUp(other)
  assert.is((await partner.call(logInTrader, { body: { email: body.email, password } })).status, 401)
})

/**
 * Of twenty attempts at once ten are free, one is slowed and three wait behind it; the others are refused, and not even hashed.
 * A busy machine reads the last of them when some of the four are over.
 */
function areSlowed(attempts: { status: number }[], failed: 401 | 409): void {
  const of = (wanted: number) => attempts.filter(({ status }) => status === wanted).length
  const refused = of(429)
  assert.ok(refused >= 1 && refused <= 6, `${refused} refused`)
  assert.equal([attempts.length, of(failed)], [20, 20 - refused])
}

/** The timers for the time of a delay that are set meanwhile in this process, whose api the test calls: their lengths in ms. */
async function delaysOf(run: () => Promise<unknown>): Promise<number[]> {
  const delays = new Set([250, 500, 1000, 2000, 4000, 8000])
  const found: number[] = []
  const hook = createHook({
    init(_id, type, _trigger, resource: { _idleTimeout?: number }) {
      const { _idleTimeout: ms = 0 } = resource
      if (type === 'Timeout' && delays.has(ms)) found.push(ms)
    }
  }).enable()
  await run().finally(() => hook.disable())
  return found
}

login('slows down after ten failures, one attempt at a time, and never locks the right password out', async () => {
  const partner = await harness.makePartner()
  const [{ body: victim }, { body: other }] = [await signUp(partner), await signUp(partner)]
  const guess = (email: string, password: string) => partner.call(logInTrader, { body: { email, password } })
  const guessedAt = performance.now()
  const guesses = await Promise.all(Array.from({ length: 20 }, (_, i) => guess(victim.email, `wrong ${i}`)))
  const guessedMs = performance.now() - guessedAt
  // Four of them one after another, by 250, 500, 1000 and 2000 ms.
  assert.ok(guessedMs > 3700, `${guessedMs} ms`)
  const refused = guesses.filter(({ status }) => status === 429)
  areSlowed(guesses, 401)
  for (const { headers } of refused) assert.match(headers.get('retry-after') ?? '', /^[1-8]$/)
  const slowed = await delaysOf(async () => assert.is((await guess(victim.email.toUpperCase(), password)).status, 200))
  // After 14 failures, or some more.
  assert.ok(slowed.length === 1 && (slowed[0] as number) >= 4000, `${slowed}`)
  const unslowed = await delaysOf(async () => {
    assert.is((await guess(other.email, password)).status, 200)
    assert.is((await guess(victim.email, password)).status, 200)
  })
  assert.equal(unslowed, [], 'a success ends the count')
})

login("spares the address of an end user from others' failures", async () => {
  const partner = await harness.makePartner()
  const { body: victim } = await signUp(partner)
  const guess = (password: string, ip: string) =>
    partner.call(logInTrader, { body: { email: victim.email, password }, headers: { 'x-end-user-ip': ip } })
  const attacker = await Promise.all(Array.from({ length: 20 }, (_, i) => guess(`wrong ${i}`, `2001:db8::${i + 1}`)))
  // Addresses of one network are one.
  areSlowed(attacker, 401)
  // By failures of the e-mail, or of others at the same address, it would be slowed by 8 seconds.
  const ofEmail = createHash('sha256').update(victim.email.toLowerCase()).digest('base64url')
  for (let more = 0; more < 20; more++)
    await harness.services.limits.hit(`login:${partner.partnerId}:${ofEmail}`, 1_000_000, 900)
  const delays = await delaysOf(async () => assert.is((await guess(password, '203.0.113.7')).status, 200))
  assert.equal(delays, [], 'not slowed')
  const invalid = await guess(password, '203.0.113.7, 10.0.0.1')
  assert.equal([invalid.status, invalid.body.details[0].path], [400, '/header/X-End-User-IP'])
})

login('is slowed from every address once its e-mail has failed from many', async () => {
  const partner = await harness.makePartner()
  const { body: victim } = await signUp(partner)
  const ofEmail = createHash('sha256').update(victim.email.toLowerCase()).digest('base64url')
  for (let failures = 0; failures < 103; failures++)
    await harness.services.limits.hit(`login:${partner.partnerId}:${ofEmail}`, 1_000_000, 900)
  const startedAt = performance.now()
  const headers = { 'x-end-user-ip': '203.0.113.8' }
  assert.is((await partner.call(logInTrader, { body: { email: victim.email, password }, headers })).status, 200)
  const tookMs = performance.now() - startedAt
  assert.ok(tookMs > 1900, `${tookMs} ms`)
})

login('of a trader without failures goes on while another of the partner is guessed at 2,500 times', async () => {
  const partner = await harness.makePartner()
  const { body: fine } = await signUp(partner)
  const { limits } = harness.services
  for (let index = 0; index < 2500; index++) await limits.hit(`logins:${partner.partnerId}`, 1_000_000, 900)
  const done: string[] = []
  const logIn = async (name: string, headers = {}) => {
    assert.is((await partner.call(logInTrader, { body: { email: fine.email, password }, headers })).status, 200)
    done.push(name)
  }
  // Without an address it is slowed, and not refused; with an address without failures it is not slowed.
  await Promise.all([logIn('without an address'), logIn('with one', { 'x-end-user-ip': '198.51.100.4' })])
  assert.equal(done, ['with one', 'without an address'])
})

login('takes turns with other partners at hashing', async () => {
  const [busy, other] = [await harness.makePartner(), await harness.makePartner()]
  const { body: trader } = await signUp(other)
  let done = 0
  let over = false
  const statuses = new Set<number>()
  const many = Array.from({ length: 36 }, async () => {
    while (!over) {
      statuses.add((await signUp(busy)).status)
      done += 1
    }
  })
  await until('the others are under way', () => done > 2)
  // Without turns each comes behind what waits. What the database keeps a busy machine waiting for is no matter of turns: then once more.
  await until(
    'a login before most of the others',
    async () => {
      const before = done
      assert.is((await other.call(logInTrader, { body: { email: trader.email, password } })).status, 200)
      return done - before < 20
    },
    FEW_LOOKS_MS
  ).finally(() => {
    over = true
  })
  await Promise.all(many)
  assert.equal(statuses, new Set([200]))
})

login('has a counter for each e-mail and address only as long as its partner has not failed too often', async () => {
  const partner = await harness.makePartner()
  const { limits } = harness.services
  const digest = (text: string) => createHash('sha256').update(text.toLowerCase()).digest('base64url')
  const more = (failures: number) => limits.hit(`logins:${partner.partnerId}`, 1_000_000, 900, failures)
  /** A failed login of another e-mail and address: the counts that it made, and how long it took. */
  const fail = async (ip: string) => {
    const email = newEmail()
    const startedAt = performance.now()
    const headers = { 'x-end-user-ip': ip }
    assert.is((await partner.call(logInTrader, { body: { email, password: 'wrong' }, headers })).status, 401)
    const names = [`login:${partner.partnerId}:${digest(email)}`, `login from:${partner.partnerId}:${digest(ip)}`]
    const counts = await Promise.all(names.map(name => limits.count(name, 1_000_000, 900)))
    return { counts, ms: performance.now() - startedAt }
  }
  assert.equal((await fail('198.51.100.11')).counts, [1, 1])
  await more(2500)
  assert.equal((await fail('198.51.100.12')).counts, [0, 1])
  await more(20_000)
  const { counts, ms } = await fail('198.51.100.13')
  assert.equal(counts, [0, 0])
  assert.ok(ms > 900, `slowed as all are, not spared: ${ms} ms`)
})

login('waits for its hash among at most forty of its partner: more are refused, and nobody else’s', async () => {
  const outcomes = Array.from({ length: 50 }, () => hashPassword('greedy', password).catch((error: unknown) => error))
  const modest = hashPassword('modest', password)
  const refused = (await Promise.all(outcomes)).filter(outcome => outcome instanceof Overloaded)
  // Two are computed at once.
  assert.is(refused.length, 8)
  assert.match(await modest, /^\$argon2id/)
})

signing('of a taken e-mail is refused without hashing, and slowed like a login', async () => {
  const partner = await harness.makePartner()
  const { body } = await signUp(partner)
  const again = await Promise.all(Array.from({ length: 20 }, () => signUp(partner, body.email)))
  areSlowed(again, 409)
})

signing('is refused with a password that everybody uses, in any case', async () => {
  const partner = await harness.makePartner()
  for (const password of ['password1', 'Iloveyou', 'QWERTY123'])
    assert.is(
      (await partner.call(signUpTrader, { body: { email: newEmail(), password } })).body.details[0].path,
      '/body/password'
    )
})

login('counts nothing while the password could not be checked', async () => {
  const partner = await harness.makePartner()
  const { body } = await signUp(partner)
  const attempt = async () => (await partner.call(logInTrader, { body: { email: body.email, password } })).status
  await db.raw('alter table traders rename column password_hash to password_hash_away')
  const statuses: number[] = []
  for (let i = 0; i < 12; i++) statuses.push(await attempt())
  await db.raw('alter table traders rename column password_hash_away to password_hash')
  assert.equal(statuses, Array(12).fill(500))
  assert.is(await attempt(), 200)
})

login('starts counting afresh after a success', async () => {
  const partner = await harness.makePartner()
  const { body } = await signUp(partner)
  const guess = async (tries: number) => {
    const responses = await Promise.all(
      Array.from({ length: tries }, () => partner.call(logInTrader, { body: { email: body.email, password: 'wrong' } }))
    )
    return responses.every(({ status }) => status === 401)
  }
  assert.ok(await guess(9))
  assert.is((await partner.call(logInTrader, { body: { email: body.email, password } })).status, 200)
  assert.ok(await guess(9))
})

const redis = await startRedis()
const counted = redis ? login : login.skip
counted('counts the failures that several processes saw, through Redis', async () => {
  const env = { REDIS_URL: (redis as TestRedis).url }
  const [one, two] = [await openHarness({ url: harness.url, env }), await openHarness({ url: harness.url, env })]
  const partner = await harness.makePartner()
  const { body } = await signUp(partner)
  const guess = async (process: Harness, password: string) => {
    const headers = { authorization: `Bearer ${partner.key}` }
    return (await call(process.address, logInTrader, { headers, body: { email: body.email, password } })).status
  }
  // Where Redis responds late, as on a busy machine, each counts for itself for a moment: then once more.
  await until(
    'a login that is slowed by what the other process counted, too',
    async () => {
      const statuses: number[] = []
      for (let i = 0; i < 5; i++) statuses.push(await guess(one, 'wrong'), await guess(two, 'wrong'))
      assert.equal(statuses, Array(10).fill(401))
      const slow = performance.now()
      assert.is(await guess(two, password), 200)
      return performance.now() - slow > 200
    },
    FEW_LOOKS_MS
  )
})

login('takes the e-mail in any case, and opens a session of its own', async () => {
  const partner = await harness.makePartner()
  const { body: first } = await signUp(partner)
  const { status, body, headers } = await partner.call(logInTrader, {
    body: { email: first.email.toUpperCase(), password }
  })
  assert.is(status, 200)
  assert.equal([body.traderId, body.email], [first.traderId, first.email])
  assert.is.not(body.sessionToken, first.sessionToken)
  assert.ok(headers.get('set-cookie')?.startsWith(`trader_session=${body.sessionToken};`))
  assert.is((await partner.call(getTraderMe, as(first.sessionToken))).status, 200)
  assert.is((await partner.call(getTraderMe, as(body.sessionToken))).status, 200)
})

me("refuses a key without a session, with an unknown, an expired and another partner's one", async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const [{ body: mine }, { body: theirs }] = [await signUp(partner), await signUp(other)]
  await db('sessions').where({ trader_id: mine.traderId }).update({ expires_at: new Date() })
  const { cookie } = await partner.makeSession()
  const tokens = ['', 'x', newToken(), theirs.sessionToken, mine.sessionToken, cookie.split('=')[1] as string]
  for (const row of [getTraderMe, logOutTrader]) {
    assert.is((await partner.call(row)).status, 401)
    for (const token of tokens) {
      const response = await partner.call(row, as(token))
      assert.is(response.status, 401, token)
      assert.is(response.body.error, 'UNAUTHENTICATED')
    }
  }
  assert.is((await other.call(getTraderMe, as(theirs.sessionToken))).status, 200)
})

me('takes the session from the cookie as well, the header first', async () => {
  const partner = await harness.makePartner()
  const [{ body: one }, { body: two }] = [await signUp(partner), await signUp(partner)]
  const cookie = `trader_session=${one.sessionToken}`
  assert.is((await partner.call(getTraderMe, { headers: { cookie } })).body.traderId, one.traderId)
  const both = await partner.call(getTraderMe, { headers: { cookie, 'x-trader-session': two.sessionToken } })
  assert.is(both.body.traderId, two.traderId)
})

me('returns the trader without the token, with its accounts', async () => {
  const partner = await harness.makePartner()
  const { body } = await signUp(partner)
  const { sessionToken, ...rest } = body
  assert.equal((await partner.call(getTraderMe, as(sessionToken))).body, { ...rest, accounts: [] })
})

logout('refuses a cookie that another site makes the browser send, and leaves the session', async () => {
  const partner = await harness.makePartner()
  const { body } = await signUp(partner)
  const cookie = `trader_session=${body.sessionToken}`
  const response = await partner.call(logOutTrader, { headers: { cookie, origin: 'https://evil.example' } })
  assert.equal([response.status, response.body.error], [403, 'CROSS_SITE_REFUSED'])
  assert.is((await partner.call(getTraderMe, { headers: { cookie } })).status, 200)
})

logout('ends this session at once on every process, and no other', async () => {
  const second = await openHarness({ url: harness.url })
  const partner = await harness.makePartner()
  const { body: first } = await signUp(partner)
  const { body: other } = await partner.call(logInTrader, { body: { email: first.email, password } })
  const response = await partner.call(logOutTrader, as(first.sessionToken))
  assert.equal(response.body, { loggedOut: true })
  assert.match(response.headers.get('set-cookie') ?? '', /^trader_session=; Path=\/; Expires=Thu, 01 Jan 1970/)
  const gone = await fetch(`${second.address}/v1/traders/me`, {
    headers: { authorization: `Bearer ${partner.key}`, 'x-trader-session': first.sessionToken }
  })
  assert.is(gone.status, 401)
  assert.is((await partner.call(logOutTrader, as(first.sessionToken))).status, 401)
  assert.is((await partner.call(getTraderMe, as(other.sessionToken))).status, 200)
})

logout.after(closeAll)
signing.run()
login.run()
me.run()
logout.run()

// A trader's credentials after the sign-up: another password, a reset, the end of its sessions, a partner's switch.
import { createHash, randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { Operation } from '../../api/operation.ts'
import {
  changePassword,
  confirmPassword,
  disableTrader,
  enableTrader,
  endSessions,
  resetPassword
} from '../../api/traders/credentials.ts'
import { getTraderMe, logInTrader, logOutTrader, signUpTrader } from '../../api/traders/traders.ts'
import { insertTraderSession, listPartnerSessions } from '../../db/partners/sessions.ts'
import { newToken } from '../../db/platform/crypto.ts'
import { hashPassword } from '../../db/platform/passwords.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { insertReset, replacePassword, setDisabled } from '../../db/traders/credentials.ts'
import { eraseTrader } from '../../db/traders/erasure.ts'
import { closeAll, openHarness, type TestPartner } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'

const harness = await openHarness()
const { db, pepper, vault } = harness.services
const partner = await harness.makePartner()
const old = 'the first password'
const fresh = 'the second password'

/** A trader with two sessions. */
async function makeSignup(of: TestPartner = partner) {
  const email = `${randomUUID()}@example.com`
  const { body: first } = await of.call(signUpTrader, { body: { email, password: old } })
  const { body: second } = await of.call(logInTrader, { body: { email, password: old } })
  return { email, traderId: first.traderId as string, sessions: [first.sessionToken, second.sessionToken] as string[] }
}

const withSession = (token = '') => ({ headers: { 'x-trader-session': token } })
const isLive = async (token = '') => (await partner.call(getTraderMe, withSession(token))).status === 200
const logIn = async (email: string, password: string) =>
  (await partner.call(logInTrader, { body: { email, password } })).status

/** The outcome of `attempt`, which looked at the trader before `change` was committed, and came to write only after it. */
async function outrun<T>(
  traderId: string,
  attempt: () => Promise<T>,
  change: (trx: Db) => Promise<unknown>
): Promise<T> {
  const { attempted } = await db.transaction(async trx => {
    await trx('traders').where({ id: traderId }).forNoKeyUpdate().first('id')
    const attempted = attempt()
    await untilLockWaits(db)
    await change(trx)
    return { attempted }
  })
  return attempted
}

const changing = suite('POST /v1/traders/password')
const resetting = suite('POST /v1/traders/password/reset and confirm')
const ending = suite('POST /v1/traders/sessions/end')
const disabling = suite('POST /v1/traders/{traderId}/disable and enable')

changing('needs the session and the current password, and no common one', async () => {
  const { sessions, email } = await makeSignup()
  const change = (currentPassword: string, newPassword: string, token = sessions[0]) =>
    partner.call(changePassword, { body: { currentPassword, newPassword }, ...withSession(token) })
  assert.is((await change(old, fresh, newToken())).body.error, 'UNAUTHENTICATED')
  assert.is((await change('wrong', fresh)).body.error, 'INVALID_CREDENTIALS')
  assert.is((await change(old, 'password1')).body.details[0].path, '/body/newPassword')
  assert.is(await logIn(email, old), 200)
})

changing('is slowed after ten failures like a login, one attempt at a time', async () => {
  const { sessions, traderId } = await makeSignup()
  const ofTrader = createHash('sha256').update(traderId.toLowerCase()).digest('base64url')
  // By 8 s.
  await harness.services.limits.hit(`password:${partner.partnerId}:${ofTrader}`, 1_000_000, 900, 20)
  const gone = new AbortController()
  const attempts = Array.from({ length: 5 }, () =>
    fetch(`${harness.address}${changePassword.path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${partner.key}`,
        'content-type': 'application/json',
        ...withSession(sessions[0]).headers
      },
      body: JSON.stringify({ currentPassword: 'wrong', newPassword: fresh }),
      signal: gone.signal
    }).then(
      ({ status }) => status,
      () => 'gone'
    )
  )
  assert.is(await Promise.race(attempts), 429)
  gone.abort()
  assert.equal((await Promise.all(attempts)).sort(), [429, 'gone', 'gone', 'gone', 'gone'])
})

changing('takes the new password, and ends all sessions but its own', async () => {
  const { sessions, email, traderId } = await makeSignup()
  const body = { currentPassword: old, newPassword: fresh }
  const { status, body: responseBody } = await partner.call(changePassword, { body, ...withSession(sessions[0]) })
  assert.equal([status, responseBody], [200, { traderId, sessionsEnded: 1 }])
  assert.equal([await isLive(sessions[0]), await isLive(sessions[1])], [true, false])
  assert.equal([await logIn(email, old), await logIn(email, fresh)], [401, 200])
})

changing('does not undo a reset that ended while its passwords were hashed', async () => {
  const { sessions, email, traderId } = await makeSignup()
  const passwordHash = await hashPassword(partner.partnerId, 'the third password')
  const body = { currentPassword: old, newPassword: fresh }
  const { status, body: refused } = await outrun(
    traderId,
    () => partner.call(changePassword, { body, ...withSession(sessions[0]) }),
    trx => replacePassword(trx, { traderId, passwordHash })
  )
  assert.equal([status, refused.error], [401, 'INVALID_CREDENTIALS'])
  assert.equal([await logIn(email, fresh), await logIn(email, 'the third password')], [401, 200])
})

resetting('sets a new password once, ends all sessions, and stores no token', async () => {
  const { sessions, email, traderId } = await makeSignup()
  const { body: reset } = await partner.call(resetPassword, { body: { email: email.toUpperCase() } })
  const [stored] = (await db('password_resets').where({ trader_id: traderId })) as { hash: Buffer }[]
  assert.not.ok(stored?.hash.toString('latin1').includes(reset.resetToken))
  assert.is(await isLive(sessions[0]), true, 'nothing changes before it is confirmed')
  const confirm = () => partner.call(confirmPassword, { body: { resetToken: reset.resetToken, newPassword: fresh } })
  const both = await Promise.all([confirm(), confirm()])
  assert.equal(both.map(({ status }) => status).sort(), [200, 401], 'of two at once one gets it')
  assert.equal([await isLive(sessions[0]), await isLive(sessions[1])], [false, false])
  assert.equal([await logIn(email, old), await logIn(email, fresh)], [401, 200])
  assert.is((await confirm()).body.error, 'INVALID_CREDENTIALS')
})

resetting("is void after an hour, after a later one, after a change, and for another partner's key", async () => {
  const other = await harness.makePartner()
  const { email, traderId, sessions } = await makeSignup()
  const begin = async () => (await partner.call(resetPassword, { body: { email } })).body.resetToken as string
  const confirm = (resetToken: string, of = partner) =>
    of.call(confirmPassword, { body: { resetToken, newPassword: fresh } })
  const [first, second] = [await begin(), await begin()]
  assert.is((await confirm(first)).status, 401)
  assert.is((await confirm(second, other)).status, 401)
  const expire = () =>
    db('password_resets')
      .where({ trader_id: traderId })
      .update({ expires_at: db.raw("now() - interval '1 s'") })
  await expire()
  assert.is((await confirm(second)).status, 401)
  const third = await begin()
  const change = { currentPassword: old, newPassword: 'the third password' }
  await partner.call(changePassword, { body: change, ...withSession(sessions[0]) })
  assert.is((await confirm(third)).status, 401)
  assert.is((await other.call(resetPassword, { body: { email } })).status, 404)
  // One that is begun after another expired has an hour of its own.
  await begin()
  await expire()
  assert.is((await confirm(await begin())).status, 200)
})

resetting('waits for a change of the password at the same time, which voids it', async () => {
  const { email, traderId } = await makeSignup()
  const { body } = await partner.call(resetPassword, { body: { email } })
  const passwordHash = await hashPassword(partner.partnerId, 'the third password')
  const { status } = await outrun(
    traderId,
    () => partner.call(confirmPassword, { body: { resetToken: body.resetToken, newPassword: fresh } }),
    trx => replacePassword(trx, { traderId, passwordHash })
  )
  assert.equal([status, await logIn(email, 'the third password')], [401, 200])
})

resetting('is not begun for a trader who is being erased', async () => {
  const { email, traderId } = await makeSignup()
  const status = await db.transaction(async trx => {
    await eraseTrader(trx, vault, traderId)
    return (await partner.call(resetPassword, { body: { email } })).status
  })
  // One that was looked up before.
  const reset = await insertReset(db, pepper, traderId)
  assert.equal([status, reset, await db('password_resets').where({ trader_id: traderId })], [503, undefined, []])
})

ending('ends all sessions of the trader named, or of the session that comes along', async () => {
  const [one, two] = [await makeSignup(), await makeSignup()]
  const named = await partner.call(endSessions, { body: { traderId: one.traderId } })
  assert.equal(named.body, { traderId: one.traderId, sessionsEnded: 2 })
  const own = await partner.call(endSessions, { body: {}, ...withSession(two.sessions[0]) })
  assert.equal(own.body, { traderId: two.traderId, sessionsEnded: 2 })
  assert.equal([await isLive(one.sessions[1]), await isLive(two.sessions[1])], [false, false])
  assert.is((await partner.call(endSessions, { body: {} })).body.details[0].path, '/body/traderId')
})

ending('comes to the oldest of more than 50, also where several begin at once', async () => {
  const { email, traderId } = await makeSignup()
  const { partnerId } = partner
  for (let i = 0; i < 48; i++) await insertTraderSession(db, pepper, { partnerId, traderId, ttlHours: 1 })
  const holding = await db.transaction()
  await holding('traders').where({ id: traderId }).forNoKeyUpdate().first('id')
  const logins = Promise.all([logIn(email, old), logIn(email, old)])
  await untilLockWaits(db, { count: 2, work: logins }).finally(() => holding.commit())
  assert.equal(await logins, [200, 200])
  assert.is((await db('sessions').where({ trader_id: traderId }).whereNull('revoked_at')).length, 50)
})

ending('logs a trader out who is being erased', async () => {
  const { traderId, sessions } = await makeSignup()
  const erasing = await db.transaction()
  await eraseTrader(erasing, vault, traderId)
  const left = partner.call(logOutTrader, withSession(sessions[0]))
  await untilLockWaits(db, { work: left }).finally(() => erasing.commit())
  assert.equal((await left).body, { loggedOut: true })
})

disabling('ends the sessions and keeps the trader out until it is enabled, whatever the way in', async () => {
  const { email, traderId, sessions } = await makeSignup()
  const path = { params: { traderId } }
  const { body: reset } = await partner.call(resetPassword, { body: { email } })
  const { body: off } = await partner.call(disableTrader, path)
  assert.match(off.disabledAt, /^\d{4}-/)
  assert.equal((await partner.call(disableTrader, path)).body, off, 'repeating it changes nothing')
  assert.is(await isLive(sessions[0]), false)
  await partner.call(confirmPassword, { body: { resetToken: reset.resetToken, newPassword: fresh } })
  assert.equal([await logIn(email, old), await logIn(email, fresh)], [401, 401])
  assert.equal((await partner.call(enableTrader, path)).body, { traderId, disabledAt: null })
  assert.is(await logIn(email, fresh), 200)
})

for (const [what, change] of [
  [
    'a reset',
    async (trx: Db, traderId: string) =>
      replacePassword(trx, { traderId, passwordHash: await hashPassword(partner.partnerId, fresh) })
  ],
  ['it', (trx: Db, traderId: string) => setDisabled(trx, { partnerId: partner.partnerId, traderId, disabled: true })]
] as const)
  disabling(`or ${what} is not outrun by a login that began before`, async () => {
    const { email, traderId } = await makeSignup()
    const { status, body } = await outrun(
      traderId,
      () => partner.call(logInTrader, { body: { email, password: old } }),
      trx => change(trx, traderId)
    )
    assert.equal([status, body.error], [401, 'INVALID_CREDENTIALS'])
    const listed = await listPartnerSessions(db, partner.partnerId)
    assert.equal(
      listed.filter(session => session.traderId === traderId && !session.revokedAt),
      []
    )
  })

disabling("is 404 for another partner's trader, as is ending its sessions", async () => {
  const other = await harness.makePartner()
  const { traderId, sessions } = await makeSignup()
  const rows: [Operation, object][] = [
    [disableTrader, { params: { traderId } }],
    [enableTrader, { params: { traderId } }],
    [endSessions, { body: { traderId } }]
  ]
  for (const [row, input] of rows) assert.is((await other.call(row, input)).status, 404, row.name)
  assert.is(await isLive(sessions[0]), true)
})

disabling('leaves a trader at most 50 sessions, and the operator sees them', async () => {
  const of = await harness.makePartner()
  const { email, traderId } = await makeSignup(of)
  for (let index = 0; index < 52; index++) await of.call(logInTrader, { body: { email, password: old } })
  const listed = await listPartnerSessions(db, of.partnerId)
  assert.is(listed.filter(session => session.traderId === traderId && !session.revokedAt).length, 50)
})

disabling.after(closeAll)
for (const one of [changing, resetting, ending, disabling]) one.run()

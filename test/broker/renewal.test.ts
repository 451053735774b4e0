// Tokens that expire: renewed ahead of their end, once for all workers; an account that cannot be renewed is rejected for it.
// test in the full run only
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { activateAccount, exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { up as resumeRenewals } from '../../db/migrations/0157_renewals_resumed.ts'
import { getPartner } from '../../db/partners/partners.ts'
import { openVault } from '../../db/platform/crypto.ts'
import { countSealed } from '../../db/platform/token-rotation.ts'
import { rows } from '../../db/postgres/connection.ts'
import { saveRenewed, takeRenewals } from '../../db/traders/token-renewal.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { Renewals } from '../../worker/accounts/renewal.ts'
import { renewToken } from '../../worker/broker/dialects/next-tokens.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker, startWorker, type TestProcess } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 20, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator, 'next'), SWEEP_MS: '100' } })
const { db, vault } = harness.services
const partner = await harness.makePartner()
// Two of them: a refresh token is good once, and each would use it.
const workers = await Promise.all([startTestWorker(harness.env), startTestWorker(harness.env)])

const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString()
const endsIn = (accountId: string, seconds: number) => `sim-${accountId}-x${Math.floor(Date.now() / 1000) + seconds}`

/** Exchanges accounts of one user, which share a token. */
async function exchange(
  accountIds: string[],
  { seconds = 30, refreshToken = `simrefresh-${accountIds[0]}` as string | null, as = partner as TestPartner } = {}
) {
  const token = endsIn(accountIds[0]!, seconds)
  const traderExternalId = `renewed-${accountIds[0]}`
  const terms = { accountMode: 'DEMO', currency: 'USD', tokenExpiresAt: inSeconds(seconds), token }
  const accounts = accountIds.map(accountId => ({ accountId, ...terms, ...(refreshToken ? { refreshToken } : {}) }))
  const { status, body } = await as.call(exchangeTokens, { body: { traderExternalId, accounts } })
  assert.is(status, 200, JSON.stringify(body))
  return traderExternalId
}

const accountsOf = async (traderExternalId: string) =>
  (await partner.call(listAccounts, { query: { traderExternalId } })).body.data

interface RenewalRow {
  token_version: number
  ends: number | null
  refresh_digest: string | null
}
const rowOf = async (accountId: string) => {
  const [row] = await rows<RenewalRow>(
    db,
    `select token_version, refresh_digest, extract(epoch from token_expires_at - now())::float8 as ends
       from broker_accounts where account_id = :accountId`,
    { accountId }
  )
  return row as RenewalRow
}

const renewal = suite('a token that expires')

/** Exchanges an account whose token ends at `tokenExpiresAt`, as it is written. */
const exchangeUntil = (tokenExpiresAt: string, accountId = 'VRTC1') => {
  const accounts = [{ accountId, token: `sim-${accountId}-x1`, accountMode: 'DEMO', tokenExpiresAt }]
  return partner.call(exchangeTokens, { body: { traderExternalId: 'x', accounts } })
}

renewal('is refused with an end that is no time', async () => {
  // The format of the schema allows all but the first; PostgreSQL has no such zone and no such year.
  for (const end of ['soon', '2026-11-21T08:00:00+24:30', '0000-01-01T00:00:00Z', '2026-12-31T23:59:60Z']) {
    const { status, body } = await exchangeUntil(end)
    assert.equal(
      [status, body.error, body.details?.[0].path],
      [400, 'VALIDATION_FAILED', '/body/accounts/0/tokenExpiresAt'],
      end
    )
  }
})

renewal('may have its end written in any form of the format', async () => {
  const accountId = newAccountId()
  const meant = new Date('2126-11-21T08:00:00Z')
  for (const end of [
    '2126-11-21T08:00:00Z',
    '2126-11-21 08:00:00z',
    '2126-11-21T13:30:00+0530',
    '2126-11-21T03:00:00-05',
    '2126-11-22T07:59:00+23:59',
    `2126-11-21T08:00:00.${'0'.repeat(200)}Z`
  ]) {
    const { status, body } = await exchangeUntil(end, accountId)
    assert.is(status, 200, `${end} ${JSON.stringify(body)}`)
    const stored = await db('broker_accounts').where({ account_id: accountId }).first('token_expires_at')
    assert.equal(stored?.token_expires_at, meant, end)
  }
})

renewal(
  'is renewed ahead of its end, once for all workers and all accounts under it, and again after that',
  async () => {
    const accountId = newAccountId()
    // The same user's other account: users go by the number in their ids.
    const other = `DOT${accountId.slice('VRTC'.length)}`
    const before = simulator.oauth.requests
    simulator.oauth.tokenSeconds = 6
    const traderExternalId = await exchange([accountId, other], { seconds: 6 })
    assert.is((await partner.call(getBalance, { query: { traderExternalId } })).status, 200)
    await until('the second renewal', async () => (await rowOf(accountId)).token_version >= 3)
    simulator.oauth.tokenSeconds = 3_600
    const version = (await rowOf(accountId)).token_version
    await until('a longer token', async () => ((await rowOf(accountId)).ends ?? 0) > 3_000)
    const [one, two] = [await rowOf(accountId), await rowOf(other)]
    assert.is(two.token_version, one.token_version)
    assert.is(two.refresh_digest, one.refresh_digest)
    assert.ok(one.token_version > version || version > 3)
    assert.is(simulator.oauth.requests - before, one.token_version - 1, 'refresh tokens used')
    // A new connection needs the new token: the first one has ended.
    simulator.next.front.cutAll(accountId)
    const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
    assert.is(status, 200, JSON.stringify(body))
    assert.equal(
      (await accountsOf(traderExternalId)).map((each: { status: string }) => each.status),
      ['CONNECTED', 'CONNECTED']
    )
  }
)

renewal(
  'is renewed under the application that it was issued to, also where its partner has changed that or left the dialect',
  async () => {
    const [moving, leaving, wrong] = [
      await harness.makePartner(),
      await harness.makePartner(),
      await harness.makePartner()
    ]
    const issued = async (as: TestPartner, client: string) => {
      const accountId = newAccountId()
      simulator.oauth.clients.set(accountId, client)
      // Not due before the operator's command.
      await exchange([accountId], { seconds: 3_600, as })
      return accountId
    }
    const { brokerAppId: first } = await getPartner(db, moving.partnerId)
    const moved = await issued(moving, first)
    const [held, idle] = [await issued(leaving, first), await issued(leaving, first)]
    // Here the operator corrects an id that no application has: the tokens are of the right one.
    const mistaken = await issued(wrong, 'app-right')
    const setBroker = (of: TestPartner, dialect: string, appId: string) =>
      operator(harness.env, 'partners', 'set-broker', of.partnerId, '--dialect', dialect, '--broker-app-id', appId)
    for (const [of, dialect, appId] of [
      [moving, 'next', 'app-other'],
      [leaving, 'v3', '77'],
      [wrong, 'next', 'app-right']
    ] as const)
      assert.is((await setBroker(of, dialect, appId)).exitCode, 0)
    const trader = await db('broker_accounts').where({ account_id: held }).first('trader_id')
    const open = { traderExternalId: `renewed-${held}`, traderId: trader.trader_id, accountId: held }
    await insertOrderRows(db, open, { phase: 'open', kind: 'MULTIPLIER' })
    await db('orders').where({ account_id: held }).update({ dialect: 'next', app_id: first })
    // In v3, where its partner is now.
    const refused = { status: 'REJECTED', rejected_reason: 'TOKEN_REFUSED', token_expires_at: null }
    await db('broker_accounts').where({ account_id: held }).update(refused)
    const all = [moved, held, idle, mistaken]
    await db('broker_accounts').whereIn('account_id', all).update({ renew_at: db.fn.now() })
    for (const accountId of [moved, held, mistaken])
      await until(`the renewal of ${accountId}`, async () => (await rowOf(accountId)).token_version === 2)
    assert.is((await db('broker_accounts').where({ account_id: held }).first()).status, 'REJECTED')
    // Nothing is done with it in the dialect that its partner has left.
    assert.is((await rowOf(idle)).token_version, 1)
  }
)

renewal('counts as of the same user as before where a user may have only so many connections', async () => {
  const user = newAccountId().slice('VRTC'.length)
  const [first = '', ...others] = ['VRTC', 'DOT', 'VRC', 'VR', 'VRA', 'VRB'].map(prefix => `${prefix}${user}`)
  for (const loginid of [first, ...others]) simulator.engine.accounts.create({ loginid })
  const traderExternalId = await exchange([first, ...others])
  const readBalance = async (accountId: string) => {
    await partner.call(activateAccount, { body: { traderExternalId, accountId } })
    assert.is((await partner.call(getBalance, { query: { traderExternalId } })).status, 200, accountId)
  }
  const isOfUser = (loginid: string) => loginid.endsWith(user)
  const count = () =>
    [...simulator.next.front.connections].filter(({ grants }) => [...grants.keys()].some(isOfUser)).length
  for (const accountId of [first, ...others].slice(0, 4)) await readBalance(accountId)
  assert.is(count(), 4)
  const { token_version: version } = await rowOf(first)
  await rows(db, 'update broker_accounts set renew_at = now() where account_id = :first', { first })
  await until('the renewal', async () => (await rowOf(first)).token_version > version)
  for (const accountId of others.slice(-2)) await readBalance(accountId)
  await until('the others to be closed', () => count() === 4)
})

renewal('without an end is renewed at once, which gives it one', async () => {
  const accountId = newAccountId()
  const accounts = [
    { accountId, token: `sim-${accountId}`, refreshToken: `simrefresh-${accountId}`, accountMode: 'DEMO' }
  ]
  await partner.call(exchangeTokens, { body: { traderExternalId: `open-${accountId}`, accounts } })
  await until('the renewal', async () => ((await rowOf(accountId)).ends ?? 0) > 3_000)
  assert.is((await rowOf(accountId)).token_version, 2)
})

renewal('is renewed again and again where the broker states no life of those that it issues', async () => {
  const accountId = newAccountId()
  simulator.oauth.statesLife = false
  await exchange([accountId], { seconds: 3 })
  await until('the renewal', async () => (await rowOf(accountId)).token_version === 2)
  const [row] = await rows<{ within: boolean; ends: Date | null }>(
    db,
    `select renew_at between now() + interval '30 minutes' and now() + interval '55 minutes' as within, token_expires_at as ends
       from broker_accounts where account_id = :accountId`,
    { accountId }
  )
  assert.equal(row, { within: true, ends: null })
  await rows(db, 'update broker_accounts set renew_at = now() where account_id = :accountId', { accountId })
  await until('the next renewal', async () => (await rowOf(accountId)).token_version === 3)
  simulator.oauth.statesLife = true
})

renewal('connects an account again whose token ended sooner than it was renewed, its life being unknown', async () => {
  const accountId = newAccountId()
  Object.assign(simulator.oauth, { statesLife: false, tokenSeconds: 1 })
  const traderExternalId = await exchange([accountId], { seconds: 2 })
  await until('the renewal', async () => (await rowOf(accountId)).token_version === 2)
  const account = await until('its refusal', async () => {
    simulator.next.front.cutAll(accountId)
    await partner.call(getBalance, { query: { traderExternalId } })
    const [found] = await accountsOf(traderExternalId)
    return found.status === 'REJECTED' && found
  })
  assert.is(account.reason, 'TOKEN_REFUSED')
  simulator.oauth.tokenSeconds = 3_600
  await rows(db, 'update broker_accounts set renew_at = now() where account_id = :accountId', { accountId })
  await until('the next renewal', async () => (await rowOf(accountId)).token_version === 3)
  simulator.oauth.statesLife = true
  const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
  assert.is(status, 200, JSON.stringify(body))
})

renewal('is renewed again where a version renewed it no more, since the broker had not stated its life', async () => {
  const accountId = newAccountId()
  simulator.oauth.statesLife = false
  await exchange([accountId], { seconds: 3 })
  await until('the renewal', async () => (await rowOf(accountId)).token_version === 2)
  await db.raw('alter table broker_accounts disable trigger keep_renewal')
  await rows(db, 'update broker_accounts set renew_at = null where account_id = :accountId', { accountId })
  await db.raw('alter table broker_accounts enable trigger keep_renewal')
  await resumeRenewals(db)
  const due = await db('broker_accounts').whereNotNull('renew_at').where({ account_id: accountId })
  assert.is(due.length, 1)
  await rows(db, 'update broker_accounts set renew_at = now() where account_id = :accountId', { accountId })
  await until('the next renewal', async () => (await rowOf(accountId)).token_version === 3)
  simulator.oauth.statesLife = true
})

renewal(
  'is renewed again also after a worker of the version that notes no next renewal, beside or before this one',
  async () => {
    const accountId = newAccountId()
    simulator.oauth.statesLife = false
    await exchange([accountId], { seconds: 3 })
    await until('the renewal', async () => (await rowOf(accountId)).token_version === 2)
    // As that version stores a renewed token.
    await rows(
      db,
      `update broker_accounts set token_version = token_version + 1, renewal_version = token_version + 1,
            token_expires_at = now() + make_interval(secs => null), renew_at = null, renewing_until = null where account_id = :accountId`,
      { accountId }
    )
    const inAnHour = await db('broker_accounts')
      .where({ account_id: accountId })
      .whereRaw(`renew_at between now() + interval '40 minutes' and now() + interval '1 hour'`)
    assert.is(inAnHour.length, 1)
    await rows(db, 'update broker_accounts set renew_at = now() where account_id = :accountId', { accountId })
    await until('the next renewal', async () => (await rowOf(accountId)).token_version === 4)
    simulator.oauth.statesLife = true
  }
)

renewal('rejects its account at its end where the broker renews it no more, or nothing renews it', async () => {
  const refused = newAccountId()
  simulator.oauth.revoke(`simrefresh-${refused}`)
  const plain = newAccountId()
  const traders = [
    await exchange([refused], { seconds: 3 }),
    await exchange([plain], { seconds: 3, refreshToken: null })
  ]
  for (const traderExternalId of traders) {
    const account = await until('the rejection', async () => {
      const [found] = await accountsOf(traderExternalId)
      return found.status === 'REJECTED' && found
    })
    assert.is(account.reason, 'TOKEN_EXPIRED')
    const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
    assert.equal([status, body.error], [404, 'BROKER_DISCONNECTED'])
    assert.match(body.message, 'TOKEN_EXPIRED')
  }
  // A new exchange connects it again.
  await exchange([plain], { seconds: 3_600, refreshToken: null })
  const [again] = await accountsOf(traders[1]!)
  assert.equal([again.status, again.reason], ['CONNECTED', undefined])
})

renewal(
  'is tried again while the broker cannot renew it, past its end too, and connects its account then',
  async () => {
    const accountId = newAccountId()
    simulator.oauth.failing = 503
    const traderExternalId = await exchange([accountId], { seconds: 2 })
    const before = simulator.oauth.requests
    await until('a failed renewal', async () => simulator.oauth.requests > before)
    const hurry = () =>
      rows(db, 'update broker_accounts set renew_at = now() where account_id = :accountId', { accountId })
    await until('the rejection', async () => {
      await hurry()
      return (await accountsOf(traderExternalId))[0].reason === 'TOKEN_EXPIRED'
    })
    simulator.oauth.failing = null
    await until('the connection', async () => {
      await hurry()
      return (await accountsOf(traderExternalId))[0].status === 'CONNECTED'
    })
    assert.is((await partner.call(getBalance, { query: { traderExternalId } })).status, 200)
  }
)

renewal('that was exchanged meanwhile stays as it was exchanged', async () => {
  const accountId = newAccountId()
  const v3 = await harness.makePartner()
  // Nobody renews for a partner that uses v3; only this test takes it.
  await db('partners').where({ id: v3.partnerId }).update({ broker_dialect: 'v3' })
  await exchange([accountId], { seconds: -1, as: v3 })
  // In one transaction: no worker sees that it is due before it is taken.
  const { due } = await db.transaction(async trx => {
    await trx('partners').where({ id: v3.partnerId }).update({ broker_dialect: 'next' })
    return takeRenewals(trx, vault, 10)
  })
  const taken = due.find(({ accounts }) => accounts.some(each => each.accountId === accountId))
  assert.ok(taken)
  assert.equal(
    (await takeRenewals(db, vault, 10)).due.filter(each => each.refreshToken === taken.refreshToken),
    []
  )
  await exchange([accountId], { seconds: 3_600, as: v3 })
  const renewed = { token: 'sim-VRTC1-late', refreshToken: null, expiresInSeconds: 60 }
  assert.is(await saveRenewed(db, vault, taken, renewed), 0)
  assert.is((await rowOf(accountId)).token_version, 2)
})

renewal('is renewed although what renews another one cannot be decrypted', async () => {
  // No worker: this test takes what is due.
  const { services, makePartner } = await openHarness({ env: brokerEnv(simulator, 'next') })
  const own = await makePartner()
  const ids = [newAccountId(), newAccountId(), newAccountId()]
  for (const id of ids) await exchange([id], { seconds: 3_600, as: own })
  for (const [place, account_id] of ids.entries())
    await services
      .db('broker_accounts')
      .where({ account_id })
      .update({
        renew_at: services.db.raw(`now() - ? * interval '1 second'`, [10 - place]),
        ...(place === 1 ? { refresh_sealed: Buffer.alloc(40) } : {})
      })
  const { due, unreadable } = await takeRenewals(services.db, services.vault, 10)
  assert.equal(
    due.flatMap(({ accounts }) => accounts.map(({ accountId }) => accountId)),
    [ids[0], ids[2]]
  )
  assert.is(unreadable.length, 1)
  const { renewing_until, renew_at } = await services.db('broker_accounts').where({ account_id: ids[1] }).first()
  assert.ok(renewing_until === null && renew_at > new Date())
})

renewal('is renewed without a pause among many that are due, also where several accounts share each', async () => {
  // No worker: this test takes what is due.
  const { env, services, makePartner } = await openHarness({ env: brokerEnv(simulator, 'next') })
  const own = await makePartner()
  for (let count = 0; count < 8; count++) {
    const accountId = newAccountId()
    await exchange([accountId, `DOT${accountId.slice('VRTC'.length)}`], { seconds: 3_600, as: own })
  }
  await services.db.raw(`update broker_accounts set renew_at = now() - interval '1 minute' where partner_id = ?`, [
    own.partnerId
  ])
  const renewals = new Renewals({ ...services, config: readConfig(env), clock: systemClock })
  while (await renewals.round());
  const versions = await services.db('broker_accounts').where({ partner_id: own.partnerId }).pluck('token_version')
  assert.equal(versions, Array(16).fill(2))
})

/** Leads renewals to the simulated broker; `between` runs when it has renewed a token, before the response. */
async function openBetween(between: () => unknown): Promise<string> {
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const { url, headers } = request
    const renewed = await fetch(`${simulator.nextUrl}${url}`, {
      method: 'POST',
      headers: { 'content-type': String(headers['content-type']) },
      body
    })
    await between()
    response.writeHead(renewed.status, { 'content-type': 'application/json' }).end(await renewed.text())
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onClose(async () => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

renewal('has the life that the broker states, where that is one', async () => {
  let stated: unknown
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ access_token: 'a-token-of-the-broker', expires_in: stated }))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onClose(async () => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const lives: (number | null)[] = []
  for (stated of [undefined, null, 'soon', '', -5, 0, 0.5, 1, '900', 3600.9, 1e12])
    lives.push((await renewToken(url, { clientId: 'app', refreshToken: 'refresh' })).expiresInSeconds)
  assert.equal(lives, [null, null, null, null, null, null, null, 1, 900, 3600, null])
})

renewal('is stored once the database takes it again, where all tries to store it failed', async () => {
  const { env, services, makePartner } = await openHarness({ env: brokerEnv(simulator, 'next') })
  const { db } = services
  const accountId = newAccountId()
  await exchange([accountId], { seconds: 1, as: await makePartner() })
  let requests = 0
  const failing = await openBetween(() => {
    requests += 1
    return db.raw('alter table broker_accounts rename to broker_accounts_away')
  })
  // No pause between the tries to store it.
  const clock = { ...systemClock, after: (_ms: number, then: () => void) => systemClock.after(0, then) }
  const config = readConfig({ ...env, BROKER_NEXT_AUTH_URL: failing })
  const renewals = new Renewals({ ...services, config, clock })
  await until('the token to be due', async () => {
    const [failed] = await Promise.allSettled([renewals.round()])
    return failed.status === 'rejected'
  })
  await db.raw('alter table broker_accounts_away rename to broker_accounts')
  const stored = () => db('broker_accounts').where({ account_id: accountId }).first()
  assert.equal([requests, (await stored()).token_version], [1, 1])
  await renewals.round()
  const { token_version: version, status, renewing_until: until_ } = await stored()
  assert.equal([requests, version, status, until_], [1, 2, 'CONNECTED', null])
})

renewal('that was lost with its worker is named, and its account is connected until its token ends', async () => {
  const { env, services, makePartner } = await openHarness({ env: brokerEnv(simulator, 'next') })
  const owner = await makePartner()
  const accountId = newAccountId()
  const killing = await openBetween(() => first?.kill('SIGKILL'))
  const first: TestProcess | undefined = await startWorker({ ...env, BROKER_NEXT_AUTH_URL: killing, SWEEP_MS: '100' })
  await exchange([accountId], { seconds: 1000, as: owner })
  const change = (columns: object) => services.db('broker_accounts').where({ account_id: accountId }).update(columns)
  await change({ renew_at: new Date() })
  await first.ended
  await change({ renewing_until: new Date(Date.now() - 1000) })
  const second = await startWorker({ ...env, SWEEP_MS: '100' })
  await second.line(/exchange the accounts again before their token ends/)
  const row = await until('its outcome', async () => {
    const found = await services.db('broker_accounts').where({ account_id: accountId }).first()
    return found.refresh_digest === null && found
  })
  assert.equal([row.status, row.token_version, row.renew_at], ['CONNECTED', 1, row.token_expires_at])
  await change({ token_expires_at: new Date(), renew_at: new Date() })
  await until('the rejection', async () => {
    const { status, rejected_reason: reason } = await services
      .db('broker_accounts')
      .where({ account_id: accountId })
      .first()
    return status === 'REJECTED' && reason === 'TOKEN_EXPIRED'
  })
})

renewal('is sealed again with what renews it when the key changes', async () => {
  const accountId = newAccountId()
  await exchange([accountId], { seconds: 3_600 })
  // They would take it first.
  await Promise.all(workers.map(({ stop }) => stop()))
  const before = (await countSealed(db)).find(({ keyId }) => keyId === 't1')!
  assert.ok(before.refreshes > 0 && before.accounts > 0)
  const TOKEN_KEYS = `t9:${Buffer.alloc(32, 9).toString('base64')},${harness.env.TOKEN_KEYS}`
  const ran = await operator({ ...harness.env, TOKEN_KEYS }, 'tokens', 'rotate', '--json')
  assert.is(ran.exitCode, 0, ran.stderr)
  assert.equal(
    (await countSealed(db)).map(({ keyId }) => keyId),
    ['t9']
  )
  await rows(db, 'update broker_accounts set renew_at = now() where account_id = :accountId', { accountId })
  const newer = openVault(TOKEN_KEYS)
  const { due } = await takeRenewals(db, newer, 100)
  assert.ok(due.some(({ refreshToken }) => refreshToken === `simrefresh-${accountId}`))
})

renewal.after(closeAll)
renewal.run()

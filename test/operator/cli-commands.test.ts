// test time-out: 300 s
// What the operator's commands do: the document of each with --json, what it changes, and who is said to have
// done it. Real processes against a real database and, for standings, the API over HTTP.
import { once } from 'node:events'
import { userInfo } from 'node:os'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { operations } from '../../api/operations.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { accounts, move, transfer } from '../../db/money/ledger.ts'
import { setBroker } from '../../db/partners/partners.ts'
import { openVault } from '../../db/platform/crypto.ts'
import { findSealedToken, unsealToken } from '../../db/traders/accounts.ts'
import { addUpTraderDays } from '../../db/traders/days.ts'
import { defaultScopes } from '../../schemas/fields/scopes.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { call, closeAll, newAccountId, onClose, openHarness, TOKEN_KEYS, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startApi, startProcess, startTestWorker } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const { services, env, url, address, makePartner } = await openHarness({ env: { BROKER_URL: simulator.url } })
const worker = await startTestWorker(env)
const run = (...args: string[]) => operator(env, ...args, '--json')
const actor = `cli:${userInfo().username}`

/** Runs a command that must succeed, and returns its document. */
async function document(...args: string[]) {
  const ran = await run(...args)
  assert.is(ran.exitCode, 0, ran.stderr)
  return ran.json
}

const me = (key: string) => call(address, getMe, { headers: { authorization: `Bearer ${key}` } })

const partners = suite('operator partners')

partners('create returns the partner, list and show find it', async () => {
  const created = await document(
    'partners',
    'create',
    '--name',
    'Acme Markets',
    '--plan',
    'PRO',
    '--broker-app-id',
    '77'
  )
  assert.match(created.partnerId, /^ptn_[0-9a-z]{26}$/)
  assert.is(created.saasStatus, 'ACTIVE')
  const [listed, shown] = await Promise.all([
    document('partners', 'list'),
    document('partners', 'show', created.partnerId)
  ])
  assert.ok(listed.data.some((partner: { partnerId: string }) => partner.partnerId === created.partnerId))
  assert.equal(
    [shown.name, shown.plan, shown.brokerAppId, shown.brokerDialect, shown.tradersCount],
    ['Acme Markets', 'PRO', '77', 'v3', 0]
  )
})

partners('create wants an application id of the form its dialect has', async () => {
  const create = (...options: string[]) => run('partners', 'create', '--name', 'Acme', ...options)
  const missing = await create('--broker-dialect', 'next')
  assert.is(missing.exitCode, 1)
  assert.match(missing.stderr, '--broker-app-id is required in next')
  const older = await create('--broker-dialect', 'next', '--broker-app-id', '1')
  assert.is(older.exitCode, 1)
  assert.match(older.stderr, "which is not a number in next, not '1'")
  const newer = await create('--broker-dialect', 'v3', '--broker-app-id', 'app-7Q2')
  assert.is(newer.exitCode, 1)
  assert.match(newer.stderr, "must be a number in v3, not 'app-7Q2'")
  const created = await document(...'partners create --name B --broker-dialect next --broker-app-id app-7Q2'.split(' '))
  assert.equal([created.brokerAppId, created.brokerDialect], ['app-7Q2', 'next'])
  assert.is((await document('partners', 'create', '--name', 'C')).brokerAppId, '1')
  const kept = await run('partners', 'set-broker', created.partnerId, '--dialect', 'v3')
  assert.is(kept.exitCode, 1)
  assert.match(kept.stderr, '--broker-app-id is required in v3')
})

partners(
  'set-broker judges the application that a change before it has left, not the one that it first read',
  async () => {
    const { partnerId } = await makePartner()
    const earlier = await services.db.transaction()
    await setBroker(earlier, partnerId, { dialect: 'next', appId: 'app-7Q2' })
    const later = run('partners', 'set-broker', partnerId, '--dialect', 'v3')
    await untilLockWaits(services.db)
    await earlier.commit()
    assert.match((await later).stderr, '--broker-app-id is required in v3')
    const { brokerDialect, brokerAppId } = await document('partners', 'show', partnerId)
    assert.equal([brokerDialect, brokerAppId], ['next', 'app-7Q2'])
  }
)

partners('suspend stops the next request, resume lets it through, and both are in the audit log', async () => {
  const { partnerId, key } = await makePartner()
  assert.is((await me(key)).status, 200)
  const suspended = await document('partners', 'suspend', partnerId, '--reason', 'unpaid invoice', '--yes')
  assert.is(suspended.saasStatus, 'SUSPENDED')
  const refused = await me(key)
  assert.is(refused.status, 403)
  assert.is(refused.body.error, 'PARTNER_SUSPENDED')
  const again = await run('partners', 'suspend', partnerId, '--reason', 'twice', '--yes')
  assert.is(again.exitCode, 1)
  assert.match(again.stderr, /^CONFLICT: /)
  assert.is((await document('partners', 'resume', partnerId)).saasStatus, 'ACTIVE')
  assert.is((await me(key)).status, 200)

  const { data, nextCursor } = await document('audit', 'list', '--target', partnerId)
  assert.equal(
    data.map((line: { action: string }) => line.action),
    ['partners.resume', 'partners.suspend']
  )
  assert.is(nextCursor, null)
  assert.is(data[1].actor, actor)
  assert.equal(data[1].details, { reason: 'unpaid invoice' })
  assert.ok(Date.now() - Date.parse(data[1].at) < 60_000)
})

partners('set-plan shows in what the partner sees of itself', async () => {
  const { partnerId, key } = await makePartner({ plan: 'LAUNCH' })
  const changed = await document('partners', 'set-plan', partnerId, 'SCALE', '--yes')
  assert.equal([changed.plan, changed.takesEffect, changed.chargedUsd], ['SCALE', 'NOW', 0])
  assert.is((await me(key)).body.plan, 'SCALE')
})

partners('set-plan shows what a change costs, and from when, before it changes anything', async () => {
  const { partnerId, key } = await makePartner({ plan: 'LAUNCH' })
  // A month of LAUNCH that is paid, a third of it over.
  const day = 86_400_000
  const [start, end] = [new Date(Date.now() - 10 * day), new Date(Date.now() + 20 * day)]
  await services.db('partners').where({ id: partnerId }).update({ period_start: start, period_end: end })
  await document('wallet', 'topup', '--partner', partnerId, '--amount', '1000')
  const reference = `fee:${partnerId}:${start.toISOString()}`
  const fee = { reference, kind: 'plan_fee' as const, details: {} }
  await transfer(services.db, { ...fee, entries: move(accounts.wallet(partnerId), accounts.fees, '49') })
  const prompted = await run('partners', 'set-plan', partnerId, 'PRO')
  assert.is(prompted.exitCode, 1)
  assert.match(prompted.stderr, /LAUNCH becomes PRO at once: (100|99\.99) USD now for the time until then, and from /)
  assert.match(prompted.stderr, `from ${end.toISOString()} on 199 USD a month. Change the plan of ${partnerId}?`)
  assert.is((await me(key)).body.plan, 'LAUNCH')
  const changed = await document('partners', 'set-plan', partnerId, 'PRO', '--yes')
  assert.ok([100, 99.99].includes(changed.chargedUsd), String(changed.chargedUsd))
  const back = await run('partners', 'set-plan', partnerId, 'LAUNCH')
  assert.match(back.stderr, `PRO stays until ${end.toISOString()}, which is paid; then LAUNCH for 49 USD a month.`)
  await document('partners', 'suspend', partnerId, '--reason', 'unpaid invoice', '--yes')
  const suspended = await run('partners', 'set-plan', partnerId, 'SCALE')
  assert.match(
    suspended.stderr,
    `PRO stays until ${end.toISOString()} and as much longer as the suspension lasts, which`
  )
})

partners('set-plan to a cheaper plan leaves a period that began before at the price it had', async () => {
  const { partnerId } = await makePartner({ plan: 'PRO' })
  await document('wallet', 'topup', '--partner', partnerId, '--amount', '1000')
  // It began two days ago, and no check has charged it yet.
  const end = new Date(Date.now() - 2 * 86_400_000)
  const start = new Date(end.getTime() - 30 * 86_400_000)
  await services
    .db('partners')
    .where({ id: partnerId })
    .update({ period_start: start, period_end: end, billing_anchor: start })
  const changed = await document('partners', 'set-plan', partnerId, 'LAUNCH', '--yes')
  assert.equal([changed.plan, changed.nextPlan, changed.takesEffect], ['PRO', 'LAUNCH', 'AT_PERIOD_END'])
  const { balanceUsd } = await document('wallet', 'show', '--partner', partnerId)
  assert.is(balanceUsd, 801)
})

const keys = suite('operator keys')

keys('issue returns a key that works, with every scope but admin', async () => {
  const { partnerId } = await makePartner()
  const issued = await document('keys', 'issue', '--partner', partnerId, '--label', 'production')
  assert.match(issued.key, /^service_live_[0-9a-f]{16}_[0-9a-f]{48}$/)
  assert.equal(issued.scopes, defaultScopes)
  const { status, body } = await me(issued.key)
  assert.is(status, 200)
  assert.is(body.partnerId, partnerId)
})

keys('issue grants just the scopes requested, admin among them', async () => {
  const { partnerId } = await makePartner()
  const issued = await document('keys', 'issue', '--partner', partnerId, '--scopes', 'trading:read, admin:write')
  assert.equal(issued.scopes, ['trading:read', 'admin:write'])
  assert.equal((await me(issued.key)).body.scopes, ['trading:read', 'admin:write'])
})

keys('issue with --test makes a key of the test side, which itself is no partner to issue keys to', async () => {
  const { partnerId } = await makePartner()
  const issued = await document('keys', 'issue', '--partner', partnerId, '--test')
  assert.match(issued.key, /^service_test_[0-9a-f]{16}_[0-9a-f]{48}$/)
  for (const more of [[], ['--test']]) {
    const { exitCode, stderr } = await run('keys', 'issue', '--partner', issued.partnerId, ...more)
    assert.equal(
      [exitCode, stderr],
      [1, `NOT_FOUND: ${issued.partnerId} is the test side of ${partnerId}: name that partner.\n`]
    )
  }
})

partners('are named where a command of their money or standing is given their test side', async () => {
  const { partnerId } = await makePartner()
  const { partnerId: side } = await document('keys', 'issue', '--partner', partnerId, '--test')
  for (const command of [
    ['wallet', 'topup', '--partner', side, '--amount', '5'],
    ['wallet', 'debit', '--partner', side, '--amount', '5', '--reason', 'paid in twice'],
    ['partners', 'set-plan', side, 'SCALE', '--yes'],
    ['partners', 'suspend', side, '--reason', 'unpaid invoice'],
    ['partners', 'resume', side]
  ]) {
    const { exitCode, stderr } = await run(...command)
    const expected = [1, `NOT_FOUND: ${side} is the test side of ${partnerId}: name that partner.\n`]
    assert.equal([exitCode, stderr], expected, command.join(' '))
  }
})

keys('revoke holds at the next request, and list shows when', async () => {
  const { partnerId, keyId, key } = await makePartner()
  const revoked = await document('keys', 'revoke', keyId, '--yes')
  assert.equal([revoked.keyId, revoked.partnerId], [keyId, partnerId])
  assert.is((await me(key)).body.error, 'KEY_REVOKED')
  const { data } = await document('keys', 'list', '--partner', partnerId)
  assert.is(data[0].revokedAt, revoked.revokedAt)
})

const watching = suite('operator traders, orders, queues, audit')

watching('show a trader with its accounts and an order with how it went, and no secret anywhere', async () => {
  const partner = await makePartner()
  const { traderExternalId, traderId, accountId } = await partner.makeTrader()
  const body = {
    traderExternalId,
    clientOrderId: `order-${traderId}`,
    asset: 'R_50',
    contractType: 'CALL',
    stake: 1,
    duration: 2,
    durationUnit: 't'
  }
  const { orderId } = (await partner.call(placeBinaryOrder, { body })).body
  const ran = await Promise.all([
    run('traders', 'list', '--partner', partner.partnerId),
    run('traders', 'show', traderId),
    run('orders', 'list', '--partner', partner.partnerId, '--status', 'CLOSED'),
    run('orders', 'show', orderId),
    run('keys', 'list', '--partner', partner.partnerId),
    run('audit', 'list', '--limit', '1000')
  ])
  const [traders, trader, orders, order] = ran.map(({ json }) => json)
  assert.is(traders.data[0].traderExternalId, traderExternalId)
  assert.equal(
    [trader.accounts[0].accountId, trader.accounts[0].active, trader.accounts[0].status],
    [accountId, true, 'CONNECTED']
  )
  assert.equal([orders.data[0].orderId, orders.data[0].status, orders.nextCursor], [orderId, 'CLOSED', null])
  assert.equal([order.phase, order.partnerId], ['closed', partner.partnerId])
  // More than one where the machine was too busy to send it in time.
  assert.ok(order.tries >= 1)
  assert.is(order.attempt, undefined)
  const { token_sealed } = (await services.db('broker_accounts').where({ account_id: accountId }).first()) as {
    token_sealed: Buffer
  }
  for (const { stdout } of ran) {
    const [, , , , secret] = partner.key.split('_')
    for (const hidden of [`sim-${accountId}`, secret ?? partner.key, token_sealed.toString('hex'), '"hash"'])
      assert.not.match(stdout, hidden)
  }
})

watching('a table for a person fits what it is printed to, and has no colour in a pipe', async () => {
  const { partnerId } = await makePartner({ name: 'A\u001b[31mred\u0007 name' })
  const { stdout } = await operator(env, 'partners', 'list')
  assert.match(stdout, /^partnerId +name +plan/)
  assert.match(stdout, partnerId)
  // biome-ignore lint/suspicious/noControlCharactersInRegex: none may get through
  assert.not.match(stdout, /[\u0000-\u0009\u000b-\u001f]/)
})

watching('queues status counts waiting jobs and dead letters; retry queues the dead letters again', async () => {
  await worker.stop()
  const { db, queue } = services
  const data = { deploymentId: 'dep_01jd0000000000000000000000', revision: 1 }
  await queue.boss.insert('template.deploy', [{ data, retryLimit: 0 }])
  await db.transaction(async trx => {
    const [job] = await queue.fetch(trx, 'template.deploy', 1)
    assert.ok(job)
    await queue.fail(trx, 'template.deploy', job, new Error('no such deployment'))
  })
  const standing = async () => {
    const { data } = await document('queues', 'status')
    return data.find(({ queue }: { queue: string }) => queue === 'template.deploy')
  }
  const dead = await standing()
  assert.equal([dead.waiting, dead.deadLetters], [0, 1])
  assert.ok(dead.oldestDeadLetterSeconds < 60)
  assert.equal(await document('queues', 'retry', 'template.deploy'), { queue: 'template.deploy', retried: 1 })
  const back = await standing()
  assert.equal([back.waiting, back.deadLetters], [1, 0])
  const { data: log } = await document('audit', 'list', '--target', 'template.deploy')
  assert.equal([log[0].action, log[0].details], ['queues.retry', { retried: 1 }])
  assert.equal(await document('queues', 'retry', 'template.deploy'), { queue: 'template.deploy', retried: 0 })
})

const database = suite('operator db, spec, broker, doctor')

database('db status and migrate on a fresh database: what is missing, then nothing', async () => {
  const fresh = new URL(url)
  fresh.pathname = `${fresh.pathname}_fresh`
  const name = fresh.pathname.slice(1)
  await services.db.raw(`create database ${name}`)
  onClose(() => services.db.raw(`drop database if exists ${name} with (force)`))
  const there = { ...env, DATABASE_URL: fresh.href }
  const before = (await operator(there, 'db', 'status', '--json')).json
  assert.equal(before.applied, [])
  // Two at once: one applies, the other waits and finds nothing to do.
  const both = await Promise.all([
    operator(there, 'db', 'migrate', '--json'),
    operator(there, 'db', 'migrate', '--json')
  ])
  for (const { exitCode, stderr } of both) assert.is(exitCode, 0, stderr)
  assert.equal(both.map(({ json }) => json.applied.length).sort(), [0, before.pending.length].sort())
  const after = (await operator(there, 'db', 'status', '--json')).json
  assert.equal(after, { applied: before.pending, pending: [], newer: [] })
})

database('a process of the version before starts on a newer schema, unless that cannot serve it', async () => {
  const newer = '9998_added'
  await services.db('migrations').insert({ name: newer, batch: 99, migration_time: new Date() })
  try {
    const api = await startApi(env)
    assert.match(await api.line(/a newer version migrated/), newer)
    api.kill('SIGTERM')
    assert.is(await api.ended, 0)
    assert.equal((await operator(env, 'db', 'migrate', '--json')).json, { applied: [] })
    assert.equal((await operator(env, 'db', 'status', '--json')).json.newer, [newer])
    // Two versions that both made something: neither can say that all of it is there.
    const [last] = await services.db('migrations').where('name', '<', newer).orderBy('id', 'desc').limit(1)
    await services.db('migrations').where({ id: last.id }).delete()
    try {
      assert.match((await operator(env, 'db', 'migrate')).stderr, /lacks 1 migrations and has 1 of another version/)
    } finally {
      await services.db('migrations').insert(last)
    }
    await services.db('migrations').where({ name: newer }).update({ name: '9998_renamed_breaking' })
    const refused = startProcess('api/main.ts', { ...env, PORT: '0' })
    assert.match(await refused.line(/Wrong configuration/), /9998_renamed_breaking.*start the newer one/)
    assert.is(await refused.ended, 78)
  } finally {
    await services.db('migrations').where('name', 'like', '9998%').delete()
  }
})

database('db migrate goes on where a killed one left its lock', async () => {
  await services.db('migrations_lock').update({ is_locked: 1 })
  assert.equal(await document('db', 'migrate'), { applied: [] })
})

database('spec print writes the document without a service', async () => {
  const spec = (await operator({ BASE_URL: 'https://api.example.com' }, 'spec', 'print', '--json')).json
  assert.is(spec.openapi, '3.1.0')
  assert.is(spec.servers[0].url, 'https://api.example.com')
  const described = Object.values(spec.paths as Record<string, object>).flatMap(path =>
    Object.keys(path).filter(key => key !== 'parameters')
  )
  // Beside the operations of partners, GET /status.
  assert.is(described.length, operations.length + 1)
})

database('broker simulate prints where it listens, and ends on a signal', async () => {
  const broker = startProcess('cli/main.ts', {}, ['broker', 'simulate', '--port', '0', '--tick-ms', '50'])
  const { url } = JSON.parse(await broker.line(/^\{"url"/)) as { url: string }
  const socket = new WebSocket(`${url}?app_id=1`)
  await once(socket, 'open')
  socket.close()
  broker.kill('SIGTERM')
  assert.is(await broker.ended, 0)
})

/** What the server of the tests does without to be fast; an operator's must not. */
async function unkeptSettings(): Promise<string[]> {
  const { rows } = await services.db.raw(
    `select name from pg_settings where name in ('fsync', 'full_page_writes') and setting = 'off'`
  )
  return rows.map(({ name }: { name: string }) => name)
}

/** The names of the checks that failed. */
const failuresOf = ({ json }: Awaited<ReturnType<typeof run>>): string[] =>
  json.checks.filter(({ status }: { status: string }) => status === 'fail').map(({ check }: { check: string }) => check)

database('doctor passes with a running service, and names what is wrong', async () => {
  const well = await run('doctor')
  const unkept = await unkeptSettings()
  assert.equal(failuresOf(well), unkept.length > 0 ? ['durability'] : [], well.stdout)
  assert.is(well.json.healthy, unkept.length === 0)
  assert.is(well.exitCode, unkept.length === 0 ? 0 : 1)
  const { found } = well.json.checks.find(({ check }: { check: string }) => check === 'durability')
  for (const setting of unkept) assert.match(found, setting)
  // A new database has a day to add up, and no worker had the time for it.
  assert.is(well.json.checks.find(({ check }: { check: string }) => check === 'analytics').status, 'ok')
  const ill = await operator(
    { ...env, BROKER_URL: 'ws://127.0.0.1:9/', REDIS_URL: 'redis://127.0.0.1:9' },
    'doctor',
    '--json'
  )
  assert.is(ill.exitCode, 1)
  assert.equal(failuresOf(ill).sort(), ['broker', ...failuresOf(well), 'redis'])
  const failed = failuresOf(ill)
  assert.is(ill.stderr, `${failed.length} of ${ill.json.checks.length} checks failed: ${failed.join(', ')}.\n`)
  for (const { status, advice } of ill.json.checks) if (status === 'fail') assert.ok(advice)
})

database(
  'doctor finds sums that are not those of the orders, and names the command that has them recomputed',
  async () => {
    const sums = async (): Promise<{ status: string; found: string; advice: string | null }> =>
      (await run('doctor')).json.checks.find(({ check }: { check: string }) => check === 'sums')
    assert.is((await sums()).status, 'ok')
    const trader = await (await makePartner()).makeTrader()
    await insertOrderRows(services.db, trader, { at: new Date(Date.now() - 3_600_000) })
    await until('the day to be added up', async () => {
      await addUpTraderDays(services.db)
      return (await services.db('trader_days').where({ trader_id: trader.traderId })).length > 0
    })
    await services.db.raw('update trader_days set pnl = pnl + 1 where trader_id = ?', [trader.traderId])
    const { status, found, advice } = await sums()
    assert.is(status, 'warn')
    assert.match(found, new RegExp(`^1 days of traders .* of ${trader.traderId}$`))
    await services.db.raw((advice as string).slice((advice as string).indexOf('insert')))
    assert.is((await sums()).status, 'ok')
  }
)

database('doctor keeps what it found when the sums cannot be checked', async () => {
  const before = await run('doctor')
  // The only one that reads it.
  await services.db.raw('alter table trader_days rename to trader_days_away')
  const after = await run('doctor').finally(() => services.db.raw('alter table trader_days_away rename to trader_days'))
  assert.equal(failuresOf(after), failuresOf(before), after.stdout)
  const namesOf = ({ json }: typeof after) => json.checks.map(({ check }: { check: string }) => check)
  assert.equal(namesOf(after), namesOf(before))
  const unwell = after.json.checks.filter(({ check }: { check: string }) => check === 'sums')
  assert.equal(
    unwell.map(({ status, found }: { status: string; found: string }) => [status, found]),
    [['warn', 'could not be checked: failed with 42P01']]
  )
})

database('doctor counts whatever is sealed under a key that is missing', async () => {
  const { db } = services
  const { partnerId } = await makePartner()
  const token = { token_key_id: 'gone', token_sealed: Buffer.from('x') }
  await db('report_tokens').insert({ partner_id: partnerId, dialect: 'v3', app_id: '1', ...token })
  const { checks } = (await run('doctor')).json
  await db('report_tokens').where({ partner_id: partnerId }).delete()
  assert.match(
    checks.find(({ check }: { check: string }) => check === 'token keys').found,
    "1 secrets are sealed under 'gone'"
  )
})

database('doctor distinguishes wrong settings, an unreachable database and foreign token keys', async () => {
  const [settings, unreachable, foreign] = await Promise.all([
    operator({ ...env, PORT: 'x' }, 'doctor', '--json'),
    operator({ ...env, DATABASE_URL: 'postgres://a:secret@127.0.0.1:9/x' }, 'doctor', '--json'),
    operator({ ...env, TOKEN_KEYS: `zz:${Buffer.alloc(32, 9).toString('base64')}` }, 'doctor', '--json')
  ])
  for (const { exitCode, stdout } of [settings, unreachable, foreign]) {
    assert.is(exitCode, 1)
    assert.not.match(stdout, 'secret@')
  }
  assert.match(settings.stdout, 'PORT must be a whole number')
  assert.match(unreachable.stdout, 'No PostgreSQL listens')
  assert.match(foreign.stdout, "sealed under 't1'")
})

const rotation = suite('operator tokens rotate')
const NEXT_KEYS = `t2:${Buffer.alloc(32, 8).toString('base64')}`

rotation('refuses when a key in use is missing', async () => {
  await makePartner().then(partner => partner.makeTrader())
  const { exitCode, stderr } = await operator({ ...env, TOKEN_KEYS: NEXT_KEYS }, 'tokens', 'rotate')
  assert.is(exitCode, 1)
  assert.match(stderr, /^Wrong configuration: TOKEN_KEYS [^\n]*'t1'\n$/)
})

rotation('seals every token and the pepper again, while exchanges go on and win', async () => {
  const partner = await makePartner()
  const traders = await Promise.all(Array.from({ length: 30 }, () => partner.makeTrader()))
  const rotating = operator({ ...env, TOKEN_KEYS: `${NEXT_KEYS},${TOKEN_KEYS}` }, 'tokens', 'rotate', '--json')
  let over = false
  void rotating.finally(() => {
    over = true
  })
  // This API still seals with the old key; what it stores after a row's turn remains under it, and is reported.
  const latest = new Map(traders.map(({ accountId }) => [accountId, `sim-${accountId}`]))
  for (let round = 1; !over; round++)
    for (const { traderExternalId, accountId } of traders.slice(0, 5)) {
      const token = `sim-${accountId}-r${round}`
      const accounts = [{ accountId, token, accountMode: 'DEMO' }]
      const { status } = await partner.call(exchangeTokens, { body: { traderExternalId, accounts } })
      assert.is(status, 200)
      latest.set(accountId, token)
    }
  const { exitCode, stderr, json } = await rotating
  assert.is(exitCode, 0, stderr)
  assert.is(json.keyId, 't2')
  assert.is(json.pepper, true)
  assert.ok(
    json.remaining.some((under: { keyId: string; secrets: number }) => under.keyId === 't2' && under.secrets === 1)
  )

  const again = await operator({ ...env, TOKEN_KEYS: `${NEXT_KEYS},${TOKEN_KEYS}` }, 'tokens', 'rotate', '--json')
  assert.equal(
    again.json.remaining.map(({ keyId }: { keyId: string }) => keyId),
    ['t2']
  )
  const vault = openVault(NEXT_KEYS)
  for (const [accountId, token] of latest) {
    const { id } = (await services.db('broker_accounts').where({ account_id: accountId }).first('id')) as { id: string }
    const sealed = await findSealedToken(services.db, id, { dialect: services.config.brokerDialect, appId: '7' })
    assert.ok(sealed)
    assert.is(unsealToken(vault, id, sealed), token)
  }
  // The old key is no longer needed for anything.
  const alone = await operator({ ...env, TOKEN_KEYS: NEXT_KEYS }, 'partners', 'show', partner.partnerId)
  assert.is(alone.exitCode, 0, alone.stderr)
})

rotation('names the tokens that cannot be decrypted, and encrypts the rest again', async () => {
  const partner = await makePartner()
  const { accountId } = await partner.makeTrader({ accountId: newAccountId() })
  const { id } = (await services.db('broker_accounts').where({ account_id: accountId }).first('id')) as { id: string }
  await services
    .db('broker_accounts')
    .where({ id })
    .update({ token_sealed: Buffer.alloc(60) })
  const { exitCode, stderr } = await operator({ ...env, TOKEN_KEYS: `${NEXT_KEYS},${TOKEN_KEYS}` }, 'tokens', 'rotate')
  assert.is(exitCode, 1)
  assert.match(stderr, `1 cannot be decrypted and stay as they are: ${id}`)
})

rotation.after(closeAll)
for (const each of [partners, keys, watching, database, rotation]) each.run()

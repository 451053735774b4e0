// The request log: what is in it, whose, for how long, and that it never takes more memory or shows more than it should.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { postMessage } from '../../api/community/community.ts'
import { createKey } from '../../api/keys.ts'
import { getMe } from '../../api/me.ts'
import { listRequests } from '../../api/operations.ts'
import { getOrder } from '../../api/orders/by-id.ts'
import { closeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { listAccounts } from '../../api/traders/accounts.ts'
import { up as packRequests } from '../../db/migrations/0072_requests_packed.ts'
import { revokeKey } from '../../db/partners/keys.ts'
import { GROUP, hashOfId, type LoggedRequest } from '../../db/partners/request-groups.ts'
import { newRequestId, timeOfRequestId } from '../../db/partners/request-ids.ts'
import { openRequestLog } from '../../db/partners/request-log.ts'
import {
  COMPARED_AT_MOST,
  keepRequestDays,
  listRequests as listRows,
  SCANNED_AT_MOST
} from '../../db/partners/requests.ts'
import { newApiKey } from '../../db/platform/crypto.ts'
import { openLog } from '../../db/platform/log.ts'
import { rows } from '../../db/postgres/connection.ts'
import { call, closeAll, openHarness, type TestPartner, until } from '../support/harness.ts'
import { startProcess } from '../support/processes.ts'

const harness = await openHarness()
const { address, services } = harness
const { db } = services
const log = openLog({ level: 'silent', name: 'test' })
const list = suite('GET /v1/requests')
const writing = suite('the request log')
const tailing = suite('operator requests tail')

const listed = async (partner: TestPartner, query: Record<string, string | number> = {}) =>
  (await partner.call(listRequests, { query })).body.data as Record<string, unknown>[]
const ids = (entries: Record<string, unknown>[]) => entries.map(({ requestId }) => requestId)

/** An entry as a process notes it. */
const entry = (partnerId: string, changes: Partial<LoggedRequest> = {}): LoggedRequest => ({
  partnerId,
  requestId: randomUUID(),
  startedAt: performance.now(),
  keyId: null,
  operation: 'getMe',
  method: 'GET',
  path: '/v1/me',
  status: 200,
  error: null,
  trader: null,
  ms: 1,
  ...changes
})

/** Writes so many entries of a partner at once. */
async function write(
  partnerId: string,
  count: number,
  changes: Partial<LoggedRequest> | ((index: number) => Partial<LoggedRequest>)
): Promise<void> {
  const large = openRequestLog({ db, log, keepDays: 7, everyMs: 3_600_000, most: 4 * count })
  for (let index = 0; index < count; index++)
    large.note(entry(partnerId, typeof changes === 'function' ? changes(index) : changes))
  await large.close()
}

list("lists the partner's requests, newest first, with the outcome of each", async () => {
  const partner = await harness.makePartner()
  const before = Date.now()
  await partner.call(getMe, { headers: { 'x-request-id': 'first-request' } })
  await partner.call(listAccounts, { query: { traderExternalId: 'nobody' }, headers: { 'x-request-id': 'second.one' } })
  const [second, first] = await listed(partner)
  const { at, ms, ...rest } = first as { at: string; ms: number }
  assert.ok(Math.abs(Date.parse(at) - before) < 60_000)
  assert.ok(ms >= 0)
  assert.equal(rest, {
    requestId: 'first-request',
    operation: 'getMe',
    method: 'GET',
    path: '/v1/me',
    status: 200,
    error: null,
    traderExternalId: null,
    keyId: partner.keyId
  })
  assert.is(second?.error, 'TRADER_NOT_FOUND')
  assert.equal([second?.status, second?.traderExternalId, second?.path], [404, 'nobody', '/v1/accounts'])
})

list('has refused requests as soon as their key or session is known, and others never', async () => {
  const partner = await harness.makePartner({ scopes: ['usage:read'] })
  const { cookie } = await partner.makeSession()
  const { key, keyId } = await import('../../db/partners/keys.ts').then(({ insertKey }) =>
    insertKey(db, services.pepper, { partnerId: partner.partnerId, label: null, scopes: [] })
  )
  await revokeKey(db, keyId)
  await partner.call(listAccounts)
  await call(address, getMe, { headers: { authorization: `Bearer ${key}` } })
  await call(address, createKey, { headers: { cookie, origin: 'https://evil.example' } })
  await call(address, createKey, { headers: { cookie }, body: '{"a":' })
  await call(address, getMe, { headers: { authorization: `Bearer ${newApiKey().key}` } })
  const shown = (await listed(partner)).map(({ error, keyId }) => [error, keyId])
  assert.equal(shown, [
    ['MALFORMED_JSON', null],
    ['CROSS_SITE_REFUSED', null],
    ['KEY_REVOKED', keyId],
    ['INSUFFICIENT_SCOPE', partner.keyId]
  ])
})

list('filters by status, error, operation, trader, request id and time, and pages with a cursor', async () => {
  const partner = await harness.makePartner()
  // Minutes apart: 4 is the newest of those.
  for (let i = 0; i < 5; i++) {
    const startedAt = performance.now() - (10 - i) * 60_000
    services.requests.note(entry(partner.partnerId, { requestId: `request-${i}`, startedAt }))
  }
  await partner.call(listAccounts, { query: { traderExternalId: 'nobody' }, headers: { 'x-request-id': 'of-nobody' } })
  const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString()
  assert.equal(ids(await listed(partner, { status: 404 })), ['of-nobody'])
  assert.equal(ids(await listed(partner, { error: 'TRADER_NOT_FOUND' })), ['of-nobody'])
  assert.equal(ids(await listed(partner, { operation: 'listAccounts' })), ['of-nobody'])
  assert.equal(ids(await listed(partner, { traderExternalId: 'nobody' })), ['of-nobody'])
  assert.equal(ids(await listed(partner, { requestId: 'request-3' })), ['request-3'])
  assert.equal(ids(await listed(partner, { requestId: 'request-3', status: 404 })), [])
  const window = { from: minutesAgo(9.5), to: minutesAgo(6.5) }
  assert.equal(ids(await listed(partner, window)), ['request-3', 'request-2', 'request-1'])
  // From an instant on, and before another.
  const [newest] = await listed(partner, window)
  assert.equal(ids(await listed(partner, { from: newest?.at as string, to: minutesAgo(6.5) })), ['request-3'])
  assert.equal(ids(await listed(partner, { from: minutesAgo(8.5), to: newest?.at as string })), ['request-2'])
  const zoneOfHours = Object.fromEntries(Object.entries(window).map(([name, at]) => [name, at.replace('Z', '+00')]))
  assert.equal(ids(await listed(partner, zoneOfHours)), ['request-3', 'request-2', 'request-1'])
  for (const name of ['from', 'to']) {
    const { status, body } = await partner.call(listRequests, { query: { [name]: '2026-12-31T23:59:60Z' } })
    assert.equal([status, body.details?.[0].path], [400, `/query/${name}`])
  }
  const pages: unknown[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const query: Record<string, string | number> = { operation: 'getMe', limit: 2, ...(cursor ? { cursor } : {}) }
    const { body } = await partner.call(listRequests, { query })
    pages.push(ids(body.data))
    cursor = body.nextCursor
  }
  assert.equal(pages, [['request-4', 'request-3'], ['request-2', 'request-1'], ['request-0']])
  const misspelt = await partner.call(listRequests, { query: { operation: 'listAccount' } })
  assert.is(misspelt.status, 400)
  assert.match(misspelt.body.details[0].message, /^must be one of getMe, .*\blistAccounts,.* openStream$/)
  const wrong = await partner.call(listRequests, { query: { cursor: 'nonsense' } })
  assert.equal([wrong.status, wrong.body.details[0].path], [400, '/query/cursor'])
})

list("shows nothing of another partner's, not even under the same request id", async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const headers = { 'x-request-id': 'shared-by-two' }
  await partner.call(getMe, { headers })
  await other.call(listAccounts, { query: { traderExternalId: 'theirs' }, headers })
  assert.equal(
    (await listed(partner, { requestId: 'shared-by-two' })).map(({ operation }) => operation),
    ['getMe']
  )
  assert.equal(await listed(partner, { traderExternalId: 'theirs' }), [])
})

list('holds no query, no body and no secret of a path', async () => {
  const partner = await harness.makePartner()
  const secret = `canary-${randomUUID()}`
  await partner.call(getMe, { query: { secret } })
  await partner.call(placeBinaryOrder, { body: { secret, traderExternalId: 5 } })
  await partner.call(getOrder, { params: { id: partner.key } })
  await partner.call(closeMultiplierOrder, { params: { orderId: `${secret}${'x'.repeat(200)}` } })
  const entries = await listed(partner)
  assert.is(entries.length, 4)
  const text = JSON.stringify(entries)
  assert.not.ok(text.includes(secret), text)
  assert.not.ok(text.includes(partner.key.slice(13, 29)), text)
  assert.equal(
    entries.map(({ path }) => path),
    ['/v1/orders/multiplier/{orderId}/close', '/v1/orders/service_live_…', '/v1/orders/binary', '/v1/me']
  )
})

list('has no trader from a field of that name that the body of the operation does not know', async () => {
  const partner = await harness.makePartner()
  const { status, headers } = await partner.call(postMessage, {
    body: { content: 'hello', traderExternalId: 'one\ttwo\nthree' }
  })
  assert.is(status, 200)
  assert.not.match(headers.get('ratelimit-policy') ?? '', /trader/)
  assert.equal(
    (await listed(partner)).map(({ operation, traderExternalId }) => [operation, traderExternalId]),
    [['postMessage', null]]
  )
})

list('finds a request by its id however many of other partners have it, and cuts long paths', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  await write(other.partnerId, SCANNED_AT_MOST, { requestId: 'crowded-id' })
  services.requests.note(entry(partner.partnerId, { requestId: 'crowded-id', path: `/v1/accounts/${'x'.repeat(300)}` }))
  const found = await listed(partner, { requestId: 'crowded-id' })
  assert.equal(
    found.map(({ path }) => String(path).length),
    [256]
  )
})

list('returns a short page with a cursor where filters pass over many entries', async () => {
  const partner = await harness.makePartner()
  const now = performance.now()
  await write(partner.partnerId, SCANNED_AT_MOST + 600, index => ({
    requestId: `request-${index}`,
    startedAt: now - index,
    status: index === SCANNED_AT_MOST + 505 ? 500 : index === 0 ? 404 : 200
  }))
  const first = await partner.call(listRequests, { query: { status: 500 } })
  assert.equal([first.body.data.length, typeof first.body.nextCursor], [0, 'string'])
  const second = await partner.call(listRequests, { query: { status: 500, cursor: first.body.nextCursor } })
  assert.equal([ids(second.body.data), second.body.nextCursor], [[`request-${SCANNED_AT_MOST + 505}`], null])
})

list('is in the order of arrival on every page, however groups overlap', async () => {
  const { partnerId } = await harness.makePartner()
  const [now, madeAt] = [performance.now(), Date.now()]
  const all: LoggedRequest[] = []
  // Several processes at once; some requests lasted long, and some arrived in the same millisecond.
  for (let round = 0; round < 12; round++) {
    const process = openRequestLog({ db, log, keepDays: 7, everyMs: 3_600_000 })
    for (let i = 0; i < 40; i++) {
      const agoMs = Math.floor(Math.random() * 3000) + (Math.random() < 0.2 ? Math.floor(Math.random() * 40_000) : 0)
      const status = Math.random() < 0.1 ? 500 : 200
      const startedAt = now - agoMs
      const noted = entry(partnerId, { requestId: `request-${all.length}`, startedAt, status, trader: `t${i % 3}` })
      process.note(noted)
      all.push(noted)
    }
    await process.close()
  }
  for (const filter of [{}, { status: 500 }, { trader: 't1' }, { status: 500, trader: 't2' }]) {
    const expected = all.filter(
      ({ status, trader }) =>
        (filter.status === undefined || status === filter.status) &&
        (filter.trader === undefined || trader === filter.trader)
    )
    for (const limit of [1, 7, 1000]) {
      const seen: { requestId: string; at: Date }[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await listRows(db, { partnerId, limit, cursor, ...filter })
        assert.ok(page.requests.length <= limit)
        seen.push(...page.requests)
        cursor = page.nextCursor
      }
      assert.equal(seen.map(({ requestId }) => requestId).sort(), expected.map(({ requestId }) => requestId).sort())
      const times = seen.map(({ at }) => at.getTime())
      assert.equal(
        times,
        times.toSorted((a, b) => b - a)
      )
    }
  }
  // Within the window alone, whichever groups reach over its ends.
  const [from, to] = [new Date(madeAt - 30_000), new Date(madeAt - 2000)]
  const { requests } = await listRows(db, { partnerId, from, to, limit: 1000 })
  const within = (await listRows(db, { partnerId, limit: 1000 })).requests.filter(({ at }) => at >= from && at < to)
  assert.ok(within.length > 50)
  assert.equal(requests, within)
})

list("finds an id that carries its time around it, and anywhere when its maker's clock was wrong", async () => {
  const partner = await harness.makePartner()
  const made = await partner.call(getMe)
  const id = made.headers.get('x-request-id') ?? ''
  assert.ok(Math.abs(Number(timeOfRequestId(id)) - Date.now()) < 10_000, id)
  assert.is(timeOfRequestId(randomUUID()), undefined)
  const wrong = `017f22e2-79b0-7cc3-98c4-dc0c0c07398f`
  await partner.call(getMe, { headers: { 'x-request-id': wrong } })
  for (const requestId of [id, wrong]) assert.equal(ids(await listed(partner, { requestId })), [requestId])
  assert.equal(await listed(partner, { requestId: newRequestId() }), [])
})

list('passes over so many groups for an id, and has a cursor to go on with', async () => {
  const { partnerId } = await harness.makePartner()
  await write(partnerId, 1, { requestId: 'long-ago-1', startedAt: performance.now() - 1_200_000 })
  await db.raw(
    `insert into request_groups (partner_id, day, from_at, last_at, entries, worst, ids, shapes, data)
     select ?, (now() at time zone 'UTC')::date, at, at, 1, 200, array[i], 'getMe\tGET\t200\t\t\t/v1/me', ''
       from generate_series(1, ${COMPARED_AT_MOST}) i, lateral (select now() - i * interval '10 milliseconds' as at) a`,
    [partnerId]
  )
  const first = await listRows(db, { partnerId, requestId: 'long-ago-1', limit: 10 })
  assert.equal([first.requests.length, typeof first.nextCursor], [0, 'string'])
  const second = await listRows(db, { partnerId, requestId: 'long-ago-1', limit: 10, cursor: first.nextCursor ?? '' })
  assert.equal([second.requests.map(({ requestId }) => requestId), second.nextCursor], [['long-ago-1'], null])
})

/** As a process of the previous version writes an entry. */
const writeRow = (partnerId: string, { id, ago, trader }: { id: string; ago: number; trader: string | null }) =>
  db.raw(
    `insert into requests (partner_id, day, at, request_id, key_id, operation, method, path, status, error, trader, ms)
     select ?, (now() at time zone 'UTC')::date, now() - ? * interval '1 millisecond', ?, null, 'listAccounts', 'GET', '/v1/accounts',
            404, 'TRADER_NOT_FOUND', ?::text, 12.34`,
    [partnerId, ago, id, trader]
  )

list('has what processes of the version before write, and wrote before the log was packed', async () => {
  const { partnerId } = await harness.makePartner()
  await db.raw('alter table requests disable trigger pack_requests')
  await writeRow(partnerId, { id: 'written-before', ago: 9000, trader: 'Ünal 😀' })
  await db.raw('create table requests_packed as select last_value as before from requests_n')
  await db.raw('alter table requests enable trigger pack_requests')
  await writeRow(partnerId, { id: 'written-beside', ago: 4, trader: null })
  await packRequests(db)
  const { requests } = await listRows(db, { partnerId, limit: 10 })
  const same = {
    operation: 'listAccounts',
    method: 'GET',
    path: '/v1/accounts',
    status: 404,
    error: 'TRADER_NOT_FOUND'
  }
  const shown = requests.map(({ operation, method, path, status, error, keyId, ms, requestId, trader }) => ({
    ...{ operation, method, path, status, error, keyId, ms, requestId, trader }
  }))
  assert.equal(shown, [
    { ...same, keyId: null, ms: 12.3, requestId: 'written-beside', trader: null },
    { ...same, keyId: null, ms: 12.3, requestId: 'written-before', trader: 'Ünal 😀' }
  ])
  const [, old] = requests
  assert.ok(Math.abs(Number(old?.at) - (Date.now() - 9000)) < 5000)
  for (const requestId of ['written-before', 'written-beside'])
    assert.is((await listRows(db, { partnerId, requestId, limit: 10 })).requests.length, 1, requestId)
  for (const id of ['abcdefgh', newRequestId(), '~'.repeat(64)]) {
    const [found] = await rows<{ hash: number }>(db, 'select request_id_hash(:id) as hash', { id })
    assert.is(found?.hash, hashOfId(id))
  }
})

writing(
  'keeps its entries while the database cannot take them, within bounds, each partner within its share',
  async () => {
    const [one, two, ...more] = await Promise.all(Array.from({ length: 5 }, () => harness.makePartner()))
    if (!one || !two) throw new Error('no partners')
    const small = openRequestLog({ db, log, keepDays: 7, everyMs: 3_600_000, most: 8 })
    await db.raw('alter table request_groups rename to groups_away')
    for (let i = 0; i < 5; i++) small.note(entry(one.partnerId, { requestId: `entry-of-one-${i}` }))
    for (let i = 0; i < 5; i++) small.note(entry(two.partnerId, { requestId: `entry-of-two-${i}` }))
    // Two of each of four fill it; there is no place left for the fifth.
    for (const { partnerId } of more)
      for (let i = 0; i < 2; i++) small.note(entry(partnerId, { requestId: `of-more-${i}` }))
    const failure = await small.flush().catch((error: unknown) => error)
    assert.instance(failure, Error)
    await db.raw('alter table groups_away rename to request_groups')
    await small.flush()
    const kept = async ({ partnerId }: TestPartner) =>
      (await listRows(db, { partnerId, limit: 10 })).requests.map(({ requestId }) => requestId).sort()
    assert.equal(await kept(one), ['entry-of-one-0', 'entry-of-one-1'])
    assert.equal(await kept(two), ['entry-of-two-0', 'entry-of-two-1'])
    const crowd = await Promise.all(more.map(kept))
    assert.equal(
      crowd.map(found => found.length),
      [2, 2, 0]
    )
    small.note(entry(one.partnerId, { requestId: 'one-after' }))
    await small.close()
    assert.ok(ids(await listed(one)).includes('one-after'), 'there is room again')
  }
)

writing('writes each entry once, however many writes are requested at once', async () => {
  const partner = await harness.makePartner()
  for (let i = 0; i < 3; i++) services.requests.note(entry(partner.partnerId))
  await Promise.all(Array.from({ length: 4 }, () => services.requests.flush()))
  assert.is((await listed(partner)).filter(({ operation }) => operation === 'getMe').length, 3)
})

writing('writes a full group without waiting for the clock', async () => {
  const partner = await harness.makePartner()
  const slow = openRequestLog({ db, log, keepDays: 7, everyMs: 3_600_000 })
  const startedAt = performance.now()
  for (let i = 0; i < GROUP; i++) slow.note(entry(partner.partnerId, { startedAt }))
  await until('the group to be written', async () => {
    const { requests } = await listRows(db, { partnerId: partner.partnerId, limit: 1000 })
    return requests.length === GROUP
  })
  await slow.close()
})

writing('writes nothing where it is switched off', async () => {
  const partner = await harness.makePartner()
  const off = openRequestLog({ db, log, keepDays: 0 })
  off.note(entry(partner.partnerId))
  await off.close()
  assert.equal(await listed(partner), [])
})

writing('makes the partition of a day that lacks one', async () => {
  const partner = await harness.makePartner()
  const [today] = await rows<{ name: string }>(
    db,
    `select 'request_groups_' || to_char(now() at time zone 'UTC', 'YYYYMMDD') as name`
  )
  await db.raw('drop table ??', [String(today?.name)])
  services.requests.note(entry(partner.partnerId, { requestId: 'without-partition' }))
  await services.requests.flush()
  assert.equal(ids(await listed(partner, { requestId: 'without-partition' })), ['without-partition'])
})

writing('is kept for so many days, and no other table loses one', async () => {
  const days = async () =>
    (
      await rows<{ day: number }>(
        db,
        `select to_date(right(c.relname, 8), 'YYYYMMDD') - (now() at time zone 'UTC')::date as day
           from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'request_groups'::regclass order by 1`
      )
    ).map(({ day }) => day)
  await db.raw(
    `select make_day_partitions('request_groups', (now() at time zone 'UTC')::date - 9, (now() at time zone 'UTC')::date - 6)`
  )
  await keepRequestDays({ db, config: { requestDays: 7 } })
  // A run that began before midnight has yesterday's partition as well.
  assert.equal(
    (await days()).filter(day => day !== -1),
    [-7, -6, 0, 1, 2, 3]
  )
  for (const call of [
    `drop_day_partition('orders', now()::date)`,
    `make_day_partitions('orders', now()::date, now()::date)`
  ])
    assert.match(
      String(await db.raw(`select ${call}`).catch((error: unknown) => error)),
      /orders has no daily partitions/
    )
})

tailing('shows requests as they end, of one partner, with an option refused ones alone', async () => {
  const [partner, other] = [await harness.makePartner(), await harness.makePartner()]
  const tail = startProcess('cli/main.ts', harness.env, [
    'requests',
    'tail',
    '--partner',
    partner.partnerId,
    '--errors',
    '--json'
  ])
  const shown = () => tail.lines.filter(text => text.startsWith('{')).map(text => JSON.parse(text))
  let made = 0
  const refuse = async () => {
    await other.call(listAccounts, { query: { traderExternalId: 'nobody' } })
    await partner.call(getMe)
    const headers = { 'x-request-id': `refused-${made++}` }
    await partner.call(listAccounts, { query: { traderExternalId: 'nobody' }, headers })
    await services.requests.flush()
  }
  try {
    // It shows what comes after its start.
    await until('a refused request', async () => refuse().then(() => shown().length > 0), 60_000)
    const last = `refused-${made}`
    await refuse()
    await until('the last one', () => shown().some(({ requestId }) => requestId === last), 60_000)
    for (const { partnerId, requestId, error } of shown())
      assert.equal([partnerId, error], [partner.partnerId, 'TRADER_NOT_FOUND'], requestId)
    // What it has read again to find late ones is not shown again.
    assert.is(new Set(ids(shown())).size, shown().length)
  } finally {
    tail.kill('SIGINT')
    await tail.ended
  }
})

tailing.after(closeAll)
list.run()
writing.run()
tailing.run()

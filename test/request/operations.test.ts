// What holds for every operation, tested with each row of the table: credentials, scopes, broken requests, the
// description, methods and paths, and that nobody reaches what is another partner's.
import { readFileSync } from 'node:fs'
import { glob } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { codesOf } from '../../api/description/errors.ts'
import { exampleOf } from '../../api/description/schemas.ts'
import { describe } from '../../api/description/spec.ts'
import type { Operation } from '../../api/operation.ts'
import { operations } from '../../api/operations.ts'
import { testWebhook } from '../../api/webhooks/deliveries.ts'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import { newApiKey, newToken } from '../../db/platform/crypto.ts'
import { errors } from '../../schemas/errors/errors.ts'
import type { Schema } from '../../schemas/fields/fields.ts'
import { allScopes, isScope } from '../../schemas/fields/scopes.ts'
import { makeCrossings } from '../support/crossing.ts'
import { type CallInput, call, closeAll, openHarness, type TestPartner } from '../support/harness.ts'

const TESTS = resolve(import.meta.dirname, '..')
const harness = await openHarness()
const { address } = harness
const { db } = harness.services
const partner = await harness.makePartner()
const { cookie } = await partner.makeSession()

/** Values for the path, of records that are not there. */
const params = (row: Operation) =>
  Object.fromEntries([...row.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => [name as string, 'nothing']))

/** Headers with which the row is reached: the session where it takes one, else a key. */
const credentials = (row: Operation, key = partner.key): Record<string, string> =>
  row.auth === 'session' ? { cookie } : { authorization: `Bearer ${key}` }

const send = (row: Operation, input: CallInput = {}) => call(address, row, { params: params(row), ...input })

const table = suite('the table')
const credential = suite('credentials')
const broken = suite('broken requests')
const paths = suite('paths and methods')
const unavailable = suite('a 503')
const crossing = suite("another partner's records")

table('names each operation, and each method of a path, once', () => {
  assert.is(new Set(operations.map(({ name }) => name)).size, operations.length)
  assert.is(new Set(operations.map(({ method, path }) => `${method} ${path}`)).size, operations.length)
})

table('requires a scope that exists: read for GET, write for the rest', () => {
  for (const { name, method, auth, scope } of operations) {
    if (scope === null) assert.ok(auth === 'session' || ['getMe', 'getSpec', 'createStreamTicket'].includes(name), name)
    else {
      assert.ok(isScope(scope), name)
      if (!scope.startsWith('ai:')) assert.is(scope.endsWith(':read'), method === 'GET', `${name} ${scope}`)
    }
  }
})

table('declares only codes that exist', () => {
  for (const row of operations) for (const code of codesOf(row)) assert.ok(errors[code], `${row.name} ${code}`)
})

table('is described row by row, and nothing else is', () => {
  const body = describe(operations, harness.services.config.baseUrl) as { paths: object }
  const described = Object.entries(body.paths as Record<string, Record<string, { operationId: string }>>).flatMap(
    // Beside its methods a path has the parameters they share.
    ([path, { parameters: _, ...methods }]) =>
      Object.entries(methods).map(([method, { operationId }]) => `${operationId} ${method} ${path}`)
  )
  const rows = operations.map(({ name, method, path }) => `${name} ${method.toLowerCase()} ${path}`)
  // The one without a key: request/status.test.ts.
  assert.equal(described.sort(), [...rows, 'getStatus get /status'].sort())
})

table('has each operation named in a test of its own', async () => {
  let text = ''
  for await (const file of glob('**/*.test.ts', { cwd: TESTS }))
    if (!file.includes('operations')) text += readFileSync(join(TESTS, file), 'utf8')
  const missing = operations.filter(({ name }) => !new RegExp(`\\b${name}\\b`).test(text)).map(({ name }) => name)
  assert.equal(missing, [])
})

credential('that is missing, malformed, unknown or of the wrong kind is 401', async () => {
  for (const row of operations) {
    const invalidHeaders: Record<string, string>[] = [
      {},
      { authorization: 'Bearer' },
      { authorization: 'Bearer service_live_0123456789abcdef_short' },
      { authorization: `Basic ${btoa('user:password')}` },
      { authorization: `Bearer ${newApiKey().key}` },
      { authorization: `Bearer ${newToken()}` },
      { cookie: `service_session=${newToken()}` },
      row.auth === 'session' ? { authorization: `Bearer ${partner.key}` } : { cookie }
    ]
    for (const headers of invalidHeaders) {
      const response = await send(row, { headers })
      assert.is(response.status, 401, `${row.name} ${JSON.stringify(headers)}`)
      assert.is(response.body.error, 'UNAUTHENTICATED')
    }
  }
})

credential(
  'of a trader is needed where its operation requires one, and never accepted when it is not valid',
  async () => {
    for (const row of operations.filter(({ auth, actor }) => auth === 'trader' || actor)) {
      const headers = { authorization: `Bearer ${partner.key}` }
      if (row.auth === 'trader') assert.is((await send(row, { headers })).status, 401, row.name)
      const response = await send(row, { headers: { ...headers, 'x-trader-session': newToken() } })
      assert.equal([response.status, response.body.error], [401, 'UNAUTHENTICATED'], row.name)
    }
  }
)

credential('without the scope of the row is 403, and names the scope', async () => {
  for (const row of operations.filter(({ scope }) => scope !== null)) {
    const { key } = await keyWith(allScopes.filter(scope => scope !== row.scope))
    const response = await send(row, { headers: { authorization: `Bearer ${key}` } })
    assert.equal(
      [response.status, response.body.error, response.body.requiredScope],
      [403, 'INSUFFICIENT_SCOPE', row.scope],
      row.name
    )
  }
})

const keys = new Map<string, TestPartner>()
async function keyWith(scopes: typeof allScopes): Promise<TestPartner> {
  const name = scopes.join()
  const known = keys.get(name) ?? (await harness.makePartner({ scopes }))
  keys.set(name, known)
  return known
}

broken('bodies are 400, 413 or 415, and each missing field is named', async () => {
  for (const row of operations.filter(({ body, auth }) => body && auth !== 'trader')) {
    const headers = credentials(row)
    const required = (row.body?.required ?? []) as string[]
    const empty = await send(row, { headers, body: {} })
    if (required.length > 0) {
      assert.is(empty.status, 400, row.name)
      const named = (empty.body.details as { path: string }[]).map(({ path }) => path)
      assert.equal(named.filter(path => required.includes(path.slice(6))).length, required.length, row.name)
    }
    for (const [body, code] of [
      ['[]', 'VALIDATION_FAILED'],
      ['"text"', 'VALIDATION_FAILED'],
      ['null', 'VALIDATION_FAILED'],
      ['{"a":', 'MALFORMED_JSON'],
      [`{"a":"${'x'.repeat(1_050_000)}"}`, 'PAYLOAD_TOO_LARGE']
    ] as const) {
      const response = await send(row, { headers, body })
      assert.is(response.body.error, code, `${row.name} ${body.slice(0, 20)}`)
    }
    const form = await send(row, { headers: { ...headers, 'content-type': 'text/plain' }, body: '{}' })
    assert.is(form.body.error, 'UNSUPPORTED_MEDIA_TYPE', row.name)
    for (const [encoding, code] of [
      ['identity', 'MALFORMED_JSON'],
      ['Identity, identity', 'MALFORMED_JSON'],
      ['gzip', 'UNSUPPORTED_MEDIA_TYPE'],
      ['identity, gzip', 'UNSUPPORTED_MEDIA_TYPE']
    ] as const) {
      const encoded = await send(row, { headers: { ...headers, 'content-encoding': encoding }, body: '{"a":' })
      assert.is(encoded.body.error, code, `${row.name} ${encoding}`)
    }
  }
})

broken('in another charset than UTF-8 is 415', async () => {
  const row = operations.find(({ auth, body }) => auth === 'key' && body) as Operation
  for (const [charset, code] of [
    ['iso-8859-1', 'UNSUPPORTED_MEDIA_TYPE'],
    ['UTF-8', 'MALFORMED_JSON'],
    ['utf8', 'MALFORMED_JSON']
  ] as const) {
    const headers = { ...credentials(row), 'content-type': `application/json; charset=${charset}` }
    assert.is((await send(row, { headers, body: '{"a":' })).body.error, code, charset)
  }
})

broken('texts that cannot be kept are 400 and named: U+0000, half a surrogate pair, in any body or query', async () => {
  for (const row of operations.filter(({ auth }) => auth !== 'trader')) {
    const headers = credentials(row)
    for (const text of ['a\u0000', 'a\ud800', '\udc00a']) {
      for (const [path, body] of row.body ? spoilt(row.body, text) : []) {
        const response = await send(row, { headers, body })
        assert.is(response.status, 400, `${row.name} ${path}`)
        assert.ok(
          response.body.details.some((detail: { path: string }) => detail.path === path),
          `${row.name} ${path} ${JSON.stringify(response.body)}`
        )
      }
    }
    for (const [name, { type }] of Object.entries((row.query?.properties ?? {}) as Record<string, { type: string }>)) {
      if (type !== 'string') continue
      const response = await send(row, { headers, query: { [name]: 'a\u0000' } })
      assert.equal([response.status, response.body.details[0].path], [400, `/query/${name}`], row.name)
    }
  }
})

/** The schema's example with each of its texts replaced in turn, and the path of that text; an unknown one too. */
function spoilt(schema: Schema, text: string): [string, unknown][] {
  const leaves: [string, unknown][] = []
  const walk = (part: unknown, path: string, put: (changed: unknown) => unknown) => {
    if (typeof part === 'string') leaves.push([path, put(text)])
    else if (Array.isArray(part))
      for (const [index, item] of part.entries())
        walk(item, `${path}/${index}`, changed => put(part.with(index, changed)))
    else if (part !== null && typeof part === 'object')
      for (const [key, item] of Object.entries(part))
        walk(item, `${path}/${key}`, changed => put({ ...part, [key]: changed }))
  }
  const more = schema.additionalProperties === false ? {} : { unheardOf: 'x' }
  walk({ ...(exampleOf(schema) as object), ...more }, '/body', changed => changed)
  return leaves
}

broken('bodies that are not UTF-8 are 400, whatever the bytes would decode to', async () => {
  for (const row of operations.filter(({ body, auth }) => body && auth !== 'trader')) {
    const path = row.path.replaceAll(/\{\w+\}/g, 'nothing')
    const body = Buffer.concat([Buffer.from('{"name":"'), Buffer.from([0xe9]), Buffer.from('"}')])
    const headers = { ...credentials(row), 'content-type': 'application/json' }
    const response = await fetch(address + path, { method: row.method, headers, body })
    assert.is(((await response.json()) as { error: string }).error, 'MALFORMED_JSON', row.name)
  }
})

broken('addresses with bytes that are not UTF-8 are 400, whatever the bytes would decode to', async () => {
  const get = async (path: string) => {
    const response = await fetch(address + path, { headers: { authorization: `Bearer ${partner.key}` } })
    const { details } = (await response.json()) as { details?: { path: string }[] }
    return [response.status, details?.[0]?.path]
  }
  // What the bytes would be replaced by, and would be kept as.
  for (const externalId of ['m\ufffdller', 'm%FCller']) await partner.makeTrader({ externalId })
  for (const [path, at] of [
    ['/v1/accounts?traderExternalId=m%FCller', '/query'],
    ['/v1/analytics/traders/m%FCller', '/path']
  ] as const)
    assert.equal(await get(path), [400, at], path)
  for (const path of ['/v1/accounts?traderExternalId=m%EF%BF%BDller&unknown=50%', '/v1/analytics/traders/m%25FCller'])
    assert.equal(await get(path), [200, undefined], path)
})

// Number() takes each of them.
const NO_INTEGERS = ['0x1', '0b1', '1e0', '+1', ' 1', '1 ', '1.0', '1.', '', ' ']

broken('queries are 400 and name the parameter', async () => {
  for (const row of operations) {
    const known = (row.query?.properties ?? {}) as Record<string, { type: string; enum?: string[] }>
    for (const name of (row.query?.required ?? []) as string[]) {
      const response = await send(row, { headers: credentials(row) })
      assert.equal([response.status, response.body.details[0].path], [400, `/query/${name}`], row.name)
    }
    for (const [name, { type, enum: values }] of Object.entries(known)) {
      if (type !== 'integer' && !values) continue
      for (const value of ['nonsense', '9'.repeat(400), ...(type === 'integer' ? NO_INTEGERS : [])]) {
        const response = await send(row, { headers: credentials(row), query: { [name]: value } })
        assert.equal(
          [response.status, response.body.details?.[0].path],
          [400, `/query/${name}`],
          `${row.name} ${name}=${value}`
        )
      }
    }
  }
})

paths('take their own methods only, and name them: 405 before any credential', async () => {
  const byPath = Map.groupBy(operations, ({ path }) => path)
  for (const [path, rows] of byPath) {
    const allowed = rows.map(({ method }) => method as string)
    for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      if (allowed.includes(method)) continue
      const response = await fetch(address + path.replaceAll(/\{\w+\}/g, 'x'), { method })
      const body = (await response.json()) as Record<string, unknown>
      assert.equal([response.status, body.error], [405, 'METHOD_NOT_ALLOWED'], `${method} ${path}`)
      const named = (response.headers.get('allow') ?? '').split(', ').filter(name => name !== 'HEAD')
      assert.equal(named.sort(), [...allowed].sort(), path)
      assert.is(body.requestId, response.headers.get('x-request-id'))
    }
  }
})

paths('take their methods also where an identifier is written as the name of a parameter', async () => {
  for (const row of operations.filter(({ params }) => params))
    for (const path of [row.path, row.path.replaceAll(/\{(\w+)\}/g, ':$1')]) {
      const { status } = await fetch(address + path, { method: row.method })
      assert.is(status, 401, `${row.method} ${path}`)
    }
})

paths('that are unknown are 404, before any credential', async () => {
  for (const path of ['/v1', '/v1/', '/v1/nothing', '/v1/me/', '/V1/me', '/v2/me', '/v1/orders/x/y', '/v1/me/%'])
    for (const method of ['GET', 'POST', 'DELETE']) {
      const response = await fetch(address + path, { method })
      const body = (await response.json()) as Record<string, unknown>
      assert.equal([response.status, body.error], [404, 'NOT_FOUND'], `${method} ${path}`)
      assert.is(body.requestId, response.headers.get('x-request-id'))
    }
})

const owner = await harness.makePartner()
const stranger = await harness.makePartner({ scopes: allScopes.filter(scope => !scope.startsWith('admin:')) })
const strangersCookie = (await stranger.makeSession()).cookie
const crossings = await makeCrossings(harness, owner, stranger)
// The owner's own calls so far are counted later otherwise, in the middle of it all.
await harness.services.usage.flush()
await harness.services.requests.flush()
const digests = await digestQuery()

crossing('are tried with every operation that takes an identifier', () => {
  const takesOne = ({ params, query, body }: Operation) =>
    [params, query, body].some(part =>
      Object.keys((part?.properties ?? {}) as object).some(name => /^(id|\w+Id|slug)$/.test(name))
    )
  const rows = operations.filter(takesOne).map(({ name }) => name)
  assert.equal(rows.sort(), Object.keys(crossings).sort(), 'test/support/crossing.ts defines the requests')
})

for (const row of operations.filter(({ name }) => crossings[name]))
  crossing(`are out of reach of ${row.name}`, async () => {
    const { input, expected } = crossings[row.name] as (typeof crossings)[string]
    const headers: Record<string, string> =
      row.auth === 'session' ? { cookie: strangersCookie } : { authorization: `Bearer ${stranger.key}` }
    const before = await everythingOf(owner.partnerId)
    const response = await call(address, row, { ...input, headers })
    if (typeof expected === 'string')
      assert.equal([response.status, response.body.error], [errors[expected].status, expected])
    else {
      assert.is(response.status, 200, expected.fine)
      if (expected.data) assert.equal(response.body.data, expected.data, expected.fine)
    }
    assert.equal(await everythingOf(owner.partnerId), before, 'something changed')
  })

/** A query for a digest of each table's rows of a partner; where rows name no partner, of all rows. */
async function digestQuery(): Promise<string> {
  const { rows } = await db.raw(
    `select t.table_name as name, bool_or(c.column_name = 'partner_id') as owned
       from information_schema.tables t join information_schema.columns c using (table_schema, table_name)
      where t.table_schema = 'public' and t.table_type = 'BASE TABLE' group by 1 order by 1`
  )
  return (rows as { name: string; owned: boolean }[])
    .map(
      ({ name, owned }) =>
        `select '${name}' as name, md5(string_agg(cast(r as text), ';' order by cast(r as text))) as digest
           from ${name} r ${owned ? 'where partner_id = :partnerId' : ''}`
    )
    .join(' union all ')
}

async function everythingOf(partnerId: string): Promise<Record<string, string>> {
  const { rows } = await db.raw(digests, { partnerId })
  return Object.fromEntries((rows as { name: string; digest: string }[]).map(({ name, digest }) => [name, digest]))
}

unavailable('names when to repeat the request', async () => {
  const stopping = await openHarness({ url: harness.url, env: { WEBHOOK_ALLOW_PRIVATE: '1' } })
  const owner = await stopping.makePartner()
  const { body } = await owner.call(createWebhook, { body: { url: 'http://127.0.0.1:9/' } })
  stopping.services.waits.endAll()
  const { status, headers } = await owner.call(testWebhook, { params: { id: body.webhookId } })
  assert.equal([status, headers.get('retry-after')], [503, '1'])
})

crossing.after(closeAll)
table.run()
credential.run()
broken.run()
paths.run()
unavailable.run()
crossing.run()

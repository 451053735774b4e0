// What every test is built on: a database of its own cloned from a migrated template, the application over
// real HTTP on a free port, makers of partners and traders, and `call`, which checks every response against
// its schema, so that every test is a contract test as well.
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { createApp } from '../../api/app.ts'
import { codesOf, ErrorEnvelope } from '../../api/description/errors.ts'
import { openFeed } from '../../api/events/feed.ts'
import { EventStream } from '../../api/events/stream/server.ts'
import type { ApiServices, Operation } from '../../api/operation.ts'
import { openBacklog } from '../../api/request/backlog.ts'
import { openBatched } from '../../api/request/batched.ts'
import { openByteAccounts } from '../../api/request/byte-accounts.ts'
import { openHeldKeys } from '../../api/request/held-keys.ts'
import { openKnownKeys } from '../../api/request/known-keys.ts'
import { createListener } from '../../api/request/listen.ts'
import { openPace } from '../../api/request/pace.ts'
import { openPlaces } from '../../api/request/places.ts'
import { openStalls } from '../../api/request/stalls.ts'
import { openWaits } from '../../api/request/waits.ts'
import { insertKey } from '../../db/partners/keys.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { openRequestLog } from '../../db/partners/request-log.ts'
import { insertPartnerSession } from '../../db/partners/sessions.ts'
import { openUsage } from '../../db/partners/usage.ts'
import { openBus } from '../../db/platform/bus.ts'
import { openPepper, openVault } from '../../db/platform/crypto.ts'
import { openLimits } from '../../db/platform/limits.ts'
import { openLog } from '../../db/platform/log.ts'
import { openQueue } from '../../db/platform/queue.ts'
import { openDatabase } from '../../db/postgres/connection.ts'
import { openReads } from '../../db/postgres/replica.ts'
import { violations } from '../../schemas/checks/validator.ts'
import { readConfig } from '../../schemas/config/config.ts'
import { allScopes, type Scope } from '../../schemas/fields/scopes.ts'
import type { Plan } from '../../schemas/partners.ts'
import { appIds } from './dialects.ts'

export { FEW_LOOKS_MS, until } from './until.ts'

/** Token keys of the tests; the same in every process a test starts. */
export const TOKEN_KEYS = `t1:${Buffer.alloc(32, 7).toString('base64')}`

/** Closed in reverse order by `close`. */
const opened: (() => Promise<unknown>)[] = []

/**
 * How long one of them may take. A pool waits for a transaction that a failed test has left open: without an end of that, the file would
 * run into its time-out, and nobody would see what failed.
 */
const CLOSE_MS = 60_000

/** How long a statement waits for a connection. */
const CONNECTION_MS = 60_000

/**
 * Closes what the harness opened; never throws. Give it to the last suite, `last.after(closeAll)`, and put all
 * `.run()` calls at the end of the file: suites start to run while the file still awaits something.
 */
export async function closeAll(): Promise<void> {
  for (const close of opened.splice(0).reverse()) {
    const waiting = new AbortController()
    const { signal } = waiting
    await Promise.race([close(), sleep(CLOSE_MS, undefined, { signal })]).catch(() => {})
    waiting.abort()
  }
}

/** Has a signal end a program of tests as its last test would: nothing that it started goes on without it. */
export function closeOnSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => void closeAll().finally(() => process.exit(130)))
}

/** Has `close` called by `closeAll`, before what was opened earlier. */
export function onClose(close: () => Promise<unknown>): void {
  opened.push(close)
}

// Of this user and this checkout: another one's server cannot be opened, or ends with the checkout that started it.
const BY_HAND = `operator-test-by-hand-${createHash('sha256')
  .update(`${process.getuid?.()} ${import.meta.dirname}`)
  .digest('hex')
  .slice(0, 8)}`

/** The URL of the PostgreSQL to test against: the runner's, or one shared by test files run by hand. */
async function adminUrl(): Promise<string> {
  if (process.env.TEST_PG_URL) return process.env.TEST_PG_URL
  const { startEmbedded } = await import('../../db/embedded.ts')
  const embedded = await startEmbedded({ dataDir: join(tmpdir(), BY_HAND) })
  opened.push(() => embedded.stop())
  return embedded.url
}

function databaseUrl(admin: string, name: string): string {
  const url = new URL(admin)
  url.pathname = `/${name}`
  return url.href
}

const TEMPLATE = process.env.TEST_TEMPLATE ?? 'operator_template'

/** A fresh database with every migration applied; dropped when the test process ends in order. */
export async function openTestDatabase(): Promise<string> {
  const admin = await adminUrl()
  const client = new pg.Client({ connectionString: admin })
  await client.connect()
  try {
    // One test file makes the template, the others wait for it.
    await client.query('select pg_advisory_lock(724201)')
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [TEMPLATE])
    if (!rowCount || process.env.TEST_PG_URL === undefined) {
      await client.query(`drop database if exists ${TEMPLATE} with (force)`)
      await client.query(`create database ${TEMPLATE}`)
      // Loaded by the one file that makes the template: a twentieth of what a test process loads.
      const { migrate } = await import('../../db/postgres/migrate.ts')
      await migrate(databaseUrl(admin, TEMPLATE))
      // Its copies are new databases. With the template's identity each would count as one that was restored.
      const template = new pg.Client({ connectionString: databaseUrl(admin, TEMPLATE) })
      await template.connect()
      // Nor has none of their workers seen them for long, however long ago the template was made.
      await template.query(
        `update database_lineage set table_identity = null, seen_at = clock_timestamp() + interval '1 day'`
      )
      await template.end()
    }
    const name = `test_${process.pid}_${randomBytes(4).toString('hex')}`
    await client.query(`create database ${name} template ${TEMPLATE} strategy file_copy`)
    await client.query('select pg_advisory_unlock(724201)')
    opened.push(async () => {
      const last = new pg.Client({ connectionString: admin })
      await last.connect()
      await last.query(`drop database if exists ${name} with (force)`)
      await last.end()
    })
    return databaseUrl(admin, name)
  } finally {
    await client.end()
  }
}

interface HarnessOptions {
  /** Settings over the defaults of the tests. */
  env?: Record<string, string>
  /** Uses this database instead of a fresh one. */
  url?: string
  /** How long a request to the workers may wait for its response: the service's 15 s are less than a busy machine may need. */
  brokerMs?: number
}

export interface Harness {
  url: string
  /** http://127.0.0.1:port */
  address: string
  services: ApiServices
  /** What a process of ours needs to work on the same database. */
  env: Record<string, string>
  makePartner(options?: { name?: string; plan?: Plan; scopes?: readonly Scope[] }): Promise<TestPartner>
  close(): Promise<void>
}

/** Opens the application over a fresh database. Call at the top level of a test file, with await. */
export async function openHarness(options: HarnessOptions = {}): Promise<Harness> {
  const url = options.url ?? (await openTestDatabase())
  const env: Record<string, string> = {
    DATABASE_URL: url,
    TOKEN_KEYS,
    BROKER_URL: 'ws://127.0.0.1:9/websockets/v3',
    // Shown with the output of a file that fails: what lies behind a response of 500.
    LOG_LEVEL: process.env.TEST_LOG ?? 'error',
    RATE_LIMIT_LAUNCH: '1000000',
    RATE_LIMIT_PRO: '1000000',
    RATE_LIMIT_SCALE: '1000000',
    RATE_LIMIT_TRADER: '1000000',
    // The service rightly places nothing after an order's time to live, and a busy machine may need longer than the default of 10 s.
    ORDER_TTL_MS: '60000',
    ...options.env
  }
  const config = readConfig(env)
  const log = openLog({ level: config.logLevel, name: 'test' })
  const db = openDatabase({ url, pool: 10, name: 'test' })
  // What the service refuses after ten seconds without a connection, a busy machine may only be slow with.
  Object.assign((db.client as { pool: object }).pool, { acquireTimeoutMillis: CONNECTION_MS })
  const vault = openVault(TOKEN_KEYS)
  const pepper = await openPepper(db, vault)
  const bus = await openBus({ url, redisUrl: config.redisUrl, log })
  const queue = await openQueue({ url, role: 'sender', log })
  const limits = await openLimits({ redisUrl: config.redisUrl, log })
  const usage = openUsage({ db, log })
  const requests = openRequestLog({ db, log, keepDays: config.requestDays })
  const reads = openReads({ db, url: config.databaseReadUrl, waitMs: config.readWaitMs, pool: 10, log })
  const usual = openBatched({ db, queue, bus, reads })
  const send: typeof usual.sendBrokerRequest = (request, signal) =>
    usual.sendBrokerRequest({ ...request, timeoutMs: options.brokerMs ?? request.timeoutMs }, signal)
  const batched = { ...usual, sendBrokerRequest: send }
  const feed = await openFeed(bus)
  const pace = openPace()
  const services: ApiServices = {
    config,
    db,
    vault,
    pepper,
    bus,
    queue,
    reads,
    limits,
    log,
    batched,
    usage,
    requests,
    waits: openWaits(),
    backlog: openBacklog(),
    bytes: openByteAccounts(),
    pace,
    places: openPlaces({ pool: 10, pace }),
    knownKeys: openKnownKeys(),
    heldKeys: openHeldKeys({ db, log }),
    stalls: openStalls(),
    feed
  }
  const server = createListener(createApp(services), services)
  services.stalls.watch(server)
  const stream = new EventStream(services)
  stream.attach(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = async () => {
    await stream.stop()
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
    services.heldKeys.close()
    services.stalls.close()
    await usage.close()
    await requests.close()
    await Promise.allSettled([queue.close(), bus.close(), limits.close()])
    await Promise.all([db.destroy(), reads.close()])
  }
  opened.push(close)
  return { url, address, services, env, close, makePartner: options => makePartner(services, address, options) }
}

export interface TestResponse<Body = Record<string, unknown>> {
  status: number
  headers: Headers
  body: Body
}

export interface CallInput {
  params?: Record<string, string>
  query?: Record<string, string | number | boolean>
  body?: unknown
  headers?: Record<string, string>
}

export interface TestPartner {
  partnerId: string
  keyId: string
  key: string
  /** Calls an operation with this partner's key and checks the response against the row's schemas. */
  // biome-ignore lint/suspicious/noExplicitAny: tests read fields of many shapes
  call<Body = any>(row: Operation, input?: CallInput): Promise<TestResponse<Body>>
  /** Issues a session of the partner; the response is a Cookie header. */
  /** A session of the partner's, of one hour by default. */
  makeSession(options?: { ttlHours?: number }): Promise<{ cookie: string; sessionId: string }>
  /** Exchanges an account of the simulated broker for a new trader (or the one named). */
  makeTrader(options?: {
    externalId?: string
    accountId?: string
    token?: string
    currency?: string | null
  }): Promise<TestTrader>
}

export interface TestTrader {
  traderExternalId: string
  traderId: string
  accountId: string
}

async function makePartner(
  services: ApiServices,
  address: string,
  {
    name = 'Test Partner',
    plan = 'SCALE',
    scopes = allScopes
  }: { name?: string; plan?: Plan; scopes?: readonly Scope[] } = {}
): Promise<TestPartner> {
  const { partnerId } = await insertPartner(services.db, {
    name,
    plan,
    brokerAppId: appIds[services.config.brokerDialect],
    brokerDialect: services.config.brokerDialect
  })
  const { keyId, key } = await insertKey(services.db, services.pepper, { partnerId, label: null, scopes })
  const partner: TestPartner = {
    partnerId,
    keyId,
    key,
    call: (row, input = {}) =>
      call(address, row, { ...input, headers: { authorization: `Bearer ${key}`, ...input.headers } }),
    async makeSession({ ttlHours = 1 } = {}) {
      const { sessionId, token } = await insertPartnerSession(services.db, services.pepper, { partnerId, ttlHours })
      return { cookie: `service_session=${token}`, sessionId }
    },
    async makeTrader({
      externalId = `user-${randomUUID()}`,
      accountId = newAccountId(),
      token = `sim-${accountId}`,
      currency = 'USD'
    } = {}) {
      const { exchangeTokens } = await import('../../api/traders/accounts.ts')
      const response = await partner.call<{ traderId: string }>(exchangeTokens, {
        body: {
          traderExternalId: externalId,
          accounts: [{ accountId, token, accountMode: 'DEMO', ...(currency ? { currency } : {}) }]
        }
      })
      if (response.status !== 200)
        throw new Error(`exchange returned ${response.status}: ${JSON.stringify(response.body)}`)
      return { traderExternalId: externalId, traderId: response.body.traderId, accountId }
    }
  }
  return partner
}

/** A login id of the simulated broker that no other test uses. */
export function newAccountId(): string {
  return `VRTC${randomBytes(4).readUInt32BE(0)}`
}

/**
 * Calls an operation over HTTP. Whatever comes back must be the row's response or the error envelope with a
 * code the row declares, with a request id; anything else throws.
 */
// biome-ignore lint/suspicious/noExplicitAny: tests read fields of many shapes
export async function call<Body = any>(
  address: string,
  row: Operation,
  { params = {}, query = {}, body, headers = {} }: CallInput = {}
): Promise<TestResponse<Body>> {
  const path = row.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? `{${name}}`))
  const search = new URLSearchParams(
    Object.entries(query).map(([name, value]): [string, string] => [name, String(value)])
  ).toString()
  const response = await fetch(`${address}${path}${search ? `?${search}` : ''}`, {
    method: row.method,
    headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) })
  })
  const text = await response.text()
  const content = JSON.parse(text) as Record<string, unknown>
  checkResponse(row, response, content)
  return { status: response.status, headers: response.headers, body: content as Body }
}

/** Throws when a response breaks the contract of its row. */
export function checkResponse(
  row: Operation,
  response: { status: number; headers: Headers },
  content: Record<string, unknown>
): void {
  const wrong = (what: string) =>
    new Error(`${row.name} returned ${response.status} ${JSON.stringify(content).slice(0, 500)}: ${what}`)
  const requestId = response.headers.get('x-request-id')
  if (!requestId) throw wrong('no X-Request-Id')
  if (response.status === 200) {
    const broken = violations(row.response, structuredClone(content))
    if (broken.length > 0) throw wrong(JSON.stringify(broken))
    return
  }
  const broken = violations(ErrorEnvelope, structuredClone(content))
  if (broken.length > 0) throw wrong(JSON.stringify(broken))
  if (content.requestId !== requestId) throw wrong('requestId differs from X-Request-Id')
  if (!(codesOf(row) as unknown[]).includes(content.error)) throw wrong(`undeclared code ${String(content.error)}`)
}

// What chaos happens to: PostgreSQL, the simulated broker, Redis where there is one, two APIs and some workers,
// each a process, with a network that can be made bad between them; one partner and its traders.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exchangeTokens } from '../../api/traders/accounts.ts'
import { removeEmbedded } from '../../db/embedded.ts'
import { insertKey } from '../../db/partners/keys.ts'
import { insertPartner } from '../../db/partners/partners.ts'
import { openPepper, openVault } from '../../db/platform/crypto.ts'
import { type Db, openDatabase } from '../../db/postgres/connection.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import type { LedgerEntry } from '../../worker/simulator/engine/ledger.ts'
import type { FaultRule } from '../../worker/simulator/faults.ts'
import { APP_ID_HEADER } from '../../worker/simulator/next/next.ts'
import { seeded } from '../money-storm/random.ts'
import { appIds, brokerEnv, type DialectName } from '../support/dialects.ts'
import { freePort } from '../support/free-port.ts'
import { call, newAccountId, TOKEN_KEYS } from '../support/harness.ts'
import { findFaketime, withClock } from './clocks.ts'
import { ChaosMember } from './members.ts'
import { FaultyNetwork } from './network.ts'
import { openPostgres, type Postgres } from './postgres.ts'
import { recordSteps } from './record-steps.ts'

/** Short times, so that doubts are resolved in seconds. They keep the order of the real ones. */
const times = { permit: 1000, brokerResponse: 1500, reconcile: 2500, crashed: 6000, ttl: 6000, settleWait: 9000 }
export type Times = typeof times

export interface StackOptions {
  seed: number
  workers: number
  accounts: number
  redis: boolean
  dialect: DialectName
  /** Makes all times so many times as long, for a machine that cannot keep up with the short ones (1). */
  stretch?: number
  /** How far the workers' wall clocks are off at most, ms (0); each start draws one between. It takes libfaketime. */
  skewMs?: number
  /** Called when everything has ended, also after a signal. */
  onClosed?: () => void
  /** Where PostgreSQL's data lie instead of the run's own folder, and its settings over the usual ones. */
  postgresDir?: string
  postgresSettings?: Record<string, string>
  /** A database that the caller runs, instead of one of the run's own; `close` stops it. */
  database?: Pick<Postgres, 'url' | 'port' | 'stop'>
  /** No network between the processes and PostgreSQL or Redis, so that a stopped one refuses connections. */
  direct?: boolean
  env?: Record<string, string>
  rules?: FaultRule[]
}

export interface Trader {
  traderExternalId: string
  accountId: string
}

export interface ChaosStack {
  dir: string
  logs: string
  times: Times
  /** Settings of every process of ours. */
  env: Record<string, string>
  db: Db
  postgres: Postgres
  apis: (ChaosMember & { address: string })[]
  workers: ChaosMember[]
  broker: ChaosMember
  redis: ChaosMember | undefined
  members: ChaosMember[]
  network: { postgres: FaultyNetwork; broker: FaultyNetwork; redis: FaultyNetwork | undefined }
  key: string
  traders: Trader[]
  /** Sets the broker's faults, now and after each of its restarts; none: peace. */
  spoil(rules: FaultRule[]): Promise<void>
  ledger(): Promise<LedgerEntry[]>
  /** Ends everything; deletes the data unless `keep`. */
  close(keep?: boolean): Promise<void>
}

/** Whether redis-server can be started here. */
export function hasRedis(): boolean {
  try {
    execFileSync('redis-server', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

export async function openStack(options: StackOptions): Promise<ChaosStack> {
  const dir = mkdtempSync(join(tmpdir(), 'operator-chaos-'))
  // Root's PostgreSQL runs as another user, who has to get through.
  chmodSync(dir, 0o711)
  const logs = join(dir, 'logs')
  mkdirSync(logs)
  const closing: (() => Promise<unknown>)[] = []
  const interrupted = () => void close(true).finally(() => process.exit(130))
  for (const signal of signals) process.once(signal, interrupted)
  const close = async (keep = false) => {
    for (const signal of signals) process.off(signal, interrupted)
    for (const end of closing.splice(0).reverse()) await end()
    options.onClosed?.()
    if (keep) return
    // PostgreSQL's data may lie elsewhere, where its user can reach them.
    await removeEmbedded(options.postgresDir ?? join(dir, 'postgres'))
    await rm(dir, { recursive: true, force: true, maxRetries: 10 })
  }
  try {
    return await open(options, { dir, logs, closing, close })
  } catch (error) {
    await close(true)
    throw error
  }
}

async function open(
  options: StackOptions,
  place: Pick<ChaosStack, 'dir' | 'logs' | 'close'> & { closing: (() => Promise<unknown>)[] }
): Promise<ChaosStack> {
  const { dir, logs, closing, close } = place
  const postgres = options.database
    ? beyondReach(options.database)
    : await openPostgres(options.postgresDir ?? join(dir, 'postgres'), options.postgresSettings)
  closing.push(() => postgres.stop())
  const openNetwork = async (port: number) => {
    const opened = await FaultyNetwork.open(port)
    closing.push(() => opened.close())
    return opened
  }
  const ports = { broker: await freePort(), redis: await freePort() }
  const network = {
    postgres: await openNetwork(postgres.port),
    broker: await openNetwork(ports.broker),
    redis: options.redis ? await openNetwork(ports.redis) : undefined
  }
  const db = openDatabase({ url: postgres.url, pool: 4, name: 'chaos-eye' })
  closing.push(() => db.destroy())
  await migrate(postgres.url)
  await recordSteps(db)

  const stretched = Object.fromEntries(Object.entries(times).map(([name, ms]) => [name, ms * (options.stretch ?? 1)]))
  const { permit, brokerResponse, reconcile, crashed, ttl, settleWait } = stretched as Times
  const here = `127.0.0.1:${network.broker.port}`
  const url = new URL(postgres.url)
  if (!options.direct) url.port = String(network.postgres.port)
  const env: Record<string, string> = {
    DATABASE_URL: url.href,
    TOKEN_KEYS,
    ...brokerEnv(
      { url: `ws://${here}/websockets/v3`, nextUrl: `http://${here}`, appIdHeader: APP_ID_HEADER },
      options.dialect
    ),
    ...(network.redis ? { REDIS_URL: `redis://127.0.0.1:${options.direct ? ports.redis : network.redis.port}` } : {}),
    RATE_LIMIT_SCALE: '1000000',
    RATE_LIMIT_TRADER: '1000000',
    BROKER_ANSWER_TIMEOUT_MS: String(brokerResponse),
    PERMIT_MS: String(permit),
    RECONCILE_AFTER_MS: String(reconcile),
    RECONCILE_CRASHED_MS: String(crashed),
    ORDER_TTL_MS: String(ttl),
    SETTLE_WAIT_MS: String(settleWait),
    LEASE_MS: '2000',
    SWEEP_MS: '250',
    AUDIT_MINUTES: '1',
    LOG_LEVEL: 'info',
    ...options.env
  }
  const member = (facts: Omit<ConstructorParameters<typeof ChaosMember>[0], 'log'>) => {
    const made = new ChaosMember({ ...facts, log: join(logs, `${facts.name}.log`) })
    closing.push(() => made.retire())
    return made
  }
  const { skewMs = 0 } = options
  const faketime = skewMs > 0 ? findFaketime() : undefined
  const random = seeded(options.seed + 2)
  const skewed = () => withClock(faketime as string, random.below(2 * skewMs + 1) - skewMs)
  const own = (kind: 'api' | 'worker', number: number, more: Record<string, string> = {}) =>
    member({
      ...(kind === 'worker' && faketime ? { envOfStart: skewed } : {}),
      kind,
      name: `${kind}-${number}`,
      command: process.execPath,
      args: [`${kind}/main.ts`],
      env: { ...env, ...more }
    })

  const control = `http://127.0.0.1:${ports.broker}/control`
  let rules = options.rules ?? []
  const sendRules = async () => {
    const response = await fetch(`${control}/faults`, { method: 'POST', body: JSON.stringify({ rules }) })
    if (!response.ok) throw new Error(`The simulated broker refuses the faults: ${await response.text()}`)
  }
  const broker = member({
    kind: 'broker',
    name: 'broker',
    command: process.execPath,
    args: [
      'worker/simulator/main.ts',
      ...['--port', String(ports.broker), '--socket-base', `ws://${here}`, '--journal', join(dir, 'broker.journal')],
      ...['--limits', 'off', '--tick-ms', '25', '--time-scale', '100', '--seed', String(options.seed)],
      ...['--markup-pct', '2']
    ],
    env: {},
    port: ports.broker,
    onReady: sendRules
  })
  const redis = options.redis
    ? member({
        kind: 'redis',
        name: 'redis',
        command: 'redis-server',
        args: ['--port', String(ports.redis), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', dir],
        env: {},
        port: ports.redis
      })
    : undefined
  const apis: ChaosStack['apis'] = []
  for (const number of [1, 2]) {
    const port = String(await freePort())
    apis.push(Object.assign(own('api', number, { PORT: port }), { address: `http://127.0.0.1:${port}` }))
  }
  const workers = Array.from({ length: options.workers }, (_, index) => own('worker', index + 1))
  const members = [broker, ...(redis ? [redis] : []), ...apis, ...workers]
  await Promise.all([broker.start(), redis?.start()])
  await Promise.all([...apis, ...workers].map(each => each.start()))

  const vault = openVault(TOKEN_KEYS)
  const pepper = await openPepper(db, vault)
  const { partnerId } = await insertPartner(db, {
    name: 'Chaos',
    plan: 'SCALE',
    brokerAppId: appIds[options.dialect],
    brokerDialect: options.dialect
  })
  const { key } = await insertKey(db, pepper, { partnerId, label: null, scopes: allScopes })
  const address = apis[0]?.address as string
  const traders: Trader[] = []
  while (traders.length < options.accounts) {
    // A few at a time: the machine has just started everything else.
    const names = Array.from({ length: Math.min(8, options.accounts - traders.length) }, (_, i) => traders.length + i)
    traders.push(...(await Promise.all(names.map(name => makeTrader(address, key, `trader-${name}`)))))
  }
  return {
    dir,
    logs,
    times: stretched as Times,
    env,
    db,
    postgres,
    apis,
    workers,
    broker,
    redis,
    members,
    network,
    key,
    traders,
    close,
    async spoil(wanted) {
      rules = wanted
      if (broker.up) await sendRules()
    },
    ledger: async () => (await (await fetch(`${control}/ledger`)).json()) as LedgerEntry[]
  }
}

/** The caller's database, to which the faults of `faults.ts` cannot be done. */
function beyondReach(database: Pick<Postgres, 'url' | 'port' | 'stop'>): Postgres {
  const refuse = () => {
    throw new Error('This database belongs to the caller.')
  }
  return {
    ...database,
    up: true,
    frozen: false,
    alive: () => true,
    kill: refuse,
    start: refuse,
    freeze: refuse,
    thaw: refuse
  }
}

async function makeTrader(address: string, key: string, traderExternalId: string): Promise<Trader> {
  const accountId = newAccountId()
  const account = { accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }
  const response = await call(address, exchangeTokens, {
    headers: { authorization: `Bearer ${key}` },
    body: { traderExternalId, accounts: [account] }
  })
  if (response.status !== 200)
    throw new Error(`The exchange returned ${response.status}: ${JSON.stringify(response.body)}`)
  return { traderExternalId, accountId }
}

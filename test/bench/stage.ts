// The stage of every measurement: a PostgreSQL of its own with fsync on, the simulated broker, API and worker
// processes, a partner with traders, and a load generator that keeps a number of connections busy.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { removeEmbedded, startEmbedded } from '../../db/embedded.ts'
import type * as Keys from '../../db/partners/keys.ts'
import type * as Partners from '../../db/partners/partners.ts'
import { openPepper, openVault } from '../../db/platform/crypto.ts'
import { type Db, openDatabase } from '../../db/postgres/connection.ts'
import type * as Migrate from '../../db/postgres/migrate.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { exchange } from './client.ts'

const SIMULATOR = 'worker/simulator/main.ts'
export const TOKEN_KEYS = `b1:${Buffer.alloc(32, 3).toString('base64')}`

export interface Stage {
  url: string
  db: Db
  env: Record<string, string>
  broker: { url: string; control: string }
  key: string
  partnerId: string
  startApi(env?: Record<string, string>): Promise<{ address: string; child: ChildProcess; readyMs: number }>
  startWorker(env?: Record<string, string>): Promise<ChildProcess>
  makeTraders(api: string, count: number): Promise<string[]>
  /** Seconds of CPU used up to now by PostgreSQL and by the processes started, by the name of their folder. */
  cpuSeconds(): Promise<Record<string, number>>
  close(): Promise<void>
}

export interface StageOptions {
  /** Settings of PostgreSQL. */
  settings?: Record<string, string>
  /** The checkout whose service is measured, an absolute path; this one by default. */
  checkout?: string
  /** A folder whose database is kept for the next run. Without it the database is deleted at the end. */
  keepIn?: string | undefined
}

/** Sets the stage. `simulator` are options of the simulated broker's command line, `dialect` is the partner's. */
export async function setStage(
  simulator: string[] = [],
  dialect: 'v3' | 'next' = 'v3',
  { settings = {}, checkout = process.cwd(), keepIn }: StageOptions = {}
): Promise<Stage> {
  const children = new Map<ChildProcess, string>()
  const start = (file: string, env: Record<string, string>, args: string[], pattern: RegExp | null) =>
    startProgram(children, { file, env, args, pattern, checkout: file === SIMULATOR ? process.cwd() : checkout })
  const dataDir = keepIn ?? mkdtempSync(join(tmpdir(), 'service-bench-'))
  const embedded = await startEmbedded({ dataDir, settings })
  const db = openDatabase({ url: embedded.url, pool: 4, name: 'bench' })
  const { migrate, insertPartner, insertKey } = await tablesOf(checkout)
  await migrate(embedded.url)
  const sim = await start(SIMULATOR, {}, ['--port', '0', '--limits', 'off', ...simulator], /"url"/)
  const broker = JSON.parse(sim.line) as { url: string; control: string; nextUrl: string; appIdHeader: string }
  const env = {
    DATABASE_URL: embedded.url,
    TOKEN_KEYS,
    BROKER_URL: broker.url,
    ...(dialect === 'next'
      ? { BROKER_NEXT_URL: broker.nextUrl, BROKER_NEXT_APP_HEADER: broker.appIdHeader, BROKER_DIALECT: dialect }
      : {}),
    LOG_LEVEL: 'warn',
    PORT: '0',
    RATE_LIMIT_LAUNCH: '1000000000',
    RATE_LIMIT_PRO: '1000000000',
    RATE_LIMIT_SCALE: '1000000000',
    RATE_LIMIT_TRADER: '1000000000'
  }
  const kept: { id: string } | undefined = await db('partners').where({ name: 'Bench' }).first('id')
  const partnerId =
    kept?.id ??
    (
      await insertPartner(db, {
        name: 'Bench',
        plan: 'SCALE',
        brokerAppId: dialect === 'v3' ? '1' : 'bench-app',
        brokerDialect: dialect
      })
    ).partnerId
  const pepper = await openPepper(db, openVault(TOKEN_KEYS))
  const { key } = await insertKey(db, pepper, { partnerId, label: null, scopes: allScopes })
  return {
    url: embedded.url,
    db,
    env,
    broker,
    key,
    partnerId,
    async startApi(extra = {}) {
      const startedAt = performance.now()
      const api = await start('api/main.ts', { ...env, ...extra }, [], null)
      const address = api.line
      await call({ address, key, path: '/v1/me' })
      return { address, child: api.child, readyMs: performance.now() - startedAt }
    },
    async startWorker(extra = {}) {
      return (await start('worker/main.ts', { ...env, ...extra }, [], null)).child
    },
    async makeTraders(address, count) {
      const names = Array.from({ length: count }, () => `bench-${randomUUID()}`)
      await each(names, 50, async traderExternalId => {
        const accountId = `VRTC${randomBytes(4).readUInt32BE(0)}`
        const account = { accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }
        await call({ address, key, path: '/v1/auth/broker/exchange', body: { traderExternalId, accounts: [account] } })
      })
      return names
    },
    async cpuSeconds() {
      const used: Record<string, number> = { PostgreSQL: await cpuOfTree(await postmasterOf(dataDir)) }
      for (const [{ pid }, file] of children) {
        const name = file === SIMULATOR ? 'broker' : (file.split('/')[0] as string)
        used[name] = (used[name] ?? 0) + (await cpuOf(pid as number)).own
      }
      return used
    },
    async close() {
      const all = [...children.keys()]
      for (const child of all) child.kill('SIGTERM')
      await Promise.all(all.map(child => child.exitCode ?? once(child, 'exit')))
      await db.destroy()
      await embedded.stop()
      if (keepIn === undefined) await removeEmbedded(dataDir)
    }
  }
}

/** What writes a checkout's tables, as that checkout has it. */
async function tablesOf(checkout: string) {
  const { migrate } = (await import(join(checkout, 'db/postgres/migrate.ts'))) as typeof Migrate
  const { insertPartner } = (await import(join(checkout, 'db/partners/partners.ts'))) as typeof Partners
  const { insertKey } = (await import(join(checkout, 'db/partners/keys.ts'))) as typeof Keys
  return { migrate, insertPartner, insertKey }
}

const TICKS_A_SECOND = 100

/** CPU seconds of a process, and of its children that have ended; parent 0 when there is no such process. */
export async function cpuOf(pid: number): Promise<{ own: number; ended: number; parent: number }> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // After the name, which may hold spaces: state, parent, …, utime, stime, cutime, cstime.
  const fields = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number)
  const at = (index: number) => (fields[index] ?? 0) / TICKS_A_SECOND
  return { own: at(11) + at(12), ended: at(13) + at(14), parent: fields[1] ?? 0 }
}

/** CPU seconds of a process and its children, those that have ended among them. */
export async function cpuOfTree(root: number): Promise<number> {
  const { own, ended } = await cpuOf(root)
  const all = await Promise.all((await readdir('/proc')).filter(name => /^\d+$/.test(name)).map(name => cpuOf(+name)))
  return all.filter(({ parent }) => parent === root).reduce((sum, child) => sum + child.own, own + ended)
}

/** Id of the embedded server's first process. */
export async function postmasterOf(dataDir: string): Promise<number> {
  return Number((await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0])
}

/** Starts a program of ours; resolves with the line that matches, or, for null, when it announces to be ready. */
async function startProgram(
  children: Map<ChildProcess, string>,
  {
    file,
    env,
    args,
    pattern,
    checkout
  }: { file: string; env: Record<string, string>; args: string[]; pattern: RegExp | null; checkout: string }
): Promise<{ child: ChildProcess; line: string }> {
  const child = spawn(
    process.execPath,
    [
      ...(process.env.BENCH_PROFILE ? ['--cpu-prof', `--cpu-prof-dir=${process.env.BENCH_PROFILE}`] : []),
      // The simulated broker, which is no part of what is measured, need not be small.
      ...(file === SIMULATOR ? [] : await heapOf(checkout)),
      ...['--require', './.node-version.cjs', file, ...args]
    ],
    {
      cwd: checkout,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', ...env },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc']
    }
  )
  children.set(child, file)
  child.once('exit', () => children.delete(child))
  const line = await new Promise<string>((resolve, reject) => {
    child.once('exit', code => reject(new Error(`${file} ended with ${code}`)))
    child.on('message', message => {
      if (pattern === null) resolve((message as { address?: string }).address ?? '')
    })
    if (child.stdout) createInterface({ input: child.stdout }).on('line', text => pattern?.test(text) && resolve(text))
  })
  return { child, line }
}

/** The flags of the heap with which a checkout's package.json starts its processes. */
async function heapOf(checkout: string): Promise<string[]> {
  const { scripts } = JSON.parse(await readFile(join(checkout, 'package.json'), 'utf8')) as { scripts: { api: string } }
  return scripts.api.split(' ').filter(word => word.startsWith('--max-'))
}

/** One request; rejects on anything but 200. */
export async function call({
  address,
  key,
  path,
  body,
  method = body === undefined ? 'GET' : 'POST'
}: {
  address: string
  key: string
  path: string
  body?: object
  method?: string
}): Promise<string> {
  const headers = { authorization: `Bearer ${key}` }
  const { status, text } = await (body === undefined
    ? exchange(address, { method, path, headers })
    : exchange(address, {
        method,
        path,
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body)
      }))
  if (status !== 200) throw new Error(`${path} answered ${status}: ${text}`)
  return text
}

/** Runs `work` on every item, `concurrency` at a time. */
export async function each<T>(
  items: T[],
  concurrency: number,
  work: (item: T, index: number) => Promise<unknown>
): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (next < items.length) {
        const index = next++
        await work(items[index] as T, index)
      }
    })
  )
}

/** Keeps `connections` callers busy for `seconds`, or for `calls`; returns calls a second and their latencies in ms. */
export async function load({
  connections,
  seconds,
  calls = Number.POSITIVE_INFINITY,
  work
}: {
  connections: number
  seconds: number
  calls?: number | undefined
  work(caller: number): Promise<unknown>
}): Promise<Load> {
  const times: number[] = []
  const end = performance.now() + seconds * 1000
  let begun = 0
  const startedAt = performance.now()
  await Promise.all(
    Array.from({ length: connections }, async (_, caller) => {
      while (performance.now() < end && begun++ < calls) {
        const before = performance.now()
        await work(caller)
        times.push(performance.now() - before)
      }
    })
  )
  return { perSecond: (times.length / (performance.now() - startedAt)) * 1000, ...spread(times), calls: times.length }
}

export interface Spread {
  p50: number
  p95: number
  p99: number
}

export interface Load extends Spread {
  perSecond: number
  calls: number
}

/** Median and tails of a list of figures. */
export function spread(values: number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
}

/** The median of a few runs. */
export function median(values: number[]): number {
  return spread(values).p50
}

/** Milliseconds with one decimal. */
export function ms(value: number): string {
  return `${value.toFixed(1)} ms`
}

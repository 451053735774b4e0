// Serves /metrics, /healthz and /readyz on a private port, for the api and the workers alike. What has to be read is read when
// Prometheus scrapes, with a bound, never by the clock.
import type { AddressInfo } from 'node:net'
import client from 'prom-client'
import { ownAddress } from '../../schemas/config/config.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { listenAt } from '../postgres/system-errors.ts'
import { within } from '../postgres/within.ts'
import { http } from './http.ts'
import type { Log } from './log.ts'

const SCRAPE_TIMEOUT_MS = 4000

const scrapes: (() => Promise<void>)[] = []

/** Has `read` set its gauges before each scrape is served; a scrape waits for all of them for at most 4 s. */
export function onScrape(read: () => Promise<void>): void {
  scrapes.push(read)
}

/** Why the process cannot work right now; empty when it can. */
type Ready = () => Promise<string[]>

// A database that responds may all the same be none to work with: since it started, a process may have been connected to another one.
const READINESS = `select current_setting('transaction_read_only') = 'on' as "readOnly", to_regclass('orders') is null as empty,
    current_setting('session_replication_role') = 'replica' as replica`

async function unfitDatabase(db: Db): Promise<string[]> {
  const [found] = await rows<{ readOnly: boolean; empty: boolean; replica: boolean }>(db, READINESS)
  return [
    ...(found?.readOnly ? ['the database takes no writes'] : []),
    ...(found?.empty
      ? ["the database shows none of our tables: it is another one, or the role's search_path leaves them out"]
      : []),
    ...(found?.replica ? ['the database runs no triggers for this role: reset session_replication_role'] : [])
  ]
}

/** A readiness check: the database responds within its bound and can be worked with, hints arrive, and nothing of `broker` is unreachable. */
export function readiness(
  db: Db,
  bus: { healthy(): boolean },
  broker?: { unreachable(): { what: string; since: number; cause: string }[] }
): Ready {
  return async () => {
    const wrong: string[] = []
    const unfit = within(SCRAPE_TIMEOUT_MS, unfitDatabase(db)).catch(() => ['the database does not respond'])
    wrong.push(...(await unfit))
    if (!bus.healthy()) wrong.push('wake-ups are down')
    for (const { what, since, cause } of broker?.unreachable() ?? [])
      wrong.push(`broker unreachable since ${new Date(since).toISOString()}: ${what} (${cause})`)
    return wrong
  }
}

/** Serves /metrics, /healthz (the process runs) and /readyz (it can work). Does nothing for port 0. */
export async function serveMetrics(options: {
  host: string
  port: number
  log: Log
  ready: Ready
  /** What to report although the process can work, a sentence each. */
  warnings?: () => string[]
}): Promise<{ close(): Promise<void>; port: number }> {
  if (options.port === 0) return { port: 0, close: async () => {} }
  const server = http.createServer((request, response) => {
    respond(request.url ?? '/', options).then(
      ({ status, type, body }) =>
        response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store' }).end(body),
      (error: unknown) => {
        options.log.warn({ err: error }, 'metrics')
        response.writeHead(503).end('unavailable\n')
      }
    )
  })
  Object.assign(server, { headersTimeout: 5000, requestTimeout: 5000 })
  await listenAt(server, { ...options, settings: { host: 'METRICS_HOST', port: 'METRICS_PORT' } })
  server.on('error', error => options.log.error({ err: error }, 'metrics'))
  const { port } = server.address() as AddressInfo
  options.log.info({ address: `${ownAddress(options.host, port)}/metrics` }, 'metrics')
  return {
    port,
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    }
  }
}

async function respond(
  url: string,
  { ready, warnings }: { ready: Ready; warnings?: () => string[] }
): Promise<{ status: number; type: string; body: string }> {
  const { pathname } = new URL(url, 'http://localhost')
  if (pathname === '/healthz') return { status: 200, type: 'text/plain', body: 'ok\n' }
  if (pathname === '/readyz') {
    const wrong = await ready()
    return {
      status: wrong.length === 0 ? 200 : 503,
      type: 'text/plain',
      body: [...(wrong.length === 0 ? ['ready'] : wrong), ...(warnings?.() ?? [])].map(line => `${line}\n`).join('')
    }
  }
  if (pathname !== '/metrics') return { status: 404, type: 'text/plain', body: 'See /metrics, /healthz and /readyz.\n' }
  // A database that is away must not hide the process's own figures.
  await within(SCRAPE_TIMEOUT_MS, Promise.all(scrapes.map(scrape => scrape()))).catch(() => {})
  return { status: 200, type: client.register.contentType, body: await client.register.metrics() }
}

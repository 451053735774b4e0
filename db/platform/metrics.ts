// Prometheus metrics, /healthz and /readyz on a private port, for the api and the workers alike. What has to
// be read from the database is read when Prometheus scrapes, with a bound, never by the clock.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import client from 'prom-client'
import { haltScopes } from '../../schemas/halts.ts'
import { readAnalyticsState } from '../analytics/state.ts'
import { readOutbox } from '../events/sequence.ts'
import { countBreaks } from '../orders/reconciliation.ts'
import { countPastEnd } from '../orders/review.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { listenAt } from '../postgres/system-errors.ts'
import { within } from '../postgres/within.ts'
import { countWebhooks } from '../webhooks/counts.ts'
import { listAppRefusals } from './app-refusals.ts'
import { listHalts } from './halts.ts'
import type { Log } from './log.ts'

const SCRAPE_TIMEOUT_MS = 4000

/** The process's own figures: CPU, memory, event loop. Called once by each main file. */
export function collectProcessMetrics(): void {
  client.collectDefaultMetrics()
}

const httpRequests = new client.Counter({
  name: 'service_http_requests_total',
  help: 'Requests by operation, status and error code.',
  labelNames: ['operation', 'status', 'code']
})
const httpSeconds = new client.Histogram({
  name: 'service_http_request_seconds',
  help: 'Duration of requests, waiting for settlement included.',
  labelNames: ['operation'],
  buckets: [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
})
const httpWaiting = new client.Gauge({ name: 'service_http_requests_under_way', help: 'Requests under way.' })
const brokerSeconds = new client.Histogram({
  name: 'service_broker_buy_seconds',
  help: 'Round trip of purchases by outcome: done, refused, unsent, doubt.',
  labelNames: ['outcome'],
  buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20]
})

const turnedAway = new client.Counter({
  name: 'service_turned_away_total',
  help: 'Requests of partners that had all they may have waiting: request (of an api), ask and sell (of a worker).',
  labelNames: ['what']
})

/** Counts something that was refused because the partner had its share of places. */
export function countTurnedAway(what: 'request' | 'ask' | 'sell'): void {
  turnedAway.inc({ what })
}

/** Counts a finished request. */
export function countRequest(request: { operation: string; status: number; code: string; seconds: number }): void {
  httpRequests.inc({ operation: request.operation, status: request.status, code: request.code })
  httpSeconds.observe({ operation: request.operation }, request.seconds)
}

/** Counts requests under way, up and down. */
export function countUnderWay(change: 1 | -1): void {
  httpWaiting.inc(change)
}

/** Notes the round trip of a purchase. */
export function observeBuy(outcome: 'done' | 'refused' | 'unsent' | 'doubt', seconds: number): void {
  brokerSeconds.observe({ outcome }, seconds)
}

const replicaReads = new client.Counter({
  name: 'service_replica_reads_total',
  help: 'Reads for DATABASE_READ_URL by who served them: replica, or the primary since the standby was behind, away, or resting after a failure.',
  labelNames: ['served']
})

/** Counts a read that a standby served, or why the primary did. */
export function countReplicaRead(served: 'replica' | 'behind' | 'away' | 'resting'): void {
  replicaReads.inc({ served })
}

const implausible = new client.Counter({
  name: 'service_settlements_implausible_total',
  help: 'Settled states of contracts that contradicted the order or themselves, and were not booked.'
})
const unreadable = new client.Counter({
  name: 'service_broker_fields_unreadable_total',
  help: "Fields of contracts' states that the broker sent and that could not be read, by field.",
  labelNames: ['field']
})

/** Counts a settled state that was not booked. */
export function countImplausible(): void {
  implausible.inc()
}

/** Counts a field of a contract's state that could not be read. */
export function countUnreadable(field: string): void {
  unreadable.inc({ field })
}

const frameSeconds = new client.Histogram({
  name: 'service_stream_frame_seconds',
  help: 'From the change to the frame that tells of it, by the clocks of database and process; replays left out.',
  buckets: [0.001, 0.002, 0.004, 0.008, 0.015, 0.03, 0.06, 0.12, 0.25, 0.5, 1, 5]
})

/** Records the age of the change that a frame has just reported. */
export function observeFrame(seconds: number): void {
  frameSeconds.observe(Math.max(0, seconds))
}

const countsOfSockets = new Set<() => number>()
new client.Gauge({
  name: 'service_stream_sockets',
  help: 'Sockets of the stream that are open in this process.',
  collect() {
    this.set([...countsOfSockets].reduce((sum, count) => sum + count(), 0))
  }
})

/** Adds a stream to the gauge of open sockets; a process may serve several. */
export function collectStreamSockets(count: () => number): void {
  countsOfSockets.add(count)
}

const unlogged = new client.Counter({
  name: 'service_requests_unlogged_total',
  help: 'Requests that are missing in the request log, since its memory was full or the database away.'
})

/** Counts requests that are missing in the request log. */
export function countUnlogged(count: number): void {
  unlogged.inc(count)
}

const sequenced = new client.Counter({
  name: 'service_events_total',
  help: 'Events that this process moved into the log; their rate is events a second.'
})

/** Counts events moved into the log. */
export function countSequenced(events: number): void {
  sequenced.inc(events)
}

const faults = new client.Counter({
  name: 'service_events_unshown_total',
  help: 'Events that cannot be shown, which readers pass over: their record is gone or not readable.'
})

/** Counts an event that cannot be shown. */
export function countEventFault(): void {
  faults.inc()
}

const forwarded = new client.Counter({
  name: 'service_ticks_forwarded_total',
  help: 'Ticks that this worker passed on from the broker.',
  labelNames: ['dialect']
})

/** Counts ticks that a worker passed on. */
export function countForwarded(dialect: string, ticks: number): void {
  forwarded.inc({ dialect }, ticks)
}

const delivered = new client.Counter({
  name: 'service_stream_ticks_total',
  help: 'Ticks sent to sockets of the stream: one for each tick and socket.'
})

/** Counts ticks sent to sockets. */
export function countDelivered(ticks: number): void {
  delivered.inc(ticks)
}

/** Figures read from the database at each scrape. */
export function collectStoreMetrics(db: Db): void {
  const orders = new client.Gauge({
    name: 'service_orders',
    help: 'Orders not yet at their end, by phase.',
    labelNames: ['phase']
  })
  const oldest = new client.Gauge({
    name: 'service_orders_oldest_seconds',
    help: 'Age of the oldest order in a phase.',
    labelNames: ['phase']
  })
  const jobs = new client.Gauge({
    name: 'service_queue_jobs',
    help: 'Jobs by queue and state.',
    labelNames: ['queue', 'state']
  })
  const jobAge = new client.Gauge({
    name: 'service_queue_oldest_seconds',
    help: 'Age of the oldest waiting job.',
    labelNames: ['queue']
  })
  const drift = new client.Gauge({
    name: 'service_ledger_drift_usd',
    help: 'Sum of all balances; anything but 0 is an alarm.'
  })
  const refused = new client.Gauge({
    name: 'service_broker_app_refused',
    help: 'Applications the broker refuses now; anything is an alarm.',
    labelNames: ['dialect', 'app_id']
  })
  const halts = new client.Gauge({
    name: 'service_trading_halts',
    help: 'Halts of trading in force, by scope.',
    labelNames: ['scope']
  })
  const findings = new client.Gauge({
    name: 'service_contract_findings',
    help: 'Unresolved differences from the broker’s books.',
    labelNames: ['kind']
  })
  const pastEnd = new client.Gauge({
    name: 'service_orders_past_end',
    help: 'Open orders whose contract has ended: the broker cannot be asked, or what it reports cannot be booked.'
  })
  const pastEndOldest = new client.Gauge({
    name: 'service_orders_past_end_oldest_seconds',
    help: 'How long ago the contract of the oldest of these ended.'
  })
  const outbox = new client.Gauge({ name: 'service_events_outbox', help: 'Events that are not in the log yet.' })
  const lag = new client.Gauge({
    name: 'service_events_lag_seconds',
    help: 'How long ago the oldest of these happened.'
  })
  const differing = new client.Gauge({
    name: 'service_analytics_differences',
    help: 'Sums of analytics that differed from the orders in the last comparison of samples; anything but 0 is an alarm.'
  })
  const behind = new client.Gauge({
    name: 'service_analytics_behind_seconds',
    help: 'How far the sums of analytics are behind; answers count the rest from the orders.'
  })
  const webhooks = new client.Gauge({
    name: 'service_webhooks',
    help: 'Webhook endpoints, by state: enabled, failing, disabled (by 410 or failures).',
    labelNames: ['state']
  })
  const webhookEvents = new client.Gauge({
    name: 'service_webhook_events',
    help: 'Events to be sent to webhook endpoints: waiting (failed, or behind one that did), backlog (not read yet).',
    labelNames: ['state']
  })
  const pool = new client.Gauge({ name: 'service_pool_waiting', help: 'Callers waiting for a database connection.' })
  scrapes.push(async () => {
    const { pool: tarn } = db.client as { pool: { numPendingAcquires(): number } }
    pool.set(tarn.numPendingAcquires())
    // What test keys do alarms nobody. Open orders are counted from their index alone, which does not know the two apart.
    const phases = await rows<{ phase: string; count: number; age: number }>(
      db,
      `select phase, count(*) as count, coalesce(extract(epoch from clock_timestamp() - min(coalesce(sent_at, queued_at))), 0)::float8 as age
         from orders where phase in ('unproven', 'queued', 'sending', 'review') and dialect <> 'test' group by phase
       union all select 'open', count(*), 0 from orders where phase = 'open'`
    )
    for (const phase of ['unproven', 'queued', 'sending', 'review', 'open']) {
      const found = phases.find(row => row.phase === phase)
      orders.set({ phase }, found?.count ?? 0)
      if (phase !== 'open') oldest.set({ phase }, found?.age ?? 0)
    }
    jobs.reset()
    jobAge.reset()
    const states = await rows<{ name: string; state: string; count: number; age: number }>(
      db,
      `select name, state::text, count(*) as count, coalesce(extract(epoch from now() - min(created_on)), 0)::float8 as age
         from pgboss.job where state < 'completed' or state = 'failed' group by name, state`
    )
    for (const { name, state, count, age } of states) {
      jobs.set({ queue: name, state }, count)
      if (state === 'created' || state === 'retry') jobAge.set({ queue: name }, age)
    }
    const [sum] = await rows<{ drift: string }>(db, 'select coalesce(sum(balance), 0) as drift from ledger_accounts')
    drift.set(Number(sum?.drift ?? 0))
    refused.reset()
    for (const { dialect, appId } of await listAppRefusals(db)) refused.set({ dialect, app_id: appId }, 1)
    for (const scope of haltScopes) halts.set({ scope }, 0)
    for (const { scope } of await listHalts(db)) halts.inc({ scope })
    const { count: past, oldestSeconds } = await countPastEnd(db)
    pastEnd.set(past)
    pastEndOldest.set(oldestSeconds)
    const { depth, oldestSeconds: waiting } = await readOutbox(db)
    const analytics = await readAnalyticsState(db)
    differing.set(analytics.differences ?? 0)
    behind.set(analytics.behindSeconds)
    outbox.set(depth)
    lag.set(waiting)
    const counts = await countWebhooks(db)
    for (const state of ['enabled', 'failing', 'disabled'] as const) webhooks.set({ state }, counts[state])
    for (const state of ['waiting', 'backlog'] as const) webhookEvents.set({ state }, counts[state])
    for (const kind of ['ORPHAN', 'MISMATCH', 'UNSETTLED', 'IMPLAUSIBLE']) findings.set({ kind }, 0)
    for (const { kind, count } of await countBreaks(db)) findings.set({ kind }, count)
  })
}

/** A gauge of how far this process's wall clock is from the database's, in seconds; 0 until it was measured. */
export function collectClockOffset(offsetMs: () => number | null): void {
  const gauge = new client.Gauge({
    name: 'service_clock_offset_seconds',
    help: "This process's wall clock minus the database's."
  })
  scrapes.push(async () => gauge.set((offsetMs() ?? 0) / 1000))
}

/** A gauge per call budget of the broker: 1 is untouched, 0 used up. */
export function collectBudget(budget: () => Record<string, number>): void {
  const gauge = new client.Gauge({
    name: 'service_broker_budget_left',
    help: 'Fraction left of the tightest call budget, by class.',
    labelNames: ['class']
  })
  scrapes.push(async () => {
    for (const [name, left] of Object.entries(budget())) gauge.set({ class: name }, left)
  })
}

/** A gauge of what of the broker cannot be reached, with the seconds since when: no series while all can. */
export function collectUnreachable(unreachable: () => { what: string; since: number }[]): void {
  const gauge = new client.Gauge({
    name: 'service_broker_unreachable_seconds',
    help: 'For how long an address of the broker has been unreachable for this worker; absent while it can be reached.',
    labelNames: ['address']
  })
  scrapes.push(async () => {
    gauge.reset()
    for (const { what, since } of unreachable()) gauge.set({ address: what }, (Date.now() - since) / 1000)
  })
}

const scrapes: (() => Promise<void>)[] = []

/** Why the process cannot work right now; empty when it can. */
export type Ready = () => Promise<string[]>

/** A readiness check: the database responds within its bound, hints arrive, and nothing of `broker` is unreachable. */
export function readiness(
  db: Db,
  bus: { healthy(): boolean },
  broker?: { unreachable(): { what: string; since: number; cause: string }[] }
): Ready {
  return async () => {
    const wrong: string[] = []
    await within(SCRAPE_TIMEOUT_MS, rows(db, 'select 1')).catch(() => wrong.push('the database does not answer'))
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
  const server = createServer((request, response) => {
    answer(request.url ?? '/', options).then(
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
  options.log.info({ address: `http://${options.host}:${port}/metrics` }, 'metrics')
  return {
    port,
    async close() {
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    }
  }
}

async function answer(
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

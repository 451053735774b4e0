// Prometheus metrics of what the database holds: orders, queues, ledger, halts, events, analytics, webhooks. They are read when
// Prometheus scrapes.
import client from 'prom-client'
import { ARCHIVE_LEAST_DAYS } from '../../schemas/config/config.ts'
import { haltScopes } from '../../schemas/halts.ts'
import { readAnalyticsState } from '../analytics/state.ts'
import { readOutbox } from '../events/sequence.ts'
import { readUnmoved } from '../orders/archive-months.ts'
import { inPhases } from '../orders/reading.ts'
import { countBreaks } from '../orders/reconciliation.ts'
import { countPastEnd } from '../orders/review.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { countWebhooks } from '../webhooks/counts.ts'
import { listAppRefusals } from './app-refusals.ts'
import { listHalts } from './halts.ts'
import { onScrape } from './metrics-server.ts'

// How PostgreSQL reports a statement that failed; a connection that breaks, or is refused, is FATAL or has none.
const isOfStatement = (error: unknown) => (error as { severity?: unknown }).severity === 'ERROR'

/**
 * Figures read from the database at each scrape, one group after another; one that cannot be read keeps none of the others from it. It keeps
 * its last values, and shows how old they are.
 */
export function collectStoreMetrics(db: Db): void {
  const groups = Object.entries({ pool, orders, jobs, ledger, broker, events, analytics, webhooks })
  const reads = groups.map(([name, figures]) => ({ name, read: figures(db), readAt: performance.now() }))
  new client.Gauge({
    name: 'service_figures_age_seconds',
    help: 'How long ago the figures shown were read from the database, by group; more than a scrape apart: they cannot be read.',
    labelNames: ['figures'],
    collect() {
      for (const { name, readAt } of reads) this.set({ figures: name }, (performance.now() - readAt) / 1000)
    }
  })
  onScrape(async () => {
    for (const group of reads)
      await group.read().then(
        () => {
          group.readAt = performance.now()
        },
        (error: unknown) => {
          if (!isOfStatement(error)) throw error
        }
      )
  })
}

// Each makes its gauges, and returns the function that reads them.

function pool(db: Db) {
  const waiting = gauge('service_pool_waiting', 'Callers waiting for a database connection.')
  return async () => {
    const { pool: tarn } = db.client as { pool: { numPendingAcquires(): number } }
    waiting.set(tarn.numPendingAcquires())
  }
}

const WAITING = ['unproven', 'queued', 'sending', 'review'] as const

function orders(db: Db) {
  const byPhase = gauge('service_orders', 'Orders that are not final, by phase.', ['phase'])
  const oldest = gauge('service_orders_oldest_seconds', 'Age of the oldest order in a phase.', ['phase'])
  const pastEnd = gauge(
    'service_orders_past_end',
    'Open orders whose contract has ended: the broker cannot be reached, or what it reports cannot be booked.'
  )
  const pastEndOldest = gauge(
    'service_orders_past_end_oldest_seconds',
    'How long ago the contract of the oldest of these ended.'
  )
  const unarchived = gauge(
    'service_orders_oldest_unarchived_seconds',
    'How long ago the oldest order ended that could be in the archive and is not; 0 without any. Days above ARCHIVE_AFTER_DAYS are an alarm.'
  )
  return async () => {
    // Orders of test keys raise no alarms. Open orders are counted from their index alone, which has both kinds.
    const phases = await rows<{ phase: string; count: number; age: number }>(
      db,
      `select phase, count(*) as count, coalesce(extract(epoch from clock_timestamp() - min(coalesce(sent_at, queued_at))), 0)::float8 as age
         from orders o where ${inPhases('o', WAITING)} and dialect <> 'test' group by phase
       union all select 'open', count(*), 0 from orders where phase = 'open'`
    )
    for (const phase of [...WAITING, 'open']) {
      const found = phases.find(row => row.phase === phase)
      byPhase.set({ phase }, found?.count ?? 0)
      if (phase !== 'open') oldest.set({ phase }, found?.age ?? 0)
    }
    const { count, oldestSeconds } = await countPastEnd(db)
    pastEnd.set(count)
    pastEndOldest.set(oldestSeconds)
    const { oldestEnded } = await readUnmoved(db, { days: ARCHIVE_LEAST_DAYS, most: 1 })
    unarchived.set(oldestEnded ? Math.max(0, (Date.now() - oldestEnded.getTime()) / 1000) : 0)
  }
}

function jobs(db: Db) {
  const byState = gauge('service_queue_jobs', 'Jobs by queue and state.', ['queue', 'state'])
  const oldest = gauge('service_queue_oldest_seconds', 'Age of the oldest waiting job.', ['queue'])
  return async () => {
    const states = await rows<{ queue: string; state: string; count: number; age: number }>(
      db,
      `select name as queue, state::text, count(*) as count, coalesce(extract(epoch from now() - min(created_on)), 0)::float8 as age
         from pgboss.job where state < 'completed' or state = 'failed' group by name, state`
    )
    // Reset right before it is set again: another scrape must not find it empty.
    byState.reset()
    oldest.reset()
    const ages = new Map<string, number>()
    for (const { queue, state, count, age } of states) {
      byState.set({ queue, state }, count)
      // Jobs in both states wait.
      if (state === 'created' || state === 'retry') ages.set(queue, Math.max(age, ages.get(queue) ?? 0))
    }
    for (const [queue, age] of ages) oldest.set({ queue }, age)
  }
}

function ledger(db: Db) {
  const drift = gauge('service_ledger_drift_usd', 'Sum of all balances; anything but 0 is an alarm.')
  return async () => {
    const [sum] = await rows<{ drift: string }>(db, 'select coalesce(sum(balance), 0) as drift from ledger_accounts')
    drift.set(Number(sum?.drift ?? 0))
  }
}

function broker(db: Db) {
  const refused = gauge('service_broker_app_refused', 'Applications the broker refuses now; anything is an alarm.', [
    'dialect',
    'app_id'
  ])
  const halts = gauge('service_trading_halts', 'Halts of trading in force, by scope.', ['scope'])
  const breaks = gauge('service_contract_findings', 'Unresolved differences from the broker’s books.', ['kind'])
  return async () => {
    const [refusals, halted, found] = [await listAppRefusals(db), await listHalts(db), await countBreaks(db)]
    // Reset and set together: another scrape must not find an alarm gone.
    refused.reset()
    for (const { dialect, appId } of refusals) refused.set({ dialect, app_id: appId }, 1)
    for (const scope of haltScopes) halts.set({ scope }, 0)
    for (const { scope } of halted) halts.inc({ scope })
    for (const kind of ['ORPHAN', 'MISMATCH', 'UNSETTLED', 'IMPLAUSIBLE']) breaks.set({ kind }, 0)
    for (const { kind, count } of found) breaks.set({ kind }, count)
  }
}

function events(db: Db) {
  const outbox = gauge('service_events_outbox', 'Events that are not in the log yet.')
  const lag = gauge('service_events_lag_seconds', 'How long ago the oldest of these happened.')
  return async () => {
    const { depth, oldestSeconds } = await readOutbox(db)
    outbox.set(depth)
    lag.set(oldestSeconds)
  }
}

function analytics(db: Db) {
  const differing = gauge(
    'service_analytics_differences',
    'Sums of analytics that differed from the orders in the last comparison of samples; anything but 0 is an alarm.'
  )
  const behind = gauge(
    'service_analytics_behind_seconds',
    'How far the sums of analytics are behind; responses count the rest from the orders.'
  )
  return async () => {
    const { differences, behindSeconds } = await readAnalyticsState(db)
    differing.set(differences ?? 0)
    behind.set(behindSeconds)
  }
}

function webhooks(db: Db) {
  const endpoints = gauge(
    'service_webhooks',
    'Webhook endpoints, by state: enabled, failing, disabled (by 410 or failures).',
    ['state']
  )
  const toSend = gauge(
    'service_webhook_events',
    'Events to be sent to webhook endpoints: waiting (failed, or behind one that did), backlog (not read yet).',
    ['state']
  )
  return async () => {
    const counts = await countWebhooks(db)
    for (const state of ['enabled', 'failing', 'disabled'] as const) endpoints.set({ state }, counts[state])
    for (const state of ['waiting', 'backlog'] as const) toSend.set({ state }, counts[state])
  }
}

const gauge = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
  new client.Gauge({ name, help, labelNames })

// Prometheus metrics of what the database holds: orders, queues, ledger, halts, events, analytics, webhooks. They are read when
// Prometheus scrapes.
import client from 'prom-client'
import { ARCHIVE_LEAST_DAYS } from '../../schemas/config/config.ts'
import { haltScopes } from '../../schemas/halts.ts'
import { readAnalyticsState } from '../analytics/state.ts'
import { readOutbox } from '../events/sequence.ts'
import { readUnmoved } from '../orders/archive-months.ts'
import { countBreaks } from '../orders/reconciliation.ts'
import { countPastEnd } from '../orders/review.ts'
import { type Db, rows } from '../postgres/connection.ts'
import { countWebhooks } from '../webhooks/counts.ts'
import { listAppRefusals } from './app-refusals.ts'
import { listHalts } from './halts.ts'
import { onScrape } from './metrics-server.ts'

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
  const breaks = new client.Gauge({
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
  const unarchived = new client.Gauge({
    name: 'service_orders_oldest_unarchived_seconds',
    help: 'How long ago the oldest order ended that could be in the archive and is not; 0 without any. Days above ARCHIVE_AFTER_DAYS are an alarm.'
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
  onScrape(async () => {
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
    const { oldestEnded } = await readUnmoved(db, { days: ARCHIVE_LEAST_DAYS, most: 1 })
    unarchived.set(oldestEnded ? Math.max(0, (Date.now() - oldestEnded.getTime()) / 1000) : 0)
    lag.set(waiting)
    const counts = await countWebhooks(db)
    for (const state of ['enabled', 'failing', 'disabled'] as const) webhooks.set({ state }, counts[state])
    for (const state of ['waiting', 'backlog'] as const) webhookEvents.set({ state }, counts[state])
    for (const kind of ['ORPHAN', 'MISMATCH', 'UNSETTLED', 'IMPLAUSIBLE']) breaks.set({ kind }, 0)
    for (const { kind, count } of await countBreaks(db)) breaks.set({ kind }, count)
  })
}

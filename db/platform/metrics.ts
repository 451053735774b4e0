// Prometheus metrics that a process counts or measures itself. What is read from the database is in store-metrics.ts, the port that
// serves them in metrics-server.ts.
import client from 'prom-client'
import { onScrape } from './metrics-server.ts'

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
  help: 'Requests of partners that had all they may have waiting: request and bytes (of an api), ask and sell (of a worker).',
  labelNames: ['what']
})

/** Counts something that was refused because the partner had its share of places. */
export function countTurnedAway(what: 'request' | 'bytes' | 'ask' | 'sell'): void {
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
  help: 'From the change to the frame that reports it, by the clocks of database and process; replays left out.',
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

const archived = new client.Counter({
  name: 'service_orders_archived_total',
  help: 'Orders that this worker moved to the archive.'
})

/** Counts orders moved to the archive. */
export function countArchived(orders: number): void {
  archived.inc(orders)
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

/** A gauge of how far this process's wall clock is from the database's, in seconds; 0 until it was measured. */
export function collectClockOffset(offsetMs: () => number | null): void {
  const gauge = new client.Gauge({
    name: 'service_clock_offset_seconds',
    help: "This process's wall clock minus the database's."
  })
  onScrape(async () => gauge.set((offsetMs() ?? 0) / 1000))
}

/** A gauge per call budget of the broker: 1 is untouched, 0 used up. */
export function collectBudget(budget: () => Record<string, number>): void {
  const gauge = new client.Gauge({
    name: 'service_broker_budget_left',
    help: 'Fraction left of the tightest call budget, by class.',
    labelNames: ['class']
  })
  onScrape(async () => {
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
  onScrape(async () => {
    gauge.reset()
    for (const { what, since } of unreachable()) gauge.set({ address: what }, (Date.now() - since) / 1000)
  })
}

// Prometheus metrics of webhooks.
import client from 'prom-client'
import type { DeliveryError } from '../../schemas/webhook-endpoint.ts'

const deliveries = new client.Counter({
  name: 'service_webhook_attempts_total',
  help: 'Attempts to deliver an event to a webhook endpoint, by outcome: DELIVERED, or why not.',
  labelNames: ['outcome']
})
const seconds = new client.Histogram({
  name: 'service_webhook_answer_seconds',
  help: 'From the request to the head of its response.',
  buckets: [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 15]
})
const first = new client.Histogram({
  name: 'service_webhook_first_seconds',
  help: 'From the change to the first request with its event, by the clocks of database and process.',
  buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 5, 30, 300, 3600]
})

/** Counts an attempt. */
export function countDelivery({ error, ms }: { error: DeliveryError | null; ms: number }): void {
  deliveries.inc({ outcome: error ?? 'DELIVERED' })
  seconds.observe(ms / 1000)
}

/** Notes how long ago the change was whose event is sent for the first time. */
export function observeFirst(ago: number): void {
  first.observe(Math.max(0, ago))
}

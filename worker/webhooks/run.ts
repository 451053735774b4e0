// Webhooks in a worker: what starts and ends delivery. Which endpoints are held is in holding.ts, what is sent when in sender.ts, the
// writing of outcomes in writing.ts.
import { EVENTS, WORK } from '../../db/platform/bus.ts'
import { dropDays, makeDays } from '../../db/postgres/day-partitions.ts'
import { releaseSender, renewSender } from '../../db/webhooks/leases.ts'
import { ATTEMPT_DAYS } from '../../db/webhooks/outcomes.ts'
import { WEBHOOK_TESTS, WEBHOOKS } from '../../db/webhooks/topics.ts'
import { sleep } from '../platform/clock.ts'
import { startLoops } from '../platform/loop.ts'
import type { WorkerServices } from '../services.ts'
import { renewHeld } from './holding.ts'
import { openRequests } from './request.ts'
import { Sender } from './sender.ts'
import { openTesting } from './testing.ts'
import { OutcomeWriting } from './writing.ts'

// How long a stopping worker waits for requests under way.
const DRAIN_MS = 10_000

export interface Webhooks {
  /** The log of a partner has grown. */
  grown(partnerId: string): void
  stop(): Promise<void>
}

/** Starts delivering. */
export async function startWebhooks(services: WorkerServices): Promise<Webhooks> {
  const { db, bus, config, log, clock, worker } = services
  const requests = openRequests({ allowPrivate: config.webhookAllowPrivate })
  const sender = new Sender(services, requests, () => void writing.write())
  const writing: OutcomeWriting = new OutcomeWriting(services, sender)
  const testing = openTesting(services, requests)

  await makeDays(db, 'webhook_attempts')
  await renewSender(db, worker, config.leaseMs)
  sender.goodUntil = clock.now() + config.leaseMs
  const loops = startLoops(services, {
    'webhook lease': {
      everyMs: config.leaseMs / 3,
      async round(): Promise<boolean> {
        await renewHeld(services, { sender, writing, take: () => loops.webhooks.wake() })
        // Growth whose hint was lost.
        for (const partnerId of new Set(sender.endpoints.map(endpoint => endpoint.partnerId))) sender.grown(partnerId)
        return false
      }
    },
    webhooks: {
      everyMs: config.sweepMs,
      async round() {
        await sender.take(null)
        return false
      }
    },
    'webhook tests': { everyMs: config.sweepMs, round: () => testing.round() }
  })
  const unsubscribes = [
    await bus.listen(EVENTS, ({ id }) => sender.grown(id)),
    await bus.listen(WORK, ({ topic, id }) => {
      if (topic === WEBHOOK_TESTS) loops['webhook tests'].wake()
      if (topic !== WEBHOOKS) return
      const known = sender.find(id)
      // Its settings may have changed, or rows were added for it.
      if (known) loops['webhook lease'].wake()
      else void sender.take(id).catch((error: unknown) => log.warn({ err: error }, 'a webhook could not be taken'))
    })
  ]

  return {
    grown: partnerId => sender.grown(partnerId),
    async stop() {
      for (const unsubscribe of unsubscribes) unsubscribe()
      sender.stop()
      await Promise.all(Object.values(loops).map(loop => loop.stop()))
      const until = clock.now() + DRAIN_MS
      while ((sender.sending > 0 || testing.busy()) && clock.now() < until) await sleep(clock, 20)
      await writing.writeEven()
      await releaseSender(db, worker).catch((error: unknown) =>
        log.warn({ err: error }, 'webhooks could not be released')
      )
      requests.close()
    }
  }
}

/** Makes the partitions of the coming days and drops those that are not kept any more. */
export async function keepWebhookDays({ db, log }: Pick<WorkerServices, 'db' | 'log'>): Promise<void> {
  await makeDays(db, 'webhook_attempts')
  const dropped = await dropDays(db, 'webhook_attempts', { keepDays: ATTEMPT_DAYS })
  if (dropped > 0) log.info({ days: dropped }, 'dropped attempts of webhooks that are not kept any more')
}

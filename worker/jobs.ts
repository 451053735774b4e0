// What a worker starts and how it ends, and which handler runs a scheduled job. Which loop does what is in loops.ts.

import { WORK } from '../db/platform/bus.ts'
import { acceptAccounts, channelOf } from '../db/traders/account-leases.ts'
import { violations } from '../schemas/checks/validator.ts'
import { type QueueName, queues } from '../schemas/jobs.ts'
import { giveUpAccounts } from './accounts/account-leases.ts'
import { reconcileAccounts } from './accounts/reconciliation.ts'
import { openAnalytics } from './analytics/adding.ts'
import { checkAnalytics } from './analytics/checking.ts'
import { reconcileDue } from './analytics/reconciling.ts'
import { checkBilling } from './billing.ts'
import { runHousekeeping } from './housekeeping.ts'
import { startWorkerLoops, type WorkerLoops, type WorkerParts } from './loops.ts'
import { archiveDue } from './orders/archiving.ts'
import { openHalts } from './orders/halts.ts'
import { OverdueReads } from './orders/past-end.ts'
import { Placing } from './orders/placing.ts'
import { openProving } from './orders/proving.ts'
import { openSettling } from './orders/settle.ts'
import { BrokerRequests } from './platform/broker-requests.ts'
import { DatabaseClock } from './platform/database-clock.ts'
import type { WorkerServices } from './services.ts'
import { openTicks } from './ticks.ts'
import { openAddingUp } from './trader-days.ts'
import { startWebhooks } from './webhooks/run.ts'

type ClockQueue = { [Name in QueueName]: (typeof queues)[Name]['wake'] extends 'clock' ? Name : never }[QueueName]

/** What the clock starts. */
const scheduled: Record<ClockQueue, (services: WorkerServices) => Promise<void>> = {
  // Every minute it takes the accounts whose AUDIT_MINUTES have passed.
  async 'orders.audit'({ bus }) {
    // Each worker compares the accounts that it serves.
    bus.publish(WORK, 'orders.audit', 'due')
  },
  housekeeping: runHousekeeping,
  'trader.days': openAddingUp(),
  analytics: openAnalytics(),
  'analytics.check': checkAnalytics,
  'analytics.reconcile': reconcileDue,
  'orders.archive': archiveDue,
  'billing.check': checkBilling
}

interface RunningWorker {
  /** What an operator should know although the worker works, a sentence each; for /readyz. */
  warnings(): string[]
  /** This process's wall clock minus the database's, ms; null before it was measured. */
  clockOffsetMs(): number | null
  /** Takes nothing new, finishes what is at the broker, hands leases back. */
  stop(): Promise<void>
}

/** Starts everything a worker does. */
export async function startWork(services: WorkerServices): Promise<RunningWorker> {
  const { db, log, worker } = services
  const settling = openSettling(services)
  const halts = openHalts(services)
  const databaseClock = new DatabaseClock()
  const placing = new Placing(services, settling, halts, () => loops['order.copy'].wake(), { databaseClock })
  const proving = openProving(services, placing, () => loops['account.prove'].wake())
  const brokerRequests = new BrokerRequests(services, settling)
  await databaseClock.measure(services)
  // Receivers refuse what was signed minutes ago, or in the future.
  const webhooks = await startWebhooks({ ...services, clock: databaseClock.correcting(services.clock) })
  const ticks = openTicks(services)
  // Before any order can name this worker: a worker without a lease counts as gone.
  await settling.renew()
  await acceptAccounts(db, worker)

  const clockJobs = openScheduled(services)

  const parts = {
    settling,
    halts,
    placing,
    proving,
    brokerRequests,
    databaseClock,
    webhooks,
    ticks,
    scheduled: clockJobs
  }
  const loops: WorkerLoops = startWorkerLoops(services, parts)
  const ignoreHints = await listenForHints(services, parts, loops)
  const ignorePassedOn = await listenForPassedOn(services, parts)
  await clockJobs.start()
  log.info({ worker }, 'working')

  return {
    warnings: () => databaseClock.warnings(),
    clockOffsetMs: () => databaseClock.offsetMs,
    async stop() {
      // It takes nothing new.
      ignoreHints()
      await stopLoops([loops['order.place'], loops['order.copy'], loops.sweep, loops['take over']])
      // Others take orders of these accounts at once, while what is under way here ends. Until then what they pass on is
      // claimed here: an order whose hint is lost waits for their sweeps.
      placing.stop()
      ignorePassedOn()
      await giveUpAccounts(services)
      // The lease is kept until all that is under way has ended: without it other workers would take these orders over.
      const { lease, ...others } = loops
      await stopLoops(Object.values(others))
      await ticks.stop().catch((error: unknown) => log.warn({ err: error }, 'the lease of ticks could not be released'))
      await Promise.all([proving.drain(), placing.drain(), brokerRequests.drain(), webhooks.stop()])
      // Work under way may have taken some accounts again.
      await giveUpAccounts(services)
      await lease.stop()
      await settling.release()
    }
  }
}

async function stopLoops(loops: WorkerLoops[keyof WorkerLoops][]): Promise<void> {
  await Promise.all(loops.map(loop => loop.stop()))
}

/** Wakes the loops by hints to all workers; returns a function that ends it. */
async function listenForHints(
  services: WorkerServices,
  { placing }: WorkerParts,
  loops: WorkerLoops
): Promise<() => void> {
  const { bus, config, log } = services
  const byTopic = new Map(Object.entries(loops))
  let auditing = false
  const reads = new OverdueReads()
  return bus.listen(WORK, ({ topic, id }) => {
    byTopic.get(topic)?.wake()
    // A worker that stops has given up this account, which has orders waiting.
    if (topic === 'claim') placing.claimNow(id)
    if (topic !== 'orders.audit' || auditing) return
    auditing = true
    reconcileAccounts(services, { everyMinutes: config.auditMinutes, reads })
      .catch((error: unknown) => log.warn({ err: error }, 'accounts could not be compared with the broker'))
      .finally(() => {
        auditing = false
      })
  })
}

/** Handles what other workers took from the queue for accounts that this one serves; returns a function that ends it. */
async function listenForPassedOn(
  { bus, worker }: WorkerServices,
  { placing, brokerRequests }: WorkerParts
): Promise<() => void> {
  return bus.listen(channelOf(worker), ({ topic, id }) => {
    if (topic === 'claim') placing.claimNow(id)
    if (topic === 'ask') brokerRequests.serve(id)
  })
}

// Scheduled jobs are woken within seconds of falling due (loops.ts); this is the interval of their own polling.
const SCHEDULED_POLL_SECONDS = 60

function openScheduled(services: WorkerServices): WorkerParts['scheduled'] & { start(): Promise<void> } {
  const { boss } = services.queue
  const names = Object.keys(scheduled) as ClockQueue[]
  const working = new Map<QueueName, string>()
  return {
    names,
    wake(name) {
      const id = working.get(name)
      if (id !== undefined) boss.notifyWorker(id)
    },
    async start() {
      for (const name of names) {
        await boss.schedule(name, queues[name].cron, {}, { tz: 'UTC' })
        const id = await boss.work(name, { pollingIntervalSeconds: SCHEDULED_POLL_SECONDS }, async ([job]) => {
          try {
            const [broken] = violations(queues[name].data, job?.data)
            if (broken)
              throw new Error(`The data of the job breaks the schema of its queue: ${broken.path} ${broken.message}`)
            await scheduled[name](services)
          } catch (error) {
            // pg-boss notes it with the job alone, where nobody reads it.
            services.log.error({ err: error, queue: name }, 'a scheduled job failed')
            throw error
          }
        })
        working.set(name, id)
      }
    }
  }
}

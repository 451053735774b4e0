// The map of a worker: which loop does what, and which handler runs a scheduled job.

import { failStaleDeployments } from '../db/community/templates.ts'
import { deleteOldTickets } from '../db/events/tickets.ts'
import { deleteOldTickWants, TICKS } from '../db/events/ticks.ts'
import { listWaitingAccounts } from '../db/orders/claiming.ts'
import { forgetLeaseHolders, noteClockOffset } from '../db/orders/leases.ts'
import { keepRequestDays } from '../db/partners/requests.ts'
import { deleteOldSessions } from '../db/partners/sessions.ts'
import { deleteOldUsage } from '../db/partners/usage.ts'
import { deleteOldBrokerRequests } from '../db/platform/broker-requests.ts'
import { WORK } from '../db/platform/bus.ts'
import { forgetCalls } from '../db/platform/call-records.ts'
import { deleteOldKeys } from '../db/platform/idempotency.ts'
import { forgetProcesses } from '../db/platform/processes.ts'
import { forgetUnowned, keepLineage, noteLineage } from '../db/postgres/lineage.ts'
import {
  acceptAccounts,
  channelOf,
  evenOut,
  forgetAccountLeases,
  listServedByOthers,
  releaseAccounts,
  releaseIdle
} from '../db/traders/account-leases.ts'
import { deleteOldResets } from '../db/traders/credentials.ts'
import { deleteOldTraderDays } from '../db/traders/days.ts'
import { forgetSenders } from '../db/webhooks/leases.ts'
import { deleteOldTests } from '../db/webhooks/tests.ts'
import { violations } from '../schemas/checks/validator.ts'
import { type QueueName, queues } from '../schemas/jobs.ts'
import { reconcileAccounts } from './accounts/reconciliation.ts'
import { renewTokens } from './accounts/renewal.ts'
import { openAnalytics } from './analytics/adding.ts'
import { checkAnalytics } from './analytics/checking.ts'
import { reconcileDue } from './analytics/reconciling.ts'
import { checkBilling } from './billing.ts'
import { markCopies, sellMarked } from './copy/closing.ts'
import { fanOut } from './copy/fanout.ts'
import { changeLimitsOfCopies, openLimitSetting } from './copy/limits.ts'
import { keepEventDays, openSequencing } from './events.ts'
import { archiveDue } from './orders/archiving.ts'
import { HALTS_MS, openHalts } from './orders/halts.ts'
import { Placing, passOn } from './orders/placing.ts'
import { openProving } from './orders/proving.ts'
import { resolveDoubts } from './orders/resolving.ts'
import { openSettling } from './orders/settle.ts'
import { openBrokerRequests } from './platform/broker-requests.ts'
import { DatabaseClock } from './platform/database-clock.ts'
import { startLoop } from './platform/loop.ts'
import type { WorkerServices } from './services.ts'
import { renderDeployments } from './sites/templates.ts'
import { openTicks, TICKS_MS } from './ticks.ts'
import { openAddingUp } from './trader-days.ts'
import { keepWebhookDays, startWebhooks } from './webhooks/run.ts'

// Hints wake these loops; the clock is for hints that were lost.
const QUEUE_POLL_MS = 2000
// How often a worker checks whether it serves more accounts than others, or some in vain, and how many it gives away
// then.
const EVEN_OUT_MS = 10_000
const GIVEN_AT_ONCE = 500
// An account without a session for so long has no worker any more.
const ACCOUNT_IDLE_MS = 5 * 60_000
// Tokens are renewed minutes ahead.
const RENEWAL_MS = 5000
// Where more contracts than this were taken over in one go, more are sought at once.
const TAKEN_AGAIN = 50

type ClockQueue = { [Name in QueueName]: (typeof queues)[Name]['wake'] extends 'clock' ? Name : never }[QueueName]

/** What the clock starts. */
const scheduled: Record<ClockQueue, (services: WorkerServices) => Promise<void>> = {
  // Every minute it takes the accounts whose AUDIT_MINUTES have passed.
  async 'orders.audit'({ bus }) {
    // Each worker compares the accounts that it serves.
    bus.publish(WORK, 'orders.audit', 'due')
  },
  async housekeeping(services) {
    const { db } = services
    await deleteOldBrokerRequests(db)
    await forgetLeaseHolders(db)
    await forgetAccountLeases(db)
    await forgetProcesses(db)
    await forgetCalls(db)
    await forgetUnowned(db)
    await failStaleDeployments(db)
    await deleteOldSessions(db)
    await deleteOldUsage(db)
    await deleteOldKeys(db)
    await deleteOldResets(db)
    await deleteOldTraderDays(db)
    await keepEventDays(services)
    await keepWebhookDays(services)
    await keepRequestDays(services)
    await deleteOldTests(db)
    await forgetSenders(db)
    await deleteOldTickets(db)
    await deleteOldTickWants(db)
  },
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

/** The database failed over or was restored: until that is noted nothing is claimed. */
async function noteChange({ db, log }: WorkerServices): Promise<void> {
  const goodUntil = await noteLineage(db)
  if (goodUntil)
    log.error(
      { goodUntil },
      'the database is on another timeline: the books of accounts are compared before they buy again'
    )
}

/** Starts everything a worker does. */
export async function startWork(services: WorkerServices): Promise<RunningWorker> {
  const { db, bus, queue, config, log, clock, worker } = services
  const settling = openSettling(services)
  const halts = openHalts(services)
  const placing = new Placing(services, settling, halts, () => loops['order.copy'].wake())
  const { copyPace } = placing
  const proving = openProving(services, placing, () => loops['account.prove'].wake())
  const brokerRequests = openBrokerRequests(services, settling)
  const databaseClock = new DatabaseClock()
  const webhooks = await startWebhooks(services)
  const sequence = openSequencing(services, webhooks.grown)
  const setLimits = openLimitSetting(services)
  const ticks = openTicks(services)
  // Before an order can name this worker: one that has no lease is taken for gone.
  await settling.renew()
  await acceptAccounts(db, worker)

  /** Gives accounts to workers that serve fewer, and those up that are not in use, or that others took over meanwhile. */
  async function giveAway(): Promise<void> {
    const busy = [...settling.busyAccounts()]
    const given = await evenOut(db, { worker, busy, limit: GIVEN_AT_ONCE })
    const inUse = services.brokers.accounts()
    const idle = await releaseIdle(db, { worker, inUse, idleMs: ACCOUNT_IDLE_MS })
    // This process was frozen or without the database for longer than its lease: two connections an account until then.
    const settlingHere = new Set(busy)
    const quiet = inUse.filter(accountId => !settlingHere.has(accountId))
    const lost = await listServedByOthers(db, { worker, accountIds: quiet })
    const left = [...given.map(({ accountId }) => accountId), ...idle, ...lost]
    if (left.length === 0) return
    log.info({ given: given.length, idle: idle.length, lost: lost.length }, 'gave accounts away')
    await settling.leave(left)
    await services.brokers.leave(left)
    // What is queued there is claimed at once.
    for (const { accountId, worker: other } of given) bus.publish(channelOf(other), 'claim', accountId)
  }

  async function giveUpAccounts(): Promise<void> {
    try {
      passOn(bus, await releaseAccounts(db, worker))
    } catch (error) {
      log.warn({ err: error }, 'accounts could not be released')
    }
  }

  const loops = {
    'order.place': startLoop({
      name: 'order.place',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      async round() {
        const more = await placing.take()
        if (placing.copiesWait()) loops['order.copy'].wake()
        return more
      }
    }),
    'order.copy': startLoop({
      name: 'order.copy',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: () => placing.takeCopies()
    }),
    'account.prove': startLoop({
      name: 'account.prove',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: () => proving.take()
    }),
    ask: startLoop({
      name: 'ask',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: async () => (await brokerRequests.take('ask')) > 0
    }),
    sell: startLoop({
      name: 'sell',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: async () => (await brokerRequests.take('sell')) > 0
    }),
    'copy.fanout': startLoop({
      name: 'copy.fanout',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: async () => ((await copyPace.wait()) ? (await fanOut(services, copyPace)) > 0 : true)
    }),
    'copy.close': startLoop({
      name: 'copy.close',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: async () => (await markCopies(services)) > 0
    }),
    'copy.sell': startLoop({
      name: 'copy.sell',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: async () => (await sellMarked(services, settling)) > 0
    }),
    'copy.limits': startLoop({
      name: 'copy.limits',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: async () => (await changeLimitsOfCopies(services)) > 0
    }),
    'copy.limits.set': startLoop({
      name: 'copy.limits.set',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: async () => (await setLimits()) > 0
    }),
    halts: startLoop({ name: 'halts', everyMs: HALTS_MS, log, clock, round: () => halts.round() }),
    'template.deploy': startLoop({
      name: 'template.deploy',
      everyMs: QUEUE_POLL_MS,
      log,
      clock,
      round: async () => (await renderDeployments(services)) > 0
    }),
    events: startLoop({ name: 'events', everyMs: config.sweepMs, log, clock, round: sequence }),
    [TICKS]: startLoop({ name: TICKS, everyMs: TICKS_MS, log, clock, round: () => ticks.round() })
  }
  services.changes.listen(() => loops.events.wake())
  const sweep = startLoop({
    name: 'sweep',
    everyMs: config.sweepMs,
    log,
    clock,
    async round() {
      if (!(await databaseClock.measure(services))) await noteChange(services)
      await placing.recover()
      await proving.expire()
      const waiting = { worker, ageMs: config.sweepMs, limit: 1000 }
      await placing.claim(await listWaitingAccounts(db, waiting, placing.rooms()))
      return false
    }
  })
  // Each in a loop of its own: a doubt waits for the broker, and orders and contracts of other accounts do not wait for it.
  const doubts = startLoop({
    name: 'doubts',
    everyMs: config.sweepMs,
    log,
    clock,
    round: () => resolveDoubts(services, { databaseClock, settling, placing })
  })
  const takeOvers = startLoop({
    name: 'take over',
    everyMs: config.sweepMs,
    log,
    clock,
    round: async () => (await settling.sweep()) > TAKEN_AGAIN
  })
  const lease = startLoop({
    name: 'lease',
    everyMs: config.leaseMs / 3,
    log,
    clock,
    async round() {
      await settling.renew()
      await keepLineage(db)
      if (databaseClock.offsetMs !== null) await noteClockOffset(db, services.worker, databaseClock.offsetMs)
      return false
    }
  })
  const evening = startLoop({
    name: 'even out',
    everyMs: Math.min(config.leaseMs, EVEN_OUT_MS),
    log,
    clock,
    async round() {
      await giveAway()
      return false
    }
  })
  const renewal = startLoop({
    name: 'renewal',
    everyMs: Math.min(config.sweepMs * 5, RENEWAL_MS),
    log,
    clock,
    round: () => renewTokens(services)
  })
  const byTopic = new Map(Object.entries(loops))
  let auditing = false
  const deaf = await bus.listen(WORK, ({ topic, id }) => {
    byTopic.get(topic)?.wake()
    // A worker that stops has given up this account, of which orders wait.
    if (topic === 'claim') placing.claimNow(id)
    if (topic !== 'orders.audit' || auditing) return
    auditing = true
    reconcileAccounts(services, { everyMinutes: config.auditMinutes })
      .catch((error: unknown) => log.warn({ err: error }, 'accounts could not be compared with the broker'))
      .finally(() => {
        auditing = false
      })
  })
  // What other workers took from the queue for accounts that this one serves.
  const unsubscribe = await bus.listen(channelOf(worker), ({ topic, id }) => {
    if (topic === 'claim') placing.claimNow(id)
    if (topic === 'ask') brokerRequests.serve(id)
  })

  for (const name of Object.keys(scheduled) as ClockQueue[]) {
    await queue.boss.schedule(name, queues[name].cron, {}, { tz: 'UTC' })
    await queue.boss.work(name, { pollingIntervalSeconds: 10 }, async ([job]) => {
      const [broken] = violations(queues[name].data, job?.data)
      if (broken)
        throw new Error(`The data of the job breaks the schema of its queue: ${broken.path} ${broken.message}`)
      await scheduled[name](services)
    })
  }
  log.info({ worker: services.worker }, 'working')

  return {
    warnings: () => databaseClock.warnings(),
    clockOffsetMs: () => databaseClock.offsetMs,
    async stop() {
      deaf()
      const { 'order.place': place, 'order.copy': copy, ...others } = loops
      await Promise.all([place, copy, sweep, takeOvers].map(loop => loop.stop()))
      // Others take orders of these accounts at once, while what is under way here ends. Until then what they pass on is
      // claimed here: an order whose hint is lost waits for their sweeps.
      placing.stop()
      unsubscribe()
      await giveUpAccounts()
      await Promise.all([...Object.values(others), doubts, renewal, evening].map(loop => loop.stop()))
      await ticks.stop().catch((error: unknown) => log.warn({ err: error }, 'the lease of ticks could not be released'))
      await Promise.all([proving.drain(), placing.drain(), brokerRequests.drain(), webhooks.stop()])
      // What was under way may have taken some again.
      await giveUpAccounts()
      await lease.stop()
      await settling.release()
    }
  }
}

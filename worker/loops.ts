// The map of a worker: which loop does what.

import { TICKS } from '../db/events/ticks.ts'
import { listWaitingAccounts } from '../db/orders/claiming.ts'
import { noteClockOffset } from '../db/orders/leases.ts'
import { anyUnproven } from '../db/orders/proving.ts'
import { keepLineage, noteLineage, type SeenHistory } from '../db/postgres/lineage.ts'
import type { QueueName } from '../schemas/jobs.ts'
import { giveAwayAccounts } from './accounts/account-leases.ts'
import { Renewals } from './accounts/renewal.ts'
import { markCopies, SOLD_AT_ONCE, sellMarked } from './copy/closing.ts'
import { fanOut } from './copy/fanout.ts'
import { changeLimitsOfCopies, SET_AT_ONCE, setLimits } from './copy/limits.ts'
import { openSequencing } from './events.ts'
import { HALTS_MS, type Halts } from './orders/halts.ts'
import type { Placing } from './orders/placing.ts'
import type { Proving } from './orders/proving.ts'
import { CHECKED_AT_ONCE, resolveDoubts } from './orders/resolving.ts'
import type { Settling } from './orders/settle.ts'
import type { BrokerRequests } from './platform/broker-requests.ts'
import type { DatabaseClock } from './platform/database-clock.ts'
import { startLoops } from './platform/loop.ts'
import { SeparateWork } from './platform/separate-work.ts'
import type { WorkerServices } from './services.ts'
import { renderDeployments } from './sites/templates.ts'
import { TICKS_MS, type TickForwarding } from './ticks.ts'
import type { Webhooks } from './webhooks/run.ts'

// Hints wake the loops of queues; polling finds work whose hint was lost.
const QUEUE_POLL_MS = 2000
// Queues with little work: one statement finds which of them have any, and by themselves their loops read only every QUIET_POLL_MS. To
// plan the statement that takes copies, or accounts to be proven, costs milliseconds on each connection of a worker that starts.
const QUIET_QUEUES = [
  'ask',
  'sell',
  'order.copy',
  'copy.fanout',
  'copy.close',
  'copy.limits',
  'template.deploy'
] as const
const QUIET_POLL_MS = 60_000
// How often a worker checks whether it serves more accounts than others, and whether it serves accounts without use.
const EVEN_OUT_MS = 10_000
// Tokens are renewed minutes ahead.
const RENEWAL_MS = 5000
// When more contracts than this were taken over in one go, the next take-over follows at once.
const TAKEN_AGAIN = 50

/** The parts of a worker that keep state, on which its loops work. */
export interface WorkerParts {
  settling: Settling
  halts: Halts
  placing: Placing
  proving: Proving
  brokerRequests: BrokerRequests
  databaseClock: DatabaseClock
  webhooks: Webhooks
  ticks: TickForwarding
  /** Jobs that the clock starts. */
  scheduled: { names: readonly QueueName[]; wake(name: QueueName): void }
}

export type WorkerLoops = ReturnType<typeof startWorkerLoops>

/** Starts all loops of a worker. A hint on the channel `WORK` wakes the loop that has the name of its topic. */
export function startWorkerLoops(services: WorkerServices, parts: WorkerParts) {
  const { leaseMs, sweepMs } = services.config
  const { settling, halts, placing, proving, brokerRequests, webhooks, ticks, scheduled } = parts
  const { db, queue, log } = services
  const polled = (round: () => Promise<boolean>) => ({ everyMs: QUEUE_POLL_MS, round })
  const quiet = (round: () => Promise<boolean>) => ({ everyMs: QUIET_POLL_MS, round })
  // Loops do not wait for this work: a broker may not respond.
  const selling = new SeparateWork(SOLD_AT_ONCE, log, wasFull => wasFull && loops['copy.sell'].wake())
  // A leader may have changed its limits again meanwhile.
  const setting = new SeparateWork(SET_AT_ONCE, log, () => loops['copy.limits.set'].wake())
  const renewals = new Renewals(services)
  const checking = new SeparateWork(CHECKED_AT_ONCE, log, wasFull => wasFull && loops.doubts.wake())
  const loops = startLoops(services, {
    'order.place': polled(async (): Promise<boolean> => {
      const more = await placing.take()
      if (placing.copiesWait()) loops['order.copy'].wake()
      return more
    }),
    'order.copy': quiet(() => placing.takeCopies()),
    'account.prove': quiet(async () => {
      await proving.take()
      return false
    }),
    ask: quiet(async () => (await brokerRequests.take('ask')) > 0),
    sell: quiet(async () => (await brokerRequests.take('sell')) > 0),
    'copy.fanout': quiet(() => fanOut(services, placing.copyPace)),
    'copy.close': quiet(async () => (await markCopies(services)) > 0),
    'copy.sell': {
      ...polled(async () => (await sellMarked(services, settling, selling)) > 0),
      drain: () => selling.drain()
    },
    'copy.limits': quiet(() => changeLimitsOfCopies(services)),
    'copy.limits.set': {
      ...polled(async () => (await setLimits(services, setting)) > 0),
      drain: () => setting.drain()
    },
    halts: { everyMs: HALTS_MS, round: () => halts.round() },
    'template.deploy': quiet(async () => (await renderDeployments(services)) > 0),
    events: { everyMs: sweepMs, round: openSequencing(services, webhooks.grown) },
    [TICKS]: { everyMs: TICKS_MS, round: () => ticks.round() },
    queues: polled(async () => {
      const due = await queue.due(db, [...QUIET_QUEUES, ...scheduled.names])
      for (const name of due) {
        const quietly = QUIET_QUEUES.find(each => each === name)
        if (quietly) loops[quietly].wake()
        else scheduled.wake(name)
      }
      if (await anyUnproven(db)) loops['account.prove'].wake()
      return false
    }),
    // The clock alone starts the rounds of these.
    sweep: { everyMs: sweepMs, round: () => sweep(services, parts) },
    // Each in a loop of its own: orders and contracts do not wait for doubts.
    doubts: {
      everyMs: sweepMs,
      round: () => resolveDoubts(services, parts, checking),
      drain: () => checking.drain()
    },
    'take over': { everyMs: sweepMs, round: async () => (await settling.sweep()) > TAKEN_AGAIN },
    lease: { everyMs: leaseMs / 3, round: () => keepLease(services, parts) },
    'even out': {
      everyMs: Math.min(leaseMs, EVEN_OUT_MS),
      async round() {
        await giveAwayAccounts(services, settling)
        return false
      }
    },
    renewal: {
      everyMs: Math.min(sweepMs * 5, RENEWAL_MS),
      round: () => renewals.round(),
      drain: () => renewals.drain()
    }
  })
  services.changes.listen(() => loops.events.wake())
  return loops
}

/** Claims what waits although no hint named it. */
async function sweep(services: WorkerServices, { placing, proving, databaseClock }: WorkerParts): Promise<boolean> {
  const { db, config, worker } = services
  const { generation, position } = await databaseClock.measure(services)
  const seen = generation === null ? placing.seenHistory : placing.sawHistory({ generation, position })
  if (generation === null || generation < seen.generation || position < seen.position) await noteChange(services, seen)
  await placing.recover()
  await proving.expire()
  const waiting = { worker, ageMs: config.sweepMs, limit: 1000 }
  await placing.claim(await listWaitingAccounts(db, waiting, placing.rooms()))
  return false
}

/** The database failed over, was restored, or is back at an earlier moment: nothing is claimed until that is noted. */
async function noteChange({ db, log }: WorkerServices, seen: SeenHistory): Promise<void> {
  const noted = await noteLineage(db, seen)
  if (!noted) return keepLineage(db, seen)
  const { goodUntil, unseen } = noted
  if (unseen)
    log.info(
      { goodUntil },
      'no worker has seen the database for ten minutes or longer, and it may have been restored: the books of accounts are compared before they buy again'
    )
  else
    log.error(
      { goodUntil },
      'the database is on another timeline, or was restored: the books of accounts are compared before they buy again'
    )
}

async function keepLease(
  { db, worker }: WorkerServices,
  { settling, placing, databaseClock }: WorkerParts
): Promise<boolean> {
  await settling.renew()
  await keepLineage(db, placing.seenHistory)
  if (databaseClock.offsetMs !== null) await noteClockOffset(db, worker, databaseClock.offsetMs)
  return false
}

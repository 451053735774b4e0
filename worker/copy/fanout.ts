// Copying: when a leader's contract is bought, one order per active follower is stored, in groups. A copy is
// an order like any other from there on; the unique pair of leader's order and follow makes a repeat harmless.

import {
  findLeading,
  type Leading,
  lockForCopying,
  partEnds,
  storeDecisions,
  takeCandidates
} from '../../db/copy/fanout.ts'
import { storeCopies } from '../../db/orders/copies.ts'
import { WORK } from '../../db/platform/bus.ts'
import type { Job, Queue } from '../../db/platform/queue.ts'
import type { Db } from '../../db/postgres/connection.ts'
import type { Least } from '../broker/port.ts'
import { contractOf } from '../orders/terms.ts'
import type { WorkerServices } from '../services.ts'
import type { CopyPace } from './pace.ts'
import { judge } from './terms.ts'

// Followers served in one transaction. A part that fails is tried again by itself, and delays others only shortly.
const PART = 200
// How long copies wait for the broker's minimums; a quote takes two round trips.
const LEAST_WITHIN_MS = 1000

/**
 * Takes one fan-out job as soon as `pace` allows it, and copies the order to its part of the followers; returns whether there may be
 * more. The work is done in the transaction of the fetch, so that the job of a worker that dies is free at once; a failure is
 * counted in a transaction of its own, and the next job is not held up by it.
 */
export async function fanOut(services: WorkerServices, pace: Pick<CopyPace, 'noteCopies' | 'wait'>): Promise<boolean> {
  const { db, queue, bus, log } = services
  if (!(await pace.wait())) return true
  let job: Job<'copy.fanout'> | undefined
  try {
    await db.transaction(async trx => {
      ;[job] = await queue.fetch(trx, 'copy.fanout', 1)
      if (!job) return
      const copies = await copyPart(trx, services, job.data)
      pace.noteCopies(copies)
      await queue.complete(trx, 'copy.fanout', [job])
      if (copies > 0) log.info({ ...job.data, copies }, 'copied an order')
    })
  } catch (error) {
    const failed = job
    if (!failed) throw error
    log.error({ err: error, ...failed.data, tries: failed.retryCount + 1 }, 'an order could not be copied')
    await db.transaction(trx => queue.fail(trx, 'copy.fanout', failed, error))
  }
  if (!job) return false
  for (const topic of ['order.copy', 'account.prove']) bus.publish(WORK, topic, 'new')
  return true
}

/** Copies an order to the followers of one part; returns the number of copies. Without a part, it is the first one. */
async function copyPart(
  trx: Db,
  services: WorkerServices,
  { orderId, after = '', upTo }: { orderId: string; after?: string; upTo?: string }
): Promise<number> {
  const { queue, config } = services
  // Before anything is locked that others wait for.
  const least = await leastOf(services, await findLeading(trx, orderId))
  await lockForCopying(trx, orderId)
  const leading = await findLeading(trx, orderId)
  if (!leading || leading.copied_from !== null) return 0
  const leaderId = leading.trader_id
  const end = upTo ?? (await planParts(trx, queue, { orderId, leaderId }))
  const candidates = await takeCandidates(trx, { orderId, leaderId, after, upTo: end, limit: PART })
  const judged = candidates
    .filter(({ copied }) => !copied)
    .map(candidate => judge(leading, candidate, { least, ttlMs: config.orderTtlMs }))
  const stored = await storeCopies(
    trx,
    queue,
    judged.flatMap(({ draft }) => draft ?? [])
  )
  await storeDecisions(trx, { orderId, decided: judged.map(({ decided }) => decided) })
  return stored
}

const unstated: Least = { stake: null, stopLoss: null, takeProfit: null }

/** The broker's minimums for the order's kind; none stated where it does not respond in time. */
export async function leastOf({ brokers, log }: WorkerServices, leading: Leading | undefined): Promise<Least> {
  if (!leading) return unstated
  const { dialect, app_id: appId, asset } = leading
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<Least>(resolve => {
    timer = setTimeout(() => resolve(unstated), LEAST_WITHIN_MS)
  })
  const stated = Promise.resolve()
    .then(() => brokers.of(dialect).market(appId).leastOf(contractOf(leading)))
    .catch((error: unknown) => {
      log.info({ err: error, asset }, 'the least amounts of a contract could not be read')
      return unstated
    })
  return await Promise.race([stated, late]).finally(() => clearTimeout(timer))
}

/**
 * Stores a job for every part but the first, and returns where the first one ends. Later parts have a lower priority: no
 * leader's order waits for more than the same part of the others'.
 */
async function planParts(
  trx: Db,
  queue: Queue,
  { orderId, leaderId }: { orderId: string; leaderId: string }
): Promise<string> {
  const ends = await partEnds(trx, { leaderId, size: PART })
  for (const [index, after] of ends.slice(0, -1).entries()) {
    const data = { orderId, after, upTo: ends[index + 1] as string }
    await queue.enqueue(trx, 'copy.fanout', [data], { priority: -1 - index })
  }
  return ends[0] ?? ''
}

// Copying: when a leader's contract is bought, one order per active follower is stored, in groups. A copy is
// an order like any other from there on; the unique pair of leader's order and follow makes a repeat harmless.

import { findLeading, lockForCopying, partEnds, storeDecisions, takeCandidates } from '../../db/copy/fanout.ts'
import { storeCopies } from '../../db/orders/copies.ts'
import { WORK } from '../../db/platform/bus.ts'
import type { Queue } from '../../db/platform/queue.ts'
import type { Db } from '../../db/postgres/connection.ts'
import type { Least } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import { takeWithLeast } from './least.ts'
import type { CopyPace } from './pace.ts'
import { decideCopy } from './terms.ts'

// Followers served in one transaction. A part that fails is tried again by itself, and delays others only shortly.
const PART = 200

/**
 * Takes one fan-out job as soon as `pace` allows it, and copies the order to its part of the followers; returns whether there may be
 * more.
 */
export async function fanOut(services: WorkerServices, pace: Pick<CopyPace, 'noteCopies' | 'wait'>): Promise<boolean> {
  const { bus, log } = services
  if (!(await pace.wait())) return true
  const more = await takeWithLeast(
    services,
    { name: 'copy.fanout', failed: 'an order could not be copied' },
    async (trx, job, least) => {
      const copies = await copyPart(trx, services, { ...job.data, least })
      pace.noteCopies(copies)
      if (copies > 0) log.info({ ...job.data, copies }, 'copied an order')
    }
  )
  if (more) for (const topic of ['order.copy', 'account.prove']) bus.publish(WORK, topic, 'new')
  return more
}

/** Copies an order to the followers of one part; returns the number of copies. Without a part, it is the first one. */
async function copyPart(
  trx: Db,
  services: WorkerServices,
  { orderId, after = '', upTo, least }: { orderId: string; after?: string; upTo?: string; least: Least }
): Promise<number> {
  const { queue, config } = services
  await lockForCopying(trx, orderId)
  const leading = await findLeading(trx, orderId)
  if (!leading || leading.copied_from !== null) return 0
  const leaderId = leading.trader_id
  const end = upTo ?? (await planParts(trx, queue, { orderId, leaderId }))
  const candidates = await takeCandidates(trx, { orderId, leaderId, after, upTo: end })
  const judged = candidates
    .filter(({ copied }) => !copied)
    .map(candidate => decideCopy(leading, candidate, { least, ttlMs: config.orderTtlMs }))
  const stored = await storeCopies(
    trx,
    queue,
    judged.flatMap(({ draft }) => draft ?? [])
  )
  await storeDecisions(trx, { orderId, decided: judged.map(({ decided }) => decided) })
  return stored
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

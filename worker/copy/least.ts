// Jobs of copying that need the broker's minimums: they are read before the transaction that takes a job, so that no connection and no
// lock waits for the broker.
import { findLeading, type Leading } from '../../db/copy/fanout.ts'
import type { Job } from '../../db/platform/queue.ts'
import type { Db } from '../../db/postgres/connection.ts'
import type { Least } from '../broker/port.ts'
import { contractOf } from '../orders/terms.ts'
import type { WorkerServices } from '../services.ts'

// How long copies wait for the broker's minimums; a quote takes two round trips.
const WITHIN_MS = 1000
// When other workers keep taking the jobs whose minimums were read, the next round of the loop continues after this many.
const ORDERS = 20

type NameOfJob = 'copy.fanout' | 'copy.limits'

/** A job was found whose order's minimums were not read yet. */
class Unread extends Error {}

/**
 * Takes one job and works on it in the transaction of the fetch, so that the job of a worker that dies is free at once; a
 * failure is counted in a transaction of its own, and the next job is not held up by it. Until the minimums for its order are
 * known a job is left where it is. Returns whether there may be more.
 */
export async function takeWithLeast<Name extends NameOfJob>(
  services: WorkerServices,
  { name, failed }: { name: Name; failed: string },
  work: (trx: Db, job: Job<Name>, least: Least) => Promise<void>
): Promise<boolean> {
  const { db, queue, log } = services
  const read = new Map<string, Least>()
  while (read.size < ORDERS) {
    let job: Job<Name> | undefined
    try {
      await db.transaction(async trx => {
        ;[job] = await queue.fetch(trx, name, 1)
        if (!job) return
        const least = read.get(job.data.orderId)
        if (least === undefined) throw new Unread()
        await work(trx, job, least)
        await queue.complete(trx, name, [job])
      })
      return job !== undefined
    } catch (error) {
      if (!job) throw error
      const { id, data, retryCount } = job
      if (!(error instanceof Unread)) {
        log.error({ err: error, ...(data as object), tries: retryCount + 1 }, failed)
        await db.transaction(trx => queue.fail(trx, name, { id, data, retryCount }, error))
        return true
      }
      read.set(data.orderId, await leastOf(services, await findLeading(db, data.orderId)))
    }
  }
  return true
}

const unstated: Least = { stake: null, stopLoss: null, takeProfit: null }

/** The broker's minimums for the order's kind; none stated where it does not respond in time. */
export async function leastOf({ brokers, log }: WorkerServices, leading: Leading | undefined): Promise<Least> {
  if (!leading) return unstated
  const { dialect, app_id: appId, asset } = leading
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<Least>(resolve => {
    timer = setTimeout(() => resolve(unstated), WITHIN_MS)
  })
  const stated = Promise.resolve()
    .then(() => brokers.of(dialect).market(appId).leastOf(contractOf(leading)))
    .catch((error: unknown) => {
      log.info({ err: error, asset }, 'the least amounts of a contract could not be read')
      return unstated
    })
  return await Promise.race([stated, late]).finally(() => clearTimeout(timer))
}

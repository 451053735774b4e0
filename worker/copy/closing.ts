// Closing copies when the leader's contract was closed: first each copy is marked, in bounded parts, then whatever is
// open and marked is sold, until the broker shows it closed.

import { requestClosing, takeToClose } from '../../db/copy/closing.ts'
import { lockForClosing } from '../../db/copy/fanout.ts'
import type { OrderRow } from '../../db/orders/reading.ts'
import { WORK } from '../../db/platform/bus.ts'
import type { Job } from '../../db/platform/queue.ts'
import type { Settling } from '../orders/settle.ts'
import { close } from '../platform/request-handlers.ts'
import type { SeparateWork } from '../platform/separate-work.ts'
import type { WorkerServices } from '../services.ts'

const PART = 500
/** Orders that one worker sells at a time. */
export const SOLD_AT_ONCE = 50

/**
 * Takes one job and marks its part of a closed order's copies; returns how many jobs were taken. As with copying, the work
 * shares the transaction of the fetch, and a failure is counted in one of its own.
 */
export async function markCopies(services: WorkerServices): Promise<number> {
  const { db, queue, bus, log } = services
  let job: Job<'copy.close'> | undefined
  try {
    await db.transaction(async trx => {
      ;[job] = await queue.fetch(trx, 'copy.close', 1)
      if (!job) return
      const { orderId, after = '' } = job.data
      await lockForClosing(trx, orderId)
      const { failed, last } = await requestClosing(trx, { orderId, after, limit: PART })
      if (last !== undefined) await queue.enqueue(trx, 'copy.close', [{ orderId, after: last }])
      await queue.complete(trx, 'copy.close', [job])
      if (failed.length > 0)
        log.info({ orderId, copies: failed.length }, 'copies were not bought, the leader had closed')
    })
  } catch (error) {
    const lost = job
    if (!lost) throw error
    log.error({ err: error, ...lost.data, tries: lost.retryCount + 1 }, 'copies could not be marked for closing')
    await db.transaction(trx => queue.fail(trx, 'copy.close', lost, error))
  }
  if (!job) return 0
  bus.publish(WORK, 'copy.sell', 'new')
  return 1
}

/** Begins to sell open orders that are marked and due; returns how many. What cannot be sold now is tried again later. */
export async function sellMarked(services: WorkerServices, settling: Settling, selling: SeparateWork): Promise<number> {
  const { room: limit, ids: except } = selling
  if (limit <= 0) return 0
  const orders = await takeToClose(services.db, { worker: services.worker, limit, except })
  for (const order of orders) selling.begin(order.id, () => sell(services, settling, order))
  return orders.length
}

async function sell(services: WorkerServices, settling: Settling, order: OrderRow): Promise<void> {
  try {
    await close(services, settling, order.id)
    services.log.info({ orderId: order.id, copiedFrom: order.copied_from }, 'closed a copy')
  } catch (error) {
    services.log.info({ err: error, orderId: order.id, tries: order.close_tries }, 'a copy could not be closed yet')
  }
}

// The move of orders at their end to the archive, as the workers' clock starts it: batch after batch, with pauses, so that
// orders that are placed meanwhile have the database for themselves for most of the time.
import { setTimeout as sleep } from 'node:timers/promises'
import { archivedBefore, archiveOrders } from '../../db/orders/archiving.ts'
import { countArchived } from '../../db/platform/metrics.ts'
import type { WorkerServices } from '../services.ts'

// Shorter than the period of the job: the next one goes on where this one stopped.
const LIMIT_MS = 55_000
// A pause is this many times as long as the batch before it took.
const PAUSES = 1

/** Moves what is due until nothing is left or its time is over. */
export async function archiveDue(
  { db, config, log }: Pick<WorkerServices, 'db' | 'config' | 'log'>,
  { limitMs = LIMIT_MS }: { limitMs?: number } = {}
): Promise<void> {
  if (config.archiveAfterDays === 0) return
  const before = archivedBefore(config.archiveAfterDays)
  const signal = AbortSignal.timeout(limitMs)
  let total = 0
  for (let after: string | null = ''; after !== null && !signal.aborted; ) {
    const begun = performance.now()
    const batch = await archiveOrders(db, { before, after })
    total += batch.moved
    countArchived(batch.moved)
    after = batch.after
    if (after !== null) await sleep((performance.now() - begun) * PAUSES)
  }
  if (total > 0) log.info({ orders: total, before }, 'archived orders')
}

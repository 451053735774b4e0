// Moves final orders to the archive, as the workers' clock starts it: batch after batch, without pauses while nobody else uses
// the database, otherwise in short batches with long pauses.
import { setTimeout as sleep } from 'node:timers/promises'
import { ARCHIVE_BATCH, archivedBefore, archiveOrders } from '../../db/orders/archiving.ts'
import { countArchived } from '../../db/platform/metrics.ts'
import type { WorkerServices } from '../services.ts'

// Shorter than the period of the job: the next one goes on where this one stopped.
const LIMIT_MS = 55_000
// The weight of one more batch in the mean number of other sessions at work.
const FRESH = 0.2
const BESIDE = { batch: 200, load: 0.1 }
// A pause as a multiple of the time of the batch before it: for each other session, and at most.
const PAUSES = { aSession: 4, most: 8 }

/** The size of a batch, and the pause after it as a multiple of its time, for a mean number of other sessions at work. */
export function paceBeside(load: number): { batch: number; pauses: number } {
  const batch = load > BESIDE.load ? BESIDE.batch : ARCHIVE_BATCH
  return { batch, pauses: Math.min(PAUSES.most, load * PAUSES.aSession) }
}

/** Moves what is due until nothing is left or its time is over. */
export async function archiveDue(
  { db, config, log }: Pick<WorkerServices, 'db' | 'config' | 'log'>,
  { limitMs = LIMIT_MS }: { limitMs?: number } = {}
): Promise<void> {
  if (config.archiveAfterDays === 0) return
  const before = archivedBefore(config.archiveAfterDays)
  const signal = AbortSignal.timeout(limitMs)
  let total = 0
  let load = 0
  for (let after: string | null = ''; after !== null && !signal.aborted; ) {
    const begun = performance.now()
    const { batch: limit, pauses } = paceBeside(load)
    const batch = await archiveOrders(db, { before, after, limit })
    total += batch.moved
    countArchived(batch.moved)
    after = batch.after
    load += (batch.others - load) * FRESH
    if (after !== null && pauses > 0) await sleep((performance.now() - begun) * pauses)
  }
  if (total > 0) log.info({ orders: total, before }, 'archived orders')
}

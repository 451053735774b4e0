// The event log in a worker: the sequencer, right after what changes orders and by the sweep's clock for everything else, and the
// partitions of the log.

import { forgetEventFaults } from '../db/events/faults.ts'
import { dropEventDays, makeEventDays, SEQUENCED_AT_ONCE, sequenceEvents } from '../db/events/sequence.ts'
import { EVENTS } from '../db/platform/bus.ts'
import { notifiesItself, withRoom } from '../db/platform/hints.ts'
import { countSequenced } from '../db/platform/metrics.ts'
import { lacksPartition } from '../db/postgres/day-partitions.ts'
import { sleep } from './platform/clock.ts'
import type { WorkerServices } from './services.ts'

// Runs that move this many events or more are followed by a short wait: an event costs 200 microseconds alone and 10 in a group of 50.
const GROUP_FROM = 4
const GROUP_MS = 10

/** A round of the sequencer; returns whether there may be more. `onGrowth` gets the partners whose logs have grown. */
export function openSequencing(
  services: WorkerServices,
  onGrowth: (partnerId: string) => void = () => {}
): () => Promise<boolean> {
  const { db, bus, clock, log } = services
  let last = 0
  let placed = false
  return async () => {
    if (last >= GROUP_FROM) await sleep(clock, GROUP_MS)
    try {
      // Housekeeping may not have run for days.
      if (!placed) await makeEventDays(db)
      placed = true
      const { count, grown, notify } = await withRoom(notifiesItself(bus, last), async notify => {
        return { ...(await sequenceEvents(db, { notify })), notify }
      })
      last = count
      if (count === 0) return false
      countSequenced(count)
      for (const { partnerId } of grown) {
        if (!notify) bus.publish(EVENTS, 'events', partnerId)
        onGrowth(partnerId)
      }
      return count === SEQUENCED_AT_ONCE
    } catch (error) {
      last = 0
      if (!lacksPartition(error)) throw error
      placed = false
      log.warn('the event log lacks the partition of today: making it')
      return true
    }
  }
}

/** Makes the partitions of the coming days and drops those that are not kept any more. */
export async function keepEventDays({ db, config, log }: Pick<WorkerServices, 'db' | 'config' | 'log'>): Promise<void> {
  await makeEventDays(db)
  await forgetEventFaults(db, config.eventDays)
  const dropped = await dropEventDays(db, config.eventDays)
  if (dropped > 0) log.info({ days: dropped }, 'dropped events that are not kept any more')
}

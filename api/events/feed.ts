// Notifies the waiters in this process that a partner's log has grown. A hint may be lost: every waiter also reads
// again by a slow clock.
import { type Bus, EVENTS } from '../../db/platform/bus.ts'

type FeedListener = () => void

export interface Feed {
  /** Calls `listener` each time the partner's log has grown, until the returned function is called. */
  watch(partnerId: string, listener: FeedListener): () => void
  close(): void
}

/** Listens to the sequencers of all workers. */
export async function openFeed(bus: Bus): Promise<Feed> {
  const watching = new Map<string, Set<FeedListener>>()
  const close = await bus.listen(EVENTS, ({ id }) => {
    for (const listener of watching.get(id) ?? []) listener()
  })
  return {
    close,
    watch(partnerId, listener) {
      const listeners = watching.get(partnerId) ?? new Set()
      watching.set(partnerId, listeners.add(listener))
      return () => {
        listeners.delete(listener)
        if (listeners.size === 0 && watching.get(partnerId) === listeners) watching.delete(partnerId)
      }
    }
  }
}

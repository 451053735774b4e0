// How fast each partner's bytes pass through the event loop. Parsing a large body, or presenting a long page, holds the loop for
// some milliseconds, and everybody else waits for it. Connections and places bound how many are under way, not how close together
// they end: so a partner that has used up its allowance waits until that has grown again, and the loop is free for others.

// Of one partner in one process: fifty full pages of orders a second, ten bodies of 500 kB.
const BYTES_PER_MS = (5 * 2 ** 20) / 1000
// What it may use at once after a rest: ten full pages.
const BURST_BYTES = 2 ** 20
// One long export is no reason to wait for longer.
const MOST_MS = 2000

export interface Pace {
  /** Milliseconds until the partner's next request may begin; 0 when it may now. */
  waitMs(partnerId: string): number
  /** Takes bytes of a body or a response out of the partner's allowance, which may go below zero. */
  spend(partnerId: string, bytes: number): void
}

/** The allowances of one process. `now` is a clock in milliseconds. */
export function openPace({ bytesPerMs = BYTES_PER_MS, burst = BURST_BYTES, now = () => performance.now() } = {}): Pace {
  // Bytes used beyond what has grown again since, of the partners that used some lately.
  const used = new Map<string, { bytes: number; at: number }>()

  function usedBy(partnerId: string): number {
    const entry = used.get(partnerId)
    if (!entry) return 0
    const bytes = entry.bytes - (now() - entry.at) * bytesPerMs
    if (bytes > 0) return bytes
    used.delete(partnerId)
    return 0
  }

  return {
    waitMs: partnerId => Math.ceil(Math.max(0, usedBy(partnerId) - burst) / bytesPerMs),
    spend(partnerId, bytes) {
      const most = burst + MOST_MS * bytesPerMs
      used.set(partnerId, { bytes: Math.min(most, usedBy(partnerId) + bytes), at: now() })
    }
  }
}

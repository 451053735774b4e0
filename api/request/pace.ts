// How fast each partner's requests begin, and their bytes pass through the event loop. Parsing a large body, or presenting a long
// page, holds the loop for some milliseconds, and everybody else waits for it; a limit of calls a minute lets a minute's calls
// come in a second. Connections and places bound how many are under way, not how close together they end: so a partner that has
// used up its allowance waits until that has grown again, and loop and database are free for others.

/** How an allowance grows, and how much may be used at once after a rest. */
export interface Allowance {
  perMs: number
  burst: number
}

// Of one partner in one process: fifteen full pages of orders a second, three bodies of 500 kB; at once ten full pages. Each such page takes
// some 10 ms of the api's CPU.
const BYTES: Allowance = { perMs: (1.5 * 2 ** 20) / 1000, burst: 2 ** 20 }
// A partner waits at most this long, also after a long export.
const MOST_MS = 2000
// More calls than one page of an application sends at once.
const LEAST_CALLS_AT_ONCE = 200

/** A minute's calls spread evenly over the minute; two seconds' worth may come at once. */
export function callsOf(perMinute: number): Allowance {
  return { perMs: perMinute / 60_000, burst: Math.max(LEAST_CALLS_AT_ONCE, perMinute / 30) }
}

export interface Pace {
  /** Milliseconds until the partner's next request may begin; 0 when it may now. */
  waitMs(partnerId: string): number
  /** Takes `amount` out of the partner's allowance, which may become negative; the latest `allowance` given counts. */
  spend(partnerId: string, amount: number, allowance?: Allowance): void
}

/** The allowances of one process, by default of bytes. `now` is a clock in milliseconds. */
export function openPace({ usual = BYTES, now = () => performance.now() } = {}): Pace {
  // For partners that used some lately: what is used and has not grown back.
  const spent = new Map<string, { amount: number; at: number; allowance: Allowance }>()

  function usedBy(partnerId: string): number {
    const entry = spent.get(partnerId)
    if (!entry) return 0
    const amount = entry.amount - (now() - entry.at) * entry.allowance.perMs
    if (amount > 0) return amount
    spent.delete(partnerId)
    return 0
  }

  return {
    waitMs(partnerId) {
      const used = usedBy(partnerId)
      const { perMs, burst } = spent.get(partnerId)?.allowance ?? usual
      return Math.ceil(Math.max(0, used - burst) / perMs)
    },
    spend(partnerId, amount, allowance = usual) {
      const most = allowance.burst + MOST_MS * allowance.perMs
      spent.set(partnerId, { amount: Math.min(most, usedBy(partnerId) + amount), at: now(), allowance })
    }
  }
}

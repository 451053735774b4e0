// Requests of each partner that wait for its broker. A broker that is slow for one partner makes thousands of them wait in a minute,
// and then end unbought: each costs a row, several statements and memory that everybody else lacks. So once many of a partner's
// requests have waited for long, further ones are refused before anything is stored. A burst that the broker takes at once is not.
import type { queueOf } from '../../db/platform/broker-requests.ts'
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { ApiError } from '../../schemas/errors/errors.ts'

// A broker responds in less than half of this as a rule.
const LONG_MS = 1000
// As many as the largest plan has calls in a second.
const MOST_FOR_LONG = 200

export interface Backlog {
  /**
   * Adds a request of a partner that waits for its broker to place, read or sell; the returned function takes it out, and calling it
   * once more does nothing. Throws RATE_LIMITED with Retry-After where too many of the same kind have waited for long.
   */
  enter(partnerId: string, kind: 'place' | ReturnType<typeof queueOf>): () => void
}

/** The requests of one process. `now` is a clock in milliseconds. */
export function openBacklog({ mostForLong = MOST_FOR_LONG, now = () => performance.now() } = {}): Backlog {
  /** When each began to wait, by partner and kind, oldest first. */
  const waiting = new Map<string, Set<{ since: number }>>()

  /** Whether as many as may wait for long do. */
  function isFull(own: Set<{ since: number }>): boolean {
    if (own.size < mostForLong) return false
    const since = now() - LONG_MS
    let count = 0
    for (const each of own) {
      if (each.since > since) return false
      count += 1
      if (count === mostForLong) return true
    }
    return false
  }

  return {
    enter(partnerId, kind) {
      const name = `${kind} ${partnerId}`
      const own = waiting.get(name) ?? new Set()
      if (isFull(own)) {
        countTurnedAway('request')
        const message =
          'Too many requests of this partner are waiting for its broker, which is slow: let some of them end first.'
        throw new ApiError('RATE_LIMITED', message, { headers: { 'Retry-After': '1' } })
      }
      const entry = { since: now() }
      waiting.set(name, own.add(entry))
      return () => {
        own.delete(entry)
        if (own.size === 0 && waiting.get(name) === own) waiting.delete(name)
      }
    }
  }
}

// Requests of each partner that have waited for its broker for long. A broker that is slow for one partner makes thousands of them
// wait in a minute, and then end unbought: each costs a row, several statements and memory that everybody else lacks. So once many have
// waited for long, further ones are refused before anything is stored. A burst that the broker takes at once is not.
import type { queueOf } from '../../db/platform/broker-requests.ts'
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { ApiError } from '../../schemas/errors/errors.ts'

/** From here on a request has waited for long, ms: a broker responds in less than half of it as a rule. */
export const LONG_MS = 1000
// As many as the largest plan has calls in a second.
const MOST = 200

/** For what it waits. */
type Kind = 'place' | ReturnType<typeof queueOf>

export interface Backlog {
  /** Throws RATE_LIMITED with Retry-After where too many requests of the partner have waited for long, of the same kind. */
  requireRoom(partnerId: string, kind: Kind): void
  /** Adds a request that has waited for long; the returned function takes it out, and calling it once more does nothing. */
  add(partnerId: string, kind: Kind): () => void
}

/** The requests of one process. */
export function openBacklog({ most = MOST } = {}): Backlog {
  const counts = new Map<string, number>()
  const change = (name: string, by: number) => {
    const count = (counts.get(name) ?? 0) + by
    if (count > 0) counts.set(name, count)
    else counts.delete(name)
  }
  return {
    requireRoom(partnerId, kind) {
      if ((counts.get(`${kind} ${partnerId}`) ?? 0) < most) return
      countTurnedAway('request')
      const message =
        'Too many requests of this partner are waiting for its broker, which is slow: let some of them end first.'
      throw new ApiError('RATE_LIMITED', message, { headers: { 'Retry-After': '1' } })
    },
    add(partnerId, kind) {
      const name = `${kind} ${partnerId}`
      let left = false
      change(name, 1)
      return () => {
        if (!left) change(name, -1)
        left = true
      }
    }
  }
}

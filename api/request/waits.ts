// How long a request may wait for a worker or a settlement: until its caller disconnects or this process stops. The number of
// waiting requests is bounded as they hold memory, and no partner has more than its share of them.
import type { ServerResponse } from 'node:http'
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { Shares } from '../../db/platform/shares.ts'
import { ApiError } from '../../schemas/errors/errors.ts'

// Requests that wait in one process: alone, a partner may have half of them.
const MAX_WAITING = 4000

export interface Waits {
  /**
   * Aborts when the caller disconnects before its response is out, or when all waits end. Throws RATE_LIMITED with
   * Retry-After when the partner has its share of the waiting requests.
   */
  signalFor(response: ServerResponse, partnerId: string): AbortSignal
  /** Ends all waits: each request returns the state known so far. */
  endAll(): void
}

/** The waits of one process. */
export function openWaits({ maxWaiting = MAX_WAITING } = {}): Waits {
  const waiting = new Set<AbortController>()
  const shares = new Shares(maxWaiting)
  let ended = false
  return {
    signalFor(response, partnerId) {
      const wait = new AbortController()
      if (ended || response.destroyed) {
        wait.abort()
        return wait.signal
      }
      if (shares.roomOf(partnerId) === 0) {
        countTurnedAway('request')
        const message = 'Too many requests of this partner are waiting for a response: let some of them end first.'
        throw new ApiError('RATE_LIMITED', message, { headers: { 'Retry-After': '1' } })
      }
      waiting.add(wait)
      shares.add(partnerId)
      response.once('close', () => {
        waiting.delete(wait)
        shares.remove(partnerId)
        if (!response.writableFinished) wait.abort()
      })
      return wait.signal
    },
    endAll() {
      ended = true
      for (const wait of waiting) wait.abort()
    }
  }
}

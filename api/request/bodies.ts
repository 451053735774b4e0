// Bytes of bodies that are being received. They wait in memory until the last one is there, and how long that takes is up to
// the client: 30 seconds at most (listen.ts). So a partner has a bound on them, and its uploads take no memory from others.
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { ApiError } from '../../schemas/errors/errors.ts'

// Of one partner: sixteen bodies of the largest size, tens of thousands of orders.
const MAX_BYTES = 16 * 2 ** 20

export interface Bodies {
  /**
   * Runs `read`, which receives a body of at most `bytes`. Throws RATE_LIMITED with Retry-After when as many bytes of the
   * partner's other requests are being received already.
   */
  receive<T>(request: { partnerId: string; bytes: number }, read: () => Promise<T>): Promise<T>
}

/** The bodies that one process receives. */
export function openBodies({ maxBytes = MAX_BYTES } = {}): Bodies {
  const receiving = new Map<string, number>()
  return {
    async receive({ partnerId, bytes }, read) {
      const held = receiving.get(partnerId) ?? 0
      if (held > 0 && held + bytes > maxBytes) {
        countTurnedAway('request')
        const message = 'Too many bytes of this partner’s requests are being received: let some of them end first.'
        throw new ApiError('RATE_LIMITED', message, { headers: { 'Retry-After': '1' } })
      }
      receiving.set(partnerId, held + bytes)
      try {
        return await read()
      } finally {
        const left = (receiving.get(partnerId) ?? 0) - bytes
        if (left > 0) receiving.set(partnerId, left)
        else receiving.delete(partnerId)
      }
    }
  }
}

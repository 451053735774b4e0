// Places for requests that hold connections of the database: all whose statements are not batched (db/postgres/batch.ts). There are
// fewer places than connections, and no partner has more than its share of them, so that one partner's many requests neither
// keep the batched statements from a connection nor others' requests from a place. Nor do they begin faster than the partner's
// pace (pace.ts).
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { Shares } from '../../db/platform/shares.ts'
import { Turns } from '../../db/platform/turns.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Pace } from './pace.ts'

// Of the pool's connections; the others are for batched statements.
const SHARE_OF_POOL = 0.6
const MIN_PLACES = 2
// Of one partner: requests that wait for a place. Their bodies are bounded in bytes (byte-accounts.ts).
const MAX_WAITING = 500

export interface Places {
  /**
   * Runs `work` when the partner gets a place, by turns among partners, and its pace allows it; the place is free again when
   * `work` ends or calls `leave`, as it does before it waits for something else. Throws RATE_LIMITED with Retry-After when too
   * many requests of the partner wait for a place already.
   */
  run<T>(partnerId: string, work: (leave: () => void) => Promise<T>): Promise<T>
}

/** The places of one process: so many, or as many as its pool of connections allows. */
export function openPlaces({
  pool = 0,
  places = Math.max(MIN_PLACES, Math.floor(pool * SHARE_OF_POOL)),
  pace,
  waiting = MAX_WAITING
}: {
  pool?: number
  places?: number
  /** Without one, a place is all that requests wait for. */
  pace?: Pace
  waiting?: number
}): Places {
  const shares = new Shares(places)
  const turns = new Turns<{ partnerId: string; begin: () => void }>()
  const paced = new Set<string>()

  function enter(partnerId: string): Promise<void> | undefined {
    const count = turns.countOf(partnerId)
    if (count === 0 && mayBegin(partnerId)) {
      shares.add(partnerId)
      return undefined
    }
    if (count >= waiting) {
      countTurnedAway('request')
      const message = 'Too many requests of this partner are waiting for the database: let some of them end first.'
      throw new ApiError('RATE_LIMITED', message, { headers: { 'Retry-After': '1' } })
    }
    return new Promise(begin => {
      turns.add(partnerId, { partnerId, begin })
      // Its pace may be all that it waits for.
      if (shares.free > 0) wakeInTime(partnerId)
    })
  }

  const waitMsOf = (partnerId: string) => pace?.waitMs(partnerId) ?? 0
  const mayBegin = (partnerId: string) => shares.roomOf(partnerId) > 0 && waitMsOf(partnerId) === 0

  /** Begins with the next one that waits and may; returns whether there was one. */
  function beginNext(): boolean {
    const next = turns.take(partnerId => {
      if (mayBegin(partnerId)) return true
      wakeInTime(partnerId)
      return false
    })
    if (!next) return false
    shares.add(next.partnerId)
    next.begin()
    return true
  }

  /** Has the partner begin once its pace allows it; places that are taken wake it when they are free again. */
  function wakeInTime(partnerId: string): void {
    const waitMs = waitMsOf(partnerId)
    if (waitMs === 0 || paced.has(partnerId)) return
    paced.add(partnerId)
    setTimeout(() => {
      paced.delete(partnerId)
      while (shares.free > 0 && beginNext());
    }, waitMs).unref()
  }

  function leave(partnerId: string): void {
    shares.remove(partnerId)
    beginNext()
  }

  return {
    async run(partnerId, work) {
      await enter(partnerId)
      let inside = true
      const leaveOnce = () => {
        if (!inside) return
        inside = false
        leave(partnerId)
      }
      try {
        return await work(leaveOnce)
      } finally {
        leaveOnce()
      }
    }
  }
}

// Places for requests that hold connections of the database: all whose statements are not batched (db/postgres/batch.ts). There are
// fewer places than connections, and no partner has more than its share of them, so that one partner's many requests neither
// keep the batched statements from a connection nor others' requests from a place. Nor do they begin faster than the partner's
// pace (pace.ts).
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { Shares } from '../../db/platform/shares.ts'
import { Turns } from '../../db/platform/turns.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Allowance, openPace, type Pace } from './pace.ts'

// The share of the pool's connections; the rest is for batched statements.
const SHARE_OF_POOL = 0.6
const MIN_PLACES = 2
// Requests of one partner that may wait for a place. Their bodies are bounded in bytes (byte-accounts.ts).
const MAX_WAITING = 500
// A call of weight is not worth waiting for longer than this; until then it holds memory that all lack.
const MOST_PACED_MS = 10_000

/** As how many calls a request counts, and the allowance of its partner's calls. */
interface WeightedCalls {
  weight: number
  allowance: Allowance
}

export interface Places {
  /**
   * Runs `work` when the partner gets a place and its pace allows it; partners take turns. The place is free again when `work`
   * ends or calls `leave`, as it does before it waits for something else. With `calls` it counts as that many calls, which begin
   * no faster than their allowance. Throws RATE_LIMITED with Retry-After when too many requests of the partner wait for a place
   * already, or so many such calls that their allowance would take 10 s.
   */
  run<T>(partnerId: string, work: (leave: () => void) => Promise<T>, calls?: WeightedCalls): Promise<T>
}

interface PlaceRequest {
  partnerId: string
  calls: WeightedCalls | undefined
}

// Calls that count as several wait in a lane of their own: a close does not wait behind an export.
const HEAVY = 'heavy '
const laneOf = ({ partnerId, calls }: PlaceRequest): string => (calls ? `${HEAVY}${partnerId}` : partnerId)
const partnerOf = (lane: string): string => (lane.startsWith(HEAVY) ? lane.slice(HEAVY.length) : lane)

/** The places of one process: so many, or as many as its pool of connections allows. */
export function openPlaces({
  pool = 0,
  places = Math.max(MIN_PLACES, Math.floor(pool * SHARE_OF_POOL)),
  pace,
  callPace = openPace(),
  waiting = MAX_WAITING
}: {
  pool?: number
  places?: number
  /** Without one, a place is all that requests wait for. */
  pace?: Pace
  callPace?: Pace
  waiting?: number
}): Places {
  const shares = new Shares(places)
  const turns = new Turns<PlaceRequest & { begin: () => void }>()
  const paced = new Set<string>()

  function take({ partnerId, calls }: PlaceRequest): void {
    shares.add(partnerId)
    if (calls) callPace.spend(partnerId, calls.weight, calls.allowance)
  }

  function enter(request: PlaceRequest): Promise<void> | undefined {
    const { partnerId, calls } = request
    const lane = laneOf(request)
    const hasRoom = shares.roomOf(partnerId) > 0
    const waitMs = waitMsOf(lane)
    if (turns.countOf(lane) === 0 && hasRoom && waitMs === 0) {
      take(request)
      return undefined
    }
    // Those that wait weigh about as much as this one.
    const pacedMs = calls ? (turns.countOf(lane) * calls.weight) / calls.allowance.perMs : 0
    if (turns.countOf(partnerId) + turns.countOf(`${HEAVY}${partnerId}`) >= waiting || pacedMs >= MOST_PACED_MS) {
      countTurnedAway('request')
      const message = 'Too many requests of this partner are waiting for the database: let some of them end first.'
      throw new ApiError('RATE_LIMITED', message, { headers: { 'Retry-After': '1' } })
    }
    return new Promise(begin => {
      turns.add(lane, { ...request, begin })
      // With a free place, only the partner's pace is waited for.
      if (hasRoom) wakeIn(lane, waitMs)
    })
  }

  function waitMsOf(lane: string): number {
    const partnerId = partnerOf(lane)
    return Math.max(pace?.waitMs(partnerId) ?? 0, lane === partnerId ? 0 : callPace.waitMs(partnerId))
  }

  /** Begins the next waiting request that may begin; returns whether there was one. */
  function beginNext(): boolean {
    const next = turns.take(lane => {
      // The partner's requests under way wake the lane when they end.
      if (shares.roomOf(partnerOf(lane)) === 0) return false
      // Read once: read twice, the pace could allow the request in between, and nothing would wake the lane.
      const waitMs = waitMsOf(lane)
      if (waitMs > 0) wakeIn(lane, waitMs)
      return waitMs === 0
    })
    if (!next) return false
    take(next)
    next.begin()
    return true
  }

  /** Wakes a lane once its pace allows its next request; where no place is free then, the end of another request wakes it. */
  function wakeIn(lane: string, waitMs: number): void {
    if (paced.has(lane)) return
    paced.add(lane)
    setTimeout(() => {
      paced.delete(lane)
      while (shares.free > 0 && beginNext());
    }, waitMs).unref()
  }

  function leave(partnerId: string): void {
    shares.remove(partnerId)
    beginNext()
  }

  return {
    async run(partnerId, work, calls) {
      await enter({ partnerId, calls })
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

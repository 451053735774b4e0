// The broker's call budgets: calls of a class share a counter, and minute and hour windows apply together.
// A call over budget is refused before anything runs.
import type { WallClock } from './agenda.ts'

/** The first dialect's classes, and the newer one's beside `general`. */
export type CallClass = 'pricing' | 'outcome' | 'general' | 'trading' | 'money' | 'lists'
export type CallQuotas = Partial<Record<CallClass, { minute: number; hour: number }>>

/** The budgets the broker published for the first dialect. */
export const publishedLimits: CallQuotas = {
  pricing: { minute: 80, hour: 3_600 },
  outcome: { minute: 25, hour: 1_500 },
  general: { minute: 180, hour: 14_400 }
}

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const MAX_COUNTERS = 50_000

interface Counter {
  minuteStart: number
  minute: number
  hourStart: number
  hour: number
}

export class Quota {
  /** null: no limits. */
  limits: CallQuotas | null
  /** Calls that were refused as one too many. */
  refused = 0
  #clock: WallClock
  #counters = new Map<string, Counter>()

  constructor(clock: WallClock, limits: CallQuotas | null) {
    this.#clock = clock
    this.limits = limits
  }

  /** Counts a call of `who`; false when its budget is used up, and then it is not counted. */
  take(who: string, callClass: CallClass): boolean {
    const limit = this.limits?.[callClass]
    if (!limit) return true
    const counter = this.#counter(`${callClass} ${who}`)
    if (counter.minute >= limit.minute || counter.hour >= limit.hour) {
      this.refused++
      return false
    }
    counter.minute++
    counter.hour++
    return true
  }

  /** Forgets what was counted. */
  reset(): void {
    this.#counters.clear()
  }

  #counter(key: string): Counter {
    const now = this.#clock.wall()
    let counter = this.#counters.get(key)
    if (!counter) {
      if (this.#counters.size >= MAX_COUNTERS) this.#sweep(now)
      counter = { minuteStart: now, minute: 0, hourStart: now, hour: 0 }
      this.#counters.set(key, counter)
    }
    if (now - counter.minuteStart >= MINUTE_MS) {
      counter.minuteStart = now
      counter.minute = 0
    }
    if (now - counter.hourStart >= HOUR_MS) {
      counter.hourStart = now
      counter.hour = 0
    }
    return counter
  }

  #sweep(now: number): void {
    for (const [key, counter] of this.#counters) if (now - counter.hourStart >= HOUR_MS) this.#counters.delete(key)
    if (this.#counters.size >= MAX_COUNTERS) this.#counters.clear()
  }
}

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

const SECOND_MS = 1_000
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

  /** Counts a call on one connection; false, and not counted, where it would be one too many in a second. */
  takeInSecond(seconds: CallsOfSecond, isPing: boolean): boolean {
    if (this.limits === null || seconds.take(this.#clock.wall(), isPing)) return true
    this.refused++
    return false
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

/** The calls of the last second on one connection. */
export class CallsOfSecond {
  readonly #limits: { calls: number; pings: number }
  #taken: { at: number; isPing: boolean }[] = []

  constructor(limits: { calls: number; pings: number }) {
    this.#limits = limits
  }

  take(now: number, isPing: boolean): boolean {
    const since = now - SECOND_MS
    const past = this.#taken.findIndex(({ at }) => at > since)
    this.#taken.splice(0, past < 0 ? this.#taken.length : past)
    const { calls, pings } = this.#limits
    if (this.#taken.length >= calls) return false
    if (isPing && this.#taken.filter(each => each.isPing).length >= pings) return false
    this.#taken.push({ at: now, isPing })
    return true
  }
}

// A clock that only moves on command: years of trading pass in a moment, in one order, every time the same.
import type { WallClock } from '../../worker/simulator/engine/agenda.ts'

interface Timer {
  at: number
  order: number
  run: () => void
}

export class VirtualClock implements WallClock {
  #now: number
  #timers = new Set<Timer>()
  #order = 0

  constructor(start: string | number) {
    this.#now = new Date(start).getTime()
  }

  wall(): number {
    return this.#now
  }

  after(ms: number, then: () => void): () => void {
    const timer = { at: this.#now + Math.max(0, ms), order: this.#order++, run: then }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** How many timers wait. */
  get waiting(): number {
    return this.#timers.size
  }

  /** Lets `ms` pass, running what falls due in its order. */
  pass(ms: number): void {
    const end = this.#now + ms
    for (let next = this.#next(); next && next.at <= end; next = this.#next()) {
      this.#timers.delete(next)
      this.#now = Math.max(this.#now, next.at)
      next.run()
    }
    this.#now = end
  }

  /** Lets `ms` pass while nothing runs, as on a machine too busy to be in time. */
  stall(ms: number): void {
    this.#now += ms
  }

  #next(): Timer | undefined {
    let first: Timer | undefined
    for (const timer of this.#timers) {
      if (!first || timer.at < first.at || (timer.at === first.at && timer.order < first.order)) first = timer
    }
    return first
  }
}

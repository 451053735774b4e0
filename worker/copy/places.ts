// How many copies a worker sends at a time: as many as leave its event loop time for orders. Copies of one order come
// in thousands; each that is under way delays the responses of orders. With a slow broker the loop is idle, and more
// copies may be under way; where they keep the loop busy, fewer are as fast.
import { ORDERS_A_JOB } from '../../schemas/jobs.ts'
import type { Clock } from '../platform/clock.ts'

const MOST = 500
// The copies of one job are claimed together.
const LEAST = ORDERS_A_JOB
// Copies begin with few, as most of their accounts have no connection yet, and opening one costs more than an order.
const FIRST = LEAST
const STEP = 5
const WATCH_EVERY_MS = 20
/** Timers that are so late mean a loop with too much to do. */
const LATE_MS = 10

export class CopyPlaces {
  readonly #clock: Clock
  #most = FIRST
  #taken = 0
  #watching = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How many more copies may be sent now. */
  get room(): number {
    return Math.max(0, this.#most - this.#taken)
  }

  add(): void {
    this.#taken += 1
    if (!this.#watching) this.#watch()
  }

  remove(): void {
    this.#taken -= 1
  }

  #watch(): void {
    this.#watching = true
    const due = this.#clock.now() + WATCH_EVERY_MS
    this.#clock.after(WATCH_EVERY_MS, () => {
      const isLate = this.#clock.now() - due > LATE_MS
      this.#most = isLate ? Math.max(LEAST, Math.floor(this.#most / 2)) : Math.min(MOST, this.#most + STEP)
      if (this.#taken > 0) this.#watch()
      else this.#watching = false
    })
  }
}

// How fast copies are stored and claimed while traders place orders themselves. Copies of one order come in thousands and share
// the database with orders: where the statements that claim orders take longer at the same time as copies than without them,
// fewer copies a second are begun, until they do not. While no orders come, copies have no limit.
import type { Clock } from '../platform/clock.ts'
import { sleep } from '../platform/clock.ts'

// How much longer claims of orders may take at the same time as copies than alone.
const SLOWER = 1.5
const SLACK_MS = 0.5
// The weight of one claim in the running means.
const WEIGHT_ALONE = 0.05
const WEIGHT_BESIDE = 0.25
// Copies a millisecond, each counted when it is stored and when it is claimed: 2,000 a second at first and at most; 250 a second
// are begun however slow orders are, so that those of 2,500 followers are in time.
const MOST = 4
const LEAST = 0.5
const CHANGE_EVERY_MS = 100
const LESS = 0.7
const MORE = 1.1
// Begun at once after a rest.
const BURST = 50
// Copies go on without a pace this long after the latest order.
const ORDERS_FOR_MS = 1000
// A claim this soon after copies were begun counts as running at the same time as them.
const BESIDE_MS = 200
const LONGEST_WAIT_MS = 200

export class CopyPace {
  readonly #clock: Clock
  #aloneMs: number | undefined
  #besideMs: number | undefined
  #perMs = MOST
  #changedAt = 0
  #orderAt = Number.NEGATIVE_INFINITY
  #copyAt = Number.NEGATIVE_INFINITY
  #used = 0
  #usedAt = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Notes how long a statement took that claimed orders of traders themselves. */
  noteOrders(tookMs: number): void {
    const now = this.#clock.now()
    this.#orderAt = now
    if (now - this.#copyAt > BESIDE_MS) {
      this.#aloneMs = meanOf(this.#aloneMs, tookMs, WEIGHT_ALONE)
      this.#besideMs = undefined
      return
    }
    this.#besideMs = meanOf(this.#besideMs, tookMs, WEIGHT_BESIDE)
    if (this.#aloneMs === undefined || now - this.#changedAt < CHANGE_EVERY_MS) return
    this.#changedAt = now
    const isSlower = this.#besideMs > SLOWER * this.#aloneMs + SLACK_MS
    this.#perMs = Math.min(MOST, Math.max(LEAST, this.#perMs * (isSlower ? LESS : MORE)))
  }

  /** Notes that copies were stored, claimed, or failed instead of being claimed. */
  noteCopies(count: number): void {
    if (count === 0) return
    const now = this.#clock.now()
    this.#used = this.#usedNow(now) + count
    this.#usedAt = now
    this.#copyAt = now
  }

  /** Milliseconds until copies may be begun; 0 when they may now. */
  get waitMs(): number {
    const now = this.#clock.now()
    if (now - this.#orderAt > ORDERS_FOR_MS) return 0
    return Math.max(0, this.#usedNow(now) - BURST) / this.#perMs
  }

  /** Waits until copies may be begun, or for a moment; returns whether they may. */
  async wait(): Promise<boolean> {
    const { waitMs } = this
    if (waitMs > 0) await sleep(this.#clock, Math.min(Math.ceil(waitMs), LONGEST_WAIT_MS))
    return waitMs <= LONGEST_WAIT_MS
  }

  #usedNow(now: number): number {
    return Math.max(0, this.#used - (now - this.#usedAt) * this.#perMs)
  }
}

const meanOf = (mean: number | undefined, value: number, weight: number) =>
  mean === undefined ? value : mean + (value - mean) * weight

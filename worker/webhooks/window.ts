// How many requests of an endpoint may be unsettled at a time (under way, or ended and not written), after TCP Vegas. The mean
// time of the quickest recent round is taken as the time without waiting; anything beyond twice that is time in a queue, at the
// endpoint or here. A longer queue delivers nothing faster, and all of it may be sent twice when the worker is killed. So a
// window grows only while it is the limit and the queue is short.

/** Unsettled requests of one endpoint, at most and at first. */
export const MAX_WINDOW = 64
export const FIRST_WINDOW = 4
/** An endpoint that takes longer gets no larger window, ms. */
export const SLOW_MS = 2000
// Estimated requests in the queue: below the first the window grows, from the second on it shrinks.
const FEW_QUEUED = 2
const MANY_QUEUED = 4
/** Shorter times count as equal, ms. */
export const SHORTEST_MS = 10
// Writing an outcome takes up to two rounds (the group under way, then its own), so up to twice the quickest time is no queue.
const NO_QUEUE = 2
// The quickest round is forgotten after one to two of these periods.
const MEMORY_MS = 30_000

export class SendWindow {
  #size = FIRST_WINDOW
  #quickest = Number.POSITIVE_INFINITY
  #quickestBefore = Number.POSITIVE_INFINITY
  #since: number
  /** Requests of this round, and the sum of their times, ms. */
  #settled = 0
  #sumMs = 0

  constructor(now: number) {
    this.#since = now
  }

  get size(): number {
    return this.#size
  }

  /** Settles a successful request that took `ms`; `full`: the window was used up. `now` is monotonic, ms. */
  settled({ ms, full }: { ms: number; full: boolean }, now: number): void {
    this.#settled += 1
    this.#sumMs += Math.max(SHORTEST_MS, ms)
    // A round has as many requests as the window: those that follow were sent with the previous size.
    if (this.#settled < this.#size) return
    if (now - this.#since >= MEMORY_MS) {
      this.#quickestBefore = this.#quickest
      this.#quickest = Number.POSITIVE_INFINITY
      this.#since = now
    }
    const mean = this.#sumMs / this.#settled
    this.#quickest = Math.min(this.#quickest, mean)
    const queued = this.#size * (1 - (NO_QUEUE * Math.min(this.#quickest, this.#quickestBefore)) / mean)
    let size = this.#size
    if (queued >= MANY_QUEUED) size -= 1
    else if (full && queued < FEW_QUEUED && ms < SLOW_MS) size += 1
    // Never below 1: only a larger window has MANY_QUEUED requests in the queue.
    this.#set(Math.min(MAX_WINDOW, size))
  }

  /** A request failed; `failing`: so many failed in a row that only one is tried at a time. */
  failed(failing: boolean): void {
    this.#set(failing ? 1 : Math.max(1, Math.floor(this.#size / 2)))
  }

  #set(size: number): void {
    this.#size = size
    this.#settled = 0
    this.#sumMs = 0
  }
}

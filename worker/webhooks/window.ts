// How many requests of an endpoint may be unsettled at a time, after TCP Vegas: under way, or ended and not written. What requests
// took in the quickest round of late is what they take without waiting; what they take beyond twice that they wait in a queue, at the
// endpoint or here. A longer queue delivers nothing faster, and all of it may be sent twice when the worker is killed. So a window grows only while
// it is what limits, and while the queue is short.

/** Unsettled requests of one endpoint, at most and at first. */
export const MAX_WINDOW = 64
export const FIRST_WINDOW = 4
/** An endpoint that takes longer gets no more requests at a time than it has, ms. */
export const SLOW_MS = 2000
// Requests that are estimated to wait in the queue: below the first the window grows, from the second on it shrinks.
const FEW_QUEUED = 2
const MANY_QUEUED = 4
/** Shorter times count as equal, ms. */
export const SHORTEST_MS = 10
// An outcome waits for the group that is being written, and is written with the next: as much again is no queue.
const NO_QUEUE = 2
// The quickest round is forgotten after one to two of these.
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

  /** A successful request was settled after `ms`; `full`: as many were unsettled as may be. `now` is monotonic, ms. */
  settled({ ms, full }: { ms: number; full: boolean }, now: number): void {
    this.#settled += 1
    this.#sumMs += Math.max(SHORTEST_MS, ms)
    // A round is a window's worth: those to come were sent under the size before.
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
    // Where as many as MANY_QUEUED wait, more than one is under way.
    this.#set(Math.min(MAX_WINDOW, size))
  }

  /** A request failed; `failing`: so many in a row that one at a time is tried. */
  failed(failing: boolean): void {
    this.#set(failing ? 1 : Math.max(1, Math.floor(this.#size / 2)))
  }

  #set(size: number): void {
    this.#size = size
    this.#settled = 0
    this.#sumMs = 0
  }
}

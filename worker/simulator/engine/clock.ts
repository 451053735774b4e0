// Time of the simulated broker. Everything that waits uses a Clock, so a test can run years of trading in a virtual
// second; the agenda keeps one timer for any number of appointments.

/** A source of time. `now` is in milliseconds since 1970 (UTC). */
export interface TimeSource {
  now(): number
  setTimeout(run: () => void, delayMs: number): unknown
  clearTimeout(handle: unknown): void
}

/** The machine's own clock. */
export const systemClock: TimeSource = {
  now: () => Date.now(),
  setTimeout: (run, delayMs) => setTimeout(run, delayMs),
  clearTimeout: handle => clearTimeout(handle as NodeJS.Timeout)
}

// Node's timers overflow at 2^31 ms; a contract may run for a year, so long waits are taken in steps.
const MAX_WAIT_MS = 3_600_000

interface Appointment {
  at: number
  order: number
  run: () => void
}

/** Appointments by time, kept in a heap; with none there is no timer. */
export class Agenda {
  #clock: TimeSource
  #heap: Appointment[] = []
  #order = 0
  #timer: unknown = null
  #timerAt = Infinity

  constructor(clock: TimeSource) {
    this.#clock = clock
  }

  /** Runs `run` at `at` (ms) or as soon as possible after it; equal times keep their order. */
  at(at: number, run: () => void): void {
    const heap = this.#heap
    heap.push({ at, order: this.#order++, run })
    let child = heap.length - 1
    while (child > 0) {
      const parent = (child - 1) >> 1
      if (!earlier(heap[child] as Appointment, heap[parent] as Appointment)) break
      swap(heap, child, parent)
      child = parent
    }
    this.#arm()
  }

  /** Forgets every appointment. */
  clear(): void {
    this.#heap = []
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer)
    this.#timer = null
    this.#timerAt = Infinity
  }

  #arm(): void {
    const first = this.#heap[0]
    if (!first || this.#timerAt <= first.at) return
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer)
    const delayMs = Math.min(Math.max(first.at - this.#clock.now(), 0), MAX_WAIT_MS)
    this.#timerAt = first.at
    this.#timer = this.#clock.setTimeout(() => this.#fire(), delayMs)
  }

  #fire(): void {
    this.#timer = null
    this.#timerAt = Infinity
    const now = this.#clock.now()
    for (let first = this.#heap[0]; first && first.at <= now; first = this.#heap[0]) {
      this.#pop()
      first.run()
    }
    this.#arm()
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as Appointment
    if (heap.length === 0) return
    heap[0] = last
    let parent = 0
    for (;;) {
      let least = parent
      for (const child of [2 * parent + 1, 2 * parent + 2]) {
        if (child < heap.length && earlier(heap[child] as Appointment, heap[least] as Appointment)) least = child
      }
      if (least === parent) return
      swap(heap, parent, least)
      parent = least
    }
  }
}

function earlier(a: Appointment, b: Appointment): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

function swap(heap: Appointment[], a: number, b: number): void {
  const held = heap[a] as Appointment
  heap[a] = heap[b] as Appointment
  heap[b] = held
}

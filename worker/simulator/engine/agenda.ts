// Appointments of the simulated broker. Everything that waits uses the given clock, so a test can run years of trading in a
// virtual second; the agenda keeps one timer for any number of appointments.
import type { Clock } from '../../platform/clock.ts'

/** What the simulated broker uses of a clock: it knows wall time alone. */
export type WallClock = Pick<Clock, 'wall' | 'after'>

// Node's timers overflow at 2^31 ms; a contract may run for a year, so long waits are taken in steps.
const MAX_WAIT_MS = 3_600_000

interface Appointment {
  at: number
  order: number
  run: () => void
}

/** Appointments by time, kept in a heap; with none there is no timer. */
export class Agenda {
  #clock: WallClock
  #heap: Appointment[] = []
  #order = 0
  #cancel: (() => void) | null = null
  #timerAt = Infinity

  constructor(clock: WallClock) {
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
    this.#cancel?.()
    this.#cancel = null
    this.#timerAt = Infinity
  }

  #arm(): void {
    const first = this.#heap[0]
    if (!first || this.#timerAt <= first.at) return
    this.#cancel?.()
    const delayMs = Math.min(Math.max(first.at - this.#clock.wall(), 0), MAX_WAIT_MS)
    this.#timerAt = first.at
    this.#cancel = this.#clock.after(delayMs, () => this.#fire())
  }

  #fire(): void {
    this.#cancel = null
    this.#timerAt = Infinity
    const now = this.#clock.wall()
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

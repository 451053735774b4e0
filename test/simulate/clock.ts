// The simulation's time. Everything that happens is an event of one queue, in an order that the seed decides;
// time moves only from one event to the next, when all that the last one set off has come to rest.
import crypto from 'node:crypto'
import type { Clock } from '../../worker/platform/clock.ts'
import type { Chance } from './chance.ts'

/** Somebody who can crash or freeze: a worker or an api process. */
export interface Actor {
  name: string
  dead: boolean
  /** Until then nothing reaches it. */
  frozenUntil: number
  /** Its wall clock minus the world's; it may jump. */
  wallMs: number
  /** How long its machine was suspended: its monotonic clock did not run then. */
  suspendedMs: number
}

interface Event {
  at: number
  order: number
  actor: Actor | null
  label: string
  run: (() => unknown) | null
  /** It does something real, which is waited for. */
  real: boolean
}

/** Epoch milliseconds at which every simulation begins. */
export const START_MS = Date.UTC(2031, 4, 5, 9, 30)

const MAX_TRACE = 2000

// Node's own, for whoever has to wait for something real.
const realImmediate = setImmediate

export class Schedule {
  /** Virtual milliseconds since the start. */
  now = 0
  /** On whose behalf code runs; what it starts belongs to it. */
  current: Actor | null = null
  events = 0
  /** What is recorded of these words (ids of orders, contracts, accounts) is kept in full. */
  traced: string[] = []
  readonly trace: string[] = []
  /** Called before anything reaches an actor: it may be struck instead. Returns false when it was. */
  strike: (actor: Actor) => boolean = () => true
  readonly #heap: Event[] = []
  readonly #soon: { actor: Actor | null; run: () => void }[] = []
  readonly #hash = crypto.createHash('sha256')
  #order = 0

  /** Runs `run` after `ms`, on behalf of `actor`; null is the world outside, which never fails. */
  after(ms: number, actor: Actor | null, label: string, run: () => unknown): () => void {
    const at = this.now + Math.max(0, Math.ceil(ms))
    const event: Event = { at, order: this.#order++, actor, label, run, real: false }
    this.#push(event)
    return () => {
      event.run = null
    }
  }

  /** As `after`, at the next full `gridMs`: what happens in bunches travels in groups, as it does under load. */
  onGrid(ms: number, gridMs: number, actor: Actor | null, label: string, run: () => unknown): () => void {
    const at = Math.ceil((this.now + ms) / gridMs) * gridMs
    return this.after(at - this.now, actor, label, run)
  }

  /**
   * A timer of the actor's: it counts on the actor's monotonic clock, so that it comes later by as long as its machine
   * was suspended meanwhile.
   */
  timer(ms: number, actor: Actor | null, label: string, run: () => unknown): () => void {
    if (!actor) return this.after(ms, actor, label, run)
    const dueAt = this.now + Math.max(0, Math.ceil(ms)) - actor.suspendedMs
    let cancel: () => void
    const wait = (leftMs: number) => {
      cancel = this.after(leftMs, actor, label, () => {
        const restMs = dueAt - (this.now - actor.suspendedMs)
        if (restMs > 0) wait(restMs)
        else run()
      })
    }
    wait(ms)
    return () => cancel()
  }

  /** Does something real after `ms`: nothing else happens until it is done. */
  really(ms: number, label: string, run: () => Promise<void>): void {
    const at = this.now + Math.max(0, Math.ceil(ms))
    this.#push({ at, order: this.#order++, actor: null, label, run, real: true })
  }

  /** Runs `run` once all that happens at this time has happened. */
  soon(run: () => void): void {
    this.#soon.push({ actor: this.current, run })
  }

  /** Puts something into the record that two runs of one seed must agree on; `about` is for traces alone. */
  note(what: string, about?: () => string): void {
    this.#hash.update(what)
    if (this.traced.length === 0 || this.trace.length >= MAX_TRACE) return
    const text = about ? `${what.trimEnd()} ${about()}` : what.trimEnd()
    const at = Math.max(...this.traced.map(word => text.indexOf(word)))
    if (at < 0) return
    const long = text.length > 500
    this.trace.push(
      `${this.now} ${long ? `${text.slice(0, 120)} … ${text.slice(Math.max(120, at - 20), at + 340)}` : text}`
    )
  }

  digest(): string {
    return this.#hash.copy().digest('hex').slice(0, 16)
  }

  /** Lets events happen until `over`; returns false when there were none left. */
  async run(over: () => boolean): Promise<boolean> {
    for (;;) {
      await new Promise(resolve => realImmediate(resolve))
      if (this.#runSoon()) continue
      if (over()) return true
      const event = this.#popLive()
      if (!event) return false
      this.now = event.at
      if (event.actor && event.actor.frozenUntil > event.at) {
        this.#push({ ...event, at: event.actor.frozenUntil })
        continue
      }
      if (event.actor && !this.strike(event.actor)) {
        // Struck down, or frozen with this still to come.
        if (!event.actor.dead) this.#push({ ...event, at: Math.max(event.at, event.actor.frozenUntil) })
        continue
      }
      this.events += 1
      this.note(`${event.at} ${event.actor?.name ?? ''} ${event.label}\n`)
      this.current = event.actor
      const done = event.run?.()
      if (event.real) await done
    }
  }

  /**
   * Runs what was put off, as a process does: once all that arrived at one time has been received. Returns whether there
   * was anything.
   */
  #runSoon(): boolean {
    if (this.#soon.length === 0) return false
    this.#dropDead()
    if (this.#heap[0]?.at === this.now) return false
    for (const { actor, run } of this.#soon.splice(0)) {
      if (actor?.dead) continue
      if (actor && actor.frozenUntil > this.now) {
        this.after(actor.frozenUntil - this.now, actor, 'thaws', run)
        continue
      }
      this.current = actor
      run()
    }
    return true
  }

  #push(event: Event): void {
    const heap = this.#heap
    let i = heap.length
    heap.push(event)
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (!before(event, heap[parent]!)) break
      heap[i] = heap[parent]!
      i = parent
    }
    heap[i] = event
  }

  /** The next event that is still to happen. */
  #popLive(): Event | undefined {
    this.#dropDead()
    return this.#pop()
  }

  /** Drops the next events while they will not happen any more. */
  #dropDead(): void {
    for (let next = this.#heap[0]; next && (next.run === null || next.actor?.dead); next = this.#heap[0]) this.#pop()
  }

  #pop(): Event | undefined {
    const heap = this.#heap
    const first = heap[0]
    const last = heap.pop()
    if (!first || !last || heap.length === 0) return first
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child += 1
      if (!before(heap[child]!, last)) break
      heap[i] = heap[child]!
      i = child
    }
    heap[i] = last
    return first
  }
}

function before(a: Event, b: Event): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

/** The clock of an actor, as its code gets it. */
export function clockOf(schedule: Schedule, actor: Actor): Clock {
  return {
    now: () => schedule.now - actor.suspendedMs,
    wall: () => START_MS + schedule.now + actor.wallMs,
    after: (ms, then) => schedule.timer(ms, actor, 'timer', then)
  }
}

/**
 * Puts the virtual time and the seed's chance in the place of the process's own: code that reads the time or draws
 * an id by itself repeats as well. What needs real time must have been opened before.
 */
export function takeOverGlobals(schedule: Schedule, chance: Chance): void {
  const fill = <T extends NodeJS.ArrayBufferView>(buffer: T): T => {
    const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength)
    for (let i = 0; i < bytes.length; i++) bytes[i] = chance.int(0, 255)
    return buffer
  }
  Object.assign(crypto, { randomFillSync: fill })
  Math.random = () => chance.next()
  Date.now = () => START_MS + schedule.now + (schedule.current?.wallMs ?? 0)
  Object.defineProperty(performance, 'now', { value: () => schedule.now - (schedule.current?.suspendedMs ?? 0) })
  const timer = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
    const cancel = schedule.timer(ms, schedule.current, 'timer', () => run(...args))
    const handle = { cancel, unref: () => handle, ref: () => handle }
    return handle
  }
  const every = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
    const again = () => {
      handle.cancel = schedule.timer(Math.max(1, ms), actor, 'timer', () => {
        again()
        run(...args)
      })
    }
    const actor = schedule.current
    const handle = { cancel: () => {}, unref: () => handle, ref: () => handle }
    again()
    return handle
  }
  const clear = (handle: { cancel?: () => void } | undefined) => handle?.cancel?.()
  Object.assign(globalThis, {
    setTimeout: timer,
    clearTimeout: clear,
    setInterval: every,
    clearInterval: clear,
    setImmediate: (run: (...args: unknown[]) => void, ...args: unknown[]) => schedule.soon(() => run(...args))
  })
}

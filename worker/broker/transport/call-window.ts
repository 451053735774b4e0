// One window of a call quota: the calls made within it, and how many of them no other process knows of. These are at most a
// quarter of the quota; a process that takes over from a killed one assumes that much.
import type { CallRecord } from '../../../db/platform/call-records.ts'
import { SlidingCount } from './sliding.ts'

const UNRECORDED = 0.25
/** The part of a quota that is recorded at once. */
const RECORDED_AT_ONCE = 0.05
/** A record is spent within this part of its window. */
const VALID = 1 / 6

/** Calls allowed; 0 or less means no limit. */
export interface CallWindows {
  perMinute: number
  /** Where there is such a window too. */
  perTenMinutes?: number
  /** The share kept for urgent calls (a tenth). */
  reserve?: number
  perHour: number
}

export type CallLimits = Record<string, CallWindows>

interface WindowSize {
  limit: number
  windowMs: number
  steps: number
}

export class CallWindow {
  readonly windowMs: number
  readonly #all: SlidingCount
  readonly #unrecorded: SlidingCount
  /** What is counted for calls of other processes that need no record. */
  readonly #counters: { at: number; calls: number }[] = []
  #recorded = 0
  #recordedUntil = 0

  constructor({ limit, windowMs, steps }: WindowSize) {
    this.windowMs = windowMs
    this.#all = new SlidingCount(limit, windowMs, steps)
    this.#unrecorded = new SlidingCount(limit, windowMs, steps)
  }

  set limit(limit: number) {
    this.#all.limit = limit
  }

  get #mostUnrecorded(): number {
    return Math.max(1, Math.floor(this.#all.limit * UNRECORDED))
  }

  add(now: number): void {
    this.#all.add(now)
    if (this.#recorded > 0 && now < this.#recordedUntil) this.#recorded -= 1
    else this.#unrecorded.add(now)
  }

  used(now: number): number {
    return this.#all.used(now)
  }

  left(now: number): number {
    return this.#all.left(now)
  }

  readyAt(now: number, reserve: number): number {
    return this.#all.readyAt(now, reserve)
  }

  /** Whether one more call may go without another record. */
  covered(now: number): boolean {
    if (this.#all.limit <= 0) return true
    return (this.#recorded > 0 && now < this.#recordedUntil) || this.#unrecorded.used(now) < this.#mostUnrecorded
  }

  /** What to record so that calls may go on. */
  wanted(): Omit<CallRecord, 'class'> {
    const calls = Math.max(1, Math.round(this.#all.limit * RECORDED_AT_ONCE))
    return { windowMs: this.windowMs, calls, validMs: this.windowMs * VALID }
  }

  /** Calls were recorded; `now` is a moment before that. */
  record(now: number, { calls, validMs }: Pick<CallRecord, 'calls' | 'validMs'>): void {
    this.#recorded = calls
    this.#recordedUntil = now + validMs
  }

  /** Calls of others, which count here too. */
  addPast(now: number, past: { ageMs: number; calls: number }): void {
    this.#all.addPast(now, past)
  }

  /**
   * Other processes, last alive `agesMs` ago, may each have made all the calls that need no record. This replaces what was
   * counted for them before: a process makes no more such calls in a window, however often its record is read.
   */
  setCounters(now: number, agesMs: readonly number[]): void {
    for (const { at, calls } of this.#counters.splice(0)) this.#all.addPast(now, { ageMs: now - at, calls: -calls })
    if (this.#all.limit <= 0) return
    for (const ageMs of agesMs) {
      const calls = this.#mostUnrecorded
      this.#all.addPast(now, { ageMs, calls })
      this.#counters.push({ at: now - ageMs, calls })
    }
  }

  /** The calls that no other process knows of; from now on they count as recorded. */
  settle(now: number): Omit<CallRecord, 'class'> {
    const calls = this.#all.limit > 0 ? this.#unrecorded.used(now) : 0
    this.#unrecorded.forget()
    this.#recorded = 0
    return { windowMs: this.windowMs, calls, validMs: 0 }
  }
}

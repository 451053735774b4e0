// The database's clock as this worker sees it: how far its own wall clock is off, and how much time has certainly passed
// since a moment that the database recorded. The database's clock may be set forward while an order is in doubt; this
// process's monotonic clock cannot be, so both must agree before a waiting time counts as over. Nor can it be set back, so that an
// order whose time to live began before the database's clock was has no more time than it had.

import type { Log } from '../../db/platform/log.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { readClock } from '../../db/postgres/lineage.ts'
import type { Clock } from './clock.ts'

/**
 * The database's clock was set back. What began before `beforeMs`, by that clock, ends by the old clock, which was this much
 * ahead of the monotonic one.
 */
interface StepBack {
  beforeMs: number
  aheadMs: number
}

interface Sample {
  databaseMs: number
  monotonicMs: number
}

// A reading that is this much behind what the one before it implies means that the database's clock was set back.
const SET_BACK_MS = 500
// The smaller bound for ends of orders, where a reading that only took long does no harm.
const STEP_BACK_MS = 200
// By the present clock an order cannot have begun so long after the moment at which the step was seen, and before it.
const STEP_MARGIN_MS = 1_000
const MAX_STEPS = 100
// Longer than any configured waiting time (RECONCILE_CRASHED_MS and RECONCILE_AFTER_MS at their largest).
const KEPT_MS = 3 * 3_600_000
/** A worker whose wall clock differs from the database's by more than this reports it. */
const CLOCK_OFFSET_LIMIT_MS = 1000

export class DatabaseClock {
  #samples: Sample[] = []
  /** The largest difference of the database's clock to the monotonic one that was read since the last step back. */
  #aheadMs = Number.NEGATIVE_INFINITY
  #stepsBack: StepBack[] = []
  /** This process's wall clock minus the database's in ms, as measured last; null before the first measurement. */
  offsetMs: number | null = null

  /**
   * Reads the database's clock; logs once when the wall clock becomes too different from it, and once when it is right
   * again. Returns the generation of the history that the database is on, null where that was not noted last, and how far it has come.
   */
  async measure({
    db,
    clock,
    log
  }: {
    db: Db
    clock: Clock
    log: Log
  }): Promise<{ generation: number | null; position: number }> {
    const wallBefore = clock.wall()
    const { nowMs: databaseMs, ...history } = await readClock(db)
    this.record(databaseMs, clock.now())
    const wasOff = this.isOff()
    const wallMs = clock.wall()
    // How the reading's duration splits between both directions is unknown, so it counts as agreement.
    const [early, late] = [wallBefore - databaseMs, wallMs - databaseMs]
    this.offsetMs = early > 0 ? early : Math.min(late, 0)
    if (this.isOff() === wasOff) return history
    const facts = { offsetMs: Math.round(this.offsetMs) }
    if (wasOff) log.info(facts, "this machine's clock agrees with the database's again")
    else
      log.error(facts, "this machine's clock differs from the database's by more than a second: synchronise it (NTP)")
    return history
  }

  /** The clock with the wall time that the database shows, as far as it was measured: for instants that others read. */
  correcting(clock: Clock): Clock {
    return {
      now: () => clock.now(),
      wall: () => clock.wall() - (this.offsetMs ?? 0),
      after: (ms, then) => clock.after(ms, then)
    }
  }

  /** A sentence where the wall clock is off; none where it is right or was never measured. */
  warnings(): string[] {
    if (!this.isOff()) return []
    const seconds = ((this.offsetMs ?? 0) / 1000).toFixed(1)
    return [`this machine's clock is ${seconds} s off the database's: synchronise it (NTP)`]
  }

  /** Whether the wall clock differs from the database's by more than a second. */
  isOff(): boolean {
    return Math.abs(this.offsetMs ?? 0) > CLOCK_OFFSET_LIMIT_MS
  }

  /** Records that the database's clock read `databaseMs` (ms since the epoch) not after the monotonic time `monotonicMs`. */
  record(databaseMs: number, monotonicMs: number): void {
    this.observe(databaseMs, monotonicMs)
    const last = this.#samples.at(-1)
    if (last && monotonicMs <= last.monotonicMs) return
    // Records from before the clock was set back do not apply to its present times.
    if (last && databaseMs < last.databaseMs + (monotonicMs - last.monotonicMs) - SET_BACK_MS) this.#samples = []
    this.#samples.push({ databaseMs, monotonicMs })
    const kept = this.#samples.findIndex(sample => sample.monotonicMs >= monotonicMs - KEPT_MS)
    if (kept > 0) this.#samples.splice(0, kept)
  }

  /** As record, for ends alone: nothing is kept of it but a step back. */
  observe(databaseMs: number, monotonicMs: number): void {
    const aheadMs = databaseMs - monotonicMs
    const step = this.#stepsBack.at(-1)
    if (aheadMs < this.#aheadMs - STEP_BACK_MS) {
      this.#stepsBack.push({ beforeMs: databaseMs + STEP_MARGIN_MS, aheadMs: this.#aheadMs })
      if (this.#stepsBack.length > MAX_STEPS) this.#stepsBack.shift()
      this.#aheadMs = aheadMs
    } else if (step && aheadMs >= step.aheadMs - STEP_BACK_MS) {
      // The clock was corrected, or the reading before had only taken long.
      this.#stepsBack.pop()
      this.#aheadMs = Math.max(step.aheadMs, aheadMs)
    } else this.#aheadMs = Math.max(this.#aheadMs, aheadMs)
  }

  /**
   * The monotonic time at which what began at `beganMs` by the database's clock is over that ends at `endsMs`, if that clock was
   * set back in between; Infinity when not, as far as this process has seen.
   */
  endOf({ beganMs, endsMs }: { beganMs: number; endsMs: number }): number {
    const step = this.#stepsBack.find(({ beforeMs }) => beganMs <= beforeMs)
    return step ? endsMs - step.aheadMs : Number.POSITIVE_INFINITY
  }

  /** Milliseconds that have passed for certain since the database's clock showed `databaseMs`; 0 where nothing is known. */
  since(databaseMs: number, monotonicMs: number): number {
    const first = this.#samples.find(sample => sample.databaseMs >= databaseMs)
    return first ? Math.max(0, monotonicMs - first.monotonicMs) : 0
  }
}

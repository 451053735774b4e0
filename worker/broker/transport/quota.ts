// How often we may call the broker: for one account under one application, calls of a class share a count per minute
// and one per hour. A call beyond either waits, purchases before reads, and is refused in the end.
import type { CallRecord, PastCalls, ScopeRecords } from '../../../db/platform/call-records.ts'
import { type Clock, systemClock } from '../../platform/clock.ts'
import type { BrokerLog } from '../port.ts'
import { type CallLimits, CallWindow, type CallWindows } from './call-window.ts'
import { exhausted, type TakeOptions, WaitingCalls } from './waiting-calls.ts'

const reservedShare = 0.1
const BACK_OFF_STEP_MS = 2_500
const BACK_OFF_CAP_MS = 15_000

/** Another process that lives may go on spending: what it recorded is read again so often. */
const READ_AGAIN_MS = 60_000
/** After a record that could not be written or read. */
const RECORD_AGAIN_MS = 1_000

/** Settles budgets. Resolves or rejects once all have ended: what one could not record keeps no other from it. */
export async function settleAll(budgets: Budget[]): Promise<void> {
  const ended = await Promise.allSettled(budgets.map(budget => budget.settle()))
  for (const end of ended) if (end.status === 'rejected') throw end.reason
}

/** The call budget of one account under one application. */
export class Budget {
  readonly #classes = new Map<string, ClassBudget>()
  readonly #clock: Pick<Clock, 'now' | 'after'>
  readonly #records: ScopeRecords | undefined
  #limits: CallLimits
  /** What others spent, as often as it was read, and when. */
  #past: { at: number; calls: PastCalls }[] = []
  #readAt: number | null = null
  #readAgainAt = Infinity
  #reading: Promise<void> | null = null

  /** With `records`, calls that a process killed before this one made are counted, and ours can be by the next. */
  constructor(
    limits: CallLimits,
    { clock = systemClock, records }: { clock?: Pick<Clock, 'now' | 'after'>; records?: ScopeRecords | undefined } = {}
  ) {
    this.#limits = limits
    this.#clock = clock
    this.#records = records
  }

  /** Applies the broker's limits; calls already made stay counted. */
  setLimits(limits: CallLimits): void {
    this.#limits = limits
    for (const [name, each] of this.#classes) each.setWindows(windowsOf(limits, name))
  }

  /**
   * Counts one call. Returns nothing when it may go at once, else a promise of the moment it may; that promise
   * rejects with BrokerError QuotaExhausted (ran 'no') when the moment would come too late.
   */
  take(name: string, options: TakeOptions = {}): Promise<void> | undefined {
    const reading = this.#read()
    if (reading === undefined) return this.#class(name).take(options)
    return reading.then(() => this.#class(name).take(options))
  }

  /** Counts a call that is made without waiting for a place. */
  spend(name: string): void {
    this.#class(name).spend()
  }

  /** The broker refused a call of this class for exceeding its limit: no call leaves for a while, longer after each refusal in a row. */
  backOff(name: string): void {
    this.#class(name).backOff()
  }

  /** A call of this class succeeded: the back-off is reset. */
  succeeded(name: string): void {
    this.#classes.get(name)?.succeeded()
  }

  /** What is left of a class, as a fraction of its tightest window. */
  leftOf(name: string): number {
    return this.#classes.get(name)?.left() ?? 1
  }

  /** Class → fraction left of its tightest window. */
  left(): Record<string, number> {
    return Object.fromEntries([...this.#classes].map(([name, each]) => [name, each.left()]))
  }

  /** Whether its state equals that of a new budget. */
  get blank(): boolean {
    for (const each of this.#classes.values()) if (!each.blank()) return false
    return true
  }

  /** Whether other processes allow for calls of this one that are not recorded: from its first call until it is settled. */
  get counting(): boolean {
    return this.#records !== undefined && this.#readAt !== null && this.#readAgainAt > 0
  }

  /** Publishes to other processes what was spent here; nothing more is spent before their records are read again. */
  async settle(): Promise<void> {
    if (this.#records === undefined || this.#readAt === null) return
    this.#readAgainAt = 0
    const records = [...this.#classes].flatMap(([name, each]) =>
      each.settle().map(record => ({ class: name, ...record }))
    )
    await this.#records.settle(records.filter(({ calls }) => calls > 0))
  }

  /** The same for a budget that is no longer kept; a failure is logged. */
  end(log: BrokerLog | undefined): void {
    this.settle().catch((error: unknown) => log?.warn({ err: error }, 'a quota that is not used is counted further'))
  }

  /** Reads what others spent, where that is not known. A promise only while calls have to wait for it. */
  #read(): Promise<void> | undefined {
    if (this.#records === undefined) return
    if (this.#readAt !== null && this.#clock.now() < this.#readAgainAt) return
    const settled = this.#readAgainAt === 0
    this.#reading ??= this.#readPast(this.#records).finally(() => {
      this.#reading = null
    })
    if (this.#readAt === null || settled) return this.#reading
    this.#reading.catch(() => {})
    return
  }

  async #readPast(records: ScopeRecords): Promise<void> {
    const at = this.#clock.now()
    let calls: PastCalls
    try {
      calls = await records.load()
    } catch (cause) {
      if (this.#readAt !== null && this.#readAgainAt > 0) this.#readAgainAt = at + RECORD_AGAIN_MS
      throw exhausted(`what was spent could not be read: ${String(cause)}`, RECORD_AGAIN_MS)
    }
    // What was recorded before the last reading is counted.
    const since = this.#readAt === null ? Infinity : at - this.#readAt
    const fresh = { counters: calls.counters, records: calls.records.filter(({ ageMs }) => ageMs <= since) }
    this.#readAt = at
    this.#readAgainAt = calls.counters.some(({ ageMs }) => ageMs === 0) ? at + READ_AGAIN_MS : Infinity
    this.#past = [...this.#past.filter(past => at - past.at < 3_600_000), { at, calls: fresh }]
    for (const [name, each] of this.#classes) each.addPast(name, { at, calls: fresh })
  }

  #class(name: string): ClassBudget {
    let found = this.#classes.get(name)
    if (found === undefined) {
      const record = (records: Omit<CallRecord, 'class'>[]) =>
        (this.#records as ScopeRecords).record(records.map(each => ({ class: name, ...each })))
      found = new ClassBudget(name, windowsOf(this.#limits, name), this.#clock, this.#records && record)
      for (const past of this.#past) found.addPast(name, past)
      this.#classes.set(name, found)
    }
    return found
  }
}

class ClassBudget {
  readonly #clock: Pick<Clock, 'now' | 'after'>
  readonly #minute: CallWindow
  readonly #tenMinutes: CallWindow | null
  readonly #hour: CallWindow
  readonly #windows: CallWindow[]
  readonly #reserve: number
  readonly #record: ((records: Omit<CallRecord, 'class'>[]) => Promise<void>) | undefined
  readonly #waiting: WaitingCalls
  #blockedUntil = 0
  #refusals = 0
  #recording = false

  constructor(
    name: string,
    windows: CallWindows,
    clock: Pick<Clock, 'now' | 'after'>,
    record: ((records: Omit<CallRecord, 'class'>[]) => Promise<void>) | undefined
  ) {
    this.#clock = clock
    this.#record = record
    this.#waiting = new WaitingCalls(`class ${name}`, clock, {
      readyAt: (now, urgent) => this.#readyAt(now, urgent),
      admit: now => this.#admit(now),
      // A call that waits for a record is served when the record is written.
      paused: () => this.#recording
    })
    this.#minute = new CallWindow({ limit: windows.perMinute, windowMs: 60_000, steps: 12 })
    this.#reserve = windows.reserve ?? reservedShare
    const { perTenMinutes: limit } = windows
    this.#tenMinutes = limit === undefined ? null : new CallWindow({ limit, windowMs: 600_000, steps: 30 })
    this.#hour = new CallWindow({ limit: windows.perHour, windowMs: 3_600_000, steps: 60 })
    this.#windows = [this.#minute, ...(this.#tenMinutes ? [this.#tenMinutes] : []), this.#hour]
  }

  setWindows(windows: CallWindows): void {
    this.#minute.limit = windows.perMinute
    if (this.#tenMinutes && windows.perTenMinutes !== undefined) this.#tenMinutes.limit = windows.perTenMinutes
    this.#hour.limit = windows.perHour
    this.#waiting.serve()
  }

  /** Counts what other processes spent. */
  addPast(name: string, { at, calls }: { at: number; calls: PastCalls }): void {
    const now = this.#clock.now()
    const sinceMs = now - at
    for (const window of this.#windows) {
      window.setCounters(
        now,
        calls.counters.map(({ ageMs }) => ageMs + sinceMs)
      )
      for (const each of calls.records)
        if (each.class === name && each.windowMs === window.windowMs)
          window.addPast(now, { ageMs: each.ageMs + sinceMs, calls: each.calls })
    }
  }

  settle(): Omit<CallRecord, 'class'>[] {
    const now = this.#clock.now()
    return this.#windows.map(window => window.settle(now))
  }

  take(options: TakeOptions): Promise<void> | undefined {
    return this.#waiting.take(options)
  }

  spend(): void {
    this.#count(this.#clock.now())
  }

  backOff(): void {
    this.#refusals += 1
    const pause = Math.min(BACK_OFF_STEP_MS * this.#refusals, BACK_OFF_CAP_MS)
    this.#blockedUntil = Math.max(this.#blockedUntil, this.#clock.now() + pause)
    this.#waiting.arm()
  }

  succeeded(): void {
    this.#refusals = 0
  }

  left(): number {
    const now = this.#clock.now()
    if (now < this.#blockedUntil) return 0
    return Math.min(...this.#windows.map(window => window.left(now)))
  }

  blank(): boolean {
    const now = this.#clock.now()
    return this.#waiting.size === 0 && now >= this.#blockedUntil && this.#hour.used(now) === 0
  }

  #count(now: number): void {
    for (const window of this.#windows) window.add(now)
  }

  #admit(now: number): boolean {
    const covered = this.#covered(now)
    if (covered) this.#count(now)
    return covered
  }

  /** Whether the records allow one more call; if not yet, calls are recorded. */
  #covered(now: number): boolean {
    if (this.#record === undefined) return true
    const lacking = this.#windows.filter(window => !window.covered(now))
    if (lacking.length === 0) return true
    if (!this.#recording) this.#recordFor(lacking, this.#record)
    return false
  }

  #recordFor(windows: CallWindow[], record: (records: Omit<CallRecord, 'class'>[]) => Promise<void>): void {
    this.#recording = true
    const now = this.#clock.now()
    const wanted = windows.map(window => window.wanted())
    const recorded = () => {
      this.#recording = false
      windows.forEach((window, place) => {
        window.record(now, wanted[place]!)
      })
      this.#waiting.serve()
    }
    // Calls wait, as for a quota, and no longer than they may.
    const failed = () =>
      this.#clock.after(RECORD_AGAIN_MS, () => {
        this.#recording = false
        this.#waiting.serve()
      })
    record(wanted).then(recorded, failed)
  }

  #readyAt(now: number, urgent: boolean): number {
    const reserve = urgent ? 0 : this.#reserve
    return Math.max(this.#blockedUntil, ...this.#windows.map(window => window.readyAt(now, reserve)))
  }
}

const unlimited: CallWindows = { perMinute: 0, perHour: 0 }

function windowsOf(limits: CallLimits, name: string): CallWindows {
  return limits[name] ?? limits.general ?? unlimited
}

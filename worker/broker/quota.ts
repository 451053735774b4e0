// How often we may call the broker: for one account under one application, calls of a class share a count per
// minute and one per hour. Whoever would exceed either waits, purchases before reads, and is refused in the end.
import { BrokerError } from './port.ts'
import { SlidingCount } from './sliding.ts'

/** Calls allowed; 0 or less means no limit. */
export interface Windows {
  perMinute: number
  /** Where there is such a window too. */
  perTenMinutes?: number
  /** The share kept for urgent calls (a tenth). */
  reserve?: number
  perHour: number
}

export type Limits = Record<string, Windows>

export interface TakeOptions {
  /** Purchases and sales: served first, and they alone may use the reserve. */
  urgent?: boolean
  /** Longest wait before QuotaExhausted. */
  waitMs?: number
  /** Ends the wait. */
  signal?: AbortSignal
}

const defaultWaitMs = 5_000
const maxWaiting = 500
const reservedShare = 0.1
const backOffStepMs = 2_500
const backOffCapMs = 15_000

/** Time as a budget needs it: ms that never jump back, and an alarm that can be taken back. */
export interface BudgetClock {
  now(): number
  after(delayMs: number, run: () => void): () => void
}

const monotonic: BudgetClock = {
  now: () => performance.now(),
  after: (delayMs, run) => {
    const timer = setTimeout(run, delayMs)
    return () => clearTimeout(timer)
  }
}

/** The call budget of one account under one application. */
export class Budget {
  readonly #classes = new Map<string, ClassBudget>()
  readonly #clock: BudgetClock
  #limits: Limits

  constructor(limits: Limits, clock: BudgetClock = monotonic) {
    this.#limits = limits
    this.#clock = clock
  }

  /** Takes over what the broker says; calls already made stay counted. */
  setLimits(limits: Limits): void {
    this.#limits = limits
    for (const [name, each] of this.#classes) each.setWindows(windowsOf(limits, name))
  }

  /**
   * Counts one call. Returns nothing when it may go at once, else a promise of the moment it may; that promise
   * rejects with BrokerError QuotaExhausted (ran 'no') when the moment would come too late.
   */
  take(name: string, options: TakeOptions = {}): Promise<void> | undefined {
    return this.#class(name).take(options)
  }

  /** Counts a call that is made without asking. */
  spend(name: string): void {
    this.#class(name).spend()
  }

  /** The broker refused a call of this class as one too many: nothing goes for a while, longer each time in a row. */
  backOff(name: string): void {
    this.#class(name).backOff()
  }

  /** A call of this class was answered: the back-off starts anew. */
  answered(name: string): void {
    this.#classes.get(name)?.answered()
  }

  /** What is left of a class, as a fraction of its tightest window. */
  leftOf(name: string): number {
    return this.#classes.get(name)?.left() ?? 1
  }

  /** Class → fraction left of its tightest window. */
  left(): Record<string, number> {
    return Object.fromEntries([...this.#classes].map(([name, each]) => [name, each.left()]))
  }

  /** Whether nothing is remembered that a new budget would not say too. */
  get blank(): boolean {
    for (const each of this.#classes.values()) if (!each.blank()) return false
    return true
  }

  #class(name: string): ClassBudget {
    let found = this.#classes.get(name)
    if (found === undefined) {
      found = new ClassBudget(name, windowsOf(this.#limits, name), this.#clock)
      this.#classes.set(name, found)
    }
    return found
  }
}

interface Waiting {
  urgent: boolean
  deadline: number
  go(): void
  fail(error: BrokerError): void
}

class ClassBudget {
  readonly #name: string
  readonly #clock: BudgetClock
  readonly #minute: SlidingCount
  readonly #tenMinutes: SlidingCount | null
  readonly #hour: SlidingCount
  readonly #reserve: number
  readonly #urgent: Waiting[] = []
  readonly #ordinary: Waiting[] = []
  #disarm: (() => void) | null = null
  #blockedUntil = 0
  #refusals = 0

  constructor(name: string, windows: Windows, clock: BudgetClock) {
    this.#name = name
    this.#clock = clock
    this.#minute = new SlidingCount(windows.perMinute, 60_000, 12)
    this.#reserve = windows.reserve ?? reservedShare
    const { perTenMinutes } = windows
    this.#tenMinutes = perTenMinutes === undefined ? null : new SlidingCount(perTenMinutes, 600_000, 30)
    this.#hour = new SlidingCount(windows.perHour, 3_600_000, 60)
  }

  setWindows(windows: Windows): void {
    this.#minute.limit = windows.perMinute
    if (this.#tenMinutes && windows.perTenMinutes !== undefined) this.#tenMinutes.limit = windows.perTenMinutes
    this.#hour.limit = windows.perHour
    this.#serve()
  }

  take({ urgent = false, waitMs = defaultWaitMs, signal }: TakeOptions): Promise<void> | undefined {
    const now = this.#clock.now()
    const queued = this.#urgent.length + (urgent ? 0 : this.#ordinary.length)
    const ready = this.#readyAt(now, urgent)
    if (queued === 0 && ready <= now) {
      this.#count(now)
      return
    }
    if (ready - now > waitMs || queued >= maxWaiting)
      return Promise.reject(exhausted(`class ${this.#name}`, Math.max(0, ready - now)))
    return new Promise((resolve, reject) => {
      const stop = () => waiting.fail(exhausted(`class ${this.#name}`))
      const leave = () => {
        signal?.removeEventListener('abort', stop)
        const queue = urgent ? this.#urgent : this.#ordinary
        const place = queue.indexOf(waiting)
        if (place !== -1) queue.splice(place, 1)
      }
      const waiting: Waiting = {
        urgent,
        deadline: now + waitMs,
        go: () => {
          leave()
          resolve()
        },
        fail: error => {
          leave()
          reject(error)
        }
      }
      signal?.addEventListener('abort', stop, { once: true })
      ;(urgent ? this.#urgent : this.#ordinary).push(waiting)
      this.#arm()
    })
  }

  spend(): void {
    this.#count(this.#clock.now())
  }

  backOff(): void {
    this.#refusals += 1
    const pause = Math.min(backOffStepMs * this.#refusals, backOffCapMs)
    this.#blockedUntil = Math.max(this.#blockedUntil, this.#clock.now() + pause)
    if (this.#urgent.length + this.#ordinary.length > 0) this.#arm()
  }

  answered(): void {
    this.#refusals = 0
  }

  left(): number {
    const now = this.#clock.now()
    if (now < this.#blockedUntil) return 0
    return Math.min(this.#minute.left(now), this.#tenMinutes?.left(now) ?? 1, this.#hour.left(now))
  }

  blank(): boolean {
    const now = this.#clock.now()
    const waiting = this.#urgent.length + this.#ordinary.length
    return waiting === 0 && now >= this.#blockedUntil && this.#hour.used(now) === 0
  }

  #count(now: number): void {
    this.#minute.add(now)
    this.#tenMinutes?.add(now)
    this.#hour.add(now)
  }

  #readyAt(now: number, urgent: boolean): number {
    const reserve = urgent ? 0 : this.#reserve
    return Math.max(
      this.#blockedUntil,
      this.#minute.readyAt(now, reserve),
      this.#tenMinutes?.readyAt(now, reserve) ?? 0,
      this.#hour.readyAt(now, reserve)
    )
  }

  /** Lets everybody go who may, and gives up those whose time has run out. */
  #serve(): void {
    const now = this.#clock.now()
    for (const queue of [this.#urgent, this.#ordinary]) {
      for (const waiting of [...queue]) if (waiting.deadline < now) waiting.fail(exhausted(`class ${this.#name}`))
      while (queue.length > 0 && this.#readyAt(now, queue[0]!.urgent) <= now) {
        this.#count(now)
        queue[0]!.go()
      }
      // A purchase that waits is not overtaken by a read.
      if (queue.length > 0) break
    }
    this.#arm()
  }

  #arm(): void {
    this.#disarm?.()
    this.#disarm = null
    const first = this.#urgent[0] ?? this.#ordinary[0]
    if (first === undefined) return
    const now = this.#clock.now()
    const deadlines = [...this.#urgent, ...this.#ordinary].reduce(
      (least, each) => Math.min(least, each.deadline),
      Infinity
    )
    const wakeAt = Math.min(this.#readyAt(now, first.urgent), deadlines + 1)
    this.#disarm = this.#clock.after(Math.max(1, Math.ceil(wakeAt - now)), () => this.#serve())
  }
}

/** The refusal of a call that the budget has no room for; `retryMs` is when it has, where that is known. */
export function exhausted(cause: string, retryMs?: number): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'Too many calls to the broker for this account right now.', {
    brokerCode: 'QuotaExhausted',
    ran: 'no',
    cause,
    retryMs
  })
}

const unlimited: Windows = { perMinute: 0, perHour: 0 }

function windowsOf(limits: Limits, name: string): Windows {
  return limits[name] ?? limits.general ?? unlimited
}

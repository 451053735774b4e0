// Calls that wait for their turn: urgent ones first, each group in its order, none longer than it may.
import type { Clock } from '../../platform/clock.ts'
import { BrokerError } from '../broker-error.ts'

export interface TakeOptions {
  /** Purchases and sales: served first, and they alone may use the reserve. */
  urgent?: boolean
  /** Longest wait before QuotaExhausted. */
  waitMs?: number
  /** Ends the wait. */
  signal?: AbortSignal
}

/** What the calls wait for. */
interface CallPlaces {
  /** When one more call may go; in the past when it may go now. */
  readyAt(now: number, urgent: boolean): number
  /** Counts a call that goes now; false where it may not go before `serve` is called again. */
  admit(now: number): boolean
  /** Whether calls are held up, and `serve` will be called when they may go. */
  paused?(): boolean
}

interface WaitingCall {
  urgent: boolean
  deadline: number
  go(): void
  fail(error: BrokerError): void
}

const DEFAULT_WAIT_MS = 5_000
const MAX_WAITING = 500

export class WaitingCalls {
  readonly #what: string
  readonly #clock: Pick<Clock, 'now' | 'after'>
  readonly #places: CallPlaces
  readonly #urgent: WaitingCall[] = []
  readonly #ordinary: WaitingCall[] = []
  #disarm: (() => void) | null = null

  /** `what` names the calls in refusals. */
  constructor(what: string, clock: Pick<Clock, 'now' | 'after'>, places: CallPlaces) {
    this.#what = what
    this.#clock = clock
    this.#places = places
  }

  get size(): number {
    return this.#urgent.length + this.#ordinary.length
  }

  /**
   * Returns undefined when the call may go at once, and counts it; else a promise that resolves when it may go, and rejects with
   * BrokerError QuotaExhausted (ran 'no') when that would be too late.
   */
  take({ urgent = false, waitMs = DEFAULT_WAIT_MS, signal }: TakeOptions): Promise<void> | undefined {
    const now = this.#clock.now()
    const queued = this.#urgent.length + (urgent ? 0 : this.#ordinary.length)
    const ready = this.#places.readyAt(now, urgent)
    if (queued === 0 && ready <= now && this.#places.admit(now)) return
    // Aborted while the records of others were read: an aborted signal raises no further event.
    if (signal?.aborted || ready - now > waitMs || queued >= MAX_WAITING)
      return Promise.reject(exhausted(this.#what, Math.max(0, ready - now)))
    return new Promise((resolve, reject) => {
      const stop = () => waiting.fail(exhausted(this.#what))
      const leave = () => {
        signal?.removeEventListener('abort', stop)
        const queue = urgent ? this.#urgent : this.#ordinary
        const place = queue.indexOf(waiting)
        if (place !== -1) queue.splice(place, 1)
      }
      const waiting: WaitingCall = {
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
      this.arm()
    })
  }

  /** Starts every waiting call that fits, and gives up those whose time has run out. */
  serve(): void {
    const now = this.#clock.now()
    for (const waiting of [...this.#urgent, ...this.#ordinary])
      if (waiting.deadline < now) waiting.fail(exhausted(this.#what))
    for (const queue of [this.#urgent, this.#ordinary]) {
      while (queue.length > 0 && this.#places.readyAt(now, queue[0]!.urgent) <= now && this.#places.admit(now))
        queue[0]!.go()
      // A purchase that waits is not overtaken by a read.
      if (queue.length > 0) break
    }
    this.arm()
  }

  /** Serves once the first of them may go, or its time runs out; to be called when that moment has changed. */
  arm(): void {
    this.#disarm?.()
    this.#disarm = null
    const first = this.#urgent[0] ?? this.#ordinary[0]
    if (first === undefined) return
    const now = this.#clock.now()
    const deadlines = [...this.#urgent, ...this.#ordinary].reduce(
      (least, each) => Math.min(least, each.deadline),
      Infinity
    )
    const readyAt = this.#places.paused?.() ? Infinity : this.#places.readyAt(now, first.urgent)
    const wakeAt = Math.min(readyAt, deadlines + 1)
    this.#disarm = this.#clock.after(Math.max(1, Math.ceil(wakeAt - now)), () => this.serve())
  }

  /** Fails all of them. */
  refuse(error: BrokerError): void {
    for (const waiting of [...this.#urgent, ...this.#ordinary]) waiting.fail(error)
    this.arm()
  }
}

/** The refusal of a call for which there is no room; `retryMs` is when there may be, where that is known. */
export function exhausted(cause: string, retryMs?: number): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'Too many calls to the broker for this account right now.', {
    brokerCode: 'QuotaExhausted',
    ran: 'no',
    cause,
    retryMs
  })
}

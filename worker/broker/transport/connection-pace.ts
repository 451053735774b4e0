// How fast calls may follow each other on one connection, where the broker limits calls in a second: further calls wait,
// purchases and sales first. Below the limit no call waits.
import { type Clock, systemClock } from '../../platform/clock.ts'
import type { BrokerError } from '../broker-error.ts'
import { SlidingCount } from './sliding.ts'
import { type TakeOptions, WaitingCalls } from './waiting-calls.ts'

/** The share of the broker's limit that is used, and within it the share that is kept for purchases and sales. */
const USED_SHARE = 0.95
const RESERVED_SHARE = 0.06
/** Longer than a second: calls that were sent a second apart may arrive closer together. */
const WINDOW_MS = 1_250
const STEPS = 25

export class ConnectionPace {
  readonly #sent: SlidingCount
  readonly #waiting: WaitingCalls
  readonly #clock: Pick<Clock, 'now' | 'after'>

  constructor(callsPerSecond: number, clock: Pick<Clock, 'now' | 'after'> = systemClock) {
    this.#clock = clock
    this.#sent = new SlidingCount(Math.floor(callsPerSecond * USED_SHARE), WINDOW_MS, STEPS)
    this.#waiting = new WaitingCalls('calls of a second on one connection', clock, {
      readyAt: (now, urgent) => this.#sent.readyAt(now, urgent ? 0 : RESERVED_SHARE),
      admit: now => {
        this.#sent.add(now)
        return true
      }
    })
  }

  /** Counts one call: nothing where it may leave at once, else a promise as of a budget. */
  take(options: TakeOptions): Promise<void> | undefined {
    return this.#waiting.take(options)
  }

  /** Counts a call that leaves without waiting. */
  spend(): void {
    this.#sent.add(this.#clock.now())
  }

  /** The connection is gone. */
  close(error: BrokerError): void {
    this.#waiting.refuse(error)
  }
}

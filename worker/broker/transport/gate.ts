// A gate before something costly: connections that are being opened.
import { BrokerError, closed } from '../broker-error.ts'

const AGAIN_MS = 1_000
/**
 * As in TCP Vegas: work that takes little longer than the fastest did shows that more can run at a time, work that takes much
 * longer that too much does. Quick means within `times` the fastest, or within `ms` of it.
 */
const QUICK = { times: 1.5, ms: 50 }
const SLOW = { times: 3, ms: 1_000 }

interface GateLimits {
  /** How many run at a time at first, and never fewer. */
  least: number
  /** How many at most; without it the number does not change. */
  most?: number
  /** Milliseconds; of the process unless a test gives another. */
  now?: () => number
}

interface GateOptions {
  /** The longest wait, ms. */
  withinMs: number
  /** Aborted when it may not wait any longer: it passes at once. */
  hurry?: AbortSignal
}

interface AtGate {
  go(): void
  refuse(error: BrokerError): void
}

/**
 * Lets a number of works run at a time; the others wait for their turn, except those in a hurry. Each quick one adds a place and
 * each slow one takes half of them away: with a distant broker many run at a time, on a full processor few.
 */
export class Gate {
  readonly #least: number
  readonly #most: number
  readonly #now: () => number
  readonly #waiting: AtGate[] = []
  #places: number
  #running = 0
  #fastestMs = Number.POSITIVE_INFINITY

  constructor({ least, most = least, now = () => performance.now() }: GateLimits) {
    this.#least = least
    this.#most = most
    this.#now = now
    this.#places = least
  }

  /** Runs `work` in its turn. Rejects with BrokerError NotConnected when that does not come in time. */
  async run<T>({ withinMs, hurry }: GateOptions, work: () => Promise<T>): Promise<T> {
    if (hurry?.aborted || !(await this.#turn({ withinMs, hurry }))) return await work()
    const startedAt = this.#now()
    try {
      const done = await work()
      // Refusals do not count: they are quick on a full processor as well.
      const tookMs = this.#now() - startedAt
      this.#fastestMs = Math.min(this.#fastestMs, tookMs)
      if (tookMs <= Math.max(QUICK.ms, QUICK.times * this.#fastestMs))
        this.#places = Math.min(this.#most, this.#places + 1)
      return done
    } finally {
      if (this.#now() - startedAt > Math.max(SLOW.ms, SLOW.times * this.#fastestMs))
        this.#places = Math.max(this.#least, Math.floor(this.#places / 2))
      this.#running -= 1
      this.#admit()
    }
  }

  /** A freed place is counted for the waiter that gets it, so that a later caller cannot take it in between. */
  #admit(): void {
    while (this.#running < this.#places) {
      const next = this.#waiting.shift()
      if (next === undefined) return
      this.#running += 1
      next.go()
    }
  }

  /** Resolves to whether it got a place, which is false only when it hurries. */
  #turn({ withinMs, hurry }: GateOptions): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer)
        hurry?.removeEventListener('abort', pass)
        const place = this.#waiting.indexOf(waiting)
        if (place !== -1) this.#waiting.splice(place, 1)
      }
      const waiting = {
        go() {
          leave()
          resolve(true)
        },
        refuse(error: BrokerError) {
          leave()
          reject(error)
        }
      }
      const pass = () => {
        leave()
        resolve(false)
      }
      const timer = setTimeout(() => waiting.refuse(tooMany()), withinMs)
      hurry?.addEventListener('abort', pass, { once: true })
      this.#waiting.push(waiting)
      this.#admit()
    })
  }

  /** Refuses all who wait; for those who run it does nothing. */
  close(): void {
    for (const waiting of [...this.#waiting]) waiting.refuse(closed())
  }
}

function tooMany(): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'Too many connections are being opened.', {
    brokerCode: 'NotConnected',
    ran: 'no',
    // Not a failure of the connection: the next caller waits for it, and is not refused meanwhile.
    retryMs: AGAIN_MS
  })
}

// A gate before something costly: connections that are being opened.
import { BrokerError } from '../port.ts'

const AGAIN_MS = 1_000

interface GateOptions {
  /** The longest wait, ms. */
  withinMs: number
  /** Aborted when it may not wait any longer: it passes at once. */
  hurry?: AbortSignal
}

/** Lets at most so many run at a time; the others wait their turn, but those in a hurry. */
export class Gate {
  readonly #most: number
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Runs `work` in its turn. Rejects with BrokerError NotConnected when that does not come in time. */
  async run<T>({ withinMs, hurry }: GateOptions, work: () => Promise<T>): Promise<T> {
    if (hurry?.aborted) return await work()
    let inTurn = true
    if (this.#running >= this.#most) inTurn = await this.#turn({ withinMs, hurry })
    else this.#running += 1
    try {
      return await work()
    } finally {
      if (inTurn) this.#next()
    }
  }

  /** A place is handed on directly, so that a later caller cannot take it in between. */
  #next(): void {
    const next = this.#waiting.shift()
    if (next === undefined) this.#running -= 1
    else next()
  }

  /** Resolves to whether it has a place, which it has unless it hurries. */
  #turn({ withinMs, hurry }: GateOptions): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const go = () => {
        leave()
        resolve(true)
      }
      const pass = () => {
        leave()
        resolve(false)
      }
      const leave = () => {
        clearTimeout(timer)
        hurry?.removeEventListener('abort', pass)
        const place = this.#waiting.indexOf(go)
        if (place !== -1) this.#waiting.splice(place, 1)
      }
      const timer = setTimeout(() => {
        leave()
        reject(
          new BrokerError('BROKER_UPSTREAM', 'Too many connections are being opened.', {
            brokerCode: 'NotConnected',
            ran: 'no',
            // No failure of this connection: who comes next waits for it, and is not refused meanwhile.
            retryMs: AGAIN_MS
          })
        )
      }, withinMs)
      hurry?.addEventListener('abort', pass, { once: true })
      this.#waiting.push(go)
    })
  }
}

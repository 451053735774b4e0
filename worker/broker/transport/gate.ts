// A gate before something costly: connections that are being opened.
import { BrokerError } from '../port.ts'

/** Lets at most so many run at a time; the others wait their turn. */
export class Gate {
  readonly #most: number
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(most: number) {
    this.#most = most
  }

  async run<T>(withinMs: number, work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#most) await this.#turn(withinMs)
    else this.#running += 1
    try {
      return await work()
    } finally {
      // A place is handed on directly, so that a later caller cannot take it in between.
      const next = this.#waiting.shift()
      if (next === undefined) this.#running -= 1
      else next()
    }
  }

  #turn(withinMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const go = () => {
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(go), 1)
        reject(
          new BrokerError('BROKER_UPSTREAM', 'Too many connections are being opened.', {
            brokerCode: 'NotConnected',
            ran: 'no'
          })
        )
      }, withinMs)
      this.#waiting.push(go)
    })
  }
}

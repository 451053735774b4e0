// Waiting longer each time before trying again what failed, for each key on its own.
import { setTimeout as delay } from 'node:timers/promises'

export interface PatienceOptions {
  firstMs: number
  mostMs: number
}

interface Failure {
  count: number
  until: number
}

const maxKeys = 5_000

export class Patience {
  readonly #options: PatienceOptions
  readonly #failures = new Map<string, Failure>()

  constructor(options: PatienceOptions) {
    this.#options = options
  }

  /** Resolves when the key may be tried again: at once unless it has just failed. */
  async wait(key: string): Promise<void> {
    const leftMs = (this.#failures.get(key)?.until ?? 0) - performance.now()
    if (leftMs > 0) await delay(leftMs)
  }

  /** It failed: the next try waits, twice as long as this one did, give or take. */
  failed(key: string): void {
    const { firstMs, mostMs } = this.#options
    const count = (this.#failures.get(key)?.count ?? 0) + 1
    // One failure alone may be bad luck; waiting starts with the second in a row.
    const pauseMs = count === 1 ? 0 : Math.min(mostMs, firstMs * 2 ** (count - 2)) * (0.5 + Math.random() / 2)
    this.#failures.delete(key)
    this.#failures.set(key, { count, until: performance.now() + pauseMs })
    const oldest = this.#failures.keys().next().value
    if (this.#failures.size > maxKeys && oldest !== undefined) this.#failures.delete(oldest)
  }

  succeeded(key: string): void {
    this.#failures.delete(key)
  }
}

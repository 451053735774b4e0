// Growing pauses between attempts at what failed, for each key on its own.

import { type BackOff, backOff } from '../../db/platform/back-off.ts'

const MAX_KEYS = 20_000

export class Pauses {
  readonly #options: BackOff
  readonly #failures = new Map<string, number>()

  constructor(options: BackOff) {
    this.#options = options
  }

  /** Records a failure; returns how many ms to wait before the next attempt: twice as long each time in a row. */
  failed(key: string): number {
    const count = (this.#failures.get(key) ?? 0) + 1
    this.#failures.delete(key)
    this.#failures.set(key, count)
    const oldest = this.#failures.keys().next().value
    if (this.#failures.size > MAX_KEYS && oldest !== undefined) this.#failures.delete(oldest)
    return pauseAfter(count, this.#options)
  }

  succeeded(key: string): void {
    this.#failures.delete(key)
  }
}

/** The pause after so many failures in a row, in ms; up to a quarter longer by chance, so that many do not return at once. */
export function pauseAfter(failures: number, pauses: BackOff): number {
  return backOff(failures - 1, pauses) * (1 + Math.random() / 4)
}

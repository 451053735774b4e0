// Work at the broker that the rounds of a loop begin and do not wait for, each item on its own: one that waits for a response that
// does not come delays no other.
import type { Log } from '../../db/platform/log.ts'

export class SeparateWork {
  readonly #places: number
  readonly #log: Log
  readonly #onEnd: (wasFull: boolean) => void
  readonly #underWay = new Map<string, Promise<void>>()

  /** `onEnd` is called when an item is over, with whether all places were taken until then. */
  constructor(places: number, log: Log, onEnd: (wasFull: boolean) => void) {
    this.#places = places
    this.#log = log
    this.#onEnd = onEnd
  }

  /** How many more items may begin now. */
  get room(): number {
    return this.#places - this.#underWay.size
  }

  /** The items under way, which are not to be taken again meanwhile. */
  get ids(): string[] {
    return [...this.#underWay.keys()]
  }

  /** Begins `work` on an item, unless some is under way. */
  begin(id: string, work: () => Promise<void>): void {
    if (this.#underWay.has(id)) return
    const life = work()
      .catch((error: unknown) => this.#log.error({ err: error, id }, 'work at the broker failed on our side'))
      .finally(() => {
        const wasFull = this.room <= 0
        this.#underWay.delete(id)
        this.#onEnd(wasFull)
      })
    this.#underWay.set(id, life)
  }

  /** Resolves once all that has begun is over. */
  async drain(): Promise<void> {
    await Promise.all(this.#underWay.values())
  }
}

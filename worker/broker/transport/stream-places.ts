// A connection carries only so many streams. A place is taken from the request for a stream until its end at the broker.
import type { Dialect } from '../dialects/dialect.ts'
import type { ReconnectingConnection } from './reconnecting.ts'
import type { ContractSubscription, Source } from './subscription.ts'

type PlaceOwner = Pick<ContractSubscription, 'source' | 'subscribing'>

export class StreamPlaces {
  readonly #dialect: Dialect
  readonly #reconnecting: ReconnectingConnection
  readonly #subscriptions: ReadonlyMap<string, PlaceOwner>
  readonly #onFreed: () => void
  #reserved = 0
  /** Contracts whose last stream is not yet ended at the broker: another one would be refused. */
  readonly #leaving = new Set<string>()

  constructor(
    { dialect, reconnecting }: { dialect: Dialect; reconnecting: ReconnectingConnection },
    subscriptions: ReadonlyMap<string, PlaceOwner>,
    onFreed: () => void
  ) {
    this.#dialect = dialect
    this.#reconnecting = reconnecting
    this.#subscriptions = subscriptions
    this.#onFreed = onFreed
  }

  /** How many more streams the connection carries. */
  free(): number {
    const subscriptions = this.#subscriptions
    let places = this.#dialect.maxStreams - this.#reserved - (this.#reconnecting.current?.lingering ?? 0)
    // Usually there are few contracts, and no need to count.
    if (subscriptions.size < places) return places - subscriptions.size
    for (const { source, subscribing } of subscriptions.values()) if (source !== null || subscribing) places -= 1
    return places
  }

  /** Keeps a place for the stream of a purchase, until the returned function is called; null when all are taken. */
  reserve(): (() => void) | null {
    if (this.free() <= 0) return null
    this.#reserved += 1
    return () => {
      this.#reserved -= 1
      this.#onFreed()
    }
  }

  /** Ends a stream at the broker; its place is free once that is done. */
  release(source: Source | null, contractId: string): void {
    if (source === null) return
    this.#leaving.add(contractId)
    void source.connection.forget(source.stream).then(() => {
      this.#leaving.delete(contractId)
      this.#onFreed()
    })
  }

  /** Whether the contract's last stream is not yet ended at the broker. */
  isLeaving(contractId: string): boolean {
    return this.#leaving.has(contractId)
  }
}

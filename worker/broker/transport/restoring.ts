// Requests missing streams again, in rounds with growing pauses. Contracts without a place for a stream are read now and then
// meanwhile; a place that becomes free ends the pause.
import { setTimeout as delay } from 'node:timers/promises'
import { backOff } from '../../../db/platform/back-off.ts'
import type { BrokerLog } from '../port.ts'
import type { ParkedContracts } from './parked.ts'
import type { StreamPlaces } from './stream-places.ts'
import type { ContractSubscription } from './subscription.ts'

interface RestoringOptions {
  subscriptions: ReadonlyMap<string, ContractSubscription>
  parked: ParkedContracts
  places: StreamPlaces
  log: BrokerLog
  /** Requests a contract's stream, or reads its state where there is no place; does not throw. */
  request(subscription: ContractSubscription): Promise<void>
  /** Makes up for the sales that were missed while contracts are parked; does not throw. */
  catchUp(): Promise<void>
}

const PAUSES = { firstMs: 1_000, mostMs: 15_000 }
/** Contracts without a place for a stream that are read in one round. */
const READ_PER_ROUND = 10

export class Restoring {
  readonly #options: RestoringOptions
  readonly #stop = new AbortController()
  /** Ends the pause of contracts that wait for a place. */
  #pause: AbortController | null = null
  #running = false

  constructor(options: RestoringOptions) {
    this.#options = options
  }

  /** Goes on until no stream is missing. */
  begin(): void {
    if (this.#running || this.#stop.signal.aborted) return
    this.#running = true
    this.#restoreAll().catch(cause => {
      this.#running = false
      this.#options.log.error({ err: cause }, 'streams could not be restored')
    })
  }

  /** A place is free; a contract that waits for one skips the rest of the pause. */
  skipPause(): void {
    this.#pause?.abort()
  }

  stop(): void {
    this.#stop.abort()
  }

  async #restoreAll(): Promise<void> {
    const { subscriptions, parked, places, request, catchUp } = this.#options
    for (let attempt = 0; ; attempt++) {
      const away = [...subscriptions.values()].filter(
        ({ source, contractId }) => source === null && !parked.has(contractId)
      )
      if (away.length === 0 && parked.behindMs === null) {
        this.#running = false
        return
      }
      const pauseMs = backOff(attempt, PAUSES) * Math.random() * (attempt === 0 ? 0.25 : 1)
      const crowded = away.length > places.free()
      if (crowded) this.#pause = new AbortController()
      const { signal: freed } = this.#pause ?? this.#stop
      await delay(pauseMs, undefined, { signal: AbortSignal.any([this.#stop.signal, freed]) }).catch(() => undefined)
      this.#pause = null
      if (this.#stop.signal.aborted) return
      // The one requested longest ago first. A free place is no reason to read more contracts than it takes.
      away.sort((one, other) => one.awaySince - other.awaySince)
      const readable = Math.max(0, places.free()) + (freed.aborted ? 0 : READ_PER_ROUND)
      const some = crowded ? away.slice(0, readable) : away
      await Promise.all([catchUp(), ...some.map(subscription => request(subscription))])
    }
  }
}

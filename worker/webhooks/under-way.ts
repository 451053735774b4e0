// What a worker has under way to webhook endpoints, and its bounds: requests of the worker, of one partner, to slow endpoints and to
// quick ones, and outcomes that are not written yet.

import type { Clock } from '../platform/clock.ts'
import { QUICK_MS } from './endpoint.ts'

/** Bounds on what one worker has under way; what endpoints have received of it is sent again when the worker is killed. */
export interface Bounds {
  /** Requests of the worker, of one partner, and to endpoints that fail or take long. */
  sending: number
  ofPartner: number
  slow: number
  /** Outcomes that are not written yet; past them nothing more is sent. */
  unwritten: number
  /**
   * Requests to quick endpoints that are young or whose outcome is not written: beyond this they would wait for this worker or
   * the database, and nothing would be delivered sooner.
   */
  quick: number
}

/** Of the worker's places, the share that is left for partners with nothing under way, however many others have endpoints that hang. */
const RESERVED = 0.1

const BOUNDS: Bounds = { sending: 1000, ofPartner: 128, slow: 500, unwritten: 100, quick: 24 }

export class UnderWay {
  readonly #clock: Pick<Clock, 'after'>
  readonly #onRoom: () => void
  readonly #bounds: Bounds
  readonly #ofPartner = new Map<string, number>()
  /** Requests whose end is awaited. */
  sending = 0
  #slow = 0
  /** Young requests to quick endpoints. */
  #young = 0
  unwritten = 0
  /** Unwritten outcomes of quick endpoints. */
  quickUnwritten = 0

  /** `onRoom` runs when a request has become too old to count as a young one. */
  constructor(clock: Pick<Clock, 'after'>, onRoom: () => void, bounds = BOUNDS) {
    this.#clock = clock
    this.#onRoom = onRoom
    this.#bounds = bounds
  }

  /** Whether nothing more may be sent to any endpoint. */
  full(): boolean {
    return this.sending >= this.#bounds.sending || this.unwritten >= this.#bounds.unwritten
  }

  /** Whether nothing more may be sent to this endpoint. */
  blocks({ partnerId, slow, quick }: { partnerId: string; slow: boolean; quick: boolean }): boolean {
    const { slow: slowAtMost, ofPartner, quick: quickAtMost, sending } = this.#bounds
    const ofThis = this.#ofPartner.get(partnerId) ?? 0
    // Nor has a partner more than may still be shared.
    const shared = sending - this.sending - Math.ceil(sending * RESERVED)
    return (
      (slow && this.#slow >= slowAtMost) ||
      (quick && this.#young + this.quickUnwritten >= quickAtMost) ||
      ofThis >= ofPartner ||
      (ofThis > 0 && ofThis >= shared)
    )
  }

  /** Counts a request until the returned function is called, once. */
  begin({ partnerId, slow, quick }: { partnerId: string; slow: boolean; quick: boolean }): () => void {
    const endYoung = quick ? this.#beginYoung() : undefined
    this.sending += 1
    if (slow) this.#slow += 1
    this.#ofPartner.set(partnerId, (this.#ofPartner.get(partnerId) ?? 0) + 1)
    return () => {
      endYoung?.()
      this.sending -= 1
      if (slow) this.#slow -= 1
      const left = (this.#ofPartner.get(partnerId) ?? 1) - 1
      if (left > 0) this.#ofPartner.set(partnerId, left)
      else this.#ofPartner.delete(partnerId)
    }
  }

  /** Counts a request as a young one until the returned function is called, or for as long as a quick endpoint takes at most. */
  #beginYoung(): () => void {
    this.#young += 1
    let young = true
    const end = () => {
      if (!young) return
      young = false
      this.#young -= 1
      cancel()
    }
    const cancel = this.#clock.after(QUICK_MS, () => {
      end()
      this.#onRoom()
    })
    return end
  }
}

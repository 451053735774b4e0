// The places that a worker has for broker requests of one kind. No partner has more than its share of them. Requests without a
// place wait here, also within shares, and partners take turns, so that nobody's requests block the queue.
import type { BrokerRequestRow } from '../../db/platform/broker-requests.ts'
import { Shares } from '../../db/platform/shares.ts'
import { Turns } from '../../db/platform/turns.ts'

const OPERATOR = 'operator'

export class RequestPlaces<Request extends BrokerRequestRow = BrokerRequestRow> {
  readonly #underWay: Shares
  readonly #waiting: Shares
  readonly #turns = new Turns<Request>()
  readonly #ids = new Set<string>()

  constructor({ underWay, waiting }: { underWay: number; waiting: number }) {
    this.#underWay = new Shares(underWay)
    this.#waiting = new Shares(waiting)
  }

  /** Whether the request may wait for a place; one that waits or is under way already does so once. */
  admit(request: Request): boolean {
    if (this.#ids.has(request.id)) return true
    const partner = partnerOf(request)
    if (this.#waiting.roomOf(partner) === 0) return false
    this.#waiting.add(partner)
    this.#ids.add(request.id)
    this.#turns.add(partner, request)
    return true
  }

  /** The next request that gets a place, round-robin among partners; it is under way until `done` is called. */
  next(): Request | undefined {
    const request = this.#turns.take(partner => this.#underWay.roomOf(partner) > 0)
    if (request === undefined) return undefined
    const partner = partnerOf(request)
    this.#waiting.remove(partner)
    this.#underWay.add(partner)
    return request
  }

  /** Takes out those that wait for a place. */
  leave(): Request[] {
    const left: Request[] = []
    for (let request = this.#turns.take(); request; request = this.#turns.take()) {
      this.#waiting.remove(partnerOf(request))
      this.#ids.delete(request.id)
      left.push(request)
    }
    return left
  }

  /** Gives its place back. */
  done(request: Request): void {
    this.#ids.delete(request.id)
    this.#underWay.remove(partnerOf(request))
  }
}

const partnerOf = ({ partner_id }: BrokerRequestRow): string => partner_id ?? OPERATOR

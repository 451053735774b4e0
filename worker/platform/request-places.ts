// The places a worker has for broker requests of one kind. No partner has more than its share of them; what finds no place
// waits here, also within shares and by turns, so that it is not in front of others' requests in the queue.
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

  /** The next request that has a place, by turns among partners: under way until it is `done`. */
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

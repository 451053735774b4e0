// The places a worker has for broker requests of one kind. No partner has more than its share of them; what finds no place
// waits here, also within shares and by turns, so that it is not in front of others' requests in the queue.
import type { AskRow } from '../../db/platform/broker-requests.ts'
import { Shares } from '../../db/platform/shares.ts'

const OPERATOR = 'operator'

export class RequestPlaces<Request extends AskRow = AskRow> {
  readonly #underWay: Shares
  readonly #waiting: Shares
  readonly #lines = new Map<string, Request[]>()
  readonly #ids = new Set<string>()

  constructor({ underWay, waiting }: { underWay: number; waiting: number }) {
    this.#underWay = new Shares(underWay)
    this.#waiting = new Shares(waiting)
  }

  /** Whether the request may wait for a place; one that waits or is under way already does so once. */
  admit(ask: Request): boolean {
    if (this.#ids.has(ask.id)) return true
    const partner = partnerOf(ask)
    if (this.#waiting.roomOf(partner) === 0) return false
    this.#waiting.add(partner)
    this.#ids.add(ask.id)
    const line = this.#lines.get(partner)
    if (line) line.push(ask)
    else this.#lines.set(partner, [ask])
    return true
  }

  /** The next request that has a place, by turns among partners: under way until it is `done`. */
  next(): Request | undefined {
    for (const [partner, line] of this.#lines) {
      if (this.#underWay.roomOf(partner) === 0) continue
      const ask = line.shift() as Request
      this.#lines.delete(partner)
      if (line.length > 0) this.#lines.set(partner, line)
      this.#waiting.remove(partner)
      this.#underWay.add(partner)
      return ask
    }
    return undefined
  }

  /** Gives its place back. */
  done(ask: Request): void {
    this.#ids.delete(ask.id)
    this.#underWay.remove(partnerOf(ask))
  }
}

const partnerOf = ({ partner_id }: AskRow): string => partner_id ?? OPERATOR

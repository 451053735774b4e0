// The newest events of one partner, read once for all of its endpoints at this worker, each with its body made once. An endpoint that
// is further back than what is kept here reads the log itself.

import type { Point } from '../../db/events/cursor.ts'
import { type EventSettings, eventIdOf, presentEvent } from '../../db/events/present.ts'
import { type EventRow, PointExpired, readEvents } from '../../db/events/read.ts'
import type { Db } from '../../db/postgres/connection.ts'

const KEPT = 500
const READ_AT_ONCE = 200

/** An event ready to be sent. */
export interface DeliverableEvent {
  position: number
  day: number
  eventId: string
  type: string
  subject: string
  /** When the change was made, ms since the epoch. */
  at: number
  /** The id on the wire and the body, made once; null for an event that cannot be shown. */
  message(): { id: string; body: string } | null
}

/** An event of the log as an entry; `onFault` gets why it cannot be shown. */
export function entryOf(
  row: EventRow,
  installation: EventSettings,
  onFault: (error: unknown) => void
): DeliverableEvent {
  let made: { id: string; body: string } | null | undefined
  const { position, day, id, type, subject } = row
  return {
    position,
    day,
    eventId: id,
    type,
    subject,
    at: row.at.getTime(),
    message() {
      if (made === undefined)
        try {
          made = { id: eventIdOf(id), body: JSON.stringify(presentEvent(row, installation)) }
        } catch (error) {
          made = null
          onFault(error)
        }
      return made
    }
  }
}

/** What is to be read: after a position, whose event is of `day`, at most `limit`, of some types or (null) all. */
interface LogReading {
  position: number
  day: number
  limit: number
  types: ReadonlySet<string> | null
}

interface Read {
  entries: DeliverableEvent[]
  /** Everything up to here was read. */
  next: { position: number; day: number }
  caughtUp: boolean
  /** Events that are not kept any more and were passed over. */
  missed: number
}

export class DeliveryTail {
  readonly #db: Db
  readonly #partnerId: string
  readonly #entry: (row: EventRow) => DeliverableEvent
  #epoch = 0
  /** Consecutive positions up to `#latest`. */
  #entries: DeliverableEvent[] = []
  #latest: { position: number; day: number } | undefined
  #reading: Promise<void> | undefined
  #behind = true

  constructor(db: Db, partnerId: string, entry: (row: EventRow) => DeliverableEvent) {
    this.#db = db
    this.#partnerId = partnerId
    this.#entry = entry
  }

  /** The log may have grown. */
  grown(): void {
    this.#behind = true
  }

  /** The events after a position. */
  async read(from: LogReading): Promise<Read> {
    if (this.#latest === undefined || from.position > this.#latest.position) {
      await this.#reading?.catch(() => {})
      // This reader is further on than all before it.
      if (this.#latest === undefined || from.position > this.#latest.position) {
        this.#entries = []
        this.#latest = { position: from.position, day: from.day }
        this.#behind = true
      }
    }
    if (from.position === this.#latest.position) {
      if (!this.#behind && this.#reading === undefined) return { entries: [], next: from, caughtUp: true, missed: 0 }
      // All endpoints that have read everything share one read.
      this.#reading ??= this.#readOn(this.#latest).finally(() => {
        this.#reading = undefined
      })
      try {
        await this.#reading
      } catch (error) {
        return this.#passOver(from, error)
      }
    }
    return this.#kept(from) ?? this.#own(from)
  }

  #kept({ position, limit, types }: LogReading): Read | undefined {
    const latest = this.#latest
    const first = this.#entries[0]?.position
    if (position === latest?.position)
      return { entries: [], next: { position, day: latest.day }, caughtUp: !this.#behind, missed: 0 }
    if (latest === undefined || first === undefined || position < first - 1 || position > latest.position)
      return undefined
    const entries: DeliverableEvent[] = []
    let at = position - first + 1
    for (; at < this.#entries.length && entries.length < limit; at++) {
      const entry = this.#entries[at] as DeliverableEvent
      if (types === null || types.has(entry.type)) entries.push(entry)
    }
    const last = this.#entries[at - 1] ?? latest
    return {
      entries,
      next: at === 0 ? { position, day: last.day } : { position: last.position, day: last.day },
      caughtUp: at >= this.#entries.length && !this.#behind,
      missed: 0
    }
  }

  async #readOn(from: { position: number; day: number }): Promise<void> {
    this.#behind = false
    try {
      const page = await this.#page(from, READ_AT_ONCE, null)
      if (page.events.length > 0) {
        this.#entries.push(...page.events.map(this.#entry))
        if (this.#entries.length > KEPT) this.#entries = this.#entries.slice(-KEPT)
      }
      this.#latest = { position: page.next.position, day: page.next.day }
      if (!page.caughtUp) this.#behind = true
    } catch (error) {
      this.#behind = true
      throw error
    }
  }

  async #own(from: LogReading): Promise<Read> {
    try {
      const page = await this.#page(from, from.limit, from.types)
      return { entries: page.events.map(this.#entry), next: page.next, caughtUp: page.caughtUp, missed: 0 }
    } catch (error) {
      return this.#passOver(from, error)
    }
  }

  /** Continues after a gap with the oldest event that is kept; reports how many are missing. */
  #passOver(from: LogReading, error: unknown): Read {
    if (!(error instanceof PointExpired)) throw error
    const { oldest, latest } = error.state
    this.#entries = []
    this.#latest = undefined
    // The log ends before the position: it was restored, and the endpoints were not.
    const position = from.position > latest.position ? latest.position : Math.max(oldest.position, from.position)
    if (position === from.position) throw error
    return { entries: [], next: { position, day: 0 }, caughtUp: false, missed: Math.max(0, position - from.position) }
  }

  async #page({ position, day }: { position: number; day: number }, limit: number, types: ReadonlySet<string> | null) {
    for (let again = true; ; again = false) {
      const point: Point = { epoch: this.#epoch, position, day }
      try {
        return await readEvents(this.#db, {
          partnerId: this.#partnerId,
          point,
          limit,
          types: types ? [...types] : undefined
        })
      } catch (error) {
        // Endpoints continue at their position whatever the epoch; another reader may have noticed the new epoch first.
        if (!again || !(error instanceof PointExpired) || error.state.epoch === point.epoch) throw error
        this.#epoch = error.state.epoch
      }
    }
  }
}

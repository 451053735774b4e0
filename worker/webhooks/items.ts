// The events an endpoint has open: read and not delivered, or waiting in webhook_pending. Events of one record leave one after
// the other, by their position in the log, never by their ids: those carry the clocks of several workers.
import type { PendingRow } from '../../db/webhooks/outcomes.ts'
import type { DeliverableEvent } from './tail.ts'

// Longer than reading rows takes.
const ENDED_MS = 60_000

/** An event on its way to the endpoint. */
export interface Item {
  position: number
  day: number
  eventId: string
  type: string
  subject: string
  /** Failed attempts. */
  attempts: number
  replay: boolean
  /** The delivery id of the next attempt; null: a new one. */
  deliveryId: string | null
  /** Not before; ms. */
  dueAt: number
  /** It has a row in webhook_pending. */
  stored: boolean
  /** The delivery ids that its row has had: under another one it is a row that was added since. */
  rows: string[]
  sending: boolean
  /** About its request: when it began (ms), whether the window was used up then, and whether the endpoint was quick. */
  begunAt: number
  full: boolean
  quick: boolean
  /** undefined: to be read first. */
  entry: DeliverableEvent | undefined
}

const byPosition = (a: Item, b: Item) => a.position - b.position

export class Items {
  /** Read, not delivered, without a row. */
  readonly open = new Map<number, Item>()
  /** With a row in webhook_pending. */
  readonly waiting = new Map<number, Item>()
  /** The items of each record, by position. */
  readonly #bySubject = new Map<string, Item[]>()
  /** When rows ended here, and their ids: one that is read now may have ended meanwhile. */
  readonly #ended = new Map<number, { at: number; rows: string[] }>()

  /** Adds an item to those that were read, or to those with a row. */
  add(item: Item): void {
    ;(item.stored ? this.waiting : this.open).set(item.position, item)
    const same = this.#bySubject.get(item.subject)
    if (!same) this.#bySubject.set(item.subject, [item])
    else {
      same.push(item)
      if ((same.at(-2) as Item).position > item.position) same.sort(byPosition)
    }
  }

  /** The item is delivered, or given up. */
  remove(item: Item, now: number): void {
    this.open.delete(item.position)
    this.waiting.delete(item.position)
    const same = this.#bySubject.get(item.subject)?.filter(other => other !== item) ?? []
    if (same.length > 0) this.#bySubject.set(item.subject, same)
    else this.#bySubject.delete(item.subject)
    if (item.stored) this.#ended.set(item.position, { at: now, rows: item.rows })
  }

  /** The item gets a row. */
  store(item: Item): void {
    item.stored = true
    this.open.delete(item.position)
    this.waiting.set(item.position, item)
  }

  /** All items of the same record. */
  ofRecord({ subject }: Item): Item[] {
    return [...(this.#bySubject.get(subject) ?? [])]
  }

  /** The first item to be sent now: those with a row before the others. */
  due(now: number): Item | undefined {
    for (const items of [this.waiting, this.open])
      for (const item of items.values()) if (!item.sending && item.dueAt <= now && this.#isFirst(item)) return item
    return undefined
  }

  /** Whether one with a row is due. */
  hasDue(now: number): boolean {
    for (const item of this.waiting.values()) if (item.dueAt <= now && this.#isFirst(item)) return true
    return false
  }

  /** When the first that may be sent is due; undefined where there is none. */
  firstDueAt(): number | undefined {
    let first: number | undefined
    for (const items of [this.waiting, this.open])
      for (const item of items.values())
        if ((first === undefined || item.dueAt < first) && !item.sending && this.#isFirst(item)) first = item.dueAt
    return first
  }

  /** Forgets what ended longer ago than rows are read. */
  forgetEnded(now: number): void {
    for (const [position, { at }] of this.#ended) if (at < now - ENDED_MS) this.#ended.delete(position)
  }

  /** Whether a row that is read now is open without one, or has ended meanwhile. */
  passed(row: PendingRow): boolean {
    const ended = this.#ended.get(row.position)
    return this.open.has(row.position) || (ended !== undefined && !isAdded(row, ended.rows))
  }

  /** No earlier event of its record is open. */
  #isFirst(item: Item): boolean {
    return this.#bySubject.get(item.subject)?.[0] === item
  }
}

/** Whether a row is none of those that an item has had: its event is to be sent again. */
export const isAdded = ({ replay, deliveryId }: PendingRow, rows: readonly string[]): boolean =>
  replay && !rows.includes(deliveryId)

// No request for it is under way.
const UNSENT = { sending: false, begunAt: 0, full: false, quick: false }

/** An event that was read, as an item that is due. */
export function itemOf(entry: DeliverableEvent, now: number): Item {
  const { position, day, eventId, type, subject } = entry
  return {
    position,
    day,
    eventId,
    type,
    subject,
    attempts: 0,
    replay: false,
    deliveryId: null,
    dueAt: now,
    stored: false,
    rows: [],
    ...UNSENT,
    entry
  }
}

/** A row of webhook_pending as an item. */
export function itemOfRow(row: PendingRow, dueAt: number): Item {
  const { position, day, eventId, type, subject, attempts, replay } = row
  return {
    position,
    day,
    eventId,
    type,
    subject,
    attempts,
    replay,
    deliveryId: attempts === 0 || replay ? row.deliveryId : null,
    dueAt,
    stored: true,
    rows: [row.deliveryId],
    ...UNSENT,
    entry: undefined
  }
}

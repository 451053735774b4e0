// An endpoint at the worker that holds it: which events it waits for, in which order they may leave, and how many at a time. It does
// no I/O and takes the time as an argument (ms, monotonic).
//
// An event is open from when it is read until it is delivered, FAILED, or waits in webhook_pending. Events of one record leave one
// after the other, by their position in the log, never by their ids: those carry the clocks of several workers.

import { newDeliveryId } from '../../db/webhooks/deliveries.ts'
import { FAILING_FROM } from '../../db/webhooks/endpoints.ts'
import type { HeldRow } from '../../db/webhooks/leases.ts'
import type { AttemptRow, PendingRow, Progress } from '../../db/webhooks/outcomes.ts'
import type { DeliveryError } from '../../schemas/webhook-endpoint.ts'
import type { DeliveryResponse } from './request.ts'
import { delayAfter, GIVEN_UP_MS, MAX_ATTEMPTS, probeDelay } from './schedule.ts'
import type { DeliverableEvent } from './tail.ts'
import { MAX_WINDOW, SLOW_MS, Window } from './window.ts'

/** Events read ahead. */
const MAX_OPEN = 2 * MAX_WINDOW
/** Events that may wait in webhook_pending; past them nothing new is read. */
const MAX_WAITING = 1000
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
  /** Of the next attempt; null: a new one. */
  deliveryId: string | null
  /** Not before; ms. */
  dueAt: number
  /** It has a row in webhook_pending. */
  stored: boolean
  sending: boolean
  /** Of its request, ms; and whether as many were under way as may be. */
  begunAt: number
  full: boolean
  /** undefined: to be read first. */
  entry: DeliverableEvent | undefined
}

/** What has changed since it was written last. */
export interface Changes {
  pending: PendingRow[]
  done: number[]
  attempts: AttemptRow[]
  /** One for each request that ended. */
  ended: EndedRequest[]
}

interface EndedRequest {
  /** ms, monotonic. */
  begunAt: number
  /** As many were under way as may be. */
  full: boolean
  delivered: boolean
}

const noChanges = (): Changes => ({ pending: [], done: [], attempts: [], ended: [] })

const byPosition = (a: Item, b: Item) => a.position - b.position

export class Endpoint {
  readonly id: string
  readonly partnerId: string
  readonly url: string
  readonly types: ReadonlySet<string> | null
  readonly lease: number
  version: number
  position: number
  day: number
  missed: number
  failures: number
  /** Start of the present unbroken series of failures, ms. */
  failingSince: number | null
  lastError: string | null
  pausedUntil: number
  sending = 0
  /** Requests whose outcome is not written yet: they would be sent again. */
  #unwritten = 0
  /** The last response was slow, or missing. */
  slow = false
  replaying = true
  caughtUp = false
  reading = false
  /** When something last happened, ms. */
  activeAt: number
  disable: 'GONE' | 'FAILURES' | undefined
  readonly #window: Window
  /** Read, not delivered, without a row. */
  readonly #open = new Map<number, Item>()
  /** With a row in webhook_pending. */
  readonly #waiting = new Map<number, Item>()
  /** The items of each record, by position. */
  readonly #bySubject = new Map<string, Item[]>()
  /** When rows ended here: one that is read now may have ended meanwhile. */
  readonly #ended = new Map<number, number>()
  #changes = noChanges()
  #dirty = false
  #progressed = false
  #blocked = false

  constructor(row: HeldRow, now: number) {
    this.id = row.id
    this.partnerId = row.partner_id
    this.url = row.url
    this.types = row.types && new Set(row.types)
    this.lease = row.lease
    this.version = row.version
    this.position = row.position
    this.day = row.day
    this.missed = row.missed
    this.failures = row.failures
    this.lastError = row.last_error
    this.failingSince = row.failing_ms === null ? null : now - row.failing_ms
    this.pausedUntil = now + Math.max(0, row.paused_ms)
    this.activeAt = now
    this.#window = new Window(now)
  }

  /** Only one event at a time is tried. */
  get failing(): boolean {
    return this.failures >= FAILING_FROM
  }

  /** Nothing is under way and nothing waits to be sent now. */
  get idle(): boolean {
    return (
      this.sending === 0 && this.#open.size === 0 && !this.reading && !this.replaying && this.caughtUp && !this.#dirty
    )
  }

  get waiting(): number {
    return this.#waiting.size
  }

  get #unsettled(): number {
    return this.sending + this.#unwritten
  }

  /** Requests that may be under way, or have ended and are not written, at a time. */
  get window(): number {
    return this.failing ? 1 : this.#window.size
  }

  /** How many events may be read now. */
  room(now: number): number {
    if (this.pausedUntil > now || this.disable || this.#blocked) return 0
    if (this.failing) return this.#open.size === 0 && !this.#hasDue(now) && this.#waiting.size < MAX_WAITING ? 1 : 0
    if (this.#open.size >= this.window || this.#waiting.size >= MAX_WAITING) return 0
    return Math.min(MAX_OPEN, 2 * this.window) - this.#open.size
  }

  /** How many replayed events may be added to those that wait. */
  roomForReplay(): number {
    return this.replaying && !this.failing ? Math.max(0, Math.min(200, MAX_WAITING - this.#waiting.size)) : 0
  }

  /** Events that were read; `next` is how far. */
  add(entries: readonly DeliverableEvent[], next: { position: number; day: number }, now: number): void {
    for (const entry of entries) {
      // A replay may have it already.
      if (this.#waiting.has(entry.position)) continue
      this.#insert(this.#open, itemOf(entry, now))
    }
    if (next.position !== this.position) this.#progressed = true
    this.position = next.position
    this.day = Math.max(this.day, next.day)
    if (entries.length > 0) this.activeAt = now
  }

  /** Counts events that were passed over since they are not kept any more. */
  miss(events: number): void {
    this.missed += events
    this.#dirty = true
  }

  /** Before rows of webhook_pending are read: what ends meanwhile is not added again. */
  beginLoading(now: number): void {
    for (const [position, at] of this.#ended) if (at < now - ENDED_MS) this.#ended.delete(position)
  }

  /** Rows of webhook_pending that may be new; the times of those known are taken over where they are earlier. */
  load(rows: readonly PendingRow[], now: number): void {
    for (const row of rows) {
      const dueAt = now + Math.max(0, row.nextMs)
      const known = this.#waiting.get(row.position)
      if (known) {
        if (row.replay && !known.sending) Object.assign(known, { dueAt, replay: true, deliveryId: row.deliveryId })
        continue
      }
      if (this.#ended.has(row.position) || this.#open.has(row.position)) continue
      this.#insert(this.#waiting, {
        position: row.position,
        day: row.day,
        eventId: row.eventId,
        type: row.type,
        subject: row.subject,
        attempts: row.attempts,
        replay: row.replay,
        deliveryId: row.attempts === 0 || row.replay ? row.deliveryId : null,
        dueAt,
        stored: true,
        sending: false,
        begunAt: 0,
        full: false,
        entry: undefined
      })
    }
  }

  /** The next event to be sent now; undefined where there is none, or enough are under way. */
  next(now: number): Item | undefined {
    if (this.disable || this.#blocked || this.pausedUntil > now || this.#unsettled >= this.window) return undefined
    for (const items of [this.#waiting, this.#open])
      for (const item of items.values())
        if (!item.sending && item.dueAt <= now && this.#bySubject.get(item.subject)?.[0] === item) return item
    return undefined
  }

  /** When something is due next without a response or a hint, ms; undefined: never. */
  dueAt(now: number): number | undefined {
    if (this.disable || this.#blocked || this.#unsettled >= this.window) return undefined
    const paused = this.pausedUntil > now
    if (paused && !this.caughtUp) return this.pausedUntil
    let first: number | undefined
    for (const items of [this.#waiting, this.#open])
      for (const item of items.values())
        if (
          (first === undefined || item.dueAt < first) &&
          !item.sending &&
          this.#bySubject.get(item.subject)?.[0] === item
        )
          first = item.dueAt
    return paused && first !== undefined ? Math.max(this.pausedUntil, first) : first
  }

  begin(item: Item, now: number): void {
    item.sending = true
    this.sending += 1
    item.begunAt = now
    item.full = this.#unsettled >= this.window
  }

  /** Takes the outcome of an attempt over. */
  end(item: Item, deliveryId: string, answer: DeliveryResponse, now: number): void {
    item.sending = false
    this.sending -= 1
    this.#unwritten += 1
    this.activeAt = now
    this.#dirty = true
    this.lastError = answer.error
    const { begunAt, full } = item
    this.#changes.ended.push({ begunAt, full, delivered: answer.error === null })
    const attempt = item.attempts + 1
    const log = (status: AttemptRow['status'], nextMs: number | null) =>
      this.#log(item, { deliveryId, attempt, status, answer, nextMs })
    if (answer.error === null) {
      this.#succeeded(answer.ms, now)
      log('DELIVERED', null)
      this.#remove(item)
      return
    }
    if (answer.error === 'INVALID_EVENT' || answer.error === 'EXPIRED') {
      if (answer.error === 'EXPIRED') this.missed += 1
      log('FAILED', null)
      this.#remove(item)
      return
    }
    this.#failed(answer, now)
    const delay = delayAfter(attempt)
    if (delay === null && answer.error !== 'GONE') {
      log('FAILED', null)
      this.#remove(item)
      return
    }
    const nextMs = answer.error === 'GONE' ? 0 : Math.max(delay ?? 0, (answer.retryAfterS ?? 0) * 1000)
    log('RETRYING', this.disable ? null : nextMs)
    this.#wait(item, { attempts: Math.min(attempt, MAX_ATTEMPTS - 1), deliveryId: null, dueAt: now + nextMs }, now)
    // What waits behind it makes room for other records.
    for (const behind of [...(this.#bySubject.get(item.subject) ?? [])])
      if (!behind.stored && !behind.sending) this.#wait(behind, { dueAt: now }, now)
  }

  /** Gives an event back that was not sent after all. */
  cancel(item: Item): void {
    item.sending = false
    this.sending -= 1
  }

  /** Notes that this worker cannot send to it; another may try after `until` (ms). */
  block(reason: DeliveryError, until: number): void {
    this.#blocked = true
    this.failures = Math.max(this.failures, FAILING_FROM)
    this.lastError = reason
    this.pausedUntil = until
    this.#dirty = true
  }

  /** What is to be written, once; undefined for nothing. */
  takeChanges(now: number, even = false): { progress: Progress; changes: Changes } | undefined {
    if (!this.#dirty && !(even && this.#progressed)) return undefined
    const changes = this.#changes
    this.#changes = noChanges()
    this.#dirty = false
    this.#progressed = false
    return { progress: this.#progress(now), changes }
  }

  /** What was taken has been written. */
  written({ ended }: Changes, now: number): void {
    this.#unwritten -= ended.length
    for (const { begunAt, full, delivered } of ended)
      if (delivered) this.#window.settled({ ms: now - begunAt, full }, now)
  }

  /** What could not be written, to be written again. */
  putBack({ pending, done, attempts, ended: requests }: Changes): void {
    const newer = this.#changes
    const ended = new Set(newer.done)
    this.#changes = {
      pending: [...pending.filter(({ position }) => !ended.has(position)), ...newer.pending],
      done: [...done, ...newer.done],
      attempts: [...attempts, ...newer.attempts],
      ended: [...requests, ...newer.ended]
    }
    this.#dirty = true
  }

  #progress(now: number): Progress {
    return {
      id: this.id,
      lease: this.lease,
      position: this.position,
      day: this.day,
      gaps: [...this.#open.keys()],
      failures: this.failures,
      failingMs: this.failingSince === null ? null : now - this.failingSince,
      lastError: this.lastError,
      pausedMs: this.pausedUntil > now ? this.pausedUntil - now : null,
      missed: this.missed
    }
  }

  #succeeded(ms: number, now: number): void {
    const wasFailing = this.failing
    this.failures = 0
    this.failingSince = null
    this.pausedUntil = now
    this.slow = ms > SLOW_MS / 2
    // It is back: what waits need not wait for its time.
    if (wasFailing) for (const item of this.#waiting.values()) item.dueAt = now
  }

  #failed({ error, retryAfterS }: DeliveryResponse, now: number): void {
    this.failures += 1
    this.failingSince ??= now
    this.slow = true
    this.#window.failed(this.failing)
    if (error === 'GONE') this.disable = 'GONE'
    else if (now - this.failingSince >= GIVEN_UP_MS) this.disable = 'FAILURES'
    let pauseMs = (retryAfterS ?? 0) * 1000
    if (this.failing) {
      pauseMs = Math.max(pauseMs, probeDelay(this.failures - FAILING_FROM))
    }
    if (pauseMs > 0) this.pausedUntil = Math.max(this.pausedUntil, now + pauseMs)
  }

  #hasDue(now: number): boolean {
    for (const item of this.#waiting.values())
      if (item.dueAt <= now && this.#bySubject.get(item.subject)?.[0] === item) return true
    return false
  }

  #insert(items: Map<number, Item>, item: Item): void {
    items.set(item.position, item)
    const same = this.#bySubject.get(item.subject)
    if (!same) this.#bySubject.set(item.subject, [item])
    else {
      same.push(item)
      if ((same.at(-2) as Item).position > item.position) same.sort(byPosition)
    }
  }

  #remove(item: Item): void {
    this.#open.delete(item.position)
    this.#waiting.delete(item.position)
    const same = this.#bySubject.get(item.subject)?.filter(other => other !== item) ?? []
    if (same.length > 0) this.#bySubject.set(item.subject, same)
    else this.#bySubject.delete(item.subject)
    if (item.stored) {
      this.#changes.done.push(item.position)
      this.#ended.set(item.position, this.activeAt)
    }
    // A row that was to be written would come after its end.
    this.#changes.pending = this.#changes.pending.filter(({ position }) => position !== item.position)
  }

  #wait(item: Item, changed: Partial<Item>, now: number): void {
    Object.assign(item, changed, { stored: true })
    // Its body is read again when it is due.
    item.entry = undefined
    item.deliveryId ??= newDeliveryId()
    const deliveryId = item.deliveryId
    // A failed attempt is listed by itself; the one after it is by the time at which it is made.
    if (item.attempts > 0) item.deliveryId = null
    this.#open.delete(item.position)
    this.#waiting.set(item.position, item)
    this.#changes.pending = this.#changes.pending.filter(({ position }) => position !== item.position)
    this.#changes.pending.push({
      endpointId: this.id,
      partnerId: this.partnerId,
      position: item.position,
      day: item.day,
      eventId: item.eventId,
      type: item.type,
      subject: item.subject,
      deliveryId,
      attempts: item.attempts,
      replay: item.replay,
      nextMs: Math.max(0, item.dueAt - now)
    })
  }

  #log(
    item: Item,
    made: {
      deliveryId: string
      attempt: number
      status: AttemptRow['status']
      answer: DeliveryResponse
      nextMs: number | null
    }
  ): void {
    const { deliveryId, attempt, status, answer, nextMs } = made
    this.#changes.attempts.push({
      endpointId: this.id,
      partnerId: this.partnerId,
      id: deliveryId,
      eventId: item.eventId,
      position: item.position,
      eventDay: item.day,
      type: item.type,
      subject: item.subject,
      attempt,
      status,
      httpStatus: answer.httpStatus,
      ms: answer.ms,
      error: answer.error,
      response: answer.response,
      agoMs: answer.ms,
      nextMs,
      replay: item.replay
    })
  }
}

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
    sending: false,
    begunAt: 0,
    full: false,
    entry
  }
}

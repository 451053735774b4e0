// An endpoint at the worker that holds it: which events may leave (items.ts), how many at a time (window.ts), what an attempt
// changes (changes.ts), and when it pauses. It does no I/O and takes the time as an argument (ms, monotonic).
//
// An event is open from when it is read until it is delivered, FAILED, or waits in webhook_pending.

import { FAILING_FROM } from '../../db/webhooks/endpoints.ts'
import type { HeldRow } from '../../db/webhooks/leases.ts'
import type { AttemptRow, PendingRow, Progress } from '../../db/webhooks/outcomes.ts'
import type { DeliveryError } from '../../schemas/webhook-endpoint.ts'
import { type Changes, UnwrittenChanges } from './changes.ts'
import { type Item, Items, isAdded, itemOf, itemOfRow } from './items.ts'
import type { DeliveryResponse } from './request.ts'
import { delayAfter, GIVEN_UP_MS, MAX_ATTEMPTS, probeDelay } from './schedule.ts'
import type { DeliverableEvent } from './tail.ts'
import { SendWindow, SLOW_MS } from './window.ts'

/** An endpoint that takes longer to respond is not quick, ms. */
export const QUICK_MS = 50
/** Events that may wait in webhook_pending; past them nothing new is read. */
export const MAX_WAITING = 1000

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
  /** The part of the pause that it requested itself, ms. */
  #requestedUntil = 0
  sending = 0
  /**
   * Requests whose outcome is not written yet, which a successor would send again; and those of them that were sent while the
   * endpoint was quick.
   */
  unwritten = 0
  quickUnwritten = 0
  /** The last response was slow, or missing. */
  slow = false
  // The shortest response time of late, ms.
  #quickestMs = 0
  replaying = true
  caughtUp = false
  reading = false
  /** When something last happened, ms. */
  activeAt: number
  disable: 'GONE' | 'FAILURES' | undefined
  readonly #window: SendWindow
  readonly #items = new Items()
  readonly #changes: UnwrittenChanges
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
    this.#window = new SendWindow(now)
    this.#changes = new UnwrittenChanges(this)
  }

  /** Only one event at a time is tried. */
  get failing(): boolean {
    return this.failures >= FAILING_FROM
  }

  /** Nothing is under way and nothing waits to be sent now. */
  get idle(): boolean {
    return (
      this.sending === 0 &&
      this.#items.open.size === 0 &&
      !this.reading &&
      !this.replaying &&
      this.caughtUp &&
      !this.#dirty
    )
  }

  /** This worker cannot send to it. */
  get blocked(): boolean {
    return this.#blocked
  }

  get waiting(): number {
    return this.#items.waiting.size
  }

  /** It responds soon, or nothing is known yet: then a few requests at a time suffice for any rate. */
  get quick(): boolean {
    return !this.slow && this.#quickestMs < QUICK_MS
  }

  get #unsettled(): number {
    return this.sending + this.unwritten
  }

  /** How many requests may be under way, or ended and not written, at a time. */
  get window(): number {
    return this.failing ? 1 : this.#window.size
  }

  /** How many events may be read now. */
  room(now: number): number {
    if (this.pausedUntil > now || this.disable || this.#blocked) return 0
    if (this.failing)
      return this.#items.open.size === 0 && !this.#items.hasDue(now) && this.#items.waiting.size < MAX_WAITING ? 1 : 0
    if (this.#items.open.size >= this.window || this.#items.waiting.size >= MAX_WAITING) return 0
    // Twice the window: half of the events are read in advance.
    return 2 * this.window - this.#items.open.size
  }

  /** How many replayed events may be added to those that wait. */
  roomForReplay(): number {
    return this.replaying && !this.failing ? Math.max(0, Math.min(200, MAX_WAITING - this.#items.waiting.size)) : 0
  }

  /** Events that were read; `next` is how far. */
  add(entries: readonly DeliverableEvent[], next: { position: number; day: number }, now: number): void {
    for (const entry of entries) {
      // A replay may have added it already.
      if (this.#items.waiting.has(entry.position)) continue
      this.#items.add(itemOf(entry, now))
    }
    if (next.position !== this.position) this.#progressed = true
    this.position = next.position
    this.day = Math.max(this.day, next.day)
    if (entries.length > 0) this.activeAt = now
    this.#makeRoom(now)
  }

  /** Counts events that were passed over since they are not kept any more. */
  miss(events: number): void {
    this.missed += events
    this.#dirty = true
  }

  /** Before rows of webhook_pending are read: what ends meanwhile is not added again. */
  beginLoading(now: number): void {
    this.#items.forgetEnded(now)
  }

  /** Rows of webhook_pending that may be new; the times of those known are taken over where they are to be sent again. */
  load(rows: readonly PendingRow[], now: number): void {
    for (const row of rows) {
      const dueAt = now + Math.max(0, row.nextMs)
      const known = this.#items.waiting.get(row.position)
      if (known) {
        if (!isAdded(row, known.rows)) continue
        // An item whose request is under way is read again once the request has ended.
        if (known.sending) this.version = -1
        else {
          known.rows.push(row.deliveryId)
          Object.assign(known, { dueAt, replay: true, deliveryId: row.deliveryId })
        }
        continue
      }
      if (!this.#items.passed(row)) this.#items.add(itemOfRow(row, dueAt))
    }
    this.#makeRoom(now)
  }

  /** The next event to be sent now; undefined where there is none, or enough are under way. */
  next(now: number): Item | undefined {
    if (this.disable || this.#blocked || this.pausedUntil > now || this.#unsettled >= this.window) return undefined
    return this.#items.due(now)
  }

  /** When something is due next without a response or a hint, ms; undefined: never. */
  dueAt(now: number): number | undefined {
    if (this.disable || this.#blocked || this.#unsettled >= this.window) return undefined
    const paused = this.pausedUntil > now
    if (paused && !this.caughtUp) return this.pausedUntil
    const first = this.#items.firstDueAt()
    return paused && first !== undefined ? Math.max(this.pausedUntil, first) : first
  }

  begin(item: Item, now: number): void {
    item.sending = true
    this.sending += 1
    item.begunAt = now
    item.full = this.#unsettled >= this.window
    item.quick = this.quick
  }

  /** Takes the outcome of an attempt over. */
  end(item: Item, deliveryId: string, response: DeliveryResponse, now: number): void {
    item.sending = false
    this.sending -= 1
    this.unwritten += 1
    if (item.quick) this.quickUnwritten += 1
    this.activeAt = now
    this.#dirty = true
    this.lastError = response.error
    const { begunAt, full, quick } = item
    this.#changes.requestEnded({ begunAt, full, delivered: response.error === null, quick })
    const attempt = item.attempts + 1
    const log = (status: AttemptRow['status'], nextMs: number | null) =>
      this.#changes.log(item, { deliveryId, attempt, status, response, nextMs })
    if (response.error === null) {
      this.#succeeded(response.ms, now)
      log('DELIVERED', null)
      this.#remove(item, now)
      return
    }
    if (response.error === 'INVALID_EVENT' || response.error === 'EXPIRED') {
      if (response.error === 'EXPIRED') this.missed += 1
      log('FAILED', null)
      this.#remove(item, now)
      return
    }
    this.#failed(response, now)
    const delay = delayAfter(attempt)
    if (delay === null && response.error !== 'GONE') {
      log('FAILED', null)
      this.#remove(item, now)
      return
    }
    const nextMs = response.error === 'GONE' ? 0 : Math.max(delay ?? 0, (response.retryAfterS ?? 0) * 1000)
    log('RETRYING', this.disable ? null : nextMs)
    this.#wait(item, { attempts: Math.min(attempt, MAX_ATTEMPTS - 1), deliveryId: null, dueAt: now + nextMs }, now)
    // Later events of the same record wait behind it, which leaves room for other records.
    for (const behind of this.#items.ofRecord(item))
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
    const changes = this.#changes.take()
    this.#dirty = false
    this.#progressed = false
    return { progress: this.#progress(now), changes }
  }

  /** What was taken has been written. */
  written({ ended }: Changes, now: number): void {
    this.unwritten -= ended.length
    this.quickUnwritten -= ended.filter(({ quick }) => quick).length
    for (const { begunAt, full, delivered } of ended)
      if (delivered) this.#window.settled({ ms: now - begunAt, full }, now)
  }

  /** What could not be written, to be written again. */
  putBack(changes: Changes): void {
    this.#changes.putBack(changes)
    this.#dirty = true
  }

  #progress(now: number): Progress {
    return {
      id: this.id,
      lease: this.lease,
      position: this.position,
      day: this.day,
      gaps: [...this.#items.open.keys()],
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
    // The success of a request that was sent before the pause does not end it.
    this.pausedUntil = Math.max(now, this.#requestedUntil)
    this.slow = ms > SLOW_MS / 2
    // The shortest time grows a little with each response, so that an endpoint that has become slower stops counting as quick.
    this.#quickestMs = this.#quickestMs === 0 ? Math.max(1, ms) : Math.min(Math.max(1, ms), 1.1 * this.#quickestMs + 1)
    // The endpoint works again: waiting events are sent now.
    if (wasFailing) for (const item of this.#items.waiting.values()) item.dueAt = now
  }

  #failed({ error, retryAfterS }: DeliveryResponse, now: number): void {
    this.failures += 1
    this.failingSince ??= now
    this.slow = true
    this.#window.failed(this.failing)
    if (error === 'GONE') this.disable = 'GONE'
    else if (now - this.failingSince >= GIVEN_UP_MS) this.disable = 'FAILURES'
    this.#requestedUntil = Math.max(this.#requestedUntil, now + (retryAfterS ?? 0) * 1000)
    const probeMs = this.failing ? probeDelay(this.failures - FAILING_FROM) : 0
    this.pausedUntil = Math.max(this.pausedUntil, this.#requestedUntil, now + probeMs)
  }

  #remove(item: Item, now: number): void {
    this.#items.remove(item, now)
    this.#changes.over(item)
  }

  /** Open events behind one of the same record that is to be sent later wait with it, which leaves room for other records. */
  #makeRoom(now: number): void {
    for (const item of [...this.#items.open.values()]) {
      const [first] = this.#items.ofRecord(item)
      if (!first?.stored || first.sending || first.dueAt <= now) continue
      this.#wait(item, { dueAt: now }, now)
      this.#dirty = true
    }
  }

  #wait(item: Item, changed: Partial<Item>, now: number): void {
    // Its body is read again when it is due.
    Object.assign(item, changed, { entry: undefined })
    this.#items.store(item)
    this.#changes.wait(item, now)
  }
}

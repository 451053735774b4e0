// Delivers to the endpoints that this worker holds: takes those that have something to do, sends round-robin among them within bounds
// per endpoint, partner and worker, and writes outcomes in groups. An endpoint that another worker has taken is dropped at once: what
// is under way to it is not written, since its new holder sends it again.

import type { KeyObject } from 'node:crypto'
import type { Log } from '../../db/platform/log.ts'
import { newDeliveryId } from '../../db/webhooks/deliveries.ts'
import { type HeldRow, takeEndpoints } from '../../db/webhooks/leases.ts'
import { countDelivery, observeFirst } from '../../db/webhooks/metrics.ts'
import { signedHeaders } from '../../db/webhooks/sign.ts'
import type { WorkerServices } from '../services.ts'
import type { Changes } from './changes.ts'
import { Endpoint } from './endpoint.ts'
import type { Item } from './items.ts'
import { keysOf } from './keys.ts'
import { loadPending, openLoading } from './loading.ts'
import type { DeliveryResponse, Requests } from './request.ts'
import { type DeliverableEvent, DeliveryTail, entryOf } from './tail.ts'
import { type Bounds, UnderWay } from './under-way.ts'

const MAX_HELD = 5000
// After a fruitless search for endpoints of a partner the next one waits for the clock.
const VAIN_MS = 1000
const READ_RETRY_MS = 500
const UNREADABLE_PAUSE_MS = 60_000

const nothingSent = (error: 'INVALID_EVENT' | 'EXPIRED'): DeliveryResponse => ({
  error,
  httpStatus: null,
  ms: 0,
  response: null,
  retryAfterS: null
})

interface HeldEndpoint {
  endpoint: Endpoint
  keys: { key: KeyObject; until: number }[]
}

export class Sender {
  readonly #services: WorkerServices
  readonly #log: Log
  readonly #requests: Requests
  readonly #held = new Map<string, HeldEndpoint>()
  readonly #ofPartner = new Map<string, Set<HeldEndpoint>>()
  readonly #tails = new Map<string, DeliveryTail>()
  readonly #ready = new Set<HeldEndpoint>()
  readonly #wanted = new Set<string>()
  readonly #vainUntil = new Map<string, number>()
  readonly #timers = new Map<HeldEndpoint, () => void>()
  readonly #load: ReturnType<typeof openLoading>
  readonly #onOutcome: () => void
  readonly underWay: UnderWay
  #pumping = false
  #turn: Promise<unknown> = Promise.resolve()
  #wanting = false
  /** Until when this worker's lease lasts, ms: until then what it holds is its own. */
  goodUntil = 0
  #stopped = false

  constructor(services: WorkerServices, requests: Requests, onOutcome: () => void, bounds?: Bounds) {
    this.#services = services
    this.#log = services.log
    this.#requests = requests
    this.#onOutcome = onOutcome
    this.underWay = new UnderWay(services.clock, () => this.pump(), bounds)
    this.#load = openLoading(services, row => this.#entry(row))
  }

  get endpoints(): Endpoint[] {
    return [...this.#held.values()].map(({ endpoint }) => endpoint)
  }

  get sending(): number {
    return this.underWay.sending
  }

  find(id: string): Endpoint | undefined {
    return this.#held.get(id)?.endpoint
  }

  /** The log of a partner has grown. */
  grown(partnerId: string): void {
    this.#tails.get(partnerId)?.grown()
    for (const held of this.#ofPartner.get(partnerId) ?? []) {
      held.endpoint.caughtUp = false
      this.#ready.add(held)
    }
    this.pump()
    if ((this.#vainUntil.get(partnerId) ?? 0) > this.#now()) return
    this.#wanted.add(partnerId)
    void this.#takeWanted()
  }

  /** Takes endpoints with work: the given one, or any without a holder. */
  take(endpointId: string | null): Promise<void> {
    return this.inTurn(() => this.#takeNow({ endpointId }))
  }

  /** Runs `work` while nothing is being taken. */
  inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(() => (this.#stopped ? undefined : work()))
    this.#turn = mine.catch(() => {})
    return mine
  }

  /** Forgets an endpoint that is not this worker's any more; what is under way to it is not written. */
  drop(endpoint: Endpoint): void {
    const held = this.#held.get(endpoint.id)
    if (held?.endpoint !== endpoint) return
    this.#held.delete(endpoint.id)
    this.underWay.unwritten -= endpoint.unwritten
    this.underWay.quickUnwritten -= endpoint.quickUnwritten
    this.#ready.delete(held)
    this.#timers.get(held)?.()
    this.#timers.delete(held)
    const others = this.#ofPartner.get(endpoint.partnerId)
    others?.delete(held)
    this.#vainUntil.delete(endpoint.partnerId)
    if (others?.size !== 0) return
    this.#ofPartner.delete(endpoint.partnerId)
    this.#tails.delete(endpoint.partnerId)
  }

  /** What was taken of an endpoint has been written. */
  written(endpoint: Endpoint, changes: Changes): void {
    // Everything of a dropped endpoint was dropped with it.
    if (this.find(endpoint.id) !== endpoint) return
    const { unwritten, quickUnwritten } = endpoint
    endpoint.written(changes, this.#now())
    this.underWay.unwritten -= unwritten - endpoint.unwritten
    this.underWay.quickUnwritten -= quickUnwritten - endpoint.quickUnwritten
    this.wake(endpoint)
  }

  /** An endpoint may have something to send. */
  wake(endpoint: Endpoint): void {
    const held = this.#held.get(endpoint.id)
    if (held?.endpoint !== endpoint) return
    this.#ready.add(held)
    this.pump()
  }

  /** Sends nothing more; what is under way ends. */
  stop(): void {
    this.#stopped = true
    this.#ready.clear()
    for (const cancel of this.#timers.values()) cancel()
    this.#timers.clear()
  }

  /** Sends what may be sent, an event of each endpoint in turn. */
  pump(): void {
    if (this.#pumping) return
    this.#pumping = true
    // Collects what is ready in this turn of the event loop.
    setImmediate(() => {
      this.#pumping = false
      for (let progress = true; progress && !this.#stopped; ) {
        progress = false
        for (const held of this.#ready) {
          if (this.underWay.full() || this.#now() >= this.goodUntil) return
          const { endpoint } = held
          if (this.underWay.blocks(endpoint)) continue
          const item = endpoint.next(this.#now())
          if (item) {
            progress = true
            void this.#deliver(held, item)
            // To the end of the line.
            this.#ready.delete(held)
            this.#ready.add(held)
            if (endpoint.room(this.#now()) > 0) this.#read(held)
          } else {
            this.#ready.delete(held)
            if (endpoint.room(this.#now()) > 0) this.#read(held)
            this.#setTimer(held)
          }
        }
      }
    })
  }

  #now(): number {
    return this.#services.clock.now()
  }

  async #takeWanted(): Promise<void> {
    if (this.#wanting || this.#stopped) return
    this.#wanting = true
    while (this.#wanted.size > 0 && !this.#stopped)
      await this.inTurn(() => {
        const partnerIds = [...this.#wanted]
        this.#wanted.clear()
        return this.#takeNow({ partnerIds })
      }).catch((error: unknown) => this.#log.warn({ err: error }, 'webhook endpoints could not be taken'))
    this.#wanting = false
  }

  async #takeNow(which: { partnerIds?: string[]; endpointId?: string | null }): Promise<void> {
    const { db, worker } = this.#services
    const limit = MAX_HELD - this.#held.size
    if (limit <= 0) return
    const found = await takeEndpoints(db, { worker, limit, ...which })
    const until = this.#now() + VAIN_MS
    if (this.#vainUntil.size > 10_000) this.#vainUntil.clear()
    for (const partnerId of which.partnerIds ?? []) this.#vainUntil.set(partnerId, until)
    await Promise.all(found.map(row => this.#hold(row)))
  }

  async #hold(row: HeldRow): Promise<void> {
    const now = this.#now()
    const endpoint = new Endpoint(row, now)
    const before = this.#held.get(row.id)
    if (before) this.drop(before.endpoint)
    const held: HeldEndpoint = { endpoint, keys: [] }
    try {
      held.keys = keysOf(this.#services.vault, row.id, row, now)
    } catch (error) {
      this.#log.error({ err: error, webhook: row.id }, 'the secret of a webhook cannot be decrypted')
      endpoint.block('SECRET_UNREADABLE', UNREADABLE_PAUSE_MS + now)
    }
    // What its last holder had under way, or had read.
    const open = await this.#load.open({ partnerId: row.partner_id, day: row.day, positions: row.gaps })
    endpoint.add(
      open.sort((a, b) => a.position - b.position),
      { position: row.position, day: row.day },
      now
    )
    if (open.length < row.gaps.length) endpoint.miss(row.gaps.length - open.length)
    await loadPending(this.#services, endpoint)
    this.#held.set(row.id, held)
    const others = this.#ofPartner.get(row.partner_id) ?? new Set()
    this.#ofPartner.set(row.partner_id, others.add(held))
    this.#ready.add(held)
    this.#onOutcome()
    this.pump()
  }

  #entry(row: Parameters<typeof entryOf>[0]): DeliverableEvent {
    return entryOf(row, this.#services.config, error =>
      this.#log.error({ err: error, event: row.id, partner: row.partnerId }, 'an event cannot be shown')
    )
  }

  #tailOf(partnerId: string): DeliveryTail {
    const known = this.#tails.get(partnerId) ?? new DeliveryTail(this.#services.db, partnerId, row => this.#entry(row))
    this.#tails.set(partnerId, known)
    return known
  }

  /** Reads more events for an endpoint, and rows that a replay adds. */
  #read(held: HeldEndpoint): void {
    const { endpoint } = held
    if (endpoint.reading || (endpoint.caughtUp && endpoint.roomForReplay() === 0)) return
    endpoint.reading = true
    void this.#readNow(held)
      .catch((error: unknown) => {
        this.#log.warn({ err: error, webhook: endpoint.id }, 'events for a webhook could not be read, trying again')
        this.#services.clock.after(READ_RETRY_MS, () => this.wake(endpoint))
      })
      .finally(() => {
        endpoint.reading = false
        this.wake(endpoint)
      })
  }

  async #readNow(held: HeldEndpoint): Promise<void> {
    const { endpoint } = held
    const replayed = endpoint.roomForReplay()
    if (replayed > 0) {
      endpoint.replaying = await this.#load.replay(endpoint, replayed)
      if (this.#held.get(endpoint.id) !== held) return
    }
    const limit = endpoint.room(this.#now())
    if (limit === 0 || endpoint.caughtUp) return
    const { position, day, types } = endpoint
    // Growth while it is being read resets it.
    endpoint.caughtUp = true
    try {
      const read = await this.#tailOf(endpoint.partnerId).read({ position, day, types, limit })
      if (this.#held.get(endpoint.id) !== held) return
      if (!read.caughtUp) endpoint.caughtUp = false
      endpoint.add(read.entries, read.next, this.#now())
      if (read.missed === 0) return
      endpoint.miss(read.missed)
      this.#log.warn({ webhook: endpoint.id, events: read.missed }, 'events expired before a webhook got them')
      this.#onOutcome()
    } catch (error) {
      endpoint.caughtUp = false
      throw error
    }
  }

  async #deliver(held: HeldEndpoint, item: Item): Promise<void> {
    const { endpoint } = held
    const { partnerId } = endpoint
    const slow = endpoint.slow
    endpoint.begin(item, this.#now())
    const end = this.underWay.begin({ partnerId, slow, quick: item.quick })
    const deliveryId = item.deliveryId ?? newDeliveryId()
    let outcome: DeliveryResponse | undefined
    try {
      item.entry ??= await this.#load.later({ partnerId, day: item.day, position: item.position })
      if (this.#held.get(endpoint.id) === held) outcome = await this.#attempt(held, item)
    } catch (error) {
      this.#log.warn({ err: error, webhook: endpoint.id }, 'an event for a webhook could not be read, trying again')
    }
    end()
    if (this.#held.get(endpoint.id) !== held) return this.pump()
    if (!outcome) {
      endpoint.cancel(item)
      item.dueAt = this.#now() + READ_RETRY_MS
    } else {
      endpoint.end(item, deliveryId, outcome, this.#now())
      this.underWay.unwritten += 1
      if (item.quick) this.underWay.quickUnwritten += 1
      countDelivery(outcome)
      this.#onOutcome()
    }
    this.wake(endpoint)
  }

  async #attempt(held: HeldEndpoint, item: Item): Promise<DeliveryResponse> {
    if (!item.entry) return nothingSent('EXPIRED')
    const message = item.entry.message()
    if (!message) return nothingSent('INVALID_EVENT')
    const now = this.#now()
    const keys = held.keys.filter(({ until }) => until > now).map(({ key }) => key)
    const atMs = this.#services.clock.wall()
    if (item.attempts === 0 && !item.replay) observeFirst((atMs - item.entry.at) / 1000)
    return this.#requests.post(
      held.endpoint.url,
      signedHeaders(keys, { id: message.id, body: message.body, atMs }),
      message.body
    )
  }

  /** Has an endpoint checked when its next waiting item is due. */
  #setTimer(held: HeldEndpoint): void {
    this.#timers.get(held)?.()
    this.#timers.delete(held)
    const dueAt = held.endpoint.dueAt(this.#now())
    if (dueAt === undefined || this.#stopped) return
    this.#timers.set(
      held,
      this.#services.clock.after(Math.max(1, Math.min(dueAt - this.#now(), 3_600_000)), () => {
        this.#timers.delete(held)
        this.wake(held.endpoint)
      })
    )
  }
}

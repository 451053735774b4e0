// Serves the api's broker requests: takes them, routes each to the worker that serves its account, runs it in the places of its
// partner, and stores its response. What each kind does is in request-handlers.ts.
import {
  type BrokerRequestRow,
  findBrokerRequests,
  partsOf,
  queueOf,
  type RequestPart,
  requestFromWorkers,
  storeRefusal,
  storeResponse
} from '../../db/platform/broker-requests.ts'
import { WORK } from '../../db/platform/bus.ts'
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { channelOf } from '../../db/traders/account-leases.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { noteRefusal } from '../accounts/applications.ts'
import { BrokerError } from '../broker/broker-error.ts'
import type { Settling } from '../orders/settle.ts'
import type { WorkerServices } from '../services.ts'
import { handlersOf } from './request-handlers.ts'
import { RequestPlaces } from './request-places.ts'

const BATCH = 50
// Sales have places of their own, so that no sale waits behind reads.
const PLACES = { underWay: 200, waiting: 1000 }
const TOO_MANY = 'Too many requests of this partner wait for the broker: try again in a second.'
// A request that was passed to another worker is passed on again after this, unless it is done.
const PASSED_AGAIN_MS = 1000

/** `overAt` is when its time is over, by this worker's monotonic clock: its wall clock may be wrong. */
type Timed = BrokerRequestRow & { overAt: number }

/** The broker requests that a worker runs, or has passed to the workers that serve their accounts. */
export class BrokerRequests {
  readonly #services: WorkerServices
  readonly #handlers: ReturnType<typeof handlersOf>
  readonly #places: { ask: RequestPlaces<Timed>; sell: RequestPlaces<Timed> }
  /** Broker requests under way, by id. */
  readonly #underWay = new Map<string, Promise<void>>()
  /** Requests that are being read, to be run or passed on. */
  readonly #routing = new Set<Promise<unknown>>()
  /** Requests passed to other workers, by what cancels the timer that passes them on again. */
  readonly #passed = new Map<() => void, Timed[]>()
  #stopped = false

  constructor(services: WorkerServices, settling: Settling, size = PLACES) {
    this.#services = services
    this.#places = { ask: new RequestPlaces<Timed>(size), sell: new RequestPlaces<Timed>(size) }
    this.#handlers = handlersOf(services, settling)
  }

  /** Takes broker requests of a queue, and runs those of accounts that this worker serves; returns how many were taken. */
  async take(name: 'ask' | 'sell'): Promise<number> {
    if (this.#stopped) return 0
    const { db, queue } = this.#services
    const jobs = await queue.take(db, name, BATCH)
    if (jobs.length > 0) await this.#route(jobs.map(({ brokerRequestId }) => brokerRequestId))
    return jobs.length
  }

  /** Runs a broker request that another worker took for an account that this one serves. */
  serve(brokerRequestId: string): void {
    if (this.#stopped) return
    const reading = this.#read([brokerRequestId]).then(([request]) => request && this.#start(request))
    this.#trackRouting(reading, 'a broker request could not be read')
  }

  /** Gives back requests that wait for a place, are being read or were passed on; resolves when those that have a place are done. */
  async drain(): Promise<void> {
    this.#stopped = true
    for (const cancel of this.#passed.keys()) cancel()
    this.#leave([...this.#places.ask.leave(), ...this.#places.sell.leave(), ...[...this.#passed.values()].flat()])
    while (this.#routing.size + this.#underWay.size > 0)
      await Promise.allSettled([...this.#routing, ...this.#underWay.values()])
  }

  /** Puts requests back into their queues, where another worker takes them at once. */
  #leave(requests: Timed[]): void {
    const { db, queue, bus } = this.#services
    for (const [name, some] of Map.groupBy(requests, ({ kind }) => queueOf(kind))) {
      const jobs = some.map(({ id }) => ({ brokerRequestId: id }))
      const leaving = queue.enqueue(db, name, jobs).then(() => bus.publish(WORK, name, 'left'))
      this.#trackRouting(leaving, 'broker requests could not be left to another worker')
    }
  }

  #trackRouting(routing: Promise<unknown>, complaint: string): void {
    const tracked = routing
      .catch((error: unknown) => this.#services.log.warn({ err: error }, complaint))
      .finally(() => this.#routing.delete(tracked))
    this.#routing.add(tracked)
  }

  /** The requests that still wait for a response. */
  async #read(ids: string[]): Promise<Timed[]> {
    const readAt = this.#services.clock.now()
    const requests = await findBrokerRequests(this.#services.db, ids)
    return requests.flatMap(request =>
      request?.state === 'waiting' && !request.expired ? [{ ...request, overAt: readAt + request.left_ms }] : []
    )
  }

  /** Runs those of accounts that this worker serves, and passes the others on. */
  async #route(ids: string[]): Promise<void> {
    const { db, bus, worker } = this.#services
    const requests = await this.#read(ids)
    const partsById = await partsOf(db, worker, requests)
    const passed: Timed[] = []
    for (const request of requests) {
      const parts = partsById.get(request.id) ?? []
      const [only = worker, ...more] = new Set(parts.map(part => part.worker ?? worker))
      if (more.length > 0) this.#startParts(request, parts)
      else if (only === worker) this.#start(request)
      else {
        bus.publish(channelOf(only), 'ask', request.id)
        passed.push(request)
      }
    }
    if (passed.length > 0) this.#routeAgain(passed)
  }

  /** A hint may be lost, and a worker may end: requests not done by then are routed again, by another worker if this one stops. */
  #routeAgain(requests: Timed[]): void {
    if (this.#stopped) {
      this.#leave(requests)
      return
    }
    const cancel = this.#services.clock.after(PASSED_AGAIN_MS, () => {
      this.#passed.delete(cancel)
      const ids = requests.map(({ id }) => id)
      this.#trackRouting(this.#route(ids), 'broker requests could not be passed on')
    })
    this.#passed.set(cancel, requests)
  }

  #start(request: Timed): void {
    const name = queueOf(request.kind)
    if (this.#stopped) this.#leave([request])
    else if (this.#places[name].admit(request)) this.#startAll(name)
    else {
      // The partner has as many requests waiting as it may.
      countTurnedAway(name)
      this.#refuse(request, { code: 'RATE_LIMITED', message: TOO_MANY }).catch((error: unknown) =>
        this.#services.log.error({ err: error }, 'a refusal could not be stored')
      )
    }
  }

  /** Starts the requests that have a place now. */
  #startAll(name: 'ask' | 'sell'): void {
    while (!this.#stopped) {
      const request = this.#places[name].next()
      if (!request) return
      // A request past its time has no waiter; running it would only spend the broker's budget.
      const late = request.overAt < this.#services.clock.now()
      this.#track(request, late ? Promise.resolve() : this.#respond(request), () => {
        this.#places[name].done(request)
        this.#startAll(name)
      })
    }
  }

  /** Splits a request about accounts of several workers into one broker request for each worker. */
  #startParts(request: Timed, parts: RequestPart[]): void {
    if (this.#underWay.has(request.id)) return
    const { db, queue, bus, clock, worker } = this.#services
    const { kind, partner_id: partnerId, trace } = request
    // A part takes places of the same partner at its worker, here too, as the whole would.
    const of = { ...(partnerId === null ? {} : { partnerId }), ...(trace === null ? {} : { trace }) }
    const timeoutMs = Math.max(1, Math.ceil(request.overAt - clock.now()))
    const responses = [...Map.groupBy(parts, part => part.worker ?? worker)].map(([, some], index) => {
      const data = { orderIds: some.flatMap(({ orderId }) => orderId ?? []) }
      const key = `${request.id} ${index}`
      return requestFromWorkers<object>(db, { queue, bus }, { kind, key, data, timeoutMs, ...of })
    })
    const end = async () => {
      const ended = await Promise.allSettled(responses)
      const failure = ended.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
      if (failure && kind !== 'markSome') await this.#refuse(request, refusalOf(failure.reason))
      else this.#notify(request, await storeResponse(db, request.id, { marked: parts.length }))
    }
    this.#track(request, end())
  }

  /** Keeps a request in the list of those under way until it has ended. */
  #track({ id }: Timed, life: Promise<void>, ended?: () => void): void {
    const tracked = life
      .catch((error: unknown) => this.#services.log.error({ err: error }, 'a response could not be stored'))
      .finally(() => {
        this.#underWay.delete(id)
        ended?.()
      })
    this.#underWay.set(id, tracked)
  }

  async #respond(request: Timed): Promise<void> {
    const { db, log } = this.#services
    const { kind, trace } = request
    try {
      this.#notify(request, await storeResponse(db, request.id, await this.#run(request)))
    } catch (error) {
      const { dialect, appId } = request.data as { dialect?: string; appId?: string }
      // Broker requests about the market count for the partner's application alone.
      if (dialect !== undefined && appId !== undefined) await noteRefusal(this.#services, { dialect, appId }, error)
      await this.#refuse(request, refusalOf(error))
      if (!(error instanceof BrokerError || error instanceof ApiError))
        log.error({ err: error, kind, trace }, 'a broker request failed on our side')
    }
    log.info({ kind, trace }, 'a broker request has its response')
  }

  async #run({ kind, data }: Pick<BrokerRequestRow, 'kind' | 'data'>): Promise<object> {
    const handle = this.#handlers[kind]
    if (!handle) throw new Error(`no worker serves '${kind}'`)
    return handle(data)
  }

  async #refuse(request: Timed, refusal: NonNullable<BrokerRequestRow['error']>): Promise<void> {
    this.#notify(request, await storeRefusal(this.#services.db, request.id, refusal))
  }

  #notify({ id }: Timed, replyChannel: string | undefined): void {
    if (replyChannel) this.#services.bus.publish(replyChannel, 'ask', id)
  }
}

function refusalOf(error: unknown): NonNullable<BrokerRequestRow['error']> {
  if (error instanceof ApiError) return { code: error.code, message: error.message, extras: error.extras }
  if (error instanceof BrokerError) {
    const extras = error.code === 'MARKET_CLOSED' ? { secondsUntilOpen: error.secondsUntilOpen } : {}
    return { code: error.code, message: error.message, extras }
  }
  return { code: 'BROKER_UPSTREAM', message: 'The broker could not be reached.' }
}

// Serves the api's broker requests: takes them, routes each to the worker that serves its account, runs it in the places of its
// partner, and stores its response. What each kind does is in request-handlers.ts.
import {
  type BrokerRequestRow,
  findBrokerRequests,
  queueOf,
  requestFromWorkers,
  type Share,
  sharesOf,
  storeRefusal,
  storeResponse
} from '../../db/platform/broker-requests.ts'
import { WORK } from '../../db/platform/bus.ts'
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { channelOf } from '../../db/traders/account-leases.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { noteRefusal } from '../accounts/applications.ts'
import { BrokerError } from '../broker/port.ts'
import type { Settling } from '../orders/settle.ts'
import type { WorkerServices } from '../services.ts'
import { handlersOf } from './request-handlers.ts'
import { RequestPlaces } from './request-places.ts'

const BATCH = 50
// Sales have places of their own, so that no sale waits behind what is only read.
const PLACES = { underWay: 200, waiting: 1000 }
const TOO_MANY = 'Too many requests of this partner wait for the broker: try again in a second.'
// When a broker request that was passed to another worker, and is not done, is passed on again.
const PASSED_AGAIN_MS = 1000

/** `overAt` is when its time is over, by this worker's monotonic clock: its wall clock may be wrong. */
type Timed = BrokerRequestRow & { overAt: number }

export interface BrokerRequests {
  /**
   * Takes broker requests of a queue, and runs those of accounts that this worker serves; returns how many were taken.
   */
  take(name: 'ask' | 'sell'): Promise<number>
  /** Runs a broker request that another worker took for an account that this one serves. */
  serve(brokerRequestId: string): void
  /** Leaves what waits for a place to other workers; resolves when what has one is done. */
  drain(): Promise<void>
}

export function openBrokerRequests(services: WorkerServices, settling: Settling): BrokerRequests {
  const { db, queue, bus, log, worker } = services
  /** Broker requests under way, by id. */
  const underWay = new Map<string, Promise<void>>()
  const places = { ask: new RequestPlaces<Timed>(PLACES), sell: new RequestPlaces<Timed>(PLACES) }
  const cancels = new Set<() => void>()
  let stopped = false

  const handlers = handlersOf(services, settling)

  async function respond(request: BrokerRequestRow): Promise<void> {
    let replyChannel: string | undefined
    try {
      const find = handlers[request.kind]
      if (!find) throw new Error(`no worker serves '${request.kind}'`)
      replyChannel = await storeResponse(db, request.id, await find(request.data))
    } catch (error) {
      const { dialect, appId } = request.data as { dialect?: string; appId?: string }
      // Broker requests about the market count for the partner's application alone.
      if (dialect !== undefined && appId !== undefined) await noteRefusal(services, { dialect, appId }, error)
      replyChannel = await storeRefusal(db, request.id, refusalOf(error))
      if (!(error instanceof BrokerError || error instanceof ApiError))
        log.error({ err: error, kind: request.kind, trace: request.trace }, 'a broker request failed on our side')
    }
    log.info({ kind: request.kind, trace: request.trace }, 'a broker request has its response')
    if (replyChannel) services.bus.publish(replyChannel, 'ask', request.id)
  }

  async function read(ids: string[]): Promise<(Timed | undefined)[]> {
    const readAt = services.clock.now()
    const requests = await findBrokerRequests(db, ids)
    return requests.map(request => request && { ...request, overAt: readAt + request.left_ms })
  }

  function start(request: Timed | undefined): void {
    if (stopped || request?.state !== 'waiting' || request.expired) return
    const name = queueOf(request.kind)
    if (places[name].admit(request)) startAll(name)
    else turnAway(request).catch((error: unknown) => log.error({ err: error }, 'a refusal could not be stored'))
  }

  /** Starts the requests that have a place now. */
  function startAll(name: 'ask' | 'sell'): void {
    for (
      let request = stopped ? undefined : places[name].next();
      request;
      request = stopped ? undefined : places[name].next()
    ) {
      const taken = request
      // A request past its time has no waiter; running it would only spend the broker's budget.
      const late = taken.overAt < services.clock.now()
      const life = (late ? Promise.resolve() : respond(taken))
        .catch((error: unknown) => log.error({ err: error }, 'a response could not be stored'))
        .finally(() => {
          underWay.delete(taken.id)
          places[name].done(taken)
          startAll(name)
        })
      underWay.set(taken.id, life)
    }
  }

  /** Puts what waits for a place back into its queue, where another worker takes it at once. */
  async function leave(name: 'ask' | 'sell'): Promise<void> {
    const left = places[name].leave()
    if (left.length === 0) return
    await queue.enqueue(
      db,
      name,
      left.map(({ id }) => ({ brokerRequestId: id }))
    )
    bus.publish(WORK, name, 'left')
  }

  /** Refuses a request of a partner that has all its share of what may wait. */
  async function turnAway(request: BrokerRequestRow): Promise<void> {
    countTurnedAway(queueOf(request.kind))
    const replyChannel = await storeRefusal(db, request.id, { code: 'RATE_LIMITED', message: TOO_MANY })
    if (replyChannel) bus.publish(replyChannel, 'ask', request.id)
  }

  /** Runs those of accounts that this worker serves, and passes the others on. */
  async function route(ids: string[]): Promise<void> {
    const requests = await read(ids)
    const waiting = requests.filter(request => request?.state === 'waiting' && !request.expired)
    const shares = await sharesOf(db, worker, waiting as Timed[])
    const passed: string[] = []
    for (const request of waiting as Timed[]) {
      const workers = [...new Set((shares.get(request.id) ?? []).map(share => share.worker ?? worker))]
      const [only = worker] = workers
      if (workers.length > 1) startParts(request, shares.get(request.id) as Share[])
      else if (only === worker) start(request)
      else {
        bus.publish(channelOf(only), 'ask', request.id)
        passed.push(request.id)
      }
    }
    if (passed.length > 0) later(() => route(passed))
  }

  /** A hint may be lost, and a worker may end: requests not done by then are routed again. */
  function later(then: () => Promise<void>): void {
    if (stopped) return
    const cancel = services.clock.after(PASSED_AGAIN_MS, () => {
      cancels.delete(cancel)
      then().catch((error: unknown) => log.warn({ err: error }, 'broker requests could not be passed on'))
    })
    cancels.add(cancel)
  }

  /** One about accounts of several workers is made several broker requests, each about one worker's. */
  function startParts(request: Timed, shares: Share[]): void {
    if (underWay.has(request.id)) return
    const byWorker = Map.groupBy(shares, share => share.worker ?? worker)
    const timeoutMs = Math.max(1, Math.ceil(request.overAt - services.clock.now()))
    const parts = [...byWorker].map(([part, some], index) => {
      const data = { orderIds: some.flatMap(({ orderId }) => orderId ?? []) }
      if (part === worker) return (handlers[request.kind] as (data: object) => Promise<object>)(data)
      const key = `${request.id} ${index}`
      return requestFromWorkers<object>(db, { queue, bus }, { kind: request.kind, key, data, timeoutMs })
    })
    const life = Promise.allSettled(parts)
      .then(async ended => {
        const failure = ended.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
        const replyChannel =
          failure && request.kind !== 'markSome'
            ? await storeRefusal(db, request.id, refusalOf(failure.reason))
            : await storeResponse(db, request.id, { marked: shares.length })
        if (replyChannel) bus.publish(replyChannel, 'ask', request.id)
      })
      .catch((error: unknown) => log.error({ err: error }, 'a response could not be stored'))
      .finally(() => underWay.delete(request.id))
    underWay.set(request.id, life)
  }

  return {
    async take(name) {
      if (stopped) return 0
      const jobs = await queue.take(db, name, BATCH)
      if (jobs.length > 0) await route(jobs.map(({ brokerRequestId }) => brokerRequestId))
      return jobs.length
    },
    serve(brokerRequestId) {
      if (stopped) return
      read([brokerRequestId]).then(
        ([request]) => start(request),
        (error: unknown) => log.warn({ err: error }, 'a broker request could not be read')
      )
    },
    async drain() {
      stopped = true
      for (const cancel of cancels) cancel()
      const left = Promise.all([leave('ask'), leave('sell')]).catch((error: unknown) =>
        log.warn({ err: error }, 'broker requests could not be left to another worker')
      )
      await Promise.allSettled([left, ...underWay.values()])
    }
  }
}

function refusalOf(error: unknown): NonNullable<BrokerRequestRow['error']> {
  if (error instanceof ApiError) return { code: error.code, message: error.message, extras: error.extras }
  if (error instanceof BrokerError) {
    const extras = error.code === 'MARKET_CLOSED' ? { secondsUntilOpen: error.secondsUntilOpen } : {}
    return { code: error.code, message: error.message, extras }
  }
  return { code: 'BROKER_UPSTREAM', message: 'The broker could not be asked.' }
}

// Serves the api's broker requests: each kind is a function from the request's data to its response.

import { type Mark, markValues } from '../../db/orders/leases.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { claimedContracts, inDoubt } from '../../db/orders/reconciliation.ts'
import { arrivalTimes, findDoubt } from '../../db/orders/resolving.ts'
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
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { channelOf } from '../../db/traders/account-leases.ts'
import { type AccountRef, findAccountRef } from '../../db/traders/accounts.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Candle } from '../../schemas/market.ts'
import { openSession, rejectToken } from '../accounts/accounts.ts'
import { noteRefusal } from '../accounts/applications.ts'
import { reconcileAccounts } from '../accounts/reconciliation.ts'
import { reconcilePartner } from '../analytics/reconciling.ts'
import { BrokerError, type ContractState, type Evidence, stakeCurrency } from '../broker/port.ts'
import { candidatesOf } from '../orders/evidence.ts'
import { markOf } from '../orders/outcome.ts'
import type { Settling } from '../orders/settle.ts'
import { refOf } from '../orders/terms.ts'
import type { WorkerServices } from '../services.ts'
import { RequestPlaces } from './request-places.ts'

const BATCH = 50
// Sales have places of their own, so that no sale waits behind what is only read.
const PLACES = { underWay: 200, waiting: 1000 }
const TOO_MANY = 'Too many requests of this partner wait for the broker: try again in a second.'
// When a broker request that was passed to another worker, and is not done, is passed on again.
const PASSED_AGAIN_MS = 1000

/** `overAt` is when its time is over, by this worker's monotonic clock: its wall clock may be wrong. */
type Timed = BrokerRequestRow & { overAt: number }

interface BrokerRequests {
  /**
   * Takes broker requests of a queue, and runs those of accounts that this worker serves; returns how many were taken.
   */
  take(name: 'ask' | 'sell'): Promise<number>
  /** Runs a broker request that another worker took for an account that this one serves. */
  serve(brokerRequestId: string): void
  drain(): Promise<void>
}

export function openBrokerRequests(services: WorkerServices, settling: Settling): BrokerRequests {
  const { db, queue, bus, log, worker } = services
  /** Broker requests under way, by id. */
  const underWay = new Map<string, Promise<void>>()
  const places = { ask: new RequestPlaces<Timed>(PLACES), sell: new RequestPlaces<Timed>(PLACES) }
  const cancels = new Set<() => void>()
  let stopped = false

  const handlers: Record<string, (data: Record<string, unknown>) => Promise<object>> = {
    balance: data => balance(services, data.accountRowId as string),
    close: data => close(services, settling, data.orderId as string),
    evidence: data => evidence(services, data.orderId as string),
    audit: () => reconcileAccounts(services, { everyMinutes: 0, all: true }),
    sellOrphan: data => sellOrphan(services, data as unknown as OrphanSale),
    mark: data => mark(services, data.orderIds as string[]),
    markSome: data => markSome(services, data.orderIds as string[]),
    multiplierSpec: data =>
      multiplierSpec(services, data as { [name in 'asset' | 'currency' | 'appId' | 'dialect']: string }),
    candles: data => candles(services, data as unknown as CandleRequest),
    payout: data => payout(services, data as unknown as ContractPayoutRequest),
    reconcileMarkups: data => reconcilePartner(services, data as unknown as { partnerId: string; day?: string })
  }

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
    if (request?.state !== 'waiting' || request.expired) return
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
      await Promise.allSettled(underWay.values())
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

async function balance(services: WorkerServices, accountRowId: string): Promise<{ balance: string; currency: string }> {
  const ref = await findAccountRef(services.db, accountRowId)
  if (!ref) throw new ApiError('BROKER_DISCONNECTED')
  try {
    return await (await openSession(services, ref)).balance()
  } catch (error) {
    if (error instanceof BrokerError && error.rejected) await rejectToken(services, ref, error)
    throw error
  }
}

interface CandleRequest {
  dialect: string
  appId: string
  asset: string
  granularitySeconds: number
  count: number
}

/** An asset's newest candles under a partner's application; no account is behind them. */
async function candles(
  { brokers }: WorkerServices,
  { dialect, appId, asset, granularitySeconds, count }: CandleRequest
): Promise<{ candles: Candle[] }> {
  return { candles: await brokers.of(dialect).market(appId).candles(asset, { granularitySeconds, count }) }
}

interface ContractPayoutRequest {
  dialect: string
  appId: string
  asset: string
  contractType: 'CALL' | 'PUT'
  duration: number
  durationUnit: 't' | 'm'
  stake: number
}

/** What a contract would pay for a stake in USD, if it were bought now and won; no account is behind it. */
async function payout(
  { brokers }: WorkerServices,
  { dialect, appId, stake, ...terms }: ContractPayoutRequest
): Promise<object> {
  const contract = { kind: 'BINARY', currency: stakeCurrency, barrier: null, stake: String(stake), ...terms } as const
  return { payout: await brokers.of(dialect).market(appId).payoutOf(contract) }
}

/** Sells an open order's contract. Repeating is safe: the broker sells once, and the contract's own state decides. */
export async function close(services: WorkerServices, settling: Settling, orderId: string): Promise<object> {
  const [order] = await findOrders(services.db, [orderId])
  if (order?.phase !== 'open') return { orderId }
  const session = await openSession(services, refOf(order))
  const contractId = order.broker_order_id as string
  let refusal: unknown
  try {
    await session.sell(contractId)
  } catch (error) {
    // Whatever the broker's response to the sale, the contract's state shows whether it was sold or settled already.
    refusal = error
  }
  const state = await sold(session, contractId)
  if (state.settled) {
    await settling.close(order as OrderRow, state)
    return { orderId }
  }
  throw refusal ?? new BrokerError('BROKER_UPSTREAM', 'The sale is not confirmed yet.', { brokerCode: 'NotSettled' })
}

interface OrphanSale extends AccountRef {
  contractId: string
}

/** Sells a contract that no order owns. Throws CONFLICT when one does, or may turn out to. */
async function sellOrphan(services: WorkerServices, { contractId, ...account }: OrphanSale): Promise<object> {
  const claims = await claimedContracts(services.db, account.accountId, [contractId])
  if (claims.size > 0 || (await inDoubt(services.db, account.accountId)))
    throw new ApiError('CONFLICT', 'An order owns this contract, or may: it is not sold.')
  const session = await openSession(services, account)
  let refusal: unknown
  try {
    await session.sell(contractId)
  } catch (error) {
    refusal = error
  }
  const { contractId: shown, settled, status, sellPrice, sellTime } = await sold(session, contractId)
  if (shown !== contractId || !settled)
    throw refusal ?? new BrokerError('BROKER_UPSTREAM', 'The sale is not confirmed yet.', { brokerCode: 'NotSettled' })
  const closedAt = sellTime === null ? null : new Date(sellTime * 1000).toISOString()
  return { contractId, status, soldFor: sellPrice, closedAt }
}

// After a sale the contract may show as open for a moment more.
async function sold(
  session: { contract(id: string): Promise<ContractState> },
  contractId: string
): Promise<ContractState> {
  let state = await session.contract(contractId)
  for (let attempt = 0; attempt < 3 && !state.settled; attempt++) state = await session.contract(contractId)
  return state
}

/** What the broker shows about an order in doubt, for the operator to decide by. */
async function evidence(services: WorkerServices, orderId: string): Promise<{ candidates: Evidence[] }> {
  const wallBefore = services.clock.wall()
  const order = await findDoubt(services.db, orderId, arrivalTimes(services.config))
  if (!order) return { candidates: [] }
  const { inWindow, near } = await candidatesOf(services, order, (wallBefore + services.clock.wall()) / 2)
  return { candidates: [...inWindow, ...near] }
}

// Contracts read live for one request at most; the rest keep their last known values.
const MAX_MARKED = 50

/** Reads open contracts live and notes what they are worth. */
async function mark(services: WorkerServices, orderIds: string[]): Promise<object> {
  const marks = await Promise.all((await openAmong(services, orderIds)).map(order => markNow(services, order)))
  return noteMarks(services, marks)
}

/** The same for contracts of many accounts, at leisure: those that cannot be read now keep their last known values. */
async function markSome(services: WorkerServices, orderIds: string[]): Promise<object> {
  const orders = await openAmong(services, orderIds)
  const read = await Promise.allSettled(orders.map(order => markNow(services, order, { leisurely: true })))
  return noteMarks(
    services,
    read.map(each => (each.status === 'fulfilled' ? each.value : undefined))
  )
}

async function openAmong({ db }: WorkerServices, orderIds: string[]): Promise<OrderRow[]> {
  const orders = await findOrders(db, orderIds.slice(0, MAX_MARKED))
  return orders.filter(order => order?.phase === 'open') as OrderRow[]
}

async function markNow(
  services: WorkerServices,
  order: OrderRow,
  { leisurely = false } = {}
): Promise<Mark | undefined> {
  const session = await openSession(services, refOf(order))
  return markOf(order, await session.contract(order.broker_order_id as string, { leisurely }))
}

async function noteMarks({ db }: WorkerServices, marks: (Mark | undefined)[]): Promise<object> {
  const found = marks.filter(mark => mark !== undefined)
  await markValues(db, found)
  return { marked: found.length }
}

async function multiplierSpec(
  { brokers }: WorkerServices,
  { asset, currency, appId, dialect }: { [name in 'asset' | 'currency' | 'appId' | 'dialect']: string }
) {
  return brokers.of(dialect).market(appId).multiplierSpec(asset, currency)
}

// Serves the api's broker requests: each kind is a function from the request's data to its response.

import { claimedContracts, inDoubt } from '../../db/orders/contract-audit.ts'
import { type Mark, markValues } from '../../db/orders/following.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { arrivalTimes, findDoubt } from '../../db/orders/resolving.ts'
import {
  type AskRow,
  answerAsk,
  askWorkers,
  findAsks,
  queueOf,
  refuseAsk,
  type Share,
  sharesOf
} from '../../db/platform/broker-requests.ts'
import { countTurnedAway } from '../../db/platform/metrics.ts'
import { rows } from '../../db/postgres/connection.ts'
import { channelOf } from '../../db/traders/account-leases.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Candle } from '../../schemas/market.ts'
import { type AccountRef, openSession, rejectToken } from '../accounts/accounts.ts'
import { noteRefusal } from '../accounts/applications.ts'
import { auditContracts } from '../accounts/audit.ts'
import { BrokerError, type ContractState, type Evidence, stakeCurrency } from '../broker/port.ts'
import type { Open } from '../open.ts'
import { candidatesOf } from '../orders/evidence.ts'
import { markOf } from '../orders/outcome.ts'
import type { Settling } from '../orders/settle.ts'
import { refOf } from '../orders/terms.ts'
import { RequestPlaces } from './request-places.ts'

const BATCH = 50
// Sales have places of their own, so that no sale waits behind what is only read.
const PLACES = { underWay: 200, waiting: 1000 }
const TOO_MANY = 'Too many requests of this partner wait for the broker: try again in a second.'
// When a broker request that was passed to another worker, and is not done, is passed on again.
const PASSED_AGAIN_MS = 1000

/** `overAt` is when its time is over, by this worker's monotonic clock: its wall clock may be wrong. */
type Timed = AskRow & { overAt: number }

export interface Asking {
  /**
   * Takes broker requests of a queue, and runs those of accounts that this worker serves; returns how many were taken.
   */
  take(name: 'ask' | 'sell'): Promise<number>
  /** Runs a broker request that another worker took for an account that this one serves. */
  answer(askId: string): void
  drain(): Promise<void>
}

export function openAsking(open: Open, settling: Settling): Asking {
  const { db, queue, bus, log, worker } = open
  /** Broker requests under way, by id. */
  const underWay = new Map<string, Promise<void>>()
  const places = { ask: new RequestPlaces<Timed>(PLACES), sell: new RequestPlaces<Timed>(PLACES) }
  const cancels = new Set<() => void>()
  let stopped = false

  const answers: Record<string, (data: Record<string, unknown>) => Promise<object>> = {
    balance: data => balance(open, data.accountRowId as string),
    close: data => close(open, settling, data.orderId as string),
    evidence: data => evidence(open, data.orderId as string),
    audit: () => auditContracts(open, { everyMinutes: 0, all: true }),
    sellOrphan: data => sellOrphan(open, data as unknown as OrphanSale),
    mark: data => mark(open, data.orderIds as string[]),
    markSome: data => markSome(open, data.orderIds as string[]),
    multiplierSpec: data =>
      multiplierSpec(open, data as { [name in 'asset' | 'currency' | 'appId' | 'dialect']: string }),
    candles: data => candles(open, data as unknown as CandleQuestion),
    payout: data => payout(open, data as unknown as PayoutQuestion)
  }

  async function answer(ask: AskRow): Promise<void> {
    let origin: string | undefined
    try {
      const find = answers[ask.kind]
      if (!find) throw new Error(`no worker answers '${ask.kind}'`)
      origin = await answerAsk(db, ask.id, await find(ask.data))
    } catch (error) {
      const { dialect, appId } = ask.data as { dialect?: string; appId?: string }
      // Broker requests about the market count for the partner's application alone.
      if (dialect !== undefined && appId !== undefined) await noteRefusal(open, { dialect, appId }, error)
      origin = await refuseAsk(db, ask.id, refusalOf(error))
      if (!(error instanceof BrokerError || error instanceof ApiError))
        log.error({ err: error, ask: ask.kind, trace: ask.trace }, 'a question failed on our side')
    }
    log.info({ ask: ask.kind, trace: ask.trace }, 'answered')
    if (origin) open.bus.publish(origin, 'ask', ask.id)
  }

  async function read(ids: string[]): Promise<(Timed | undefined)[]> {
    const readAt = open.clock.now()
    const asks = await findAsks(db, ids)
    return asks.map(ask => ask && { ...ask, overAt: readAt + ask.left_ms })
  }

  function start(ask: Timed | undefined): void {
    if (ask?.state !== 'waiting' || ask.expired) return
    const name = queueOf(ask.kind)
    if (places[name].admit(ask)) startAll(name)
    else turnAway(ask).catch((error: unknown) => log.error({ err: error }, 'a refusal could not be stored'))
  }

  /** Starts the requests that have a place now. */
  function startAll(name: 'ask' | 'sell'): void {
    for (let ask = stopped ? undefined : places[name].next(); ask; ask = stopped ? undefined : places[name].next()) {
      const taken = ask
      // A request past its time has no waiter; running it would only spend the broker's budget.
      const late = taken.overAt < open.clock.now()
      const life = (late ? Promise.resolve() : answer(taken))
        .catch((error: unknown) => log.error({ err: error }, 'an answer could not be stored'))
        .finally(() => {
          underWay.delete(taken.id)
          places[name].done(taken)
          startAll(name)
        })
      underWay.set(taken.id, life)
    }
  }

  /** Refuses a request of a partner that has all its share of what may wait. */
  async function turnAway(ask: AskRow): Promise<void> {
    countTurnedAway(queueOf(ask.kind))
    const origin = await refuseAsk(db, ask.id, { code: 'RATE_LIMITED', message: TOO_MANY })
    if (origin) bus.publish(origin, 'ask', ask.id)
  }

  /** Runs those of accounts that this worker serves, and passes the others on. */
  async function route(ids: string[]): Promise<void> {
    const asks = await read(ids)
    const waiting = asks.filter(ask => ask?.state === 'waiting' && !ask.expired)
    const shares = await sharesOf(db, worker, waiting as Timed[])
    const passed: string[] = []
    for (const ask of waiting as Timed[]) {
      const workers = [...new Set((shares.get(ask.id) ?? []).map(share => share.worker ?? worker))]
      const [only = worker] = workers
      if (workers.length > 1) startParts(ask, shares.get(ask.id) as Share[])
      else if (only === worker) start(ask)
      else {
        bus.publish(channelOf(only), 'ask', ask.id)
        passed.push(ask.id)
      }
    }
    if (passed.length > 0) later(() => route(passed))
  }

  /** A hint may be lost, and a worker may end: requests not done by then are routed again. */
  function later(then: () => Promise<void>): void {
    if (stopped) return
    const cancel = open.clock.after(PASSED_AGAIN_MS, () => {
      cancels.delete(cancel)
      then().catch((error: unknown) => log.warn({ err: error }, 'broker requests could not be passed on'))
    })
    cancels.add(cancel)
  }

  /** One about accounts of several workers is made several broker requests, each about one worker's. */
  function startParts(ask: Timed, shares: Share[]): void {
    if (underWay.has(ask.id)) return
    const byWorker = Map.groupBy(shares, share => share.worker ?? worker)
    const timeoutMs = Math.max(1, Math.ceil(ask.overAt - open.clock.now()))
    const parts = [...byWorker].map(([part, some], index) => {
      const data = { orderIds: some.flatMap(({ orderId }) => orderId ?? []) }
      if (part === worker) return (answers[ask.kind] as (data: object) => Promise<object>)(data)
      const key = `${ask.id} ${index}`
      return askWorkers<object>(db, { queue, bus }, { kind: ask.kind, key, data, timeoutMs })
    })
    const life = Promise.allSettled(parts)
      .then(async ended => {
        const failure = ended.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
        const origin =
          failure && ask.kind !== 'markSome'
            ? await refuseAsk(db, ask.id, refusalOf(failure.reason))
            : await answerAsk(db, ask.id, { marked: shares.length })
        if (origin) bus.publish(origin, 'ask', ask.id)
      })
      .catch((error: unknown) => log.error({ err: error }, 'an answer could not be stored'))
      .finally(() => underWay.delete(ask.id))
    underWay.set(ask.id, life)
  }

  return {
    async take(name) {
      if (stopped) return 0
      const jobs = await queue.take(db, name, BATCH)
      if (jobs.length > 0) await route(jobs.map(({ askId }) => askId))
      return jobs.length
    },
    answer(askId) {
      if (stopped) return
      read([askId]).then(
        ([ask]) => start(ask),
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

function refusalOf(error: unknown): NonNullable<AskRow['error']> {
  if (error instanceof ApiError) return { code: error.code, message: error.message, extras: error.extras }
  if (error instanceof BrokerError) {
    const extras = error.code === 'MARKET_CLOSED' ? { secondsUntilOpen: error.secondsUntilOpen } : {}
    return { code: error.code, message: error.message, extras }
  }
  return { code: 'BROKER_UPSTREAM', message: 'The broker could not be asked.' }
}

interface LiveAccountRow {
  id: string
  account_id: string
  broker_app_id: string
  broker_dialect: string
}

async function balance(open: Open, accountRowId: string): Promise<{ balance: string; currency: string }> {
  const [account] = await rows<LiveAccountRow>(
    open.db,
    `select a.id, a.account_id, p.broker_app_id, p.broker_dialect from broker_accounts a join partners p on p.id = a.partner_id where a.id = :accountRowId`,
    { accountRowId }
  )
  if (!account) throw new ApiError('BROKER_DISCONNECTED')
  const ref = {
    accountRowId,
    accountId: account.account_id,
    appId: account.broker_app_id,
    dialect: account.broker_dialect
  }
  try {
    return await (await openSession(open, ref)).balance()
  } catch (error) {
    if (error instanceof BrokerError && error.rejected) await rejectToken(open, ref, error)
    throw error
  }
}

interface CandleQuestion {
  dialect: string
  appId: string
  asset: string
  granularitySeconds: number
  count: number
}

/** An asset's newest candles under a partner's application; no account is behind them. */
async function candles(
  { brokers }: Open,
  { dialect, appId, asset, granularitySeconds, count }: CandleQuestion
): Promise<{ candles: Candle[] }> {
  return { candles: await brokers.of(dialect).market(appId).candles(asset, { granularitySeconds, count }) }
}

interface PayoutQuestion {
  dialect: string
  appId: string
  asset: string
  contractType: 'CALL' | 'PUT'
  duration: number
  durationUnit: 't' | 'm'
  stake: number
}

/** What a contract would pay for a stake in USD, if it were bought now and won; no account is behind it. */
async function payout({ brokers }: Open, { dialect, appId, stake, ...terms }: PayoutQuestion): Promise<object> {
  const contract = { kind: 'BINARY', currency: stakeCurrency, barrier: null, stake: String(stake), ...terms } as const
  return { payout: await brokers.of(dialect).market(appId).payoutOf(contract) }
}

/** Sells an open order's contract. Repeating is safe: the broker sells once, and the contract's own state decides. */
export async function close(open: Open, settling: Settling, orderId: string): Promise<object> {
  const [order] = await findOrders(open.db, [orderId])
  if (order?.phase !== 'open') return { orderId }
  const session = await openSession(open, refOf(order))
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
async function sellOrphan(open: Open, { contractId, ...account }: OrphanSale): Promise<object> {
  const claims = await claimedContracts(open.db, account.accountId, [contractId])
  if (claims.size > 0 || (await inDoubt(open.db, account.accountId)))
    throw new ApiError('CONFLICT', 'An order owns this contract, or may: it is not sold.')
  const session = await openSession(open, account)
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
  for (let look = 0; look < 3 && !state.settled; look++) state = await session.contract(contractId)
  return state
}

/** What the broker shows about an order in doubt, for the operator to decide by. */
async function evidence(open: Open, orderId: string): Promise<{ candidates: Evidence[] }> {
  const wallBefore = open.clock.wall()
  const order = await findDoubt(open.db, orderId, arrivalTimes(open.config))
  if (!order) return { candidates: [] }
  const { inWindow, near } = await candidatesOf(open, order, (wallBefore + open.clock.wall()) / 2)
  return { candidates: [...inWindow, ...near] }
}

// Contracts read live for one request at most; the rest keep their last known values.
const MAX_MARKED = 50

/** Reads open contracts live and notes what they are worth. */
async function mark(open: Open, orderIds: string[]): Promise<object> {
  const marks = await Promise.all((await openAmong(open, orderIds)).map(order => markNow(open, order)))
  return noteMarks(open, marks)
}

/** The same for contracts of many accounts, at leisure: those that cannot be read now keep their last known values. */
async function markSome(open: Open, orderIds: string[]): Promise<object> {
  const orders = await openAmong(open, orderIds)
  const read = await Promise.allSettled(orders.map(order => markNow(open, order, { leisurely: true })))
  return noteMarks(
    open,
    read.map(each => (each.status === 'fulfilled' ? each.value : undefined))
  )
}

async function openAmong({ db }: Open, orderIds: string[]): Promise<OrderRow[]> {
  const orders = await findOrders(db, orderIds.slice(0, MAX_MARKED))
  return orders.filter(order => order?.phase === 'open') as OrderRow[]
}

async function markNow(open: Open, order: OrderRow, { leisurely = false } = {}): Promise<Mark | undefined> {
  const session = await openSession(open, refOf(order))
  return markOf(order, await session.contract(order.broker_order_id as string, { leisurely }))
}

async function noteMarks({ db }: Open, marks: (Mark | undefined)[]): Promise<object> {
  const found = marks.filter(mark => mark !== undefined)
  await markValues(db, found)
  return { marked: found.length }
}

async function multiplierSpec(
  { brokers }: Open,
  { asset, currency, appId, dialect }: { [name in 'asset' | 'currency' | 'appId' | 'dialect']: string }
) {
  return brokers.of(dialect).market(appId).multiplierSpec(asset, currency)
}

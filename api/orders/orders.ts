// Binary orders: placed by a job, the response read from the row. Also closing and the list.

import { number, presentConverted, presentEntry, time } from '../../db/orders/entry.ts'
import { hashTerms, type OrderTerms } from '../../db/orders/inserting.ts'
import { listEntries } from '../../db/orders/listing.ts'
import { expireOrders, getOrder, type OrderRow, type Outcome, outcomeOf } from '../../db/orders/reading.ts'
import { findStored, type Lacking, type Stored, type StoredOrder } from '../../db/orders/storing.ts'
import { atCommonMoment, backOff } from '../../db/platform/back-off.ts'
import { refusedTooOften, rejectionOf } from '../../db/traders/accounts.ts'
import { getTrader } from '../../db/traders/traders.ts'
import { ApiError, type ErrorCode } from '../../schemas/errors/errors.ts'
import { type AccountMode, pathId } from '../../schemas/fields/fields.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { type HaltFacts, tradingHalted } from '../../schemas/halts.ts'
import { BinaryOrder, checkContract, Order, OrderPage, OrdersQuery, settlesInline } from '../../schemas/orders.ts'
import type { ApiServices, Operation, OperationRequest } from '../operation.ts'
import { requestFromBroker } from '../request/broker-requests.ts'
import { FactsChanged, MAX_DECISIONS } from '../request/proof.ts'
import { Reply } from '../request/respond.ts'

/** How placing an order of any kind may end instead of in a contract. */
export const placingErrors: ErrorCode[] = [
  'TRADER_NOT_FOUND',
  'BROKER_DISCONNECTED',
  'CLIENT_ORDER_ID_REUSED',
  'CONFLICT',
  'MARKET_CLOSED',
  'INVALID_CONTRACT',
  'INSUFFICIENT_BALANCE',
  'BROKER_UPSTREAM',
  'TRADING_HALTED'
]

export const placeBinaryOrder: Operation<{ body: BinaryOrder }> = {
  name: 'placeBinaryOrder',
  method: 'POST',
  path: '/v1/orders/binary',
  tag: 'Orders',
  summary: 'Place a binary or digit contract',
  description:
    'Tick contracts, and others with waitForSettle that last up to about 110 seconds, return their closed result; the rest return OPEN and settle by themselves. Time-outs of the client and of proxies on the way must be longer than 140 seconds. Idempotent on clientOrderId: a repeat returns the same order (Idempotent-Replayed: true), other parameters under the same id are a 409. After a 502 or a lost connection, repeat the request with the same clientOrderId: it never buys twice.',
  auth: 'key',
  scope: 'trading:write',
  body: BinaryOrder,
  response: Order,
  headers: ['Idempotent-Replayed'],
  batched: true,
  proves: true,
  errors: placingErrors,
  async handle(request, services) {
    const { body } = request
    try {
      checkContract(body)
    } catch (error) {
      // Records are checked before rules: the trader, and whether its account has a token that can be used.
      const { partnerId } = request.partner
      const trading = await services.batched.trading({ partnerId, externalId: body.traderExternalId })
      if (!trading) throw new ApiError('TRADER_NOT_FOUND')
      throw trading.account.status === 'REJECTED' ? rejectionOf(trading.account) : error
    }
    const terms: OrderTerms = {
      kind: 'BINARY',
      asset: body.asset,
      contractType: body.contractType,
      direction: null,
      multiplier: null,
      stake: decimal(body.stake),
      duration: body.duration,
      durationUnit: body.durationUnit,
      barrier: body.barrier ?? null,
      stopLoss: null,
      takeProfit: null
    }
    return place(request, services, {
      clientOrderId: body.clientOrderId,
      traderExternalId: body.traderExternalId,
      terms,
      accountMode: body.expectedAccountMode,
      settle: settlesInline(body),
      present: presentOrder
    })
  }
}

/** A JSON number as a decimal without exponent. */
export function decimal(value: number): string {
  return /e/i.test(String(value)) ? value.toFixed(8).replace(/\.?0+$/, '') : String(value)
}

interface Placement {
  clientOrderId: string
  traderExternalId: string
  terms: OrderTerms
  /** It is placed only on an account of this mode. */
  accountMode?: AccountMode | undefined
  settle: boolean
  present(row: Outcome): object
}

type PlacingRequest = Pick<OperationRequest<object>, 'partner' | 'signal' | 'trace' | 'ageMs'>

/**
 * Stores an order, or finds the one of its clientOrderId, and returns its contract or its error. Throws RATE_LIMITED where many orders of
 * the partner have waited for its broker for long.
 */
export async function place(request: PlacingRequest, services: ApiServices, order: Placement): Promise<Reply> {
  const { partner, signal } = request
  services.backlog.requireRoom(partner.partnerId, 'place')
  for (let decision = 1; decision <= MAX_DECISIONS; decision++) {
    const { stored, id, firstHint } = await store(request, services, order)
    if (stored.order) {
      if (!stored.created) checkSameTerms(stored.order, order)
      if (stored.halt) throw tradingHalted(stored.halt, stored.order.id)
      if (stored.otherMode) throw wrongModeError(order, `The account of order ${stored.order.id}`)
      return awaitReply(services, stored, {
        partner,
        order,
        signal,
        firstHint: stored.order.id === id ? firstHint : undefined
      })
    }
    if ('halt' in stored) throw tradingHalted(stored.halt)
    // A repeat returns its order regardless of the account's state since: a placed order must never be reported as not
    // placed.
    const refusal = await refusalOf(services, partner, order, stored.lacks)
    if (refusal) return replay(services, partner, { order, signal, refusal })
  }
  throw new FactsChanged()
}

/** Stores an order with all that was decided on until now. Throws FactsChanged when the caller's facts no longer hold. */
async function store({ partner, signal, trace, ageMs }: PlacingRequest, services: ApiServices, order: Placement) {
  const { bus, config, batched } = services
  // Subscribed before it is stored: no wake-up can be missed, and the row need not be read again at once.
  const id = newId('order')
  const now = performance.now()
  const firstMs = atCommonMoment(now + REREADS.firstMs) - now
  const firstHint = bus.wait('order', id, Math.min(firstMs, config.orderTtlMs), signal)
  const { proof } = partner
  const stored = await batched.storeOrder({
    id,
    partnerId: partner.partnerId,
    caller: proof ? { lookup: proof.lookup, facts: proof.facts } : null,
    traderExternalId: order.traderExternalId,
    clientOrderId: order.clientOrderId,
    accountMode: order.accountMode ?? null,
    terms: order.terms,
    // It counts from when the request was sent, not from when it is stored.
    ttlMs: () => Math.max(0, Math.floor(config.orderTtlMs - ageMs())),
    replyChannel: bus.replyChannel,
    trace
  })
  if ('lacks' in stored && stored.lacks === 'caller') throw new FactsChanged()
  if (proof) proof.proven = true
  return { stored, id, firstHint }
}

/** Why a trader cannot place this order now; undefined when it can. */
async function refusalOf(
  { batched }: ApiServices,
  { partnerId }: PlacingRequest['partner'],
  order: Placement,
  lacks: Lacking['lacks']
): Promise<ApiError | undefined> {
  const trading = await batched.trading({ partnerId, externalId: order.traderExternalId })
  if (!trading) return new ApiError('TRADER_NOT_FOUND')
  const { account, restSeconds } = trading
  if (account.status !== 'REJECTED' && lacks === 'mode')
    return account.accountMode === order.accountMode ? undefined : wrongModeError(order, `Account ${account.accountId}`)
  if (restSeconds === 0 || account.status === 'REJECTED') return rejectionOf(account)
  // A worker would not try the token either: an order that cannot be placed need not pass through the queue.
  return new ApiError('BROKER_UPSTREAM', refusedTooOften(restSeconds), {
    headers: { 'Retry-After': String(restSeconds) }
  })
}

/**
 * Returns the order that this clientOrderId made before, for a trader who cannot place any now. Throws `refusal` when
 * there is none, and for one that failed without reaching the broker: retrying it needs the account.
 */
async function replay(
  services: ApiServices,
  partner: OrderPartner,
  { order, signal, refusal }: { order: Placement; signal: AbortSignal; refusal: ApiError }
): Promise<Reply> {
  const found = await findStored(services.db, { partnerId: partner.partnerId, clientOrderId: order.clientOrderId })
  if (!found) throw refusal
  checkSameTerms(found, order)
  if (found.phase === 'failed' && found.retryable) throw refusal
  return awaitReply(services, { order: found, created: false }, { partner, order, signal, firstHint: undefined })
}

/** The refusal of an order whose account is not of the mode that it expects. */
function wrongModeError({ accountMode }: Placement, account: string): ApiError {
  const mode = accountMode === 'DEMO' ? 'REAL' : 'DEMO'
  return new ApiError(
    'CONFLICT',
    `${account} is ${mode}, and the order is for one that is ${accountMode}: nothing was bought.`
  )
}

function checkSameTerms(stored: StoredOrder, { traderExternalId, terms }: Placement): void {
  if (stored.request_hash.equals(hashTerms(traderExternalId, terms))) return
  throw new ApiError('CLIENT_ORDER_ID_REUSED', undefined, { extras: { orderId: stored.id } })
}

/** Waits for a stored order as its request demands, and returns its contract. Throws why there is none, or none yet. */
async function awaitReply(
  services: ApiServices,
  stored: Stored,
  { order, ...wait }: { order: Placement } & OrderWait
): Promise<Reply> {
  const headers: Record<string, string> = stored.created ? {} : { 'Idempotent-Replayed': 'true' }
  const row = await awaitOutcome(services, stored.order, { settle: order.settle, ...wait })
  if (order.settle && isSettlementInReview(row)) throw settlementReviewError(row, headers)
  if (row.phase === 'open' || row.phase === 'closed') return new Reply(order.present(row), headers)
  throw noContractError(row, headers)
}

// How long a waiter sleeps without a wake-up before it reads the row again; longer each time, since many may wait.
const REREADS = { firstMs: 1000, mostMs: 4000 }
// How often a waiter tries to fail an order whose time is over by its own count.
const EXPIRE_EVERY_MS = 200

const isWaiting = (phase: Outcome['phase']): boolean => phase === 'queued' || phase === 'unproven'
const isUnbought = (phase: Outcome['phase']): boolean => isWaiting(phase) || phase === 'sending'

const isDecided = (row: Outcome, settle: boolean): boolean =>
  row.phase === 'failed' ||
  row.phase === 'closed' ||
  row.phase === 'review' ||
  (row.phase === 'open' && !settle) ||
  isSettlementInReview(row)

/** Whether the order's contract is over and its settlement is under review. */
const isSettlementInReview = ({ phase, error_code }: Outcome): boolean =>
  phase === 'open' && error_code === 'REVIEW_REQUIRED'

/** The error of an order whose settlement is under review, for a request that waits for that settlement. */
function settlementReviewError(row: Outcome, headers: Record<string, string> = {}): ApiError {
  return new ApiError('BROKER_UPSTREAM', row.error_message ?? undefined, {
    extras: { orderId: row.id, status: 'OPEN' },
    headers
  })
}

type OrderPartner = Pick<OperationRequest<object>['partner'], 'partnerId'>

/** Who waits for an order, and until when. */
interface OrderWait {
  partner: OrderPartner
  signal: AbortSignal
  /** The wait that began before the order was stored; undefined for an order that was there already. */
  firstHint: Promise<string | undefined> | undefined
}

/** Waits until the order is decided or settled, or time is up; returns its state then. */
async function awaitOutcome(
  services: ApiServices,
  first: StoredOrder,
  { settle, partner, signal, firstHint }: { settle: boolean } & OrderWait
): Promise<Outcome> {
  const { bus, batched, config, db, backlog } = services
  const deadline = performance.now() + config.settleWaitMs
  // The first wait began before the order was stored and usually ends with the outcome. Only a repeat reads the row at once.
  if (firstHint !== undefined) {
    // The row is read below if the hint was lost or carries no final outcome.
    const carried = outcomeOf(first.id, await firstHint)
    if (carried && isDecided(carried, settle)) return carried
  }
  let expireAt = performance.now() + Math.max(0, first.ttl_left_ms)
  let leave: (() => void) | undefined
  try {
    for (let { phase } = first, reads = 0; ; reads++) {
      // Listen first, read then, sleep last: no wake-up is lost between them.
      const until = Math.min(
        atCommonMoment(performance.now() + backOff(reads, REREADS)),
        deadline,
        isWaiting(phase) ? expireAt : deadline
      )
      const woken = bus.wait('order', first.id, until - performance.now(), signal)
      const row = await batched.order(first.id)
      if (!row) throw new Error(`order ${first.id} was stored and is not there`)
      phase = row.phase
      if (isDecided(row, settle) || performance.now() >= deadline || signal.aborted) return row
      // A wait was over before this read.
      if (isUnbought(phase) && (firstHint !== undefined || reads > 0)) leave ??= backlog.add(partner.partnerId, 'place')
      else leave?.()
      await woken
      // With no worker running, a queued order is failed here when its time to live is over.
      if (isWaiting(phase) && performance.now() >= expireAt) {
        const [expired] = await expireOrders(db, [row.id], first.ends_ms)
        if (expired) return expired
        expireAt = performance.now() + EXPIRE_EVERY_MS
      }
    }
  } finally {
    leave?.()
  }
}

/** The error of an order without a contract, or whose outcome is not known yet. */
function noContractError(row: Outcome, headers: Record<string, string>): ApiError {
  if (row.phase === 'failed') {
    if (row.error_code === 'TRADING_HALTED') return tradingHalted(row.error_extras as HaltFacts, row.id)
    const upstream = row.error_code === 'BROKER_UPSTREAM'
    const extras = { ...row.error_extras, ...(upstream ? { orderId: row.id, status: 'FAILED' as const } : {}) }
    return new ApiError((row.error_code as ErrorCode | null) ?? 'BROKER_UPSTREAM', row.error_message ?? undefined, {
      extras,
      headers
    })
  }
  const message =
    row.phase === 'review'
      ? 'Whether the broker bought this order is being reviewed; repeat the request with the same clientOrderId to read the result.'
      : "The broker's response is not known yet; repeat the request with the same clientOrderId, it never buys twice."
  return new ApiError('BROKER_UPSTREAM', message, { extras: { orderId: row.id, status: 'PENDING' }, headers })
}

/** A bought order in the responses of placing and closing. */
function presentOrder(row: Outcome): Order {
  const opened = {
    orderId: row.id,
    brokerOrderId: row.broker_order_id as string,
    status: row.status,
    stake: Number(row.stake),
    ...presentConverted(row),
    potentialPayout: Number(row.payout ?? 0),
    buyPrice: Number(row.buy_price),
    openedAt: time(row.opened_at) as string
  }
  if (row.phase !== 'closed') return opened
  return {
    ...opened,
    pnl: Number(row.pnl),
    entryPrice: number(row.entry_price),
    exitPrice: number(row.exit_price),
    closedAt: time(row.closed_at) as string
  }
}

export const closeOrder: Operation<{ params: { id: string } }> = {
  name: 'closeOrder',
  method: 'POST',
  path: '/v1/orders/{id}/close',
  tag: 'Orders',
  summary: 'Force-close an open contract',
  description:
    'Sells the contract at the market. Closing a closed order returns it again; a contract the broker will not buy back is a 422.',
  auth: 'key',
  scope: 'trading:write',
  params: { type: 'object', required: ['id'], properties: { id: pathId('ord', 'orderId of the order.') } },
  response: Order,
  errors: ['NOT_FOUND', 'CONFLICT', 'BROKER_DISCONNECTED', 'INVALID_CONTRACT', 'MARKET_CLOSED', 'BROKER_UPSTREAM'],
  async handle(request, services) {
    return presentOrder(await close(request, services, { orderId: request.params.id, kind: 'BINARY' }))
  }
}

/** Sells an order's contract, and returns the closed row. Throws NOT_FOUND for another kind's id too. */
export async function close(
  request: Pick<OperationRequest<object>, 'partner' | 'signal' | 'trace'>,
  services: ApiServices,
  { orderId, kind }: { orderId: string; kind: OrderRow['kind'] }
): Promise<OrderRow> {
  const { partner, trace } = request
  const row = await getOrder(services.db, partner.partnerId, orderId)
  if (row.kind !== kind) throw new ApiError('NOT_FOUND', `There is no ${kind.toLowerCase()} order ${orderId}.`)
  if (row.phase === 'closed') return row
  if (row.phase !== 'open')
    throw new ApiError('CONFLICT', `The order is ${row.status}; only an OPEN order can be CLOSED.`)
  try {
    const sale = { kind: 'close', key: row.id, data: { orderId: row.id }, timeoutMs: 30_000 }
    await requestFromBroker<object>(services, { ...sale, partnerId: partner.partnerId, signal: request.signal, trace })
  } catch (error) {
    const now = await getOrder(services.db, partner.partnerId, orderId)
    throw isSettlementInReview(now) ? settlementReviewError(now) : error
  }
  const closed = await getOrder(services.db, partner.partnerId, orderId)
  if (closed.phase === 'closed') return closed
  if (isSettlementInReview(closed)) throw settlementReviewError(closed)
  throw new ApiError('BROKER_UPSTREAM', 'The sale is not confirmed yet; repeat the request.', {
    extras: { orderId: row.id }
  })
}

export const listOrders: Operation<{ query: OrdersQuery }> = {
  name: 'listOrders',
  method: 'GET',
  path: '/v1/orders',
  tag: 'Orders',
  summary: 'Order history',
  description:
    'Binary and multiplier orders, newest first. Page with cursor; the pages stay stable while new orders arrive.',
  auth: 'key',
  scope: 'trading:read',
  query: OrdersQuery,
  response: OrderPage,
  errors: ['TRADER_NOT_FOUND'],
  weight: 'page',
  replica: true,
  async handle({ partner, query }, { db }) {
    const { orders, nextCursor } = await listEntries(db, {
      ...query,
      partnerId: partner.partnerId,
      limit: query.limit ?? 50
    })
    // Only a trader without orders may be unknown.
    if (orders.length === 0 && query.traderExternalId !== undefined)
      await getTrader(db, partner.partnerId, query.traderExternalId)
    return { data: orders.map(presentEntry), nextCursor }
  }
}

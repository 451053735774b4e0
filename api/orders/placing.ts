// Placing an order of any kind: one statement stores it with all that was decided on, and its request waits for the contract or the
// reason why there is none.

import { hashTerms, type OrderTerms } from '../../db/orders/inserting.ts'
import type { Outcome } from '../../db/orders/reading.ts'
import { findStored, type Lacking, type Stored, type StoredOrder } from '../../db/orders/storing.ts'
import { refusedTooOften, rejectionOf } from '../../db/traders/accounts.ts'
import { ApiError, type ErrorCode } from '../../schemas/errors/errors.ts'
import type { AccountMode } from '../../schemas/fields/fields.ts'
import { newId } from '../../schemas/fields/ids.ts'
import { tradingHalted } from '../../schemas/halts.ts'
import type { ApiServices, OperationRequest } from '../operation.ts'
import { FactsChanged, MAX_DECISIONS } from '../request/proof.ts'
import { Reply } from '../request/respond.ts'
import {
  awaitOutcome,
  firstRereadMs,
  isSettlementInReview,
  noContractError,
  type OrderPartner,
  type OrderWait,
  settlementReviewError
} from './waiting.ts'

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
  const firstHint = bus.wait('order', id, Math.min(firstRereadMs(), config.orderTtlMs), signal)
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

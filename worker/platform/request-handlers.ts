// What a worker does for each kind of broker request: a function from the request's data to its response.
import { Big } from 'big.js'
import { type Mark, markValues } from '../../db/orders/leases.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { claimedContracts, inDoubt } from '../../db/orders/reconciliation.ts'
import { arrivalTimes, findDoubt } from '../../db/orders/resolving.ts'
import { type AccountRef, findAccountRef } from '../../db/traders/accounts.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Candle } from '../../schemas/market.ts'
import { NO_CURRENCY, openBoughtSession, openSession, rejectToken } from '../accounts/accounts.ts'
import { reconcileAccounts } from '../accounts/reconciliation.ts'
import { reconcilePartner } from '../analytics/reconciling.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { isNamed } from '../broker/dialects/mapping.ts'
import { type ContractState, type Evidence, type Session, stakeCurrency } from '../broker/port.ts'
import { candidateNamed, candidatesOf } from '../orders/evidence.ts'
import { markOf } from '../orders/outcome.ts'
import { contradictions } from '../orders/plausible.ts'
import type { Settling } from '../orders/settle.ts'
import { refOf } from '../orders/terms.ts'
import type { WorkerServices } from '../services.ts'
import { sleep } from './clock.ts'

/** The handlers by the kind of the request. */
export function handlersOf(
  services: WorkerServices,
  settling: Settling
): Record<string, (data: Record<string, unknown>) => Promise<object>> {
  return {
    balance: data => balance(services, data.accountRowId as string),
    close: data => close(services, settling, data.orderId as string),
    evidence: data => evidence(services, data as { orderId: string; contractId?: string }),
    audit: () => reconcileAccounts(services, { everyMinutes: 0, all: true }),
    sellOrphan: data => sellOrphan(services, data as unknown as OrphanSale),
    mark: data => mark(services, data.orderIds as string[]),
    markSome: data => markSome(services, data.orderIds as string[]),
    multiplierSpec: data =>
      multiplierSpec(services, data as { [name in 'asset' | 'currency' | 'appId' | 'dialect']: string }),
    candles: data => candles(services, data as unknown as CandleRequest),
    payout: data => payout(services, data as unknown as ContractPayoutRequest),
    stakeTerms: data => stakeTerms(services, data as unknown as StakeTermsRequest),
    reconcileMarkups: data => reconcilePartner(services, data as unknown as { partnerId: string; day?: string })
  }
}

async function balance(services: WorkerServices, accountRowId: string): Promise<{ balance: string; currency: string }> {
  const ref = await findAccountRef(services.db, accountRowId)
  if (!ref) throw new ApiError('BROKER_DISCONNECTED')
  try {
    // A session that an older token opened proves neither the stored token nor the mode that the account has now.
    const { balance, currency } = await (await openSession(services, ref, { anew: !ref.proven })).balance()
    if (currency === null) throw new BrokerError('BROKER_UPSTREAM', NO_CURRENCY, { brokerCode: 'NoCurrencySet' })
    return { balance, currency }
  } catch (error) {
    throw error instanceof BrokerError && error.rejected ? await rejectToken(services, ref, error) : error
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

interface StakeTermsRequest {
  dialect: string
  appId: string
  asset: string
  currency: string
  duration: number
  durationUnit: 't' | 'm'
}

/**
 * The terms of a stake in USD on an account in another currency: what one USD is worth (null where the broker has no rate), and
 * the least stake of such a contract (null where the broker states none).
 */
async function stakeTerms(
  { brokers, log }: WorkerServices,
  { dialect, appId, ...terms }: StakeTermsRequest
): Promise<object> {
  const market = brokers.of(dialect).market(appId)
  const exchange = await market.exchange(terms.currency)
  if (!exchange) return { rate: null, least: null }
  const { rate, digits } = exchange
  const stake = new Big(rate).round(digits, Big.roundUp).toFixed(digits)
  const contract = { kind: 'BINARY', contractType: 'CALL', barrier: null, stake, ...terms } as const
  const { stake: least } = await market.leastOf(contract).catch((error: unknown) => {
    log.info({ err: error, asset: terms.asset }, 'the least stake of a contract could not be read')
    return { stake: null }
  })
  return { rate, least }
}

/** Sells an open order's contract. Repeating is safe: the broker sells once, and the contract's own state decides. */
export async function close(services: WorkerServices, settling: Settling, orderId: string): Promise<object> {
  const [order] = await findOrders(services.db, [orderId])
  if (order?.phase !== 'open') return { orderId }
  const { session } = await openBoughtSession(services, refOf(order))
  const contractId = order.broker_order_id as string
  let refusal: unknown
  try {
    await session.sell(contractId)
  } catch (error) {
    // Whatever the broker's response to the sale, the contract's state shows whether it was sold or settled already.
    refusal = error
  }
  const isSettled = (state: ContractState) => state.settled && contradictions(order as OrderRow, state).length === 0
  const state = await sold(services, session, contractId, isSettled)
  if (state.settled) {
    await settling.close(order as OrderRow, state)
    return { orderId }
  }
  throw refusal ?? new BrokerError('BROKER_UPSTREAM', 'The sale is not confirmed yet.', { brokerCode: 'NotSettled' })
}

interface OrphanSale extends AccountRef {
  contractId: string
}

/** Sells a contract that no order owns. Throws CONFLICT when an order owns it or may turn out to. */
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
  const { contractId: shown, settled, status, sellPrice, sellTime } = await sold(services, session, contractId)
  if (shown !== contractId || !settled)
    throw refusal ?? new BrokerError('BROKER_UPSTREAM', 'The sale is not confirmed yet.', { brokerCode: 'NotSettled' })
  const closedAt = sellTime === null ? null : new Date(sellTime * 1000).toISOString()
  return { contractId, status, soldFor: sellPrice, closedAt }
}

// How often a contract is read again after its sale, and the pause before that while it shows as half settled.
const READS_AGAIN = 3
const HALF_SETTLED_MS = 300

/** A contract after its sale: it may show as open for a moment more, or as half settled. */
async function sold(
  { clock }: Pick<WorkerServices, 'clock'>,
  session: Pick<Session, 'contract'>,
  contractId: string,
  isSettled = ({ settled }: ContractState) => settled
): Promise<ContractState> {
  let state = await session.contract(contractId)
  for (let attempt = 0; attempt < READS_AGAIN && !isSettled(state); attempt++) {
    if (state.settled) await sleep(clock, HALF_SETTLED_MS)
    state = await session.contract(contractId)
  }
  return state
}

/**
 * What the broker shows about an order in doubt, for the operator to decide by. Where a row shows no contract, the one that the operator
 * names is read.
 */
async function evidence(
  services: WorkerServices,
  { orderId, contractId }: { orderId: string; contractId?: string }
): Promise<{ candidates: Evidence[] }> {
  const wallBefore = services.clock.wall()
  const order = await findDoubt(services.db, orderId, arrivalTimes(services.config))
  if (!order) return { candidates: [] }
  const { inWindow, near } = await candidatesOf(services, order, (wallBefore + services.clock.wall()) / 2)
  const candidates = [...inWindow, ...near]
  const isListed = candidates.some(item => item.contractId === contractId)
  if (contractId === undefined || isListed || candidates.every(isNamed)) return { candidates }
  return { candidates: [...candidates, ...(await candidateNamed(services, order, contractId))] }
}

// Contracts read live for one request at most; the rest keep their last known values.
const MAX_MARKED = 50

/** Reads open contracts live and notes what they are worth. */
async function mark(services: WorkerServices, orderIds: string[]): Promise<object> {
  const marks = await Promise.all((await openAmong(services, orderIds)).map(order => markNow(services, order)))
  return noteMarks(services, marks)
}

/** As `mark`, for contracts of many accounts and after other calls: contracts that cannot be read now keep their last known values. */
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
  const { session } = await openBoughtSession(services, refOf(order))
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

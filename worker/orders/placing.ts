// Placing: from a job to a buy that leaves at most once, and the broker's response onto the row. The rows' rules are in
// db/orders/placing.ts; this file keeps the rest of the protocol:
// - a buy is sent only by the run whose own update moved the row to `sending`, after that commit;
// - right before the write the permit is checked on the monotonic clock, counted from before the claim;
// - an outcome in doubt is never resent here: the row stays `sending` until resolution decides.

import {
  type Claimed,
  type ClaimOptions,
  type Claims,
  claimOrders,
  listWaitingAccounts,
  type Rooms,
  takeOrders,
  withWaiting
} from '../../db/orders/claiming.ts'
import {
  markFailed,
  markReset,
  type OrderRefusal,
  openOrders,
  type Receipt,
  releaseLostClaims,
  releaseUnsent,
  type Unsent
} from '../../db/orders/placing.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { markReview } from '../../db/orders/resolving.ts'
import { WORK } from '../../db/platform/bus.ts'
import { observeBuy } from '../../db/platform/metrics.ts'
import { Shares } from '../../db/platform/shares.ts'
import { batch, isDataError } from '../../db/postgres/batch.ts'
import { channelOf } from '../../db/traders/account-leases.ts'
import { ApiError, type ErrorExtras } from '../../schemas/errors/errors.ts'
import { type HaltFacts, tradingHalted } from '../../schemas/halts.ts'
import { ORDERS_A_JOB } from '../../schemas/jobs.ts'
import { currencyOf, openSession, rejectToken } from '../accounts/accounts.ts'
import { compareBooks, ReviewNeeded } from '../accounts/books.ts'
import { isAppRefused } from '../broker/dialects/errors.ts'
import { BrokerError } from '../broker/port.ts'
import { CopyPlaces } from '../copy/places.ts'
import { Pauses } from '../platform/pauses.ts'
import type { WorkerServices } from '../services.ts'
import type { Halts } from './halts.ts'
import { persist } from './persist.ts'
import type { Expected, Settling } from './settle.ts'
import { ceilingOf, openStakes } from './stake.ts'
import { contractOf, refOf } from './terms.ts'

// Jobs taken from the queue in one statement, and buys under way in one worker.
const JOBS_AT_ONCE = 10
const MAX_UNDER_WAY = 1000
// Accounts claimed for at once when places became free, and how long at least until the next time.
const RESUMED_AT_ONCE = 200
const RESUME_EVERY_MS = 25
// Fetch recent jobs; scan the whole queue this often, and while full batches come back.
const CHECK_ALL_EVERY_MS = 5000
// A statement whose outcome was lost may still be executed by the server for so long: longer than its time-out.
const LOST_CLAIM_MS = 120_000
// More lost claims than that are left to resolution.
const MAX_LOST_CLAIMS = 1000
const MAX_UNRELEASED = 10_000
// How long before a permit's end an order stops waiting for its account's quota.
const QUOTA_AHEAD_MS = 100
// Pauses before an account's orders are claimed again after a claim that could not be sent, growing while that goes on.
const UNSENT_PAUSES = { firstMs: 250, mostMs: 2000 }
const LONGEST_PAUSE_MS = 8000

export interface Placing {
  /** Takes queued jobs, commits the intent and sends; returns whether there may be more. */
  take(): Promise<boolean>
  /** The same for copies, while no orders wait for it. */
  takeCopies(): Promise<boolean>
  /** Whether copies were not taken because orders waited, which do so no longer. */
  copiesWait(): boolean
  /** How many more orders may be claimed of whom now. */
  rooms(): Rooms
  /** Sends whatever may be sent next on these accounts. */
  claim(accountIds: string[]): Promise<void>
  /** Gives back what claiming statements claimed whose outcome was lost; does nothing where there was none. */
  recover(): Promise<void>
  /** Another worker took a job of this account, which this worker serves: claims for it at once. */
  claimNow(accountId: string): void
  /** Stops taking; resolves when every buy under way has its response or is in doubt. */
  drain(): Promise<void>
}

/** `wakeCopies` is called when copies that were left for want of places may be taken. */
export function openPlacing(
  services: WorkerServices,
  settling: Settling,
  halts: Pick<Halts, 'of'>,
  wakeCopies: () => void
): Placing {
  const { db, queue, bus, config, log, worker, clock, changes } = services
  const underWay = new Set<Promise<void>>()
  const shares = new Shares(MAX_UNDER_WAY)
  let stopped = false
  const checkAllAt = { 'order.place': 0, 'order.copy': 0 }
  /** Whether the latest take of orders left some. */
  let ordersWait = false
  let copiesWait = false
  const copyPlaces = new CopyPlaces(clock)
  /** Whether copies were left for want of places. */
  let copiesHeldBack = false
  /** Whether orders were left for want of places, and when they may be claimed again at the earliest. */
  let heldBack = false
  let cancelResume: (() => void) | undefined
  const pauses = new Pauses(UNSENT_PAUSES)
  /** Ends the pauses that are under way, by account. */
  const resuming = new Map<string, () => void>()

  const told = (orders: Pick<OrderRow, 'reply_channel' | 'id'>[]): void => {
    if (orders.length > 0) changes.give()
    for (const { reply_channel: replyChannel, id } of orders) if (replyChannel) bus.publish(replyChannel, 'order', id)
  }

  // One response that cannot be written, as of a contract that another order owns, must not keep the others from it.
  const saveOpen = batch(
    async (receipts: Receipt[]) => {
      const { orders, copying } = await persist(services, () => openOrders(db, queue, receipts, worker))
      if (copying) bus.publish(WORK, 'copy.fanout', 'new')
      if (orders.length > 0) changes.give()
      // A tick contract's caller waits for its end, which follows within seconds.
      told(orders.filter(({ duration_unit }) => duration_unit !== 't'))
      const byId = new Map(orders.map(order => [order.id, order]))
      return receipts.map(({ id }) => byId.get(id))
    },
    { isolate: isDataError }
  )
  const findKept = batch((ids: string[]) => persist(services, () => findOrders(db, ids)))
  const saveFailed = batch(
    async (refusals: OrderRefusal[]) => {
      const orders = await persist(services, () => markFailed(db, refusals))
      told(orders)
      return refusals
    },
    { isolate: isDataError }
  )
  const saveUnsent = batch(async (unsent: Unsent[]) => {
    const orders = await persist(services, () => releaseUnsent(db, unsent, worker))
    told(orders.filter(({ phase }) => phase === 'failed'))
    return unsent
  })

  // Purchases without a response whose connection was reset, or carried later responses: nothing more can arrive.
  const saveReset = batch(async (claims: { id: string; attempt: number }[]) => {
    await persist(services, () => markReset(db, claims))
    return claims
  })

  const stakeOf = openStakes(services)
  // Claiming statements whose outcome was lost, by number, and when (monotonic).
  const lostClaims = new Map<number, number>()
  let claimNo = 0
  // Orders that were not sent, whose release could not be written while the database was away: only this process knows.
  const unreleased = new Map<string, Unsent & { accountId: string }>()

  /** Claims with `run` and sends what was claimed; a permit counts from before the claim, so it can only end earlier here. */
  async function claimAndSend<Found extends Claims>(
    run: (options: ClaimOptionsOfWorker) => Promise<Found>
  ): Promise<Found> {
    const number = ++claimNo
    const permit = { from: clock.now(), wallFrom: clock.wall() }
    const { permitMs, reconcileAfterMs } = config
    const full = shares.full()
    if (full.length > 0) heldBack = true
    const found = await run({ sender: worker, claimNo: number, permitMs, reconcileAfterMs, full }).catch(
      (error: unknown) => {
        if (lostClaims.size < MAX_LOST_CLAIMS) lostClaims.set(number, clock.now())
        throw error
      }
    )
    told(found.expired)
    for (const order of found.claimed)
      start(order, { deadline: permit.from + order.permit_ms, wallDeadline: permit.wallFrom + order.permit_ms })
    for (const { accountId, worker: other } of found.elsewhere) {
      // A lost hint costs the time until that worker's next sweep.
      if (other !== null) bus.publish(channelOf(other), 'claim', accountId)
      else claimNow(accountId)
    }
    return found
  }

  async function recover(): Promise<void> {
    await releaseAgain()
    if (lostClaims.size === 0) return
    const before = clock.now() - LOST_CLAIM_MS
    const released = await releaseLostClaims(db, { sender: worker, claimNos: [...lostClaims.keys()] })
    for (const [number, at] of lostClaims) if (at < before) lostClaims.delete(number)
    if (released.length === 0) return
    log.warn({ orders: released.length }, 'gave back orders of a claim whose outcome was lost')
    told(released.filter(({ phase }) => phase === 'failed'))
    await Promise.all([...new Set(released.map(({ account_id }) => account_id))].map(accountId => claimNext(accountId)))
  }

  /** Writes the releases that failed. Resolution would find the same orders absent, minutes later. */
  async function releaseAgain(): Promise<void> {
    const claims = [...unreleased.values()]
    if (claims.length === 0) return
    const released = await releaseUnsent(db, claims, worker)
    for (const { id } of claims) unreleased.delete(id)
    told(released.filter(({ phase }) => phase === 'failed'))
    await Promise.all([...new Set(claims.map(({ accountId }) => accountId))].map(accountId => claimNext(accountId)))
  }

  async function takeFrom(name: 'order.place' | 'order.copy'): Promise<boolean> {
    const isCopies = name === 'order.copy'
    const room = isCopies ? Math.min(shares.free, copyPlaces.room) : shares.free
    const limit = Math.min(JOBS_AT_ONCE, Math.floor(room / ORDERS_A_JOB))
    if (isCopies) copiesHeldBack = limit <= 0
    if (stopped || limit <= 0) return false
    const requestedAt = clock.now()
    const among = requestedAt >= checkAllAt[name] ? 'all' : 'recent'
    const { taken } = await claimAndSend(options => takeOrders(db, queue, { ...options, name, limit, among }))
    const more = taken === limit
    // Where more wait than can be taken at once, the oldest ones go first, however old.
    if (more) checkAllAt[name] = 0
    else if (among === 'all') checkAllAt[name] = requestedAt + CHECK_ALL_EVERY_MS
    return more
  }

  const claimFor = batch(
    async (accountIds: string[]) => {
      if (!stopped) await claimAndSend(options => claimOrders(db, { ...options, accountIds }))
      return accountIds
    },
    { isolate: isDataError }
  )

  function claimNow(accountId: string): void {
    claimFor(accountId).catch((error: unknown) =>
      log.warn({ err: error, accountId }, 'an account could not be claimed for')
    )
  }

  /** Claims again, by turns among partners, once places are free for orders that were left for want of them. */
  function resumeSoon(): void {
    if (!heldBack || cancelResume || stopped) return
    cancelResume = clock.after(RESUME_EVERY_MS, () => {
      resume()
        .catch((error: unknown) => log.warn({ err: error }, 'claiming orders that were held back'))
        .finally(() => {
          cancelResume = undefined
          resumeSoon()
        })
    })
  }

  const rooms = (): Rooms => ({
    ...shares.taken(),
    room: shares.roomOf(undefined),
    copies: copyPlaces.room
  })

  async function resume(): Promise<void> {
    const limit = Math.min(RESUMED_AT_ONCE, shares.free)
    if (stopped || limit <= 0) return
    const accountIds = await listWaitingAccounts(db, { worker, ageMs: 0, limit }, rooms())
    heldBack = accountIds.length > 0 || shares.full().length > 0
    if (accountIds.length > 0) await claimAndSend(options => claimOrders(db, { ...options, accountIds }))
  }

  const claimNext = batch(
    async (accountIds: string[]) => {
      // Most accounts have nothing more waiting: one cheap read saves the two statements of a claim.
      const waiting = stopped ? [] : await withWaiting(db, accountIds)
      if (waiting.length > 0) await claimAndSend(options => claimOrders(db, { ...options, accountIds: waiting }))
      return accountIds
    },
    { isolate: isDataError }
  )

  function start(order: Claimed, permit: Permit): void {
    const isCopy = order.copied_from !== null
    const life = send(order, permit)
      .catch((error: unknown) => log.error({ err: error, orderId: order.id }, 'placing an order failed on our side'))
      .finally(() => {
        underWay.delete(life)
        shares.remove(order.partner_id)
        if (isCopy) copyPlaces.remove()
        if (copiesHeldBack && copyPlaces.room >= ORDERS_A_JOB) {
          copiesHeldBack = false
          wakeCopies()
        }
        resumeSoon()
      })
    underWay.add(life)
    shares.add(order.partner_id)
    if (isCopy) copyPlaces.add()
  }

  async function send(order: Claimed, { deadline, wallDeadline }: Permit): Promise<void> {
    const following = settling.expect(order)
    const startedAt = clock.now()
    const late = new AbortController()
    let written = false
    let halt: HaltFacts | undefined
    let missing = 'The connection of its account was not ready.'
    const beforeSend = (): void => {
      // The monotonic clock stops while the machine is suspended, the wall clock may be set: whichever is later counts.
      if (late.signal.aborted || clock.now() >= deadline || clock.wall() >= wallDeadline) throw permitExpired(missing)
      halt = halts.of(order)
      if (halt) throw permitExpired(missing)
      written = true
    }
    // From then on it cannot be written any more, whatever the clock shows.
    const giveUp = (): boolean => {
      if (!written) late.abort()
      return !written
    }
    try {
      const { session, contract } = await inTime(openFor(order), { deadline, giveUp, missing })
      missing = 'The connection of its account was busy.'
      const sentAt = clock.now()
      const { listener } = following
      // A quota's refusal comes before the permit ends, so that it is the reason that is given.
      const waitMs = Math.max(0, deadline - sentAt - QUOTA_AHEAD_MS)
      const terms = { beforeSend, signal: late.signal, listener, maxPrice: ceilingOf(contract), waitMs }
      const bought = await inTime(session.buy(contract, terms), { deadline, giveUp, missing })
      observeBuy('done', (clock.now() - sentAt) / 1000)
      pauses.succeeded(order.account_id)
      log.info(
        { orderId: order.id, trace: order.trace, contractId: bought.contractId, ms: Math.round(clock.now() - sentAt) },
        'bought'
      )
      const receipt = {
        id: order.id,
        attempt: order.attempt,
        brokerOrderId: bought.contractId,
        transactionId: bought.transactionId,
        buyPrice: bought.buyPrice,
        payout: bought.payout,
        currency: contract.currency,
        openedAt: bought.purchaseTime,
        expiryAt: bought.expiryTime,
        hasFollowers: order.has_followers
      }
      const opened = await saveOpen(receipt)
      if (opened) following.opened(opened)
      else await recognise(order, bought.contractId, following)
    } catch (error) {
      following.cancel()
      if ((await conclude(order, halt ? tradingHalted(halt) : error, { written, startedAt })) === 'released') return
    }
    // Only now, with this order out of the way, the next one of the account can be claimed.
    await claimNext(order.account_id)
  }

  /** No row took the contract: another update was first. */
  async function recognise(order: Claimed, contractId: string, following: Expected): Promise<void> {
    const kept = await findKept(order.id)
    if (kept?.broker_order_id !== contractId) {
      following.cancel()
      return log.error({ orderId: order.id, contractId }, 'the broker answered after the order was decided')
    }
    // It was this worker when the acknowledgement of the write was lost and the write was repeated; otherwise the
    // worker that adopted the order holds its lease.
    if (kept.phase === 'open' && kept.lease_holder === worker) following.opened(kept)
    else following.cancel()
    told([kept])
  }

  async function openFor(order: Claimed) {
    const session = await openSession(services, refOf(order))
    const { broker_account_id: accountRowId, currency: known } = order
    const currency = await currencyOf(services, session, { accountRowId, currency: known })
    const contract = contractOf({ ...order, currency, ...(await stakeOf(order, currency)) })
    if (order.books_due) await compareBooks(services, order, contract)
    return { session, contract }
  }

  /** Unless something was written by the end of the permit, the order is given back before anybody takes it for in doubt. */
  function inTime<T>(work: Promise<T>, { deadline, giveUp, missing }: LastMoment): Promise<T> {
    return new Promise((resolve, reject) => {
      const cancel = clock.after(Math.max(0, deadline - clock.now()), () => giveUp() && reject(permitExpired(missing)))
      work.then(resolve, reject).finally(cancel)
    })
  }

  async function conclude(
    order: Claimed,
    error: unknown,
    { written, startedAt }: { written: boolean; startedAt: number }
  ): Promise<'released' | undefined> {
    if (error instanceof ReviewNeeded) {
      log.error({ orderId: order.id, trace: order.trace }, 'an order needs a review')
      await persist(services, () => markReview(db, { ...order, message: error.message, evidence: error.evidence }))
      await findKept(order.id).then(kept => told(kept ? [kept] : []))
      return
    }
    if (error instanceof ApiError) {
      await saveFailed({
        id: order.id,
        attempt: order.attempt,
        code: error.code,
        message: error.message,
        extras: error.extras
      })
      return
    }
    if (!(error instanceof BrokerError)) {
      log.error({ err: error, orderId: order.id }, 'placing an order failed on our side')
      return written ? undefined : release(order, 'The order could not be sent to the broker.')
    }
    if (error.rejected)
      await rejectToken(services, refOf(order), error).catch((cause: unknown) => log.warn({ err: cause }, 'account'))
    const facts = { orderId: order.id, trace: order.trace, brokerCode: error.brokerCode, ran: error.ran }
    if (error.ran === 'unknown') {
      observeBuy('doubt', (clock.now() - startedAt) / 1000)
      log.warn({ ...facts, err: error }, 'an order is in doubt')
      await saveReset({ id: order.id, attempt: order.attempt })
      return
    }
    // A refused application is refused again within the order's time; the caller learns it now.
    if (!written && error.code === 'BROKER_UPSTREAM' && !isAppRefused(error.brokerCode)) {
      observeBuy('unsent', (clock.now() - startedAt) / 1000)
      log.info(facts, 'an order was not sent')
      return release(order, error.message, error.retryMs)
    }
    observeBuy('refused', (clock.now() - startedAt) / 1000)
    log.info(facts, 'the broker refused an order')
    const extras = extrasOf(error)
    const code = error.code === 'NOT_FOUND' ? 'INVALID_CONTRACT' : error.code
    await saveFailed({ id: order.id, attempt: order.attempt, code, message: error.message, ...extras })
  }

  /** Gives an order back that was not sent, and claims for its account again when the pause is over. */
  async function release(order: Claimed, reason: string, retryMs = 0): Promise<'released'> {
    const { id, attempt, account_id: accountId } = order
    const pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(retryMs, pauses.failed(accountId)))
    await saveUnsent({ id, attempt, reason, pauseMs }).catch((error: unknown) => {
      if (unreleased.size < MAX_UNRELEASED) unreleased.set(id, { id, attempt, reason, accountId })
      throw error
    })
    resuming.get(accountId)?.()
    if (stopped) return 'released'
    const cancel = clock.after(pauseMs, () => {
      resuming.delete(accountId)
      claimNow(accountId)
    })
    resuming.set(accountId, cancel)
    return 'released'
  }

  return {
    async take() {
      ordersWait = await takeFrom('order.place')
      return ordersWait
    },
    async takeCopies() {
      copiesWait = ordersWait
      return !ordersWait && takeFrom('order.copy')
    },
    copiesWait: () => copiesWait && !ordersWait,
    rooms,
    recover,
    async claim(accountIds) {
      await Promise.all(accountIds.map(accountId => claimNext(accountId)))
    },
    claimNow,
    async drain() {
      stopped = true
      for (const cancel of resuming.values()) cancel()
      cancelResume?.()
      await Promise.allSettled(underWay)
    }
  }
}

/** The fields of the refusal beside its message: when the market opens, or the field it is about. */
function extrasOf({ code, message, secondsUntilOpen, field }: BrokerError): { extras?: ErrorExtras } {
  if (code === 'MARKET_CLOSED') return { extras: { secondsUntilOpen } }
  return field === undefined ? {} : { extras: { details: [{ path: `/body/${field}`, message }] } }
}

/** Until when an order may be sent, by this process's monotonic and by its wall clock (both ms). */
interface Permit {
  deadline: number
  wallDeadline: number
}

/** What ends waiting for an order to be sent; `missing` is what was waited for. */
interface LastMoment {
  deadline: number
  giveUp(): boolean
  missing: string
}

type ClaimOptionsOfWorker = Omit<ClaimOptions, 'accountIds'>

/** The order was not sent by the end of its permit; `missing` names what it waited for. */
function permitExpired(missing: string): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', missing, { brokerCode: 'PermitExpired' })
}

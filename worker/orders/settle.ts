// Settlement: the worker that bought (or took over) a contract subscribes to its stream, and holds one short lease for
// all of its contracts until they end.

import {
  type Closed,
  closeOrders,
  endLease,
  type LeasedOrder,
  type Mark,
  markValues,
  releaseOrders,
  renewLease,
  type Settlement,
  takeOver
} from '../../db/orders/leases.ts'
import { REVIEW_MESSAGE, resolveSettledBreaks, unmarkUnsettled } from '../../db/orders/review.ts'
import { backOff } from '../../db/platform/back-off.ts'
import { WORK } from '../../db/platform/bus.ts'
import { notifiesItself, withRoom } from '../../db/platform/hints.ts'
import { countUnreadable } from '../../db/platform/metrics.ts'
import { batch, isDataError } from '../../db/postgres/batch.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { openSession } from '../accounts/accounts.ts'
import { BrokerError, type ContractListener, type ContractState } from '../broker/port.ts'
import { openLimitStore } from '../copy/limits.ts'
import { Pauses } from '../platform/pauses.ts'
import type { WorkerServices } from '../services.ts'
import { EndedContracts } from './ended.ts'
import { notifyCallers } from './notify.ts'
import { markOf, settlementOf } from './outcome.ts'
import { persist } from './persist.ts'
import { contradictions, lacksPrices } from './plausible.ts'
import { openRechecks } from './rechecks.ts'
import { refOf } from './terms.ts'
import { leasedOrderOf, type WatchedContract } from './watched.ts'

// Contracts watched by one worker, and taken over in one go.
const MAX_WATCHED = 20_000
const TAKE_OVER = 200
// A contract whose stream cannot be had is offered to others again after a pause that grows each time.
const RETRY_PAUSES = { firstMs: 1500, mostMs: 30_000 }
const REJECTED_RETRY_MS = 60_000
// A stream may fall silent without ending, as one does whose market is closed. A contract without updates for so long
// is polled, then less and less often, a few in a round: the calls cost the account's budget.
const SILENCE = { firstMs: 30_000, mostMs: 15 * 60_000 }
const POLLED_AT_ONCE = 20
// A contract that needs no attention for so long may be given to another worker.
const QUIET_MS = 30_000
// Values written in a round; beyond that a contract's turn comes in one of the next.
const MARKED_AT_ONCE = 500
// How long a plausible settlement waits for an entry or exit price that is missing.
const PRICES_MS = 60_000

export interface Expected {
  listener: ContractListener
  /** The row is open: a settlement received so far, or from now on, is written. */
  opened(order: LeasedOrder): void
  /** Nothing was bought, or another worker leases it. */
  cancel(): void
}

export interface Settling {
  /** A contract about to be bought: receives its stream from the first message. */
  expect(order: Pick<LeasedOrder, 'id'>): Expected
  /** Watches an open order's contract; the lease is held already. */
  watch(order: LeasedOrder): Promise<void>
  /**
   * Writes what is known to be the end of an open order; undefined when it was closed before. Throws BROKER_UPSTREAM when
   * the state contradicts the order or itself: then the order is marked instead.
   */
  close(order: LeasedOrder, state: ContractState): Promise<Closed | undefined>
  /** Takes over orders without a lease holder; returns how many. */
  sweep(): Promise<number>
  /** Accounts with a contract that is about to end, or that may be: they are not given to another worker now. */
  busyAccounts(): Set<string>
  /** Lets go of the contracts of accounts that another worker serves from now on. */
  leave(accountIds: string[]): Promise<void>
  renew(): Promise<void>
  /** Lets go of all, once the ends under way are written. */
  release(): Promise<void>
  watched(): number
}

export function openSettling(services: WorkerServices): Settling {
  const { db, queue, bus, config, log, worker, clock } = services
  const watched = new Map<string, WatchedContract>()
  const closings = new Set<Promise<unknown>>()
  /** Open orders that name this worker, but were unknown to it at the previous check. */
  let unknownLeases = new Set<string>()
  let markedUpTo = 0
  /** Contracts taken over whose streams are being opened. */
  let opening = 0
  const { doubt, recheck, review } = openRechecks(services, { watched, take, settle })
  const pauses = new Pauses(RETRY_PAUSES)
  const storeLimits = openLimitStore(services)

  const saveClosed = batch(
    async (settlements: Settlement[]) => {
      const end = (notify: boolean) => closeOrders(db, queue, settlements, { notify })
      const itself = notifiesItself(bus, settlements.length)
      const orders = await persist(services, () => withRoom(itself, end))
      notifyCallers(services, orders)
      if (orders.some(({ closes_copies }) => closes_copies)) bus.publish(WORK, 'copy.close', 'new')
      const byId = new Map(orders.map(order => [order.id, order]))
      return settlements.map(({ id }) => byId.get(id))
    },
    { isolate: isDataError }
  )

  const write = (order: LeasedOrder, state: ContractState) => saveClosed(settlementOf(order, state))

  async function close(order: LeasedOrder, state: ContractState): Promise<Closed | undefined> {
    const why = contradictions(order, state)
    if (why.length === 0) return write(order, state)
    if (!(await review(order, why))) return undefined
    throw new BrokerError('BROKER_UPSTREAM', REVIEW_MESSAGE, { brokerCode: 'Implausible' })
  }

  function settle(id: string, entry: WatchedContract): void {
    const { order, last } = entry
    if (watched.get(id) !== entry || !order || !last?.settled || entry.closing) return
    const why = contradictions(order, last)
    if (why.length > 0) {
      doubt(id, entry, why)
      return
    }
    if (lacksPrices(last)) {
      entry.pricesUntil ??= clock.now() + PRICES_MS
      if (clock.now() < entry.pricesUntil) {
        recheck(id, entry)
        return
      }
    }
    entry.cancelRecheck?.()
    entry.closing = true
    const closing = write(order, last).then(
      () => {
        watched.delete(id)
        if (entry.inReview) resolveSettledBreaks(db).catch((error: unknown) => log.warn({ err: error }, 'findings'))
      },
      (error: unknown) => {
        // A sweep reads the contract again, once its lease holder is found missing.
        watched.delete(id)
        log.error({ err: error, orderId: id }, 'a settlement could not be written')
      }
    )
    closings.add(closing)
    void closing.then(() => closings.delete(closing))
  }

  function take(entry: WatchedContract, state: ContractState): void {
    entry.last = state
    entry.marked = false
    entry.lastUpdateAt = clock.now()
    entry.polls = 0
    for (const field of state.unreadable ?? []) countUnreadable(field)
    storeLimits(entry)
    if (state.settled || !entry.inReview || !entry.order || contradictions(entry.order, state).length > 0) return
    entry.inReview = false
    unmarkUnsettled(db, entry.order.id).catch((error: unknown) => {
      entry.inReview = true
      log.warn({ err: error }, 'a mark could not be taken back')
    })
  }

  function listen(id: string): WatchedContract {
    const listener: ContractListener = {
      update(state) {
        // The settlement is final; later frames are ignored.
        if (entry.last?.settled) return
        take(entry, state)
        settle(id, entry)
      },
      parked(ms) {
        entry.lastUpdateAt = clock.now() + ms
      },
      lost(cause) {
        if (entry.closing || watched.get(id) !== entry) return
        drop(id)
        log.info({ err: cause, orderId: id }, 'lost the stream of a contract')
        handBack([id], cause instanceof BrokerError ? (cause.retryMs ?? 0) : 0)
      }
    }
    const entry: WatchedContract = {
      order: undefined,
      last: undefined,
      marked: false,
      closing: false,
      lastUpdateAt: clock.now(),
      polls: 0,
      rechecks: 0,
      cancelRecheck: undefined,
      pricesUntil: undefined,
      inReview: false,
      storingLimits: false,
      listener
    }
    watched.set(id, entry)
    return entry
  }

  function own(entry: WatchedContract, order: LeasedOrder): void {
    entry.order = leasedOrderOf(order)
    entry.inReview = order.error_code === 'REVIEW_REQUIRED'
    // Another worker has read it before.
    if (entry.inReview) entry.rechecks = 1
  }

  function drop(id: string): void {
    watched.get(id)?.cancelRecheck?.()
    watched.delete(id)
  }

  function handBack(ids: string[], retryMs: number): void {
    // Should this fail, two rounds of the lease find that no worker leases them.
    releaseOrders(db, worker, ids, retryMs).catch((error: unknown) =>
      log.warn({ err: error }, 'orders could not be let go')
    )
  }

  /** Closed by a sale, or taken over while we were away: not ours to watch any more. */
  function forget(id: string): void {
    const { order, closing } = watched.get(id) ?? {}
    if (!order || closing) return
    drop(id)
    const { accountRowId, dialect, ...account } = refOf(order)
    if (!services.brokers.speaks(dialect)) return
    services.brokers
      .of(dialect)
      .unsubscribe({ ...account, credentialId: accountRowId }, order.broker_order_id as string)
  }

  async function watch(order: LeasedOrder): Promise<void> {
    // An entry without its row belongs to a buy that is still waiting for its response: adoption overtook it.
    if (watched.get(order.id)?.order) return
    const entry = listen(order.id)
    const { listener } = entry
    own(entry, order)
    try {
      const session = await openSession(services, refOf(order), { leisurely: true })
      listener.update(await session.subscribe(order.broker_order_id as string, listener))
      pauses.succeeded(order.id)
    } catch (error) {
      if (watched.get(order.id) === entry) drop(order.id)
      const unknown = error instanceof BrokerError && error.code === 'INVALID_CONTRACT'
      if (unknown) await review(order, ['the broker does not know this contract'])
      const rejected = unknown || !(error instanceof BrokerError) || error.rejected
      log.warn({ err: error, orderId: order.id }, 'a contract cannot be watched now')
      handBack([order.id], rejected ? REJECTED_RETRY_MS : pauses.failed(order.id))
    }
  }

  const ended = new EndedContracts(services, { write, watch: order => void watchLeft(order), handBack })

  /** Watches a contract that the list of closed ones lacks, unless there are too many already. */
  async function watchLeft(order: LeasedOrder): Promise<void> {
    if (watched.size >= MAX_WATCHED) handBack([order.id], RETRY_PAUSES.mostMs)
    else await watch(order)
  }

  /** Writes the values received since the last time, of some contracts at once; an unchanged one costs nothing. */
  async function markUpdated(): Promise<void> {
    const marks: Mark[] = []
    const entries = [...watched.values()]
    for (let checked = 0; checked < entries.length && marks.length < MARKED_AT_ONCE; checked++) {
      const entry = entries[markedUpTo++ % entries.length] as WatchedContract
      const { order, last, marked, closing } = entry
      if (!order || !last || closing || marked) continue
      entry.marked = true
      const found = markOf(order, last)
      if (found) marks.push(found)
    }
    if (marks.length > 0) await markValues(db, marks)
  }

  /** Polls contracts whose streams have been silent for too long. */
  function pollSilent(): void {
    const now = clock.now()
    let room = POLLED_AT_ONCE
    for (const [id, entry] of watched) {
      if (
        !entry.order ||
        entry.closing ||
        entry.cancelRecheck ||
        now - entry.lastUpdateAt < backOff(entry.polls, SILENCE)
      )
        continue
      if (--room < 0) return
      entry.lastUpdateAt = now
      entry.polls += 1
      poll(id, entry, entry.order).catch((error: unknown) =>
        log.info({ err: error, orderId: id }, 'a silent contract could not be asked for')
      )
    }
  }

  async function poll(id: string, entry: WatchedContract, order: LeasedOrder): Promise<void> {
    const session = await openSession(services, refOf(order), { leisurely: true })
    const state = await session.contract(order.broker_order_id as string)
    if (!state.settled || entry.last?.settled || entry.closing) return
    take(entry, state)
    settle(id, entry)
  }

  return {
    expect({ id }) {
      const entry = listen(id)
      return {
        listener: entry.listener,
        opened(order) {
          own(entry, order)
          settle(id, entry)
        },
        cancel() {
          if (watched.get(id) === entry) drop(id)
        }
      }
    },
    watch,
    close,
    async sweep() {
      const together = await ended.sweep()
      const room = Math.min(MAX_WATCHED - watched.size, TAKE_OVER - opening)
      if (room <= 0) return 0
      const orders = await takeOver(db, { worker, limit: room, ended: !together })
      if (orders.length === 0) return 0
      log.info({ orders: orders.length }, 'taking over open orders')
      const accountIds = orders.map(({ account_id }) => account_id)
      const served = new Map((await serveAccounts(db, worker, accountIds)).map(each => [each.accountId, each.worker]))
      const ours = orders.filter(({ account_id }) => served.get(account_id) === worker)
      const others = orders.filter(order => !ours.includes(order)).map(({ id }) => id)
      if (others.length > 0) handBack(others, 0)
      // Their connections may take a while, and the sweep also claims orders: it does not wait for them.
      opening += ours.length
      for (const order of ours)
        void watch(order).finally(() => {
          opening -= 1
        })
      return orders.length
    },
    busyAccounts() {
      const busy = new Set(ended.accounts())
      const until = clock.now() + QUIET_MS
      const endsAfter = (clock.wall() + QUIET_MS) / 1000
      for (const { order, last, closing, lastUpdateAt } of watched.values()) {
        if (!order) continue
        // A parked one gets its next update when parking ends; a multiplier has no end that is known.
        const quiet = order.kind === 'MULTIPLIER' || lastUpdateAt >= until || (last?.expiryTime ?? 0) > endsAfter
        if (closing || !quiet) busy.add(order.account_id)
      }
      return busy
    },
    async leave(accountIds) {
      const left = new Set(accountIds)
      const ids = [...watched].flatMap(([id, { order, closing }]) =>
        order && !closing && left.has(order.account_id) ? [id] : []
      )
      if (ids.length === 0) return
      for (const id of ids) forget(id)
      handBack(ids, 0)
    },
    async renew() {
      const ids = [...watched].filter(([, { order, closing }]) => order && !closing).map(([id]) => id)
      const held = await renewLease(db, worker, config.leaseMs)
      await markUpdated()
      pollSilent()
      for (const id of ids) if (!held.has(id)) forget(id)
      const unknown = [...held].filter(id => !watched.has(id) && !ended.has(id))
      // Twice in a row, so that it is not one just being opened or taken over: an acknowledgement was lost.
      const lost = unknown.filter(id => unknownLeases.has(id))
      unknownLeases = new Set(unknown)
      if (lost.length > 0) handBack(lost, 0)
    },
    async release() {
      for (const id of [...watched.keys()]) drop(id)
      await Promise.all([...closings, ended.stop()])
      await endLease(db, worker).catch((error: unknown) =>
        log.warn({ err: error }, 'the lease could not be ended; it runs out by itself')
      )
    },
    watched: () => watched.size
  }
}

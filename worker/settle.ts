// Following contracts to their end: the worker that bought (or took over) a contract hears its stream, and holds one
// short lease for all of them.
import { Big } from 'big.js'
import { gather, isDataError } from '../db/gather.ts'
import type { OrderRow } from '../db/orders.ts'
import {
  type Closed,
  closeOrders,
  endLease,
  type Following,
  type Mark,
  markValues,
  releaseOrders,
  renewLease,
  type Settlement,
  takeOver
} from '../db/orders-following.ts'
import { openSession } from './accounts.ts'
import { BrokerError, type ContractListener, type ContractState } from './broker/port.ts'
import type { Open } from './open.ts'
import { refOf } from './orders.ts'
import { persist } from './persist.ts'

// Contracts followed by one worker, and taken over in one go.
const MAX_FOLLOWED = 20_000
const TAKE_OVER = 200
// A contract whose stream cannot be had is offered to others again after this.
const RETRY_MS = 1500
const REJECTED_RETRY_MS = 60_000
// A stream may fall silent without ending, as one does whose market is closed. A contract not heard of for so long
// is asked for, then less and less often, a few in a round: the calls cost the account's budget.
const SILENCE_MS = 30_000
const MAX_SILENCE_MS = 15 * 60_000
const ASKED_AT_ONCE = 20
// Values written in a round; beyond that a contract's turn comes in one of the next.
const MARKED_AT_ONCE = 500

export interface Expected {
  listener: ContractListener
  /** The row is open: a settlement heard so far, or from now on, is written. */
  opened(order: Following): void
  /** Nothing was bought, or somebody else follows it. */
  cancel(): void
}

export interface Settling {
  /** A contract about to be bought: hears its stream from the first message. */
  expect(order: Pick<OrderRow, 'id'>): Expected
  /** Follows an open order's contract; the lease is held already. */
  follow(order: Following): Promise<void>
  /** Writes what is known to be the end of an open order; undefined when it was closed before. */
  close(order: Pick<OrderRow, 'id' | 'buy_price' | 'follow_id'>, state: ContractState): Promise<Closed | undefined>
  /** Takes over orders nobody follows; answers how many. */
  sweep(): Promise<number>
  renew(): Promise<void>
  /** Lets go of all, once the ends under way are written. */
  release(): Promise<void>
  followed(): number
}

interface Followed {
  order: Following | undefined
  last: ContractState | undefined
  /** Whether the order's current value is what was heard last. */
  marked: boolean
  closing: boolean
  /** When it was last heard of or asked for, or when its rest ends; and how much longer silence is no news. */
  heardAt: number
  patienceMs: number
}

export function openSettling(open: Open): Settling {
  const { db, bus, config, log, worker, clock } = open
  const followed = new Map<string, Followed>()
  const closings = new Set<Promise<unknown>>()
  /** Open orders that name this worker, and that it knew nothing of when it looked last. */
  let strangers = new Set<string>()
  let markedUpTo = 0

  const saveClosed = gather(
    async (settlements: Settlement[]) => {
      const orders = await persist(open, () => closeOrders(db, settlements))
      for (const { origin, id } of orders) if (origin) bus.publish(origin, 'order', id)
      const byId = new Map(orders.map(order => [order.id, order]))
      return settlements.map(({ id }) => byId.get(id))
    },
    { isolate: isDataError }
  )

  function close(
    order: Pick<OrderRow, 'id' | 'buy_price' | 'follow_id'>,
    state: ContractState
  ): Promise<Closed | undefined> {
    return saveClosed(settlementOf(order, state, open.clock.wall()))
  }

  function settle(id: string, entry: Followed): void {
    if (followed.get(id) !== entry || !entry.order || !entry.last?.settled || entry.closing) return
    entry.closing = true
    const closing = close(entry.order, entry.last).then(
      () => followed.delete(id),
      (error: unknown) => {
        // A sweep reads the contract again, once it is noticed that nobody follows it.
        followed.delete(id)
        log.error({ err: error, orderId: id }, 'a settlement could not be written')
      }
    )
    closings.add(closing)
    void closing.then(() => closings.delete(closing))
  }

  function listen(id: string): { entry: Followed; listener: ContractListener } {
    const entry: Followed = {
      order: undefined,
      last: undefined,
      marked: false,
      closing: false,
      heardAt: clock.now(),
      patienceMs: SILENCE_MS
    }
    followed.set(id, entry)
    return {
      entry,
      listener: {
        update(state) {
          // The end is told once; nothing that was said before it may take it back.
          if (entry.last?.settled) return
          entry.last = state
          entry.marked = false
          entry.heardAt = clock.now()
          entry.patienceMs = SILENCE_MS
          settle(id, entry)
        },
        rests(ms) {
          entry.heardAt = clock.now() + ms
        },
        lost(cause) {
          if (entry.closing || followed.get(id) !== entry) return
          followed.delete(id)
          log.info({ err: cause, orderId: id }, 'lost the stream of a contract')
          handBack([id], 0)
        }
      }
    }
  }

  function handBack(ids: string[], retryMs: number): void {
    // Should this fail, two rounds of the lease notice that nobody here follows them.
    releaseOrders(db, worker, ids, retryMs).catch((error: unknown) =>
      log.warn({ err: error }, 'orders could not be let go')
    )
  }

  /** Closed by a sale, or taken over while we were away: not ours to follow any more. */
  function forget(id: string): void {
    const { order, closing } = followed.get(id) ?? {}
    if (!order || closing) return
    followed.delete(id)
    openSession(open, refOf(order))
      .then(session => session.unfollow(order.broker_order_id as string))
      .catch((error: unknown) => log.info({ err: error, orderId: id }, 'a contract could not be let go'))
  }

  async function follow(order: Following): Promise<void> {
    // An entry without its row belongs to a buy that is still waiting for its answer: adoption overtook it.
    if (followed.get(order.id)?.order) return
    const { entry, listener } = listen(order.id)
    entry.order = followingOf(order)
    try {
      const session = await openSession(open, refOf(order))
      listener.update(await session.follow(order.broker_order_id as string, listener))
    } catch (error) {
      if (followed.get(order.id) === entry) followed.delete(order.id)
      const rejected = !(error instanceof BrokerError) || error.rejected
      log.warn({ err: error, orderId: order.id }, 'a contract cannot be followed now')
      handBack([order.id], rejected ? REJECTED_RETRY_MS : RETRY_MS)
    }
  }

  /** Notes what was heard since the last time, of some contracts at once; one that told nothing new costs nothing. */
  async function markHeard(): Promise<void> {
    const marks: Mark[] = []
    const entries = [...followed.values()]
    for (let looked = 0; looked < entries.length && marks.length < MARKED_AT_ONCE; looked++) {
      const entry = entries[markedUpTo++ % entries.length] as Followed
      const { order, last, marked, closing } = entry
      if (!order || !last || closing || marked) continue
      entry.marked = true
      const found = markOf(order, last)
      if (found) marks.push(found)
    }
    if (marks.length > 0) await markValues(db, marks)
  }

  /** Asks for contracts whose streams have been silent for too long. */
  function askSilent(): void {
    const now = clock.now()
    let room = ASKED_AT_ONCE
    for (const [id, entry] of followed) {
      if (!entry.order || entry.closing || now - entry.heardAt < entry.patienceMs) continue
      if (--room < 0) return
      entry.heardAt = now
      entry.patienceMs = Math.min(MAX_SILENCE_MS, entry.patienceMs * 2)
      askFor(id, entry, entry.order).catch((error: unknown) =>
        log.info({ err: error, orderId: id }, 'a silent contract could not be asked for')
      )
    }
  }

  async function askFor(id: string, entry: Followed, order: Following): Promise<void> {
    const session = await openSession(open, refOf(order))
    const state = await session.contract(order.broker_order_id as string)
    if (!state.settled || entry.last?.settled) return
    entry.last = state
    settle(id, entry)
  }

  return {
    expect({ id }) {
      const { entry, listener } = listen(id)
      return {
        listener,
        opened(order) {
          entry.order = followingOf(order)
          settle(id, entry)
        },
        cancel() {
          if (followed.get(id) === entry) followed.delete(id)
        }
      }
    },
    follow,
    close,
    async sweep() {
      const room = MAX_FOLLOWED - followed.size
      if (room <= 0) return 0
      const orders = await takeOver(db, { worker, limit: Math.min(TAKE_OVER, room) })
      if (orders.length > 0) log.info({ orders: orders.length }, 'taking over open orders')
      await Promise.all(orders.map(follow))
      return orders.length
    },
    async renew() {
      const ids = [...followed].filter(([, { order, closing }]) => order && !closing).map(([id]) => id)
      const held = await renewLease(db, worker, config.leaseMs)
      await markHeard()
      askSilent()
      for (const id of ids) if (!held.has(id)) forget(id)
      const unknown = [...held].filter(id => !followed.has(id))
      // Twice in a row, so that it is not one just being opened or taken over: an acknowledgement was lost.
      const lost = unknown.filter(id => strangers.has(id))
      strangers = new Set(unknown)
      if (lost.length > 0) handBack(lost, 0)
    },
    async release() {
      followed.clear()
      await Promise.all(closings)
      await endLease(db, worker).catch((error: unknown) =>
        log.warn({ err: error }, 'the lease could not be ended; it runs out by itself')
      )
    },
    followed: () => followed.size
  }
}

// Of what is kept as long as a contract is open, nothing else of its row.
function followingOf(order: Following): Following {
  const { id, broker_order_id, buy_price, broker_account_id, account_id, app_id, dialect, follow_id } = order
  return { id, broker_order_id, buy_price, broker_account_id, account_id, app_id, dialect, follow_id }
}

/** The result of a settled contract. The profit is what it paid back less what it cost, in exact decimals. */
export function settlementOf(
  order: Pick<OrderRow, 'id' | 'buy_price' | 'follow_id'>,
  state: ContractState,
  wallMs: number
): Settlement {
  const paid = order.buy_price ?? state.buyPrice
  return {
    id: order.id,
    pnl: state.sellPrice === null ? (state.profit ?? '0') : new Big(state.sellPrice).minus(paid).toFixed(),
    entryPrice: state.entryPrice,
    // A contract sold early has no exit tick: the spot it was sold at decided.
    exitPrice: state.exitPrice ?? state.currentSpot,
    commission: state.commission,
    closedAt: state.sellTime ?? Math.floor(wallMs / 1000),
    copied: order.follow_id !== null
  }
}

/** What an open contract is worth by this state; undefined where the broker gave no price. */
export function markOf(order: Pick<OrderRow, 'id' | 'buy_price'>, state: ContractState): Mark | undefined {
  if (state.settled || state.bidPrice === null) return undefined
  return {
    id: order.id,
    currentValue: state.bidPrice,
    unrealizedPnl: new Big(state.bidPrice).minus(order.buy_price ?? state.buyPrice).toFixed(),
    commission: state.commission,
    // Multipliers end about a century ahead: that is no expiry.
    expiryAt:
      state.expiryTime !== null && state.expiryTime < state.purchaseTime + 400 * 86_400 ? state.expiryTime : null
  }
}

// The reads every request makes, and the one write that must be fast, in batches: requests of one moment share one
// statement each (db/postgres/batch.ts). Always fresh, nothing is cached.

import { findOutcomes, type Outcome } from '../../db/orders/reading.ts'
import { type Draft, type Halted, type Lacking, type Stored, storeOrders } from '../../db/orders/storing.ts'
import { type CallerToProve, countTradersOf, findCallers, type KeyCaller } from '../../db/partners/keys.ts'
import { readUsage, type UsageRecord } from '../../db/partners/usage.ts'
import {
  type BrokerRequest,
  findBrokerRequests,
  queueOf,
  storeBrokerRequests
} from '../../db/platform/broker-requests.ts'
import type { Bus } from '../../db/platform/bus.ts'
import { WORK } from '../../db/platform/bus.ts'
import { notifiesItself, withRoom } from '../../db/platform/hints.ts'
import type { Queue } from '../../db/platform/queue.ts'
import { batch, isDataError, share } from '../../db/postgres/batch.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { databaseNow } from '../../db/postgres/now.ts'
import type { Reads } from '../../db/postgres/replica.ts'
import { findTrading, type Trading } from '../../db/traders/accounts.ts'
import { type LeaderboardFilter, type RankedRecord, readLeaderboard } from '../../db/traders/leaderboard.ts'
import { type SendShared, shareRequests } from './shared-requests.ts'

/** An order that is yet to be stored: what is left of its time to live is counted when its statement leaves. */
type WaitingDraft = Omit<Draft, 'ttlMs'> & { ttlMs(): number }

export interface Batched {
  caller(lookup: string): Promise<KeyCaller | undefined>
  trading(trader: { partnerId: string; externalId: string }): Promise<Trading | undefined>
  order(id: string): Promise<Outcome | undefined>
  /** Sends a broker request, or joins an equal one of this process, and waits for its end. */
  sendBrokerRequest: SendShared
  /** Stores an order with its job and wakes the workers once both are committed. */
  storeOrder(draft: WaitingDraft): Promise<Stored | Halted | Lacking>
  storeBrokerRequest(request: BrokerRequest): Promise<{ id: string; joined: boolean }>
  /** Reads that add up many rows: one at a time for each partner. */
  leaderboard(query: LeaderboardFilter): Promise<RankedRecord[]>
  usage(partnerId: string): Promise<UsageRecord>
  /** How many traders the partner has; undefined when the caller's facts have changed. */
  traders(of: CallerToProve): Promise<number | undefined>
}

// The offset is measured again after this: the database's clock may run faster than this process's.
const COMPARED_AGAIN_MS = 60_000
// After this the measured offset is not used: one of the two clocks may have been set since.
const KNOWN_MS = 2 * COMPARED_AGAIN_MS

/** The database's clock, derived from the times in its responses. */
function openDatabaseTime() {
  /** A lower bound of the database's clock minus this process's monotonic one: a response takes time to arrive. */
  let known: { offsetMs: number; at: number } | undefined
  return {
    /** A lower bound of the database's present time, ms since the epoch; undefined without a response in the last minutes. */
    now() {
      const now = performance.now()
      return known && now - known.at <= KNOWN_MS ? now + known.offsetMs : undefined
    },
    shown(ms: number) {
      const at = performance.now()
      const offsetMs = ms - at
      if (!known || offsetMs > known.offsetMs || at - known.at > COMPARED_AGAIN_MS) known = { offsetMs, at }
    }
  }
}

export function openBatched({ db, queue, bus, reads }: { db: Db; queue: Queue; bus: Bus; reads: Reads }): Batched {
  const storeBrokerRequest = batch(
    async (requests: BrokerRequest[]) => {
      const stored = await db.transaction(trx => storeBrokerRequests(trx, queue, requests))
      for (const name of new Set(requests.map(({ kind }) => queueOf(kind)))) bus.publish(WORK, name, 'new')
      return stored
    },
    { ownerOf: ({ partnerId = '' }) => partnerId, isolate: isDataError }
  )
  const databaseTime = openDatabaseTime()
  async function readDatabaseTime(): Promise<number | undefined> {
    databaseTime.shown((await databaseNow(db)).getTime())
    return databaseTime.now()
  }
  const leaderboard = share(query => reads.run(db => readLeaderboard(db, JSON.parse(query) as LeaderboardFilter)))
  const traders = share(caller => countTradersOf(db, JSON.parse(caller) as CallerToProve))
  return {
    caller: batch((lookups: string[]) => findCallers(db, lookups)),
    trading: batch((request: { partnerId: string; externalId: string }[]) => findTrading(db, request), {
      ownerOf: ({ partnerId }) => partnerId
    }),
    order: batch((ids: string[]) => findOutcomes(db, ids)),
    sendBrokerRequest: shareRequests({
      bus,
      store: storeBrokerRequest,
      read: batch((ids: string[]) => findBrokerRequests(db, ids))
    }),
    storeOrder: batch(
      async (waiting: WaitingDraft[]) => {
        // Without a recent response the clock is read first: else a statement that reaches the database late would not be noticed.
        const now = databaseTime.now() ?? (await readDatabaseTime())
        const drafts = waiting.map(draft => {
          const ttlMs = draft.ttlMs()
          return { ...draft, ttlMs, endsBy: now === undefined ? undefined : now + ttlMs }
        })
        const { stored, notify } = await withRoom(notifiesItself(bus, drafts.length), async notify => {
          return { stored: await storeOrders(db, queue, drafts, { notify }), notify }
        })
        for (const { order } of stored) if (order && order.read_ms > 0) databaseTime.shown(order.read_ms)
        if (notify) return stored
        const phases = new Set(stored.map(entry => entry.order && entry.created && entry.order.phase))
        if (phases.has('queued')) bus.publish(WORK, 'order.place', 'new')
        if (phases.has('unproven')) bus.publish(WORK, 'account.prove', 'new')
        return stored
      },
      { max: 100, concurrency: 2, ownerOf: ({ partnerId }) => partnerId, isolate: isDataError }
    ),
    storeBrokerRequest,
    leaderboard: query => leaderboard(JSON.stringify(query)),
    usage: share(partnerId => readUsage(db, partnerId)),
    traders: ({ partnerId, caller }) =>
      traders(JSON.stringify({ partnerId, caller: caller && { lookup: caller.lookup, facts: caller.facts } }))
  }
}

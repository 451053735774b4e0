// The reads every request makes, and the one write that must be fast, in batches: requests of one moment share one
// statement each (db/postgres/gather.ts). Always fresh, nothing is cached.

import { findOutcomes, type Outcome } from '../../db/orders/reading.ts'
import { type Draft, type Halted, type Stored, storeOrders } from '../../db/orders/storing.ts'
import { findCallers, type KeyCaller } from '../../db/partners/keys.ts'
import { countTraders } from '../../db/partners/partners.ts'
import { readUsage, type UsageRecord } from '../../db/partners/usage.ts'
import { findAsks, type Question, queueOf, storeAsks } from '../../db/platform/broker-requests.ts'
import type { Bus } from '../../db/platform/bus.ts'
import { WORK } from '../../db/platform/bus.ts'
import type { Queue } from '../../db/platform/queue.ts'
import type { Db } from '../../db/postgres/connection.ts'
import { gather, isDataError, share } from '../../db/postgres/gather.ts'
import { findTrading, type Trading } from '../../db/traders/accounts.ts'
import { type LeaderboardFilter, type RankedRecord, readLeaderboard } from '../../db/traders/leaderboard.ts'
import { type SendShared, shareRequests } from './shared-requests.ts'

export interface Gathered {
  caller(lookup: string): Promise<KeyCaller | undefined>
  trading(trader: { partnerId: string; externalId: string }): Promise<Trading | undefined>
  order(id: string): Promise<Outcome | undefined>
  /** Sends a broker request, or joins an equal one of this process, and waits for its end. */
  ask: SendShared
  /** Stores an order with its job and wakes the workers once both are committed. */
  storeOrder(draft: Draft): Promise<Stored | Halted>
  storeAsk(question: Question): Promise<{ id: string; joined: boolean }>
  /** Reads that add up many rows: one at a time for each partner. */
  leaderboard(query: LeaderboardFilter): Promise<RankedRecord[]>
  usage(partnerId: string): Promise<UsageRecord>
  traders(partnerId: string): Promise<number>
}

export function openGathered({ db, queue, bus }: { db: Db; queue: Queue; bus: Bus }): Gathered {
  const storeAsk = gather(
    async (questions: Question[]) => {
      const stored = await db.transaction(trx => storeAsks(trx, queue, questions))
      for (const name of new Set(questions.map(({ kind }) => queueOf(kind)))) bus.publish(WORK, name, 'new')
      return stored
    },
    { partyOf: ({ partnerId = '' }) => partnerId, isolate: isDataError }
  )
  const leaderboard = share(query => readLeaderboard(db, JSON.parse(query) as LeaderboardFilter))
  return {
    caller: gather((lookups: string[]) => findCallers(db, lookups)),
    trading: gather((asked: { partnerId: string; externalId: string }[]) => findTrading(db, asked), {
      partyOf: ({ partnerId }) => partnerId
    }),
    order: gather((ids: string[]) => findOutcomes(db, ids)),
    ask: shareRequests({ bus, store: storeAsk, read: gather((ids: string[]) => findAsks(db, ids)) }),
    storeOrder: gather(
      async (drafts: Draft[]) => {
        const stored = await storeOrders(db, queue, drafts)
        const phases = new Set(stored.map(entry => entry.order && entry.created && entry.order.phase))
        if (phases.has('queued')) bus.publish(WORK, 'order.place', 'new')
        if (phases.has('unproven')) bus.publish(WORK, 'account.prove', 'new')
        return stored
      },
      { max: 100, concurrency: 2, partyOf: ({ partnerId }) => partnerId, isolate: isDataError }
    ),
    storeAsk,
    leaderboard: query => leaderboard(JSON.stringify(query)),
    usage: share(partnerId => readUsage(db, partnerId)),
    traders: share(partnerId => countTraders(db, partnerId))
  }
}

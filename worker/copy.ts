// Copying: when a leader's contract is bought, one order per active follower is stored, in groups. A copy is
// an order like any other from there on; the unique pair of leader's order and follow makes a repeat harmless.
import { Big } from 'big.js'
import { WORK } from '../db/bus.ts'
import type { Db } from '../db/connection.ts'
import { type Follower, listFollowers, partEnds, pauseDrawdowns } from '../db/copy.ts'
import { findOrders, type OrderRow } from '../db/orders.ts'
import { type Draft, storeOrders } from '../db/orders-storing.ts'
import type { Job, Queue } from '../db/queue.ts'
import type { Open } from './open.ts'

// Followers served in one transaction. A part that fails is tried again by itself, and holds nobody up for long.
const PART = 200
// What the broker takes at least, in the currency of a dollar account.
const MIN_STAKE = { BINARY: '0.35', MULTIPLIER: '1' } as const

/**
 * Takes one fan-out job and copies the order to its part of the followers; returns how many jobs were taken. The work is
 * done in the transaction of the fetch, so that the job of a worker that dies is free at once; a failure is counted in a
 * transaction of its own, and the next job is not held up by it.
 */
export async function fanOut(open: Open): Promise<number> {
  const { db, queue, bus, log } = open
  let job: Job<'copy.fanout'> | undefined
  try {
    await db.transaction(async trx => {
      ;[job] = await queue.fetch(trx, 'copy.fanout', 1)
      if (!job) return
      const copies = await copyPart(trx, open, job.data)
      await queue.complete(trx, 'copy.fanout', [job])
      if (copies > 0) log.info({ ...job.data, copies }, 'copied an order')
    })
  } catch (error) {
    const failed = job
    if (!failed) throw error
    log.error({ err: error, ...failed.data, tries: failed.retryCount + 1 }, 'an order could not be copied')
    await db.transaction(trx => queue.fail(trx, 'copy.fanout', failed, error))
  }
  if (!job) return 0
  bus.publish(WORK, 'order.place', 'new')
  return 1
}

/** Copies an order to the followers of one part; returns the number of copies. Without a part, it is the first one. */
async function copyPart(
  trx: Db,
  open: Open,
  { orderId, after = '', upTo }: { orderId: string; after?: string; upTo?: string }
): Promise<number> {
  const { queue } = open
  const [leading] = await findOrders(trx, [orderId])
  if (!leading || leading.copied_from !== null) return 0
  const leaderId = leading.trader_id
  await pauseDrawdowns(trx, leaderId)
  const end = upTo ?? (await planParts(trx, queue, { orderId, leaderId }))
  const followers = await listFollowers(trx, { leaderId, after, upTo: end, limit: PART })
  const drafts = followers.map(follower => copyOf(leading, follower, open))
  return (await storeOrders(trx, queue, drafts)).length
}

/**
 * Stores a job for every part but the first, and returns where the first one ends. Later parts have a lower priority: no
 * leader's order waits for more than the same part of the others'.
 */
async function planParts(
  trx: Db,
  queue: Queue,
  { orderId, leaderId }: { orderId: string; leaderId: string }
): Promise<string> {
  const ends = await partEnds(trx, { leaderId, size: PART })
  for (const [index, after] of ends.slice(0, -1).entries()) {
    const data = { orderId, after, upTo: ends[index + 1] as string }
    await queue.enqueue(trx, 'copy.fanout', [data], { priority: -1 - index })
  }
  return ends[0] ?? ''
}

function copyOf(leading: OrderRow, follower: Follower, { config, clock }: Open): Draft {
  const scaled = new Big(leading.stake).times(follower.riskPct).div(100).round(2, Big.roundHalfUp)
  const least = MIN_STAKE[leading.kind]
  // The time to live counts from the leader's own purchase: a tick contract is worthless late.
  const age = clock.wall() - (leading.sent_at ?? leading.queued_at).getTime()
  return {
    partnerId: follower.partnerId,
    appId: follower.appId,
    dialect: follower.dialect,
    traderId: follower.traderId,
    traderExternalId: follower.traderExternalId,
    accountRowId: follower.accountRowId,
    accountId: follower.accountId,
    accountMode: follower.accountMode,
    currency: follower.currency,
    clientOrderId: null,
    terms: {
      kind: leading.kind,
      asset: leading.asset,
      contractType: leading.contract_type,
      direction: leading.direction,
      multiplier: leading.multiplier,
      stake: scaled.lt(least) ? least : scaled.toFixed(),
      duration: leading.duration,
      durationUnit: leading.duration_unit,
      barrier: leading.barrier,
      stopLoss: scaleLimit(leading.stop_loss, follower.riskPct),
      takeProfit: scaleLimit(leading.take_profit, follower.riskPct)
    },
    ttlMs: Math.max(0, Math.round(config.orderTtlMs - Math.max(0, age))),
    origin: null,
    copiedFrom: leading.id,
    followId: follower.followId
  }
}

// Limits are amounts of money, so they scale with the stake.
function scaleLimit(limit: string | null, riskPct: string): string | null {
  return limit === null ? null : new Big(limit).times(riskPct).div(100).round(2, Big.roundHalfUp).toFixed()
}

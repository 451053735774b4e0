// Copying: when a leader's contract is bought, one order per active follower is stored, in groups. A copy is
// an order like any other from there on; the unique pair of leader's order and follow makes a repeat harmless.
import { Big } from 'big.js'
import { WORK } from '../db/bus.ts'
import { type Follower, listFollowers, pauseDrawdowns } from '../db/copy.ts'
import { findOrders, type OrderRow } from '../db/orders.ts'
import { type Draft, storeOrders } from '../db/orders-storing.ts'
import type { Open } from './open.ts'

const GROUP = 500
// What the broker takes at least, in the currency of a dollar account.
const MIN_STAKE = { BINARY: '0.35', MULTIPLIER: '1' } as const

/** Takes one fan-out and copies the order to everyone; answers how many jobs were taken. */
export async function fanOut(open: Open): Promise<number> {
  const { db, queue, bus, log } = open
  return db
    .transaction(async trx => {
      const jobs = await queue.fetch(trx, 'copy.fanout', 1)
      for (const { data } of jobs) {
        const [leading] = await findOrders(trx, [data.orderId])
        if (!leading || leading.copied_from !== null) continue
        await pauseDrawdowns(trx, leading.trader_id)
        let copies = 0
        let after = ''
        for (;;) {
          const followers = await listFollowers(trx, { leaderId: leading.trader_id, after, limit: GROUP })
          const stored = await storeOrders(
            trx,
            queue,
            followers.map(follower => copyOf(leading, follower, open))
          )
          copies += stored.length
          const last = followers.at(-1)
          if (!last || followers.length < GROUP) break
          after = last.followId
        }
        if (copies > 0) log.info({ orderId: leading.id, copies }, 'copied an order')
      }
      await queue.complete(trx, 'copy.fanout', jobs)
      return jobs.length
    })
    .then(taken => {
      if (taken > 0) bus.publish(WORK, 'order.place', 'new')
      return taken
    })
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

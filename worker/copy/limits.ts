// Limits that are changed at the broker while a multiplier runs: the row keeps what the broker states, and what a leader
// changes is set on its open copies, scaled like the copy. The last change wins.
import { findLeading, lockForClosing } from '../../db/copy/fanout.ts'
import {
  changeCopies,
  type LimitsToSet,
  markLimitsSet,
  releaseLimits,
  storeLimits,
  takeCopiesToChange,
  takeLimitsToSet
} from '../../db/copy/limits.ts'
import type { LeasedOrder } from '../../db/orders/leases.ts'
import { insertMismatch } from '../../db/orders/reconciliation.ts'
import { WORK } from '../../db/platform/bus.ts'
import type { ContractLimits } from '../../schemas/market.ts'
import { openBoughtSession } from '../accounts/accounts.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { refOf } from '../orders/terms.ts'
import type { WatchedContract } from '../orders/watched.ts'
import type { SeparateWork } from '../platform/separate-work.ts'
import type { WorkerServices } from '../services.ts'
import { takeWithLeast } from './least.ts'
import { changedLimits } from './terms.ts'

const PART = 200
/** Copies whose limits one worker sets at a time. */
export const SET_AT_ONCE = 50

/** Stores the limits of watched contracts as the broker states them, where they differ from the row's. */
export function openLimitStore({ db, queue, bus, log, worker }: WorkerServices): (entry: WatchedContract) => void {
  /** Nobody has changed the limits yet: the broker bought with others than those of the order. */
  function report({ id: orderId }: LeasedOrder, { requested, stated }: Record<'requested' | 'stated', ContractLimits>) {
    const differs = { limits: [wordsFor(requested), wordsFor(stated)] }
    log.error({ orderId, differs }, 'the broker bought something else')
    insertMismatch(db, orderId, differs).catch((error: unknown) =>
      log.error({ err: error, orderId, differs }, 'limits that differ could not be reported')
    )
  }

  return function store(entry) {
    const { order, last } = entry
    if (!order || !last?.limits || last.settled || entry.closing || entry.storingLimits) return
    if (last.contractId !== order.broker_order_id) return
    const stated = last.limits
    const { requested } = entry
    entry.requested = undefined
    if (requested && !sameLimits(stated, requested)) report(order, { requested, stated })
    if (sameLimits(stated, { stopLoss: order.stop_loss, takeProfit: order.take_profit })) return
    // One statement at a time for each order: two could commit in the other order.
    entry.storingLimits = true
    storeLimits(db, queue, { id: order.id, worker, ...stated }).then(
      stored => {
        entry.storingLimits = false
        if (!stored) return
        order.stop_loss = stated.stopLoss
        order.take_profit = stated.takeProfit
        if (stored.changesCopies) bus.publish(WORK, 'copy.limits', 'new')
        store(entry)
      },
      (error: unknown) => {
        // The contract's next update tries again.
        entry.storingLimits = false
        log.warn({ err: error, orderId: order.id }, 'changed limits could not be stored')
      }
    )
  }
}

function wordsFor({ stopLoss, takeProfit }: ContractLimits): string {
  return `stop loss ${stopLoss ?? 'none'}, take profit ${takeProfit ?? 'none'}`
}

function sameLimits(one: ContractLimits | undefined, other: ContractLimits): boolean {
  return one !== undefined && same(one.stopLoss, other.stopLoss) && same(one.takeProfit, other.takeProfit)
}

function same(one: string | null, other: string | null): boolean {
  return one === null || other === null ? one === other : Number(one) === Number(other)
}

/** Takes one job and has its part of a leader's copies follow the leader's limits; returns whether there may be more. */
export async function changeLimitsOfCopies(services: WorkerServices): Promise<boolean> {
  const { queue, bus, log } = services
  const more = await takeWithLeast(
    services,
    { name: 'copy.limits', failed: 'the limits of copies could not be changed' },
    async (trx, { data: { orderId, after = '' } }, least) => {
      // Copying under way uses the old limits: wait until its copies are stored.
      await lockForClosing(trx, orderId)
      const leading = await findLeading(trx, orderId)
      const version = leading?.limits_version ?? 0
      const copies = await takeCopiesToChange(trx, { orderId, version, after, limit: PART })
      if (leading && copies.length > 0) {
        const changes = copies.map(copy => {
          const limits = changedLimits(leading, copy, least)
          return { id: copy.id, limits: !copy.waiting && sameLimits(limits, copy) ? null : limits }
        })
        await changeCopies(trx, { version, lateMs: services.config.reconcileCrashedMs, changes })
      }
      const last = copies.at(-1)
      if (last && copies.length === PART) await queue.enqueue(trx, 'copy.limits', [{ orderId, after: last.followId }])
      if (copies.length > 0) log.info({ orderId, copies: copies.length }, 'the limits of copies follow their leader')
    }
  )
  if (more) bus.publish(WORK, 'copy.limits.set', 'new')
  return more
}

/** Begins to set the limits of open copies at the broker; returns of how many. What cannot be set now is tried again later. */
export async function setLimits(services: WorkerServices, setting: SeparateWork): Promise<number> {
  // A copy whose limits are being set is left alone: a second call could overtake the first.
  const { room: limit, ids: except } = setting
  if (limit <= 0) return 0
  const orders = await takeLimitsToSet(services.db, { worker: services.worker, limit, except })
  for (const order of orders) setting.begin(order.id, () => setLimitsOf(services, order))
  return orders.length
}

async function setLimitsOf(services: WorkerServices, order: LimitsToSet): Promise<void> {
  const { db, log } = services
  const limits = { stopLoss: order.new_stop_loss, takeProfit: order.new_take_profit }
  const contractId = order.broker_order_id as string
  try {
    const { session } = await openBoughtSession(services, refOf(order))
    // An earlier try may have been executed although its response was lost.
    const isSet = order.limits_tries > 1 && sameLimits((await session.contract(contractId)).limits, limits)
    if (!isSet) await session.changeLimits(contractId, limits)
    await markLimitsSet(db, order)
    await releaseLimits(db, order)
    log.info({ orderId: order.id, copiedFrom: order.copied_from }, 'set the limits of a copy')
  } catch (error) {
    log.info({ err: error, orderId: order.id, tries: order.limits_tries }, 'the limits of a copy could not be set yet')
    if (error instanceof BrokerError && error.ran === 'no') await releaseLimits(db, order)
  }
}

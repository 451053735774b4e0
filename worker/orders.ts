// Placing: from a job to a buy that leaves at most once, and the broker's answer onto the row. The rows'
// rules stand in db/orders-placing.ts; this file keeps the rest of the protocol:
//   - a buy is sent only by the run whose own update moved the row to `sending`, after that commit;
//   - right before the write the permit is checked on the monotonic clock, counted from before the claim;
//   - an outcome in doubt is never resent here: the row stays `sending` until reconciliation decides.
import { WORK } from '../db/bus.ts'
import { gather, isDataError } from '../db/gather.ts'
import { observeBuy } from '../db/metrics.ts'
import type { OrderRow } from '../db/orders.ts'
import {
  type Claimed,
  claimOrders,
  markFailed,
  openOrders,
  type Receipt,
  type Refusal,
  releaseUnsent,
  withWaiting
} from '../db/orders-placing.ts'
import { ApiError } from '../schemas/errors.ts'
import { currencyOf, openSession, rejectToken } from './accounts.ts'
import { BrokerError, type Contract } from './broker/port.ts'
import type { Open } from './open.ts'
import { persist } from './persist.ts'
import type { Settling } from './settle.ts'

// Orders taken from the queue in one transaction, and buys under way in one worker.
const BATCH = 100
const MAX_UNDER_WAY = 1000

export interface Placing {
  /** Takes queued jobs, commits the intent and sends; answers how many jobs were taken. */
  take(): Promise<number>
  /** Sends whatever may be sent next on these accounts. */
  claim(accountIds: string[]): Promise<void>
  /** Stops taking; resolves when every buy under way has its answer or is in doubt. */
  drain(): Promise<void>
}

export function openPlacing(open: Open, settling: Settling): Placing {
  const { db, queue, bus, config, log, worker, clock } = open
  const underWay = new Set<Promise<void>>()
  let stopped = false

  const told = (orders: OrderRow[]): void => {
    for (const { origin, id } of orders) if (origin) bus.publish(origin, 'order', id)
  }

  const saveOpen = gather(async (receipts: Receipt[]) => {
    const lease = { follower: worker, leaseMs: config.leaseMs }
    const { orders, copying } = await persist(open, () => openOrders(db, queue, receipts, lease))
    if (copying) bus.publish(WORK, 'copy.fanout', 'new')
    // A tick contract's caller waits for its end, which follows within seconds.
    told(orders.filter(({ duration_unit }) => duration_unit !== 't'))
    const byId = new Map(orders.map(order => [order.id, order]))
    return receipts.map(({ id }) => byId.get(id))
  })
  const saveFailed = gather(async (refusals: Refusal[]) => {
    const orders = await persist(open, () => markFailed(db, refusals))
    told(orders)
    return refusals
  })
  const saveUnsent = gather(async (unsent: { id: string; attempt: number; reason: string }[]) => {
    const reason = (unsent[0] as { reason: string }).reason
    const orders = await persist(open, () => releaseUnsent(db, unsent, worker, reason))
    told(orders.filter(({ phase }) => phase === 'failed'))
    return unsent
  })

  /** Claims the heads of these accounts in `trx` (or on its own); answers them with their deadlines. */
  async function claimHeads(trx: typeof db, accountIds: string[]): Promise<{ order: Claimed; deadline: number }[]> {
    // Counted from before the statement: the permit can only end earlier than the database thinks.
    const askedAt = clock.now()
    const { claimed, expired } = await claimOrders(trx, {
      accountIds,
      sender: worker,
      permitMs: config.permitMs,
      reconcileAfterMs: config.reconcileAfterMs
    })
    told(expired)
    return claimed.map(order => ({ order, deadline: askedAt + order.permit_ms }))
  }

  async function take(): Promise<number> {
    const room = MAX_UNDER_WAY - underWay.size
    if (stopped || room <= 0) return 0
    const { taken, heads } = await db.transaction(async trx => {
      const jobs = await queue.fetch(trx, 'order.place', Math.min(BATCH, room))
      if (jobs.length === 0) return { taken: 0, heads: [] }
      const heads = await claimHeads(trx, [...new Set(jobs.map(({ data }) => data.accountId))])
      // The row carries everything from here on; the job has done its part once the intent is committed.
      await queue.complete(trx, 'order.place', jobs)
      return { taken: jobs.length, heads }
    })
    for (const head of heads) start(head)
    return taken
  }

  const claimNext = gather(
    async (accountIds: string[]) => {
      // Most accounts have nothing more waiting: one cheap look saves the two statements of a claim.
      const waiting = stopped ? [] : await withWaiting(db, accountIds)
      if (waiting.length > 0) for (const head of await claimHeads(db, waiting)) start(head)
      return accountIds
    },
    { isolate: isDataError }
  )

  function start(head: { order: Claimed; deadline: number }): void {
    const life = send(head.order, head.deadline)
      .catch((error: unknown) =>
        log.error({ err: error, orderId: head.order.id }, 'placing an order failed on our side')
      )
      .finally(() => underWay.delete(life))
    underWay.add(life)
  }

  async function send(order: Claimed, deadline: number): Promise<void> {
    const following = settling.expect(order)
    const startedAt = clock.now()
    let written = false
    const beforeSend = (): void => {
      if (clock.now() >= deadline)
        throw new BrokerError('BROKER_UPSTREAM', 'The permit to send ran out.', { brokerCode: 'PermitExpired' })
      written = true
    }
    try {
      const session = await openSession(open, refOf(order))
      const currency = await currencyOf(open, session, {
        accountRowId: order.broker_account_id,
        currency: order.currency
      })
      const contract = contractOf({ ...order, currency })
      const sentAt = clock.now()
      const bought = await session.buy(contract, { beforeSend, listener: following.listener, maxPrice: order.stake })
      observeBuy('done', (clock.now() - sentAt) / 1000)
      log.info(
        { orderId: order.id, trace: order.trace, contractId: bought.contractId, ms: Math.round(clock.now() - sentAt) },
        'bought'
      )
      const row = await saveOpen({
        id: order.id,
        attempt: order.attempt,
        brokerOrderId: bought.contractId,
        transactionId: bought.transactionId,
        buyPrice: bought.buyPrice,
        payout: bought.payout,
        currency,
        openedAt: bought.purchaseTime,
        expiryAt: null,
        leads: order.leads
      })
      if (row) following.opened(row)
      else {
        // Somebody decided meanwhile. The same contract adopted is fine; anything else is for the audit.
        following.cancel()
        log.error(
          { orderId: order.id, contractId: bought.contractId },
          'the broker answered after the order was decided'
        )
      }
    } catch (error) {
      following.cancel()
      await conclude(order, error, { written, startedAt })
    }
    // Only now, with this order out of the way, the next one of the account can be claimed.
    await claimNext(order.account_id)
  }

  async function conclude(
    order: Claimed,
    error: unknown,
    { written, startedAt }: { written: boolean; startedAt: number }
  ): Promise<void> {
    if (error instanceof ApiError) {
      return void (await saveFailed({ id: order.id, attempt: order.attempt, code: error.code, message: error.message }))
    }
    if (!(error instanceof BrokerError)) {
      log.error({ err: error, orderId: order.id }, 'placing an order failed on our side')
      if (!written)
        await saveUnsent({
          id: order.id,
          attempt: order.attempt,
          reason: 'The order could not be sent to the broker.'
        })
      return
    }
    if (error.rejected)
      await rejectToken(open, refOf(order)).catch((cause: unknown) => log.warn({ err: cause }, 'account'))
    const facts = { orderId: order.id, trace: order.trace, brokerCode: error.brokerCode, ran: error.ran }
    if (error.ran === 'unknown') {
      observeBuy('doubt', (clock.now() - startedAt) / 1000)
      log.warn({ ...facts, err: error }, 'an order is in doubt')
      return
    }
    if (!written && error.code === 'BROKER_UPSTREAM') {
      observeBuy('unsent', (clock.now() - startedAt) / 1000)
      log.info(facts, 'an order was not sent')
      return void (await saveUnsent({ id: order.id, attempt: order.attempt, reason: error.message }))
    }
    observeBuy('refused', (clock.now() - startedAt) / 1000)
    log.info(facts, 'the broker refused an order')
    const extras = error.code === 'MARKET_CLOSED' ? { extras: { secondsUntilOpen: error.secondsUntilOpen } } : {}
    const code = error.code === 'NOT_FOUND' ? 'INVALID_CONTRACT' : error.code
    await saveFailed({ id: order.id, attempt: order.attempt, code, message: error.message, ...extras })
  }

  return {
    take,
    async claim(accountIds) {
      await Promise.all(accountIds.map(accountId => claimNext(accountId)))
    },
    async drain() {
      stopped = true
      await Promise.allSettled(underWay)
    }
  }
}

/** Where an order's account is. */
export function refOf(order: OrderRow) {
  return {
    accountRowId: order.broker_account_id,
    accountId: order.account_id,
    appId: order.app_id,
    dialect: order.dialect
  }
}

/** The contract an order asks for, in the port's words. */
export function contractOf(order: OrderRow): Contract {
  const shared = { asset: order.asset, stake: order.stake, currency: order.currency ?? '' }
  if (order.kind === 'MULTIPLIER') {
    return {
      ...shared,
      kind: 'MULTIPLIER',
      direction: order.direction as 'up' | 'down',
      multiplier: Number(order.multiplier),
      stopLoss: order.stop_loss,
      takeProfit: order.take_profit
    }
  }
  return {
    ...shared,
    kind: 'BINARY',
    contractType: order.contract_type as never,
    duration: order.duration as number,
    durationUnit: order.duration_unit as 't',
    barrier: order.barrier
  }
}

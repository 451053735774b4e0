// Orders in doubt: sent, or perhaps sent, and no answer. The broker keeps nothing of ours, so what the
// account shows decides: one contract of these terms, bought in the window and owned by no other order, is
// ours; none after looking more than once is absence, once nothing of the purchase can be under way any more; anything
// else is for the operator. Where the broker does not tell whose application bought, a trader's own purchase looks like
// ours, and adopting takes more (see `isOurs`).
import { Big } from 'big.js'
import { WORK } from '../db/bus.ts'
import type { OrderRow } from '../db/orders.ts'
import {
  arrivalMs,
  countLook,
  markFailed,
  markReview,
  type Opened,
  openOrders,
  ownedContracts,
  takeDoubts
} from '../db/orders-placing.ts'
import { openSession } from './accounts.ts'
import type { Evidence, Session } from './broker/port.ts'
import { endOf, matches } from './broker/shortcode.ts'
import type { Open } from './open.ts'
import { contractOf, type Placing, refOf } from './orders.ts'
import type { Settling } from './settle.ts'

// Looks that must find nothing before an order counts as absent, and the pause between them.
const LOOKS = 2
const LOOK_EVERY_MS = 3000
// The pause between looks for what a dead worker's machine may still deliver.
const LATE_LOOK_EVERY_MS = 15_000
const TAKE = 50
// Seconds before the intent that a broker's clock, which we know to the second, may still show.
const SLACK_SECONDS = 2
// How far back purchases that are not ours tell that somebody else trades on the account.
const ALONE_SECONDS = 86_400

/** Looks into the doubts whose time has come; answers how many there were. */
export async function reconcile(open: Open, settling: Settling, placing: Placing): Promise<number> {
  const { db, config, worker } = open
  const orders = await takeDoubts(db, {
    worker,
    everyMs: Math.min(LOOK_EVERY_MS, config.reconcileAfterMs),
    limit: TAKE
  })
  await Promise.all(orders.map(order => lookInto(open, settling, placing, order)))
  return orders.length
}

async function lookInto(open: Open, settling: Settling, placing: Placing, order: OrderRow): Promise<void> {
  const { log } = open
  try {
    const candidates = await candidatesOf(open, order)
    if (await decide(open, settling, order, candidates)) await placing.claim([order.account_id])
  } catch (error) {
    // Nothing was learned: the next look comes by itself.
    log.warn({ err: error, orderId: order.id }, 'an order in doubt could not be looked up')
  }
}

/** What the broker shows that could be this order's contract. Throws when the broker cannot be asked. */
export async function candidatesOf(open: Open, order: OrderRow): Promise<Evidence[]> {
  const { db, brokers } = open
  const session = await openSession(open, refOf(order))
  const offset = await brokers.of(order.dialect).market(order.app_id).clockOffset()
  const from = Math.floor((order.sent_at as Date).getTime() / 1000 + offset) - SLACK_SECONDS
  // A buy that left in time and was executed at the end of the broker's own time-out; or stood in the network before that.
  const { reconcileAfterMs, reconcileCrashedMs } = open.config
  const onTheWayMs = order.severed_attempt === order.attempt ? 0 : reconcileCrashedMs
  const latest =
    Math.ceil(((order.permit_until as Date).getTime() + onTheWayMs + reconcileAfterMs) / 1000 + offset) + SLACK_SECONDS
  const contract = contractOf(order)
  const seen = new Map<string, Evidence>()
  for (const item of await evidenceSince(session, from)) {
    const ours = item.appId === null || item.appId === order.app_id
    if (!ours || item.purchaseTime < from || new Big(item.buyPrice).gt(order.stake)) continue
    if (item.purchaseTime > latest || seen.has(item.contractId)) continue
    // Terms that cannot be read may be this order's: such a contract is kept, and never adopted unseen.
    if (item.terms === null || matches(item.terms, contract)) seen.set(item.contractId, item)
  }
  const owned = await ownedContracts(db, order.account_id, [...seen.keys()])
  return [...seen.values()].filter(({ contractId }) => !owned.has(contractId))
}

// Open contracts first, then purchases, then closed ones: a contract that settles between two reads is
// found by the later one.
async function evidenceSince(session: Session, from: number): Promise<Evidence[]> {
  const open = await session.portfolio()
  const bought = await session.statement({ from, limit: 999 })
  const closed = await session.profitTable({ from, limit: 500 })
  return [...open, ...bought, ...closed]
}

/** Moves the order on as far as the evidence allows; answers whether the account is free again. */
async function decide(open: Open, settling: Settling, order: OrderRow, candidates: Evidence[]): Promise<boolean> {
  const { log } = open
  const found = candidates[0]
  const clear = found === undefined || (candidates.length === 1 && (await isOurs(open, order, found)))
  if (!clear) {
    const message = `${candidates.length} contract(s) at the broker could be this order's.`
    await markReview(open.db, { id: order.id, attempt: order.attempt, message, evidence: candidates })
    log.error(
      { orderId: order.id, candidates: candidates.map(({ contractId }) => contractId) },
      'an order needs a review'
    )
    return true
  }
  if (found) {
    await adopt(open, settling, order, found)
    return true
  }
  const crashedMs = arrivalMs(open.config)
  const pauseMs = Math.min(LATE_LOOK_EVERY_MS, open.config.reconcileAfterMs)
  const { looks, underWay } = await countLook(open.db, order, { crashedMs, pauseMs })
  if (looks < LOOKS || underWay) return false
  const message = 'The broker did not buy this order; it may be repeated with the same clientOrderId.'
  const [failed] = await markFailed(open.db, [
    { id: order.id, attempt: order.attempt, code: 'BROKER_UPSTREAM', message }
  ])
  if (failed?.origin) open.bus.publish(failed.origin, 'order', failed.id)
  log.info({ orderId: order.id }, 'an order in doubt proved absent')
  return true
}

/**
 * Whether the only contract that fits is the order's beyond a guess. With an application id it is. Without one it might
 * be the trader's own purchase, made with other software while ours never ran: it counts as ours only when it was bought
 * while the order could be sent, and nobody but us has bought on the account for a day. A trader who repeats by hand what
 * seems stuck comes later than that; one who trades by other means has left traces.
 */
async function isOurs(open: Open, order: OrderRow, found: Evidence): Promise<boolean> {
  if (found.terms === null) return false
  if (found.appId !== null) return true
  const session = await openSession(open, refOf(order))
  const offset = await open.brokers.of(order.dialect).market(order.app_id).clockOffset()
  const permitEnded = Math.ceil((order.permit_until as Date).getTime() / 1000 + offset)
  if (found.purchaseTime > permitEnded + SLACK_SECONDS) return false
  const from = Math.floor((order.sent_at as Date).getTime() / 1000 + offset) - ALONE_SECONDS
  const bought = await session.statement({ from, limit: 999 })
  const others = bought.map(({ contractId }) => contractId).filter(contractId => contractId !== found.contractId)
  const owned = await ownedContracts(open.db, order.account_id, others)
  return others.every(contractId => owned.has(contractId))
}

/** Makes a contract the order's own and follows it. A contract that another order owns is refused by the database. */
export async function adopt(
  open: Open,
  settling: Settling,
  order: OrderRow,
  found: Evidence
): Promise<Opened | undefined> {
  const { db, queue, bus, log, worker } = open
  const receipt = {
    id: order.id,
    attempt: order.attempt,
    brokerOrderId: found.contractId,
    transactionId: found.transactionId,
    buyPrice: found.buyPrice,
    payout: found.payout ?? found.terms?.payout ?? '0',
    currency: order.currency,
    openedAt: found.purchaseTime,
    expiryAt: endOf(found.shortcode),
    leads: order.leads
  }
  const { orders, copying } = await openOrders(db, queue, [receipt], worker)
  const [adopted] = orders
  if (!adopted) return undefined
  if (copying) bus.publish(WORK, 'copy.fanout', 'new')
  log.info({ orderId: order.id, contractId: found.contractId }, 'an order in doubt was found at the broker')
  if (adopted.origin) bus.publish(adopted.origin, 'order', adopted.id)
  await settling.follow(adopted)
  return adopted
}

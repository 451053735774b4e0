// Resolution of orders in doubt: sent, or perhaps sent, and without the broker's response. The broker keeps nothing of
// ours, so the account's lists decide (worker/orders/evidence.ts). One contract of the order's terms that was bought in its
// window and belongs to no other order is its own. No such contract, in repeated checks that began after nothing of the
// purchase could be executed any more, is absence. Everything else is for the operator.
import { Big } from 'big.js'
import { absentMessageOf, markFailed, type OpenedOrder, openOrders } from '../../db/orders/placing.ts'
import {
  arrivalTimes,
  countCheck,
  type Doubt,
  markReview,
  ownedContracts,
  paysMarkupOnTop,
  takeDoubts
} from '../../db/orders/resolving.ts'
import { WORK } from '../../db/platform/bus.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { openBoughtSession } from '../accounts/accounts.ts'
import { endOf } from '../broker/dialects/shortcode.ts'
import { readPages, STATEMENT } from '../broker/pages.ts'
import type { Evidence } from '../broker/port.ts'
import type { DatabaseClock } from '../platform/database-clock.ts'
import type { SeparateWork } from '../platform/separate-work.ts'
import type { WorkerServices } from '../services.ts'
import {
  type Candidates,
  candidatesOf,
  fitsTerms,
  isPlain,
  lackOf,
  type PlainEvidence,
  type PurchaseWindow,
  rowPerContract
} from './evidence.ts'
import { notifyCallers } from './notify.ts'
import type { Placing } from './placing.ts'
import type { Settling } from './settle.ts'
import { contractOf, refOf } from './terms.ts'

// Conclusive checks that must find nothing before an order counts as absent, and the pause between them.
const CHECKS = 2
const CHECK_EVERY_MS = 3000
// The pause between checks for what a dead worker's machine may still deliver.
const LATE_CHECK_EVERY_MS = 15_000
/** Doubts that one worker checks at a time. */
export const CHECKED_AT_ONCE = 50
// How far back purchases that are not ours show that another program trades on the account.
const ALONE_SECONDS = 86_400

interface Resolving {
  databaseClock: DatabaseClock
  settling: Settling
  placing: Placing
}

/** Begins to check the doubts that are due; returns whether there may be more. */
export async function resolveDoubts(
  services: WorkerServices,
  resolving: Resolving,
  checking: SeparateWork
): Promise<boolean> {
  const { db, config, clock, worker } = services
  // While a check takes long, the order counts as neglected by this worker, and another worker may check it.
  const { room: limit, ids: except } = checking
  if (limit <= 0) return false
  const wallBefore = clock.wall()
  const orders = await takeDoubts(db, {
    worker,
    everyMs: Math.min(CHECK_EVERY_MS, config.reconcileAfterMs),
    limit,
    except,
    ...arrivalTimes(config)
  })
  const wallMs = (wallBefore + clock.wall()) / 2
  // The checking worker opens the account's connection: then it serves the account, if no other does.
  await serveAccounts(
    db,
    worker,
    orders.map(({ account_id }) => account_id)
  )
  for (const order of orders) checking.begin(order.id, () => resolveOrder(services, resolving, order, wallMs))
  return orders.length === limit
}

async function resolveOrder(
  services: WorkerServices,
  resolving: Resolving,
  order: Doubt,
  wallMs: number
): Promise<void> {
  const { log, clock } = services
  // Decided before the lists are read: a purchase that is executed while they are read may be missing in them.
  const conclusive = nothingCanArrive(order, resolving.databaseClock, clock.now())
  try {
    const candidates = await candidatesOf(services, order, wallMs)
    if (await decide(services, resolving, order, { candidates, conclusive }))
      await resolving.placing.claim([order.account_id])
  } catch (error) {
    // Nothing was found out; the next check comes by itself.
    log.warn({ err: error, orderId: order.id }, 'an order in doubt could not be looked up')
  }
}

/** Whether the time in which the purchase may be executed is over, by the database's clock and by this worker's own. */
function nothingCanArrive(order: Doubt, databaseClock: DatabaseClock, nowMs: number): boolean {
  if (order.read_ms < order.arrival_from_ms + order.arrival_ms) return false
  return databaseClock.since(order.arrival_from_ms, nowMs) >= order.arrival_ms
}

/** Moves the order on as far as the evidence allows; returns whether the account is free again. */
async function decide(
  services: WorkerServices,
  { settling }: Resolving,
  order: Doubt,
  { candidates, conclusive }: { candidates: Candidates; conclusive: boolean }
): Promise<boolean> {
  const { log } = services
  const { inWindow, near, complete, window } = candidates
  const [found] = inWindow
  const isAlone = inWindow.length === 1 && near.length === 0
  if (found && isAlone && isPlain(found) && (await isOurs(services, order, found, window))) {
    await adopt(services, settling, order, found)
    return true
  }
  const { absenceChecks } = await countCheck(services.db, order, {
    conclusive,
    pauseMs: Math.min(LATE_CHECK_EVERY_MS, services.config.reconcileAfterMs),
    ...arrivalTimes(services.config)
  })
  // While its purchase may still be executed the account stays locked: another order's evidence would mix with its own.
  if (!conclusive) return false
  const unclear = [...inWindow, ...near]
  if (unclear.length > 0 || !complete) {
    const message = complete
      ? `${unclear.length} contract(s) at the broker could be this order's.${whyUnclear(order, unclear, window)}`
      : "The account's lists at the broker are longer than can be read; this order may be among them."
    await markReview(services.db, { id: order.id, attempt: order.attempt, message, evidence: unclear })
    services.changes.give()
    log.error({ orderId: order.id, candidates: unclear.map(({ contractId }) => contractId) }, 'an order needs a review')
    return true
  }
  if (absenceChecks < CHECKS) return false
  const [failed] = await markFailed(services.db, [
    { id: order.id, attempt: order.attempt, code: 'BROKER_UPSTREAM', message: absentMessageOf(order) }
  ])
  notifyCallers(services, failed ? [failed] : [])
  log.info({ orderId: order.id }, 'an order in doubt proved absent')
  return true
}

/** What the operator has to know of such contracts, as sentences. */
function whyUnclear(order: Doubt, unclear: Evidence[], { isClockKnown }: PurchaseWindow): string {
  const lacks = [...new Set(unclear.flatMap(lackOf))]
  const altered = unclear.filter(item => !fitsTerms(item, contractOf(order))).length
  return [
    lacks.length > 0 ? ` Not shown of each: ${lacks.join(', ')}.` : '',
    altered > 0 ? ` Of other terms than the order, which the broker may have altered: ${altered}.` : '',
    isClockKnown ? '' : ' The time that the broker reports cannot be read.'
  ].join('')
}

/**
 * Whether the only fitting contract is certainly the order's. With an application id it is. Without one it might be the trader's
 * own purchase, made with other software while ours never ran: it counts as ours only if it was bought while the order could be
 * sent, and if only we have bought on the account for a day. A trader who repeats an order by hand that seems stuck does so
 * later; one who trades with other software has left traces.
 */
async function isOurs(
  services: WorkerServices,
  order: Doubt,
  found: PlainEvidence,
  window: PurchaseWindow
): Promise<boolean> {
  // The shortcode of a binary contract has no stake: a dearer contract is ours with a markup on top, or another one with a higher stake.
  const dearer = found.terms.stake === null && new Big(found.buyPrice).gt(contractOf(order).stake)
  if (dearer && !(await paysMarkupOnTop(services.db, order))) return false
  if (found.appId !== null) return true
  if (found.purchaseTime > window.permitEnd) return false
  const { session } = await openBoughtSession(services, refOf(order))
  const from = window.from - ALONE_SECONDS
  const { rows, whole } = await readPages({ ...STATEMENT, pages: 1 }, page => session.statement({ from, ...page }))
  if (!whole) return false
  // The row of the purchase itself need not show its contract.
  const bought = rowPerContract([found, ...rows])
  const others = bought.flatMap(({ contractId }) => (contractId === found.contractId ? [] : [contractId]))
  const owned = await ownedContracts(services.db, order.account_id, others)
  return others.every(contractId => owned.has(contractId))
}

/** Makes a contract the order's own and watches it. A contract that another order owns is refused by the database. */
async function adopt(
  services: WorkerServices,
  settling: Settling,
  order: Doubt,
  found: PlainEvidence
): Promise<OpenedOrder | undefined> {
  const { db, queue, bus, log, worker } = services
  const receipt = {
    id: order.id,
    attempt: order.attempt,
    brokerOrderId: found.contractId,
    transactionId: found.transactionId,
    buyPrice: found.buyPrice,
    payout: found.payout ?? '0',
    currency: order.currency,
    openedAt: found.purchaseTime,
    expiryAt: endOf(found.shortcode),
    hasFollowers: order.has_followers
  }
  const { orders, copying } = await openOrders(db, queue, [receipt], worker)
  const [adopted] = orders
  if (!adopted) return undefined
  if (copying) bus.publish(WORK, 'copy.fanout', 'new')
  log.info({ orderId: order.id, contractId: found.contractId }, 'an order in doubt was found at the broker')
  notifyCallers(services, [adopted])
  await settling.watch(adopted)
  return adopted
}

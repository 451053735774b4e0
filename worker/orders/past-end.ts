// Orders that are open here although their contract has ended. Reconciliation reads each at the broker, with another
// token of the same account where its own was refused, and reports what is known: the operator decides (`orders
// settle`).

import { listOverdue, type Overdue, usablePlaces } from '../../db/orders/past-end.ts'
import { type ContractBreak, claimedContracts, insertBreak } from '../../db/orders/reconciliation.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { openBoughtSession, openSession } from '../accounts/accounts.ts'
import { BrokerError } from '../broker/broker-error.ts'
import type { ContractState } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import { contradictions } from './plausible.ts'
import { refOf } from './terms.ts'

// Orders looked up in one run. An account of which one cannot be read is left for later.
const ORDERS = 200
// Runs are a minute apart: what was read this much less than the whole time ago is due.
const EARLY_MS = 30_000

/** The overdue orders that a worker has looked up, and when by its monotonic clock. What another worker has, is not in here. */
export class OverdueReads {
  readonly #readAt = new Map<string, number>()

  /** The orders that are not due again at `now`, where each is looked up once in so many minutes. */
  notDue(now: number, everyMinutes: number): string[] {
    for (const [id, at] of this.#readAt) if (now - at >= everyMinutes * 60_000 - EARLY_MS) this.#readAt.delete(id)
    return [...this.#readAt.keys()]
  }

  note(id: string, now: number): void {
    this.#readAt.set(id, now)
  }
}

/**
 * Reports orders that are open here and closed, unknown or out of reach at the broker: all of them, or those of accounts that this
 * worker serves or none. With `reads` each is looked up once in `everyMinutes`. Returns how many are new.
 */
export async function reconcilePastEnd(
  services: WorkerServices,
  { everyMinutes, all = false, reads }: { everyMinutes: number; all?: boolean; reads?: OverdueReads | undefined }
): Promise<number> {
  let reported = 0
  // Accounts whose broker cannot be reached now: their other orders would wait for the same time-out.
  const away = new Set<string>()
  const { db, worker, clock } = services
  const now = clock.now()
  const except = reads?.notDue(now, everyMinutes) ?? []
  const overdue = await listOverdue(db, { except, limit: ORDERS, worker: all ? null : worker })
  // Of an account that nobody serves each worker has the orders: one takes it, and reads them.
  const accountIds = all ? [] : overdue.map(order => order.account_id)
  const served = new Map((await serveAccounts(db, worker, accountIds)).map(each => [each.accountId, each.worker]))
  for (const order of overdue) {
    if (!all && served.get(order.account_id) !== worker) continue
    reads?.note(order.id, now)
    if (away.has(order.broker_account_id)) continue
    const details = await readContract(services, order).catch((error: unknown) => {
      services.log.warn({ err: error, orderId: order.id }, 'an order past its end could not be looked up')
      away.add(order.broker_account_id)
      return null
    })
    if (details && (await report(services, order, details))) reported += 1
  }
  return reported
}

/** What the broker shows of a contract that should be over; null where there is nothing to report. */
async function readContract(services: WorkerServices, order: Overdue): Promise<object | null> {
  const known = { expiryAt: order.expiry_at, lastValue: order.current_value, tokenRefused: order.refused }
  let state: ContractState
  try {
    const found = await readState(services, order)
    // A multiplier contract has no end: until its trader has a token again it is unknown whether it is over. One who was erased, while
    // the broker's receipt was late, never has.
    if (found === null)
      return order.kind === 'MULTIPLIER' && !order.erased ? null : { broker: 'token refused', ...known }
    state = found
  } catch (error) {
    if (!(error instanceof BrokerError)) throw error
    if (error.code === 'INVALID_CONTRACT') return { broker: 'unknown contract', ...known }
    if (error.rejected || error.code === 'BROKER_DISCONNECTED')
      return { broker: 'token refused', ...known, tokenRefused: true }
    throw error
  }
  const why = contradictions(order, state)
  if (!state.settled && why.length === 0) return null
  const { status, sellPrice: soldFor, sellTime } = state
  const closedAt = sellTime === null ? null : new Date(sellTime * 1000).toISOString()
  return {
    broker: why.length > 0 ? 'implausible' : 'closed',
    status,
    soldFor,
    closedAt,
    ...(why.length > 0 ? { why } : {}),
    ...known
  }
}

/** The contract's state with the account's own token or, where that was refused, with another of the same account. */
async function readState(services: WorkerServices, order: Overdue): Promise<ContractState | null> {
  const contractId = order.broker_order_id as string
  if (!order.refused) return (await openBoughtSession(services, refOf(order))).session.contract(contractId)
  for (const place of await usablePlaces(services.db, { accountId: order.account_id, partnerId: order.partner_id })) {
    try {
      return await (await openSession(services, place)).contract(contractId)
    } catch (error) {
      if (!(error instanceof BrokerError && (error.rejected || error.code === 'BROKER_DISCONNECTED'))) throw error
    }
  }
  return null
}

async function report(services: WorkerServices, order: Overdue, details: object): Promise<boolean> {
  const about = { accountId: order.account_id, contractId: order.broker_order_id as string }
  // The order may have been settled meanwhile.
  const claim = (await claimedContracts(services.db, about.accountId, [about.contractId])).get(about.contractId)
  if (claim?.phase !== 'open') return false
  const found: ContractBreak = {
    kind: 'UNSETTLED',
    ...about,
    partnerId: order.partner_id,
    orderId: order.id,
    details
  }
  if (!(await insertBreak(services.db, found))) return false
  services.log.error({ ...found }, 'an order is open here and its contract is over')
  return true
}

// Contracts that ended while no worker leased them. Where an account has many, the broker's list of closed contracts
// settles hundreds by one call, where reading each would take minutes of the account's budget. The list has what a
// contract paid, and neither its entry nor its exit price: these orders are closed without them.
import { Big } from 'big.js'
import { type EndedPlace, findEnded, type LeasedOrder, takeEnded } from '../../db/orders/leases.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { openBoughtSession } from '../accounts/accounts.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { isLastPage, PROFIT_TABLE } from '../broker/pages.ts'
import type { ContractState, Evidence } from '../broker/port.ts'
import type { WorkerServices } from '../services.ts'
import { contradictions } from './plausible.ts'
import { refOf } from './terms.ts'

// Below this, contracts of an account are read one by one, with their prices.
const LEAST = 10
// Accounts settled at once, and the size of the sample of orders in which they are searched.
const ACCOUNTS = 40
const SAMPLE = 2000
// Orders of an account taken in one go, and the pages of the list that are read for them.
const ORDERS = 5000
// Orders taken and not yet written, beyond which no account is begun: what waits to be written has a bound.
const ORDERS_UNDER_WAY = 10_000
// Pages of the list that are read for them: at most ten of the 25 calls that the account has in a minute.
const PAGES = 10
// Contracts that are missing in what was read of the list are watched, at most this many; the others are tried again after a pause.
const WATCHED = 50
const AGAIN_MS = 15_000
const REJECTED_AGAIN_MS = 60_000
// The broker's clock may differ from the database's by this.
const SLACK_SECONDS = 10

type EndedOrder = LeasedOrder & { opened_at: Date }

/** What is done with an order that was taken. */
interface EndedOrderHandlers {
  /** Writes the end of its contract. */
  write(order: LeasedOrder, state: ContractState): Promise<unknown>
  /** Watches it on its own. */
  watch(order: LeasedOrder): void
  handBack(ids: string[], retryMs: number): void
}

export class EndedContracts {
  readonly #services: WorkerServices
  readonly #outcomes: EndedOrderHandlers
  readonly #orders = new Set<string>()
  readonly #accounts = new Map<string, Promise<void>>()
  #stopped = false
  #finding = false
  /** Whether the last check found more accounts than could be begun. */
  #more = false

  constructor(services: WorkerServices, outcomes: EndedOrderHandlers) {
    this.#services = services
    this.#outcomes = outcomes
  }

  /** Whether an order was taken and is not yet settled, watched or handed back. */
  has(orderId: string): boolean {
    return this.#orders.has(orderId)
  }

  /** Accounts being settled. */
  accounts(): Iterable<string> {
    return this.#accounts.keys()
  }

  /** Begins with some of the accounts that have many ended contracts; returns whether there were any. */
  async sweep(): Promise<boolean> {
    const limit = ACCOUNTS - this.#accounts.size
    if (this.#finding || limit <= 0 || this.#orders.size >= ORDERS_UNDER_WAY) return true
    this.#finding = true
    try {
      return await this.#begin(limit)
    } finally {
      this.#finding = false
    }
  }

  async #begin(limit: number): Promise<boolean> {
    const { db, worker } = this.#services
    const places = await findEnded(db, { worker, least: LEAST, limit, sample: SAMPLE })
    this.#more = places.length === limit
    if (places.length === 0) return this.#accounts.size > 0
    // Served before its orders are taken: otherwise several workers would take a part of them each, and open a session each.
    const accountIds = places.map(({ accountId }) => accountId)
    const served = new Map((await serveAccounts(db, worker, accountIds)).map(each => [each.accountId, each.worker]))
    for (const place of places) {
      const { accountId } = place
      if (served.get(accountId) !== worker || this.#accounts.has(accountId)) continue
      if (this.#stopped || this.#orders.size >= ORDERS_UNDER_WAY) break
      const taken = await takeEnded(db, { worker, limit: ORDERS, place })
      for (const { id } of taken) this.#orders.add(id)
      if (taken.length > 0) this.#accounts.set(accountId, this.#settle(place, taken))
    }
    return true
  }

  /** Begins no more accounts; resolves when everything that was read is written. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#accounts.values())
  }

  /** Settles the orders taken of an account; never rejects. */
  async #settle({ accountId }: EndedPlace, taken: EndedOrder[]): Promise<void> {
    const { log } = this.#services
    const left = new Map(taken.map(order => [order.broker_order_id as string, order]))
    const writing: Promise<unknown>[] = []
    let retryMs = AGAIN_MS
    let wasRead = false
    try {
      await this.#readClosed(left, writing)
      wasRead = true
    } catch (error) {
      log.info({ err: error, accountId }, 'closed contracts could not be read')
      if (error instanceof BrokerError) retryMs = error.rejected ? REJECTED_AGAIN_MS : (error.retryMs ?? AGAIN_MS)
    }
    const written = await Promise.allSettled(writing)
    const unwritten = written.filter(({ status }) => status === 'rejected')
    // The orders still name this worker, which does not watch them: the lease check takes them again.
    if (unwritten.length > 0) log.error({ orders: unwritten.length }, 'settlements could not be written')
    for (const { id } of taken) this.#orders.delete(id)
    const others = [...left.values()]
    const watched = wasRead && !this.#stopped ? others.splice(0, WATCHED) : []
    for (const order of watched) this.#outcomes.watch(order)
    if (others.length > 0)
      this.#outcomes.handBack(
        others.map(({ id }) => id),
        this.#stopped ? 0 : retryMs
      )
    log.info({ accountId, settled: written.length, left: left.size }, 'settled ended contracts')
    this.#accounts.delete(accountId)
    // Accounts with few contracts are finished long before the next sweep.
    if (this.#more && !this.#stopped && this.#accounts.size < ACCOUNTS / 2)
      this.sweep().catch((error: unknown) => log.warn({ err: error }, 'ended contracts could not be found'))
  }

  /** Begins to write what the list has of `left`, and takes it out. */
  async #readClosed(left: Map<string, EndedOrder>, writing: Promise<unknown>[]): Promise<void> {
    const [first] = left.values()
    if (first === undefined) return
    const opened = Math.min(...[...left.values()].map(order => order.opened_at.getTime()))
    const from = Math.floor(opened / 1000) - SLACK_SECONDS
    const { session } = await openBoughtSession(this.#services, refOf(first), { leisurely: true })
    let offset = 0
    for (let page = 0; page < PAGES && left.size > 0 && !this.#stopped; page++) {
      const found = await session.profitTable({ from, limit: PROFIT_TABLE.pageRows, offset })
      offset += found.length
      for (const row of found) {
        const order = row && left.get(row.contractId)
        const state = order && stateOf(order, row)
        // A contradicting contract is watched by itself, which leads to a review.
        if (!state || contradictions(order, state).length > 0) continue
        left.delete(row.contractId)
        writing.push(this.#outcomes.write(order, state))
      }
      if (isLastPage(found.length)) return
    }
  }
}

/** The end of a contract by its row in the list of closed ones; undefined where the row does not show it. */
function stateOf(order: LeasedOrder, row: Evidence): ContractState | undefined {
  const { sellPrice = null, sellTime = null } = row
  if (sellPrice === null || sellTime === null) return undefined
  const paid = new Big(sellPrice)
  const payout = Number(order.payout) > 0 ? order.payout : row.payout
  const won = payout !== null && paid.eq(payout)
  return {
    contractId: row.contractId,
    status: paid.eq(0) ? 'lost' : won ? 'won' : 'sold',
    settled: true,
    buyPrice: row.buyPrice,
    payout,
    bidPrice: null,
    profit: null,
    sellPrice,
    entryPrice: null,
    exitPrice: null,
    currentSpot: null,
    commission: null,
    markup: null,
    purchaseTime: row.purchaseTime,
    sellTime,
    expiryTime: null,
    sellable: false,
    shortcode: row.shortcode,
    // The list has no status: the amounts alone are checked.
    reported: { sold: true, status: null }
  }
}

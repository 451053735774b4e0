// The broker of a simulation, behind the port: one connection per worker, over which requests, responses and streams travel,
// get lost, come late, and break off. What really happened is in the books.
//
// Of the two dialects it shows what reaches the order path: the newer one does not report whose application bought a
// contract. How each is spoken is beneath the port, where test/broker and chaos hold both.

import type { Brokers } from '../../worker/broker/brokers.ts'
import type {
  Bought,
  Broker,
  BrokerAccount,
  BuyOptions,
  Contract,
  ContractListener,
  ContractState,
  Evidence,
  Market,
  Session
} from '../../worker/broker/port.ts'
import type { Deal } from './books.ts'
import { meetFate, waitMs } from './buys.ts'
import type { Actor } from './clock.ts'
import {
  announce,
  type BrokerWorld,
  disconnected,
  GRID_MS,
  type Pending,
  refusal,
  SimulatedConnection
} from './connection.ts'

/** How long a caller waits for a response: 20 s and, for orders, a fifth more. */
const ORDER_PATIENCE_MS = 24_000
const READ_PATIENCE_MS = 20_000
// How long the difference of two clocks is remembered.
const OFFSET_FRESH_MS = 60_000

/** The brokers of one worker. */
export function openSimulatedBrokers(world: BrokerWorld, actor: Actor): Brokers & { connection: SimulatedConnection } {
  const connection = new SimulatedConnection(world, actor)
  // As the dialects do, it is requested now and then only, and counted on the worker's own clock.
  let known = { at: -Infinity, seconds: 0 }
  const offset = () => {
    const { schedule, chance, books } = world
    if (schedule.now - known.at > OFFSET_FRESH_MS)
      known = { at: schedule.now, seconds: books.offset - actor.wallMs / 1000 + chance.int(-4, 4) / 10 }
    return known.seconds
  }
  const broker: Broker = {
    session: (account, options) => openSession(connection, account, options),
    unsubscribe: (_, contractId) => void connection.follows.delete(contractId),
    market: () => ({ clockOffset: async () => offset() }) as Market,
    markupReport: async () => ({ sums: [], contracts: [], consistent: true }),
    reachable: async () => world.schedule.now >= connection.upAt,
    budget: () => ({}),
    unreachable: () => [],
    reachedAt: () => null,
    lastSymbols: () => null,
    accounts: () => [],
    counted: () => [],
    async leave() {},
    async close() {}
  }
  return {
    connection,
    speaks: () => true,
    of: () => broker,
    budget: () => ({}),
    unreachable: () => [],
    reach: () => [],
    seenMarkets: () => [],
    accounts: () => [],
    counted: () => [],
    async leave() {},
    async close() {}
  }
}

async function openSession(
  connection: SimulatedConnection,
  account: BrokerAccount,
  { anew = false } = {}
): Promise<Session> {
  const key = `${account.credentialId}`
  if (connection.world.revoked.has(key)) {
    connection.authorised.delete(key)
    await account.token()
    throw refusal('BROKER_DISCONNECTED', 'InvalidToken', { rejected: true })
  }
  if (!anew && connection.authorised.has(key)) return new SimulatedSession(connection, account)
  await connected(connection, 'session')
  // Not every connection is a new one: the token is read for some.
  if (anew || connection.world.chance.is(0.1)) {
    await account.token()
    await account.accepted?.({ mode: null, currency: null })
  }
  connection.authorised.add(key)
  return new SimulatedSession(connection, account)
}

/** Waits for the connection, not for ever. */
async function connected(connection: SimulatedConnection, label: string): Promise<void> {
  const { schedule, chance } = connection.world
  await new Promise<void>(resolve =>
    schedule.onGrid(chance.int(1, 20), GRID_MS / 2, connection.actor, label, () => resolve())
  )
  const waitMs = connection.upAt - schedule.now
  if (waitMs <= 0) return
  if (waitMs > READ_PATIENCE_MS || chance.is(0.5)) throw notConnected()
  await new Promise<void>(resolve =>
    schedule.after(waitMs + chance.int(5, 300), connection.actor, label, () => resolve())
  )
}

class SimulatedSession implements Session {
  readonly connection: SimulatedConnection
  readonly account: BrokerAccount

  constructor(connection: SimulatedConnection, account: BrokerAccount) {
    this.connection = connection
    this.account = account
  }

  async buy(contract: Contract, options: BuyOptions): Promise<Bought> {
    const { connection } = this
    const { schedule, chance, faults } = connection.world
    const fate = chance.weighted(faults().buys)
    const delayMs = waitMs(chance, faults().wait)
    if (delayMs > 0)
      await new Promise<void>(resolve => schedule.after(delayMs, connection.actor, 'budget', () => resolve()))
    if (schedule.now < connection.upAt) await connected(connection, 'reconnect')
    return new Promise<Bought>((resolve, reject) => {
      options.beforeSend()
      connection.world.watchHalts({ appId: this.account.appId, asset: contract.asset })
      const responded = connection.world.books.written(this.account.accountId, {
        at: schedule.now,
        by: connection.actor.name
      })
      const pending: Pending = { written: true, reject }
      connection.pending.add(pending)
      const settle = (end: () => void) => {
        if (!connection.pending.delete(pending)) return
        cancel()
        end()
      }
      const cancel = schedule.timer(ORDER_PATIENCE_MS, connection.actor, 'no response', () =>
        settle(() => {
          pending.reset?.()
          reject(noResponse())
        })
      )
      meetFate(this.connection, fate, {
        account: this.account,
        contract,
        givesUpAt: schedule.now + ORDER_PATIENCE_MS,
        onReset: then => {
          pending.reset = then
        },
        waiting: () => connection.pending.has(pending),
        done: (deal, ms) =>
          connection.deliver(ms, `bought ${deal.id}`, () =>
            settle(() => {
              responded()
              if (options.listener) {
                connection.listen(deal.id, options.listener)
                // Updates of the stream from before the response was read come first.
                if (deal.sale || chance.is(0.2)) connection.notify(deal.id, connection.follows.get(deal.id)!)
              }
              resolve(receiptOf(deal))
            })
          ),
        refused: (error, ms) =>
          connection.deliver(ms, `refused ${error.brokerCode}`, () =>
            settle(() => {
              if (error.ran === 'no') responded()
              reject(error)
            })
          )
      })
    })
  }

  subscribe(contractId: string, listener: ContractListener): Promise<ContractState> {
    return this.#read(deal => {
      this.connection.listen(contractId, listener)
      return this.connection.world.books.state(deal)
    }, contractId).then(state => {
      this.connection.notify(contractId, this.connection.follows.get(contractId) ?? new Set())
      return state
    })
  }

  unsubscribe(contractId: string): void {
    this.connection.follows.delete(contractId)
  }

  contract(contractId: string): Promise<ContractState> {
    return this.#read(deal => this.connection.world.books.state(deal), contractId)
  }

  async sell(contractId: string): Promise<{ contractId: string; soldFor: string; transactionId: string }> {
    const { schedule, chance, counts, books, faults } = this.connection.world
    await connected(this.connection, 'sell')
    const deal = books.deals.get(contractId) as Deal
    const lost = chance.is(faults().call * 3)
    return new Promise((resolve, reject) => {
      const pending: Pending = { written: true, reject }
      this.connection.pending.add(pending)
      const settle = (end: () => void) => this.connection.pending.delete(pending) && end()
      schedule.timer(ORDER_PATIENCE_MS, this.connection.actor, 'no response', () => settle(() => reject(noResponse())))
      schedule.after(chance.int(5, 60), null, `sell ${contractId}`, () => {
        const sold = schedule.now < deal.endsAt && books.sell(deal, schedule.now, true)
        counts.add(sold ? 'sale' : 'sale: too late')
        if (sold) announce(this.connection.world, deal)
        if (lost) return counts.add('sale: response lost')
        this.connection.deliver(chance.int(5, 60), 'sold', () =>
          settle(() => {
            if (!sold) return reject(refusal('INVALID_CONTRACT', 'InvalidSellContractProposal'))
            resolve({ contractId, soldFor: deal.sale!.price, transactionId: `${contractId}2` })
          })
        )
      })
    })
  }

  /** Multipliers are not traded here. */
  async changeLimits(): Promise<void> {
    throw refusal('INVALID_CONTRACT', 'ContractUpdateNotAllowed')
  }

  async balance(): Promise<{ balance: string; currency: string }> {
    await connected(this.connection, 'balance')
    return { balance: '1000', currency: 'USD' }
  }

  portfolio(): Promise<Evidence[]> {
    return this.#list('portfolio', deal => deal.sale === null)
  }

  statement({ from }: { from: number }): Promise<Evidence[]> {
    return this.#list('statement', (_, at) => at >= from)
  }

  profitTable({ from }: { from: number }): Promise<Evidence[]> {
    return this.#list('profit_table', (deal, at) => deal.sale !== null && at >= from)
  }

  #list(source: Evidence['source'], shows: (deal: Deal, epoch: number) => boolean): Promise<Evidence[]> {
    const { books, schedule } = this.connection.world
    return this.#read(() =>
      books
        .of(this.account.accountId)
        .filter(deal => deal.visibleAt <= schedule.now && shows(deal, deal.boughtEpoch))
        .map(deal => books.evidence(deal, source))
        // Newest first: what somebody bought after ours comes before it.
        .reverse()
    )
  }

  /** Reads when the request arrives, and responds later. */
  async #read<T>(look: (deal: Deal) => T, contractId?: string): Promise<T> {
    const { schedule, chance, counts, books, spentUntil, faults } = this.connection.world
    await connected(this.connection, 'read')
    const spent = contractId === undefined && schedule.now < (spentUntil.get(this.account.accountId) ?? 0)
    if (spent || chance.is(faults().call)) {
      counts.add('read: refused')
      throw refusal('BROKER_UPSTREAM', 'RateLimit')
    }
    const backMs = chance.is(faults().call) ? chance.int(1000, 8000) : chance.int(5, 60)
    return new Promise((resolve, reject) => {
      const pending: Pending = { written: false, reject }
      this.connection.pending.add(pending)
      const settle = (end: () => void) => {
        if (!this.connection.pending.delete(pending)) return
        cancel()
        end()
      }
      const cancel = schedule.timer(READ_PATIENCE_MS, this.connection.actor, 'no response', () =>
        settle(() => reject(disconnected(false)))
      )
      schedule.after(chance.int(2, 30), null, 'read', () => {
        const seen = look(books.deals.get(contractId ?? '') as Deal)
        this.connection.deliver(backMs, 'read', () => settle(() => resolve(seen)))
      })
    })
  }
}

function receiptOf(deal: Deal): Bought {
  return {
    contractId: deal.id,
    transactionId: `${deal.id}1`,
    buyPrice: deal.contract.stake,
    payout: deal.payout,
    purchaseTime: deal.boughtEpoch,
    shortcode: `SIMULATED_${deal.id}`,
    expiryTime: null
  }
}

const notConnected = () => refusal('BROKER_UPSTREAM', 'NotConnected')
const noResponse = () => refusal('BROKER_UPSTREAM', 'NoAnswer', { ran: 'unknown' })

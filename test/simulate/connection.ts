// A worker's connection to the broker of a simulation, over which requests, responses and streams travel, get lost, come late,
// and break off, and the world that all connections share.
import { BrokerError } from '../../worker/broker/broker-error.ts'
import type { ContractListener } from '../../worker/broker/port.ts'
import type { Deal, WorldBooks } from './books.ts'
import type { Chance, Counts, FaultRates } from './chance.ts'
import type { Actor, Schedule } from './clock.ts'

export interface BrokerWorld {
  schedule: Schedule
  chance: Chance
  counts: Counts
  books: WorldBooks
  connections: Set<SimulatedConnection>
  /** Until when an account's calls for lists are used up. */
  spentUntil: Map<string, number>
  /** Accounts whose traders have turned to other software. */
  gone: Set<string>
  /** What goes wrong now. */
  faults(): FaultRates
  /** Nobody gets through before. */
  downUntil: number
  /** Whether what was sent for an order of the account may still be executed. */
  mayArrive(accountId: string): Promise<boolean>
  /** Whose token a token is, by account. */
  accountOf: ReadonlyMap<string, string>
  /** Tokens that the broker refuses from now on. */
  revoked: Set<string>
  /** A purchase leaves: it is compared with the halts in force. */
  watchHalts(purchase: { appId: string; asset: string }): void
  /** Stops an actor for a while. */
  freeze(actor: Actor, ms: number): void
}

// Deliveries come in bunches, as they do from a busy broker; a simulation is the faster for it.
export const GRID_MS = 40

export interface Pending {
  /** Whether the request may have run, should the connection break now. */
  written: boolean
  reject(error: BrokerError): void
  /** Called when the connection breaks. */
  reset?: () => void
}

export class SimulatedConnection {
  readonly world: BrokerWorld
  readonly actor: Actor
  generation = 0
  downUntil = 0
  readonly pending = new Set<Pending>()
  readonly follows = new Map<string, Set<ContractListener>>()
  readonly authorised = new Set<string>()
  /** Its connections, where it runs on frames. */
  readonly served = new Set<{ drop(): void; moved(deal: Deal): void }>()

  constructor(world: BrokerWorld, actor: Actor) {
    this.world = world
    this.actor = actor
    world.connections.add(this)
  }

  get upAt(): number {
    return Math.max(this.downUntil, this.world.downUntil)
  }

  /** Something reaches the worker after `ms`, unless the connection breaks before. */
  deliver(ms: number, label: string, run: () => void): void {
    const { schedule } = this.world
    const { generation } = this
    schedule.onGrid(ms, GRID_MS, this.actor, label, () => {
      if (this.generation === generation) run()
    })
  }

  /** The connection ends for as long: whoever waits for a response gets an error, streams come back or are given up. */
  cut(ms: number): void {
    const { schedule, chance, counts } = this.world
    counts.add('broker: connection lost')
    this.generation += 1
    this.downUntil = schedule.now + ms
    this.authorised.clear()
    for (const connection of [...this.served]) connection.drop()
    for (const { written, reject, reset } of this.pending) {
      reset?.()
      const error = disconnected(written)
      schedule.after(chance.int(0, 20), this.actor, 'disconnected', () => reject(error))
    }
    this.pending.clear()
    for (const [contractId, listeners] of this.follows) {
      const backMs = this.upAt - schedule.now + chance.int(100, 4000)
      if (chance.is(0.3))
        schedule.after(chance.int(500, 60_000), this.actor, 'stream lost', () => this.lose(contractId))
      else this.deliver(backMs, 'stream is back', () => this.notify(contractId, listeners))
    }
  }

  lose(contractId: string): void {
    const listeners = this.follows.get(contractId)
    if (!listeners) return
    this.follows.delete(contractId)
    this.world.counts.add('broker: stream lost')
    for (const listener of listeners) listener.lost(disconnected(false))
  }

  /** Reports the contract as it is; its end is reported once. */
  notify(contractId: string, listeners: Set<ContractListener>): void {
    if (this.follows.get(contractId) !== listeners || this.actor.dead) return
    const deal = this.world.books.deals.get(contractId) as Deal
    const state = this.world.books.state(deal)
    if (state.settled) this.follows.delete(contractId)
    for (const listener of listeners) listener.update(state)
  }

  listen(contractId: string, listener: ContractListener): void {
    const known = this.follows.get(contractId)
    if (known) known.add(listener)
    else this.follows.set(contractId, new Set([listener]))
  }
}

/** A contract has ended: its listeners are notified, or not. */
export function announce({ chance, counts, schedule, connections, faults }: BrokerWorld, deal: Deal): void {
  for (const connection of connections) {
    for (const frames of connection.served) frames.moved(deal)
    const listeners = connection.follows.get(deal.id)
    // A stream that comes back reports what happened meanwhile.
    if (!listeners || schedule.now < connection.upAt) continue
    if (chance.is(faults().stream)) {
      if (chance.is(0.5)) counts.add('stream: fell silent')
      else connection.deliver(chance.int(10, 9000), 'stream lost', () => connection.lose(deal.id))
      continue
    }
    const late = chance.is(0.1)
    if (late) counts.add('settlement: late')
    connection.deliver(late ? chance.int(100, 5000) : chance.int(5, 60), `settled ${deal.id}`, () =>
      connection.notify(deal.id, listeners)
    )
  }
}

export function refusal(code: BrokerError['code'], brokerCode: string, facts: object = {}): BrokerError {
  return new BrokerError(code, `The broker said ${brokerCode}.`, { brokerCode, ...facts })
}

/** The error of a request whose connection broke. */
export const disconnected = (written: boolean) =>
  refusal('BROKER_UPSTREAM', 'Disconnected', { ran: written ? 'unknown' : 'no' })

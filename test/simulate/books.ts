// The broker's books of a simulation: every contract that was really bought, whoever was notified.
import { Big } from 'big.js'
import type { Contract, ContractState, ContractTerms, Evidence } from '../../worker/broker/port.ts'
import type { BookedContract } from '../support/auditor.ts'
import { START_MS } from './clock.ts'

export interface Deal {
  id: string
  accountId: string
  appId: string
  contract: Contract
  /** Virtual milliseconds. */
  boughtAt: number
  /** The same on the broker's clock as it was then, in epoch seconds. */
  boughtEpoch: number
  /** From then on lists show it. */
  visibleAt: number
  endsAt: number
  payout: string
  /** When the request for it was written; null for others' purchases. */
  writtenAt: number | null
  /** Bought by somebody else than the service. */
  foreign: boolean
  /** Its sender froze between its check and the write: only the audit can be expected to find it. */
  excused: boolean
  /** Whether lists contain its terms. */
  readable: boolean
  wins: boolean
  /** A field of its state that makes no sense, for good. */
  odd?: { field: string; which: number }
  sale: { at: number; epoch: number; price: string; early: boolean } | null
}

// What left may be executed for as long, where nothing held it on its way.
const DOUBT_MS = 15_000
const secondsIn = { t: 1, s: 1, m: 60, h: 3600, d: 86_400 } as const

export class WorldBooks {
  readonly deals = new Map<string, Deal>()
  readonly #byAccount = new Map<string, Deal[]>()
  /** Until when what an account's last request requested may be executed. */
  readonly #unanswered = new Map<string, number>()
  /** When a request to buy was last written for an account, and by whom. */
  readonly writes = new Map<string, { at: number; by: string }>()
  /** Purchases that left while another of their account could still be executed unknown to us. */
  readonly breaches: string[] = []
  /** The broker's clock minus the world's, in seconds; it may jump. */
  offset: number
  /** Whether lists show by which application a contract was bought, as the first dialect does and the newer does not. */
  readonly showsApps: boolean
  #last = 800_000_000

  constructor({ offset, showsApps }: { offset: number; showsApps: boolean }) {
    this.offset = offset
    this.showsApps = showsApps
  }

  buy(given: Omit<Deal, 'id' | 'endsAt' | 'payout' | 'sale' | 'boughtEpoch'>): Deal {
    const { contract } = given
    const lifeMs = contract.kind === 'BINARY' ? contract.duration * secondsIn[contract.durationUnit] * 1000 : Infinity
    const deal: Deal = {
      ...given,
      id: String(++this.#last),
      boughtEpoch: this.epoch(given.boughtAt),
      endsAt: given.boughtAt + lifeMs,
      payout: contract.kind === 'BINARY' ? new Big(contract.stake).times('1.95').toFixed(2) : '0',
      sale: null
    }
    this.deals.set(deal.id, deal)
    const list = this.#byAccount.get(deal.accountId)
    if (list) list.push(deal)
    else this.#byAccount.set(deal.accountId, [deal])
    return deal
  }

  /** A request to buy leaves `by` somebody at `at`; returns what to call when its sender has a definite response. */
  written(accountId: string, { at, by }: { at: number; by: string }): () => void {
    const leftMs = (this.#unanswered.get(accountId) ?? -Infinity) - at
    if (leftMs > 0)
      this.breaches.push(`${accountId} bought again ${leftMs} ms before its last request could be executed no more`)
    const until = at + DOUBT_MS
    this.#unanswered.set(accountId, until)
    this.writes.set(accountId, { at, by })
    return () => void (this.#unanswered.get(accountId) === until && this.#unanswered.delete(accountId))
  }

  /** What the account's last request requested will be executed at `at` only. */
  held(accountId: string, at: number): void {
    this.#unanswered.set(accountId, at)
  }

  /** Ends a contract; a second end is none. */
  sell(deal: Deal, at: number, early: boolean): boolean {
    if (deal.sale) return false
    const price = early ? new Big(deal.contract.stake).times('0.9').toFixed(2) : deal.wins ? deal.payout : '0'
    deal.sale = { at, epoch: this.epoch(at), price, early }
    return true
  }

  of(accountId: string): readonly Deal[] {
    return this.#byAccount.get(accountId) ?? []
  }

  epoch(at: number): number {
    return Math.floor((START_MS + at) / 1000 + this.offset)
  }

  state(deal: Deal): ContractState {
    const { sale, contract } = deal
    return {
      contractId: deal.id,
      status: !sale ? 'open' : sale.early ? 'sold' : deal.wins ? 'won' : 'lost',
      settled: sale !== null,
      buyPrice: contract.stake,
      payout: deal.payout,
      bidPrice: sale ? null : contract.stake,
      profit: sale ? new Big(sale.price).minus(contract.stake).toFixed(2) : '0.01',
      sellPrice: sale?.price ?? null,
      entryPrice: '100.11',
      exitPrice: sale && !sale.early ? '101.22' : null,
      currentSpot: '100.99',
      commission: null,
      markup: null,
      purchaseTime: deal.boughtEpoch,
      sellTime: sale?.epoch ?? null,
      expiryTime: Number.isFinite(deal.endsAt) ? this.epoch(deal.endsAt) : null,
      sellable: sale === null,
      shortcode: `SIMULATED_${deal.id}`
    }
  }

  evidence(deal: Deal, source: Evidence['source']): Evidence {
    const { contract } = deal
    return {
      source,
      contractId: deal.id,
      transactionId: `${deal.id}1`,
      appId: this.showsApps ? deal.appId : null,
      buyPrice: contract.stake,
      payout: deal.payout,
      sellPrice: source === 'profit_table' ? (deal.sale?.price ?? null) : null,
      purchaseTime: deal.boughtEpoch,
      terms: deal.readable ? this.#terms(deal) : null,
      shortcode: `SIMULATED_${deal.id}`
    }
  }

  #terms(deal: Deal): ContractTerms {
    const { contract } = deal
    const common = { asset: contract.asset.toUpperCase(), startTime: deal.boughtEpoch }
    if (contract.kind === 'MULTIPLIER')
      return {
        ...common,
        contractType: contract.direction === 'up' ? 'MULTUP' : 'MULTDOWN',
        durationTicks: null,
        durationSeconds: null,
        barrier: null,
        payout: null,
        stake: contract.stake,
        multiplier: contract.multiplier
      }
    const ticks = contract.durationUnit === 't'
    return {
      ...common,
      contractType: contract.contractType,
      durationTicks: ticks ? contract.duration : null,
      durationSeconds: ticks ? null : contract.duration * secondsIn[contract.durationUnit],
      barrier: contract.barrier,
      payout: deal.payout,
      stake: null,
      multiplier: null
    }
  }

  /** As the auditor reads them; `clockMs` is how far the database's clock may have moved since an order was stored. */
  *booked(clockMs = 0): Iterable<BookedContract> {
    for (const deal of this.deals.values()) {
      const { contract } = deal
      const binary = contract.kind === 'BINARY' ? contract : null
      const ticks = binary?.durationUnit === 't'
      yield {
        contractId: deal.id,
        accountId: deal.accountId,
        appId: deal.appId,
        contractType:
          binary?.contractType ?? (contract as { direction: string }).direction.replace(/^/, 'MULT').toUpperCase(),
        asset: contract.asset,
        duration: binary && (ticks ? binary.duration : binary.duration * secondsIn[binary.durationUnit]),
        durationUnit: binary && (ticks ? 't' : 's'),
        barrier: binary?.barrier ?? null,
        multiplier: contract.kind === 'MULTIPLIER' ? contract.multiplier : null,
        buyPrice: contract.stake,
        payout: deal.payout,
        boughtAtMs: START_MS + deal.boughtAt,
        sellPrice: deal.sale?.price ?? null,
        // What left late because its sender froze is judged by the broker's own time alone.
        ...(deal.writtenAt === null || deal.excused ? {} : { writtenAtMs: START_MS + deal.writtenAt - clockMs })
      }
    }
  }
}

// The simulated broker without a dialect: it prices, buys and sells contracts for its accounts. What is here
// knows no requests and no sockets, waits only through the given clock, and keeps the one truth about every
// contract, which tests and audits read as the ledger. How a contract lives and ends is in lives.ts.

import { systemClock } from '../../platform/clock.ts'
import type { AccountPreset, Accounts } from './accounts.ts'
import type { WallClock } from './agenda.ts'
import { Books } from './books.ts'
import { expiryOf, type PurchaseTerms, shortcodeOf } from './contracts.ts'
import { printUnits, Rates } from './currencies.ts'
import { type Journal, noJournal } from './journal.ts'
import { finalCents, Lives } from './lives.ts'
import { type MarketTick, SimulatedMarket } from './market.ts'
import { checkCeiling, checkPrice, limitsOf, offerOf } from './offers.ts'
import { bidOf, multiplierProfit, type Price, priceOf } from './pricing.ts'
import type { AppId, ContractExit, Offer, SimulatedAccount, SimulatedContract } from './records.ts'
import { type Reason, SimulatedRefusal } from './refusal.ts'
import { restore } from './restore.ts'
import type { SimulatedSymbol } from './symbols.ts'

export interface EngineOptions {
  clock?: WallClock
  /** Same seed, same prices. Default 1. */
  seed?: number
  /** Interval of all ticks in ms; null (default) for the symbols' real ones. */
  tickMs?: number | null
  /** Divides the real length of timed contracts; default 1. */
  timeScale?: number
  /** Between the end of a contract and its settlement; default half a tick with tickMs, else 500. */
  settlementDelayMs?: number
  /** Most contracts remembered; older closed ones are forgotten. Default 500 000. */
  maxContracts?: number
  accounts?: AccountPreset[]
  /** What applications charge on every purchase; none by default. */
  markup?: Markup
  journal?: Journal
  /** How much later than others a contract settles, in ms. */
  settlesLater?: (contract: SimulatedContract) => number
}

/** A markup of the applications: percent of the payout, of a multiplier's stake. */
export interface Markup {
  pct: number
  /** Paid beside the stake; else a win pays less, and a multiplier's commission is higher. */
  onTop: boolean
}

/** A priced offer at a moment. */
export interface Quote {
  offer: Offer
  price: Price
  spot: MarketTick
  startEpoch: number
  expiryEpoch: number
}

/** Why a contract cannot be sold. */
interface Obstacle {
  reason: Reason
  message: string
}

/** What a contract is worth now, and whether it can be sold. */
interface Valuation {
  bidCents: number
  spot: MarketTick
  /** Why it cannot be sold now, or null. */
  unsellable: Obstacle | null
}

const MAX_CONTRACTS = 500_000
const MIN_SCALED_TICKS = 3
const LAST_MOMENTS_MS = 5_000
const LIMITS_PAUSE_MS = 1_000

const CLOSED_TEXT = 'This market is presently closed.'
const obstacles = {
  sold: { reason: 'ContractAlreadySold', message: 'This contract has been sold.' },
  ended: { reason: 'BetExpired', message: 'The contract has expired.' },
  closed: { reason: 'MarketIsClosed', message: CLOSED_TEXT },
  ticks: { reason: 'ResaleNotOffered', message: 'Resale of this contract is not offered.' },
  waiting: { reason: 'SellAtEntryTick', message: 'Contract cannot be sold at this time: waiting for entry tick.' },
  late: { reason: 'TooCloseToExpiry', message: 'Resale of this contract is not offered so close to its expiry.' }
} satisfies Record<string, Obstacle>

export class Engine {
  readonly clock: WallClock
  readonly market: SimulatedMarket
  readonly books: Books
  readonly lives: Lives
  readonly rates = new Rates()
  /** Of every application; a purchase that names a percentage has that one. */
  markup: Markup
  #timeScale: number
  #journal: Journal

  constructor(options: EngineOptions = {}) {
    this.clock = options.clock ?? systemClock
    const tickMs = options.tickMs ?? null
    this.market = new SimulatedMarket(this.clock, { seed: options.seed ?? 1, tickMs })
    this.lives = new Lives({
      clock: this.clock,
      market: this.market,
      settlementDelayMs: options.settlementDelayMs ?? (tickMs === null ? 500 : Math.ceil(tickMs / 2)),
      settlesLater: options.settlesLater ?? (() => 0),
      close: (contract, sale) => this.#close(contract, sale)
    })
    this.markup = options.markup ?? { pct: 0, onTop: false }
    this.#timeScale = options.timeScale ?? 1
    this.#journal = options.journal ?? noJournal
    const maxContracts = options.maxContracts ?? MAX_CONTRACTS
    this.books = new Books({ clock: this.clock, journal: this.#journal, maxContracts })
    const lastMs = restore(this.books, this.#journal.lines.splice(0))
    for (const contract of this.contracts.values()) if (contract.status === 'open') this.lives.resume(contract, lastMs)
    for (const preset of options.accounts ?? []) this.accounts.create(preset)
  }

  get accounts(): Accounts {
    return this.books.accounts
  }

  get contracts(): ReadonlyMap<number, SimulatedContract> {
    return this.books.contracts
  }

  /** Prices terms now. Throws SimulatedRefusal. */
  quote(terms: PurchaseTerms, account: SimulatedAccount | null): Quote {
    const nowMs = this.clock.wall()
    const { pct, onTop } = this.markup
    const offer = offerOf({ ...terms, markupPct: terms.markupPct ?? pct, markupOnTop: onTop }, nowMs)
    if (account && account.currency !== offer.currency) {
      const text = `The provided currency ${offer.currency} is not the currency of the account.`
      throw new SimulatedRefusal('NotDefaultCurrency', text, { field: 'currency', args: [offer.currency] })
    }
    this.#checkOpen(offer, nowMs)
    const spot = this.market.latest(offer.symbol, nowMs)
    const price = priceOf(offer, spot)
    checkPrice(offer, price)
    const startEpoch = Math.floor(nowMs / 1000)
    return { offer, price, spot, startEpoch, expiryEpoch: expiryOf(offer, startEpoch) }
  }

  /** Buys at most at `maxCents`. Throws SimulatedRefusal; when it does nothing has changed. */
  buy(account: SimulatedAccount, facts: { appId: AppId; terms: PurchaseTerms; maxCents: number }): SimulatedContract {
    if (account.disabled) throw new SimulatedRefusal('AccountDisabled', `The account ${account.loginid} is disabled.`)
    const { offer, price, spot, startEpoch, expiryEpoch } = this.quote(facts.terms, account)
    checkCeiling(offer, price.askCents, facts.maxCents)
    if (price.askCents > account.balanceCents) throw insufficient(account, price.askCents)
    const nowMs = this.clock.wall()
    const contract: SimulatedContract = {
      ...this.books.newIds(),
      offer,
      account,
      appId: facts.appId,
      sellTransaction: null,
      sellAppId: null,
      buyCents: price.askCents,
      payoutCents: price.payoutCents,
      markupCents: price.markupCents,
      commissionCents: price.commissionCents,
      boughtMs: nowMs,
      startEpoch,
      expiryEpoch,
      endMs: this.#endOf(offer, nowMs, expiryEpoch),
      startTick: this.market.sessions.number(offer.symbol, nowMs),
      periodMs: this.market.sessions.periodMs(offer.symbol),
      // A multiplier runs from the price it was bought at; everything else waits for the next tick.
      entry: offer.kind === 'multiplier' ? spot : null,
      exit: null,
      ticks: [],
      status: 'open',
      ended: false,
      sellCents: null,
      soldMs: null,
      limitsChangedMs: nowMs,
      shortcode: shortcodeOf(offer, { payoutCents: price.payoutCents, startEpoch, expiryEpoch }),
      delivered: false,
      watchers: new Set()
    }
    this.books.bought(contract)
    this.lives.follow(contract)
    return contract
  }

  /** Sells at the market, not below `floorCents`. Throws SimulatedRefusal. */
  sell(account: SimulatedAccount, facts: { appId: AppId; contractId: number; floorCents: number }): SimulatedContract {
    const contract = this.#own(account, facts.contractId)
    const { bidCents, spot, unsellable } = this.value(contract)
    if (unsellable) throw new SimulatedRefusal(unsellable.reason, unsellable.message)
    if (bidCents < facts.floorCents) {
      const { currency } = contract.offer
      const print = (cents: number) => printUnits(cents, currency)
      throw new SimulatedRefusal('PriceMoved', `The contract can only be sold for ${print(bidCents)}.`, {
        args: [currency, print(facts.floorCents), print(bidCents)]
      })
    }
    contract.exit = spot
    this.#close(contract, { status: 'sold', cents: bidCents, appId: facts.appId })
    return contract
  }

  /** Changes a multiplier contract's limits; null removes one, undefined leaves it. Throws SimulatedRefusal. */
  update(
    account: SimulatedAccount,
    contractId: number,
    limits: { takeProfit?: number | null | undefined; stopLoss?: number | null | undefined }
  ): SimulatedContract {
    const contract = this.#own(account, contractId)
    if (contract.offer.kind !== 'multiplier' || contract.status !== 'open') {
      throw new SimulatedRefusal('ContractUpdateNotAllowed', 'Update is not allowed for this contract.')
    }
    const nowMs = this.clock.wall()
    if (nowMs - contract.limitsChangedMs < LIMITS_PAUSE_MS) {
      throw new SimulatedRefusal('ContractUpdateTooFrequent', 'Only one update per second is allowed.')
    }
    const changed = limitsOf(contract.offer, limits)
    if (changed.takeProfitCents !== undefined) contract.offer.takeProfitCents = changed.takeProfitCents
    if (changed.stopLossCents !== undefined) contract.offer.stopLossCents = changed.stopLossCents
    contract.limitsChangedMs = nowMs
    this.books.changed(contract)
    this.lives.notify(contract)
    return contract
  }

  /** Refuses: deal cancellation is not sold here, so there is never anything to cancel. */
  cancel(account: SimulatedAccount, contractId: number): never {
    this.#own(account, contractId)
    throw new SimulatedRefusal('CancelNotAvailable', 'Deal cancellation is not available for this contract.')
  }

  /** Settles every contract that has ended and waits for the settlements; returns how many. */
  settleEnded(account: SimulatedAccount): number {
    const ended = [...account.open.values()].filter(contract => contract.ended)
    for (const contract of ended) this.lives.settle(contract)
    return ended.length
  }

  /** The account's contract of that id, or undefined. */
  find(account: SimulatedAccount, contractId: number): SimulatedContract | undefined {
    const contract = this.contracts.get(contractId)
    return contract?.account === account ? contract : undefined
  }

  /** What the contract is worth now; of a closed one, what it was sold for. */
  value(contract: SimulatedContract): Valuation {
    const nowMs = this.clock.wall()
    const spot = this.market.latest(contract.offer.symbol, nowMs)
    if (contract.sellCents !== null) return { bidCents: contract.sellCents, spot, unsellable: obstacles.sold }
    if (contract.ended) return { bidCents: finalCents(contract), spot, unsellable: obstacles.ended }
    this.lives.takeEntry(contract)
    if (contract.offer.kind === 'multiplier') {
      const closed = this.market.sessions.isOpen(contract.offer.symbol, nowMs) ? null : obstacles.closed
      return { bidCents: contract.offer.amountCents + multiplierProfit(contract, spot.pips), spot, unsellable: closed }
    }
    const leftMs = contract.endMs - nowMs
    const lengthMs = contract.endMs - contract.boughtMs
    const seconds = contract.offer.kind === 'timed' ? (contract.offer.seconds * leftMs) / lengthMs : 0
    return { bidCents: bidOf(contract, spot, seconds), spot, unsellable: this.#unsellable(contract, leftMs) }
  }

  /** The refusal of a closed market; when it opens is its first value, where that is known. */
  closed(symbol: SimulatedSymbol): SimulatedRefusal {
    const opensMs = this.market.sessions.nextOpening(symbol)
    const opens = opensMs === null ? [] : [new Date(Math.ceil(opensMs / 1000) * 1000)]
    return new SimulatedRefusal('MarketIsClosed', CLOSED_TEXT, {
      field: 'symbol',
      args: opens.map(time => time.toISOString().slice(0, 19).replace('T', ' '))
    })
  }

  /** Stops all that waits and closes the journal. */
  close(): void {
    this.lives.stop()
    this.#journal.close()
  }

  #checkOpen(offer: Offer, nowMs: number): void {
    const { symbol } = offer
    if (this.market.sessions.isSuspended(symbol)) {
      throw new SimulatedRefusal('TradingSuspended', 'Trading is suspended for this asset.', { field: 'symbol' })
    }
    if (!this.market.sessions.isOpen(symbol, nowMs)) throw this.closed(symbol)
    if (offer.kind === 'timed' && !this.market.sessions.isOpen(symbol, nowMs + offer.seconds * 1000)) {
      const text = 'Contract must expire during trading hours.'
      throw new SimulatedRefusal('TradingHoursExpiry', text, { field: 'duration' })
    }
  }

  #endOf(offer: Offer, nowMs: number, expiryEpoch: number): number {
    if (offer.kind !== 'timed') return Infinity
    if (this.#timeScale === 1) return expiryEpoch * 1000
    const scaledMs = (offer.seconds * 1000) / this.#timeScale
    return Math.ceil(nowMs + Math.max(scaledMs, MIN_SCALED_TICKS * this.market.sessions.periodMs(offer.symbol)))
  }

  #close(contract: SimulatedContract, sale: ContractExit): void {
    this.lives.leave(contract)
    this.books.sold(contract, sale)
    this.lives.notify(contract)
  }

  #unsellable(contract: SimulatedContract, leftMs: number): Obstacle | null {
    if (contract.offer.kind === 'ticks') return obstacles.ticks
    if (!contract.entry) return obstacles.waiting
    if (!this.market.sessions.isOpen(contract.offer.symbol)) return obstacles.closed
    return leftMs * this.#timeScale >= LAST_MOMENTS_MS ? null : obstacles.late
  }

  #own(account: SimulatedAccount, contractId: number): SimulatedContract {
    const contract = this.find(account, contractId)
    if (!contract) throw new SimulatedRefusal('ContractNotFound', 'Unknown contract.')
    return contract
  }
}

function insufficient(account: SimulatedAccount, askCents: number): SimulatedRefusal {
  const [has, needs] = [printUnits(account.balanceCents, account.currency), printUnits(askCents, account.currency)]
  const text = `Your account balance (${has} ${account.currency}) is insufficient to buy this contract (${needs} ${account.currency}).`
  return new SimulatedRefusal('InsufficientBalance', text, { args: [account.currency, has, needs] })
}

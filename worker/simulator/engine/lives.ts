// How contracts live: what a tick does to each kind, when one ends, and the pause before its money moves.
// Ticks are ordered by their number alone. A quiet timed contract costs nothing between purchase and end.
import { Agenda, type WallClock } from './agenda.ts'
import { BROKER_APP_ID, ticksNeeded, wins } from './contracts.ts'
import type { MarketTick, SimulatedMarket } from './market.ts'
import { multiplierProfit } from './pricing.ts'
import type { ContractExit, SimulatedContract } from './records.ts'
import type { SimulatedSymbol } from './symbols.ts'

/** Missed ticks that are applied to a multiplier, the newest ones: they take 2 ms of a start for each contract. */
const MAX_MISSED = 1_000

/** What an ended contract pays. */
export function finalCents(contract: SimulatedContract): number {
  return contract.exit && wins(contract, contract.exit) ? contract.payoutCents : 0
}

export class Lives {
  /** Between the end of a contract and its settlement. */
  settlementDelayMs: number
  #clock: WallClock
  #market: SimulatedMarket
  #agenda: Agenda
  #settlesLater: (contract: SimulatedContract) => number
  #close: (contract: SimulatedContract, sale: ContractExit) => void
  #active = new Map<SimulatedSymbol, { contracts: Set<SimulatedContract>; stop: () => void }>()

  /** `close` moves the money of a contract that is through. */
  constructor(open: {
    clock: WallClock
    market: SimulatedMarket
    settlementDelayMs: number
    settlesLater: (contract: SimulatedContract) => number
    close: (contract: SimulatedContract, sale: ContractExit) => void
  }) {
    this.#clock = open.clock
    this.#market = open.market
    this.settlementDelayMs = open.settlementDelayMs
    this.#settlesLater = open.settlesLater
    this.#close = open.close
    this.#agenda = new Agenda(open.clock)
  }

  /** Takes an open contract on, from its purchase to its end. */
  follow(contract: SimulatedContract): void {
    if (contract.offer.kind === 'timed') this.#agenda.at(contract.endMs, () => this.#endTimed(contract))
    else this.#activate(contract)
  }

  /**
   * Resumes a contract after a restart; the ticks missed meanwhile are computed and applied. `lastMs` is a moment at which its
   * broker still ran: the ticks before it are known not to have closed a multiplier.
   */
  resume(contract: SimulatedContract, lastMs: number): void {
    const { symbol, kind } = contract.offer
    const { sessions } = this.#market
    // Counted again: the tick interval may differ from the one at its purchase.
    contract.periodMs = sessions.periodMs(symbol)
    contract.startTick = sessions.number(symbol, contract.boughtMs)
    if (kind !== 'timed') {
      // The tick of that last moment may not have been applied any more. Limits hold from the tick after their change.
      const applied = Math.max(sessions.number(symbol, lastMs) - 1, sessions.number(symbol, contract.limitsChangedMs))
      const oldest = sessions.number(symbol) - MAX_MISSED
      const from = kind === 'ticks' ? contract.startTick : Math.max(applied, oldest)
      let tick = this.#market.firstAfter(symbol, from)
      while (tick && !contract.ended) {
        this.#advance(contract, tick)
        tick = this.#market.firstAfter(symbol, tick.n)
      }
    }
    if (!contract.ended) this.follow(contract)
  }

  /** Calls `listener` at every tick that matters to the contract and at every change; the result stops it. */
  watch(contract: SimulatedContract, listener: (contract: SimulatedContract) => void): () => void {
    contract.watchers.add(listener)
    if (contract.status === 'open' && !contract.ended) this.#activate(contract)
    return () => {
      contract.watchers.delete(listener)
      if (contract.watchers.size === 0 && contract.offer.kind === 'timed') this.leave(contract)
    }
  }

  /** Notifies the contract's watchers of a change. */
  notify(contract: SimulatedContract): void {
    for (const watcher of contract.watchers) watcher(contract)
  }

  /** Stops ticks from reaching a contract. */
  leave(contract: SimulatedContract): void {
    const active = this.#active.get(contract.offer.symbol)
    if (!active?.contracts.delete(contract) || active.contracts.size > 0) return
    this.#active.delete(contract.offer.symbol)
    active.stop()
  }

  /** Moves the money of an ended contract; of any other, and the second time, it does nothing. */
  settle(contract: SimulatedContract): void {
    if (contract.status !== 'open' || !contract.ended) return
    const cents = finalCents(contract)
    this.#close(contract, { status: cents > 0 ? 'won' : 'lost', cents, appId: BROKER_APP_ID })
  }

  /** Fills in the entry tick of a timed contract if it has happened; it is computed only when a request needs it. */
  takeEntry(contract: SimulatedContract): void {
    if (contract.entry !== null || contract.offer.kind !== 'timed') return
    const tick = this.#market.firstAfter(contract.offer.symbol, contract.startTick)
    if (tick && tick.n * contract.periodMs <= contract.endMs) contract.entry = tick
  }

  /** Lets go of every contract and every timer. */
  stop(): void {
    this.#agenda.clear()
    for (const { stop } of this.#active.values()) stop()
    this.#active.clear()
  }

  #activate(contract: SimulatedContract): void {
    const { symbol } = contract.offer
    let active = this.#active.get(symbol)
    if (!active) {
      const contracts = new Set<SimulatedContract>()
      const stop = this.#market.watch(symbol, tick => {
        for (const each of contracts) this.#advance(each, tick)
      })
      active = { contracts, stop }
      this.#active.set(symbol, active)
    }
    active.contracts.add(contract)
  }

  #advance(contract: SimulatedContract, tick: MarketTick): void {
    if (tick.n <= contract.startTick || contract.ended) return
    switch (contract.offer.kind) {
      case 'ticks':
        contract.entry ??= tick
        contract.ticks.push(tick)
        if (contract.ticks.length === ticksNeeded(contract.offer)) this.#end(contract, tick)
        else this.notify(contract)
        break
      case 'timed':
        if (tick.n * contract.periodMs > contract.endMs) return
        this.takeEntry(contract)
        this.notify(contract)
        break
      case 'multiplier':
        if (!this.#closeAtLimit(contract, tick)) this.notify(contract)
    }
  }

  #closeAtLimit(contract: SimulatedContract, tick: MarketTick): boolean {
    const { takeProfitCents, stopLossCents } = contract.offer
    const profit = multiplierProfit(contract, tick.pips)
    const stoppedOut = profit <= -contract.offer.amountCents
    const stopped = stopLossCents !== null && profit <= -stopLossCents
    const taken = takeProfitCents !== null && profit >= takeProfitCents
    if (!stoppedOut && !stopped && !taken) return false
    contract.ended = true
    contract.exit = tick
    const status = profit > 0 ? 'won' : 'lost'
    this.#close(contract, { status, cents: contract.offer.amountCents + profit, appId: BROKER_APP_ID })
    return true
  }

  #endTimed(contract: SimulatedContract): void {
    if (contract.status !== 'open' || contract.ended) return
    this.takeEntry(contract)
    if (contract.entry) {
      this.#end(contract, this.#market.latest(contract.offer.symbol, contract.endMs))
      return
    }
    // No tick between purchase and expiry: nothing was decided, and the stake goes back.
    contract.ended = true
    this.#close(contract, { status: 'cancelled', cents: contract.buyCents, appId: BROKER_APP_ID })
  }

  #end(contract: SimulatedContract, exit: MarketTick): void {
    contract.exit = exit
    contract.ended = true
    this.leave(contract)
    const delayMs = this.settlementDelayMs + this.#settlesLater(contract)
    if (delayMs <= 0) {
      this.settle(contract)
      return
    }
    this.#agenda.at(this.#clock.wall() + delayMs, () => this.settle(contract))
    this.notify(contract)
  }
}

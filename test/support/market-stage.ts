// A simulated broker on a virtual clock, whose next prices a test lays out.
import type { PurchaseTerms } from '../../worker/simulator/engine/contracts.ts'
import { Engine, type EngineOptions } from '../../worker/simulator/engine/engine.ts'
import type { SimulatedAccount, SimulatedContract } from '../../worker/simulator/engine/records.ts'
import type { SimulatedRefusal } from '../../worker/simulator/engine/refusal.ts'
import { type SimulatedSymbol, symbols } from '../../worker/simulator/engine/symbols.ts'
import { VirtualClock } from './virtual-clock.ts'

// A Wednesday; the first 2 s tick after it is at :02.
export const WEDNESDAY = '2026-03-04T10:00:00.400Z'

export interface MarketStage {
  clock: VirtualClock
  engine: Engine
  account: SimulatedAccount
  buy(terms?: Partial<PurchaseTerms>, facts?: { maxCents?: number; account?: SimulatedAccount }): SimulatedContract
  /** Lays out the next ticks of a symbol. */
  script(quotes: number[], code?: string): void
}

export function stage(options: EngineOptions & { at?: string } = {}): MarketStage {
  const clock = new VirtualClock(options.at ?? WEDNESDAY)
  const engine = new Engine({ clock, settlementDelayMs: 0, ...options })
  const account = engine.accounts.create({ loginid: 'VRTC1000001' })
  return {
    clock,
    engine,
    account,
    buy(terms = {}, facts = {}) {
      const whole: PurchaseTerms = {
        type: 'CALL',
        symbol: 'R_100',
        currency: 'USD',
        amount: 10,
        basis: 'stake',
        ...terms
      }
      if (whole.duration === undefined && whole.expiry === undefined && !whole.type.startsWith('MULT')) {
        whole.duration = 1
        whole.unit = 't'
      }
      return engine.buy(facts.account ?? account, { appId: 7, terms: whole, maxCents: facts.maxCents ?? 1_000_000 })
    },
    script: (quotes, code = 'R_100') => engine.market.script(symbolOf(code), quotes)
  }
}

export function symbolOf(code: string): SimulatedSymbol {
  return symbols.get(code) as SimulatedSymbol
}

const STILL_TICKS = 10_000

/**
 * Keeps the price of a symbol where it is for so many ticks: at ticks of milliseconds it reaches the limits of a multiplier within
 * seconds, which a busy machine needs to get to what a test does with the contract.
 */
export function holdPrice({ market }: Pick<Engine, 'market'>, code = 'R_100'): void {
  const symbol = symbolOf(code)
  market.script(symbol, Array(STILL_TICKS).fill(market.latest(symbol).quote))
}

/** The reason with which `run` is refused. */
export function refusal(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    return (error as SimulatedRefusal).reason
  }
  return 'not refused'
}

// Trouble on demand. Rules match calls and spoil their responses, once, so many times, or with a seeded chance, so that
// a run with faults left on can be repeated. Everything can be changed while the broker runs.

import type { Effect } from './effects.ts'
import type { CallClass } from './engine/quota.ts'
import { random } from './engine/random.ts'
import type { AppId } from './engine/records.ts'

export interface FaultRule {
  effect: Effect
  /** Name of the call (`buy`, `sell`, …); absent: every call but ping. */
  call?: string
  class?: CallClass
  loginid?: string
  symbol?: string
  appId?: AppId
  /** Chance in 0…1 that a matching call is subject to the rule; default 1. */
  probability?: number
  /** How many calls the rule still spoils; default: until it is removed. */
  times?: number
  code?: string
  message?: string
  details?: Record<string, unknown>
  /** Fields of the request that is `altered`. */
  set?: Record<string, unknown>
  delayMs?: number
}

export interface FaultSettings {
  /** Time between a request and its response: half before the call runs, half after. */
  latencyMs: number
  /** Added to the latency, evenly spread in 0…jitterMs, so responses change places. */
  jitterMs: number
  /** Refuse new connections and cut those there are. */
  down: boolean
  /** Code under which a closed market is refused on proposal and buy. */
  marketClosedCode: 'MarketIsClosed' | 'ContractBuyValidationError' | 'InvalidtoBuy'
  rules: FaultRule[]
  states: StateRule[]
}

/** The facts of a call that rules match. */
interface CallFacts {
  call: string
  class: CallClass | null
  loginid: string | undefined
  symbol: string | undefined
  appId: AppId
}

/**
 * Spoils the states of contracts, wherever they are sent: in responses and in updates. Fields are named as the dialect
 * of the connection names them.
 */
export interface StateRule {
  /** Replaces fields; null sends null. */
  set?: Record<string, unknown>
  /** Leaves fields out. */
  drop?: string[]
  /** Which states it spoils. Default: `over`, those of contracts that were sold. */
  when?: 'over' | 'open' | 'always'
  /** Only contracts of this login id. */
  loginid?: string
  contractId?: number
  /** Chance in 0…1 that a matching state is spoilt; default 1. */
  probability?: number
  /** How many states the rule still spoils; default: until it is removed. */
  times?: number
}

const MAX_RULES = 200

const calm: FaultSettings = {
  latencyMs: 0,
  jitterMs: 0,
  down: false,
  marketClosedCode: 'MarketIsClosed',
  rules: [],
  states: []
}

export class Faults {
  #settings: FaultSettings
  #chance: () => number
  #changed: ((settings: FaultSettings) => void)[] = []

  constructor(seed: number, settings: Partial<FaultSettings> = {}) {
    this.#chance = random(seed)
    this.#settings = { ...calm, ...settings, rules: [...(settings.rules ?? [])], states: [...(settings.states ?? [])] }
  }

  get settings(): Readonly<FaultSettings> {
    return this.#settings
  }

  /** Calls `listener` after every change of the settings. */
  onChange(listener: (settings: FaultSettings) => void): void {
    this.#changed.push(listener)
  }

  /** Changes the settings named, `rules` and `states` as a whole. */
  set(settings: Partial<FaultSettings>): void {
    const rules = settings.rules ? settings.rules.map(rule => ({ ...rule })) : this.#settings.rules
    if (rules.length > MAX_RULES) throw new RangeError(`At most ${MAX_RULES} fault rules`)
    const states = settings.states ? settings.states.map(rule => ({ ...rule })) : this.#settings.states
    if (states.length > MAX_RULES) throw new RangeError(`At most ${MAX_RULES} state rules`)
    this.#settings = { ...this.#settings, ...settings, rules, states }
    for (const listener of this.#changed) listener(this.#settings)
  }

  /** Adds a rule behind those there are; the first that matches a call is its fate. */
  add(rule: FaultRule): void {
    this.set({ rules: [...this.#settings.rules, rule] })
  }

  /** Takes every fault away. */
  reset(): void {
    this.set(calm)
  }

  /** The rule that this call matches, counted; null without one. */
  fate(facts: CallFacts): FaultRule | null {
    const { rules } = this.#settings
    if (rules.length === 0) return null
    for (const rule of rules) {
      if (!matches(rule, facts)) continue
      if (rule.probability !== undefined && this.#chance() >= rule.probability) continue
      if (rule.times !== undefined && --rule.times <= 0) {
        this.#settings = { ...this.#settings, rules: rules.filter(other => other !== rule) }
      }
      return rule
    }
    return null
  }

  /** A contract's state as the rules let it out: the first that matches changes it. */
  spoil(body: Record<string, unknown>, { loginid, over }: { loginid: string | undefined; over: boolean }): object {
    const { states } = this.#settings
    if (states.length === 0) return body
    const rule = states.find(
      ({ when = 'over', loginid: whose, contractId, probability }) =>
        (when === 'always' || (when === 'over') === over) &&
        (whose === undefined || whose === loginid) &&
        (contractId === undefined || contractId === body.contract_id) &&
        (probability === undefined || this.#chance() < probability)
    )
    if (rule === undefined) return body
    if (rule.times !== undefined && --rule.times <= 0)
      this.#settings = { ...this.#settings, states: states.filter(other => other !== rule) }
    const spoilt = { ...body, ...rule.set }
    for (const field of rule.drop ?? []) delete spoilt[field]
    return spoilt
  }

  /** Milliseconds from request to response. */
  latencyMs(): number {
    const { latencyMs, jitterMs } = this.#settings
    return latencyMs + (jitterMs > 0 ? jitterMs * this.#chance() : 0)
  }
}

function matches(rule: FaultRule, facts: CallFacts): boolean {
  return (
    (rule.call === undefined ? facts.call !== 'ping' : rule.call === facts.call) &&
    (rule.class === undefined || rule.class === facts.class) &&
    (rule.loginid === undefined || rule.loginid === facts.loginid) &&
    (rule.symbol === undefined || rule.symbol === facts.symbol) &&
    (rule.appId === undefined || rule.appId === facts.appId) &&
    rule.times !== 0
  )
}

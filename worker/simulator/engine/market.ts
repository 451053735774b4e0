// The market: ticks, history and candles of every symbol. Tick number n of a symbol falls at n × its period and its
// price is a function of seed, symbol and n; so nothing runs without subscribers, and missed ticks can be computed
// later. With an override of the period ticks outrun the seconds: order them by n only.
import type { Candle } from '../../../schemas/market.ts'
import type { WallClock } from './agenda.ts'
import { hashText, wander } from './random.ts'
import { Sessions } from './sessions.ts'
import { lastScheduledOpen, type SimulatedSymbol } from './symbols.ts'

export interface MarketTick {
  symbol: SimulatedSymbol
  /** Place in the symbol's sequence: the only thing ticks are ordered by. */
  n: number
  epoch: number
  /** The price in units of the last decimal, so that comparing and taking the last digit are exact. */
  pips: number
  quote: number
}

interface Watched {
  listeners: Set<(tick: MarketTick) => void>
  last: number
}

interface PeriodGroup {
  periodMs: number
  watched: Map<SimulatedSymbol, Watched>
  cancel: (() => void) | null
}

const SECONDS_A_YEAR = 31_536_000
const MAX_CATCH_UP = 20_000
const MAX_SCRIPT = 10_000
const SAMPLES_A_CANDLE = 60

/** The last digit of a price as printed. */
export function lastDigit(tick: MarketTick): number {
  return tick.pips % 10
}

/** A price in pips as the symbol prints it. */
export function printPips(symbol: SimulatedSymbol, pips: number): string {
  return (pips / 10 ** symbol.decimals).toFixed(symbol.decimals)
}

export class SimulatedMarket {
  /** When there are ticks, and when there is trade. */
  readonly sessions: Sessions
  #clock: WallClock
  #seed: number
  #keys = new Map<SimulatedSymbol, number>()
  #groups = new Map<number, PeriodGroup>()
  /** The last tick requested: most callers request the same one. */
  #latest = new Map<SimulatedSymbol, MarketTick>()
  #scripts = new Map<SimulatedSymbol, Map<number, number>>()

  /** `tickMs` overrides every symbol's interval; null keeps the real ones. */
  constructor(clock: WallClock, { seed, tickMs }: { seed: number; tickMs: number | null }) {
    this.#clock = clock
    this.#seed = seed
    this.sessions = new Sessions(clock, tickMs)
  }

  /** The newest tick at or before `ms`. */
  latest(symbol: SimulatedSymbol, ms: number = this.#clock.wall()): MarketTick {
    const n = this.sessions.newest(symbol, this.sessions.number(symbol, ms))
    const known = this.#latest.get(symbol)
    if (known?.n === n) return known
    const tick = this.#tick(symbol, n)
    this.#latest.set(symbol, tick)
    return tick
  }

  /** The first tick after number `n` that has happened by now, or null. */
  firstAfter(symbol: SimulatedSymbol, n: number): MarketTick | null {
    const next = this.sessions.next(symbol, n)
    return next === null ? null : this.#tick(symbol, next)
  }

  /** Calls `listener` with every tick from now on; the result stops it. */
  watch(symbol: SimulatedSymbol, listener: (tick: MarketTick) => void): () => void {
    const periodMs = this.sessions.periodMs(symbol)
    let group = this.#groups.get(periodMs)
    if (!group) {
      group = { periodMs, watched: new Map(), cancel: null }
      this.#groups.set(periodMs, group)
    }
    let watched = group.watched.get(symbol)
    if (!watched) {
      watched = { listeners: new Set(), last: this.sessions.number(symbol) }
      group.watched.set(symbol, watched)
    }
    watched.listeners.add(listener)
    this.#arm(group)
    const { listeners } = watched
    return () => {
      if (!listeners.delete(listener) || listeners.size > 0) return
      group.watched.delete(symbol)
      if (group.watched.size > 0 || group.cancel === null) return
      group.cancel()
      group.cancel = null
    }
  }

  /** Makes the symbol's coming ticks these quotes, in this order; then it wanders on as before. */
  script(symbol: SimulatedSymbol, quotes: number[]): void {
    const first = this.sessions.number(symbol) + 1
    const script = new Map(quotes.map((quote, i) => [first + i, Math.round(quote * 10 ** symbol.decimals)]))
    for (const [n, pips] of this.#scripts.get(symbol) ?? []) {
      if (!script.has(n) && n < first && script.size < MAX_SCRIPT) script.set(n, pips)
    }
    this.#scripts.set(symbol, script)
  }

  /** Up to `count` ticks at or before `endMs` and at or after `startMs`, oldest first. */
  history(symbol: SimulatedSymbol, range: { startMs: number; endMs: number; count: number }): MarketTick[] {
    const firstN = Math.ceil(range.startMs / this.sessions.periodMs(symbol))
    const ticks: MarketTick[] = []
    let n = this.sessions.newest(symbol, this.sessions.number(symbol, range.endMs))
    while (ticks.length < range.count && n >= firstN) {
      ticks.push(this.#tick(symbol, n))
      n = this.sessions.newest(symbol, n - 1)
    }
    return ticks.reverse()
  }

  /**
   * Up to `count` candles that begin at or after `startMs` and at or before `endMs`, oldest first, the last one
   * still forming. A candle of many ticks takes its high and low from a fixed sample of them.
   */
  candles(
    symbol: SimulatedSymbol,
    range: { startMs: number; endMs: number; count: number; granularitySeconds: number }
  ): Candle[] {
    const lengthMs = range.granularitySeconds * 1000
    const candles: Candle[] = []
    let begin = Math.floor(range.endMs / lengthMs) * lengthMs
    for (let steps = 0; candles.length < range.count && begin >= range.startMs; steps++) {
      const candle = this.#candle(symbol, {
        beginMs: begin,
        endMs: Math.min(begin + lengthMs - 1, range.endMs),
        lengthMs
      })
      if (candle) candles.push(candle)
      if (steps > range.count + MAX_CATCH_UP) break
      const earlier = candle ? begin - lengthMs : lastScheduledOpen(symbol, begin - 1)
      begin = Math.floor(earlier / lengthMs) * lengthMs
    }
    return candles.reverse()
  }

  #candle(symbol: SimulatedSymbol, range: { beginMs: number; endMs: number; lengthMs: number }): Candle | null {
    const period = this.sessions.periodMs(symbol)
    const first = Math.ceil(range.beginMs / period)
    const last = Math.floor(range.endMs / period)
    const step = Math.max(1, Math.floor(range.lengthMs / period / SAMPLES_A_CANDLE))
    let open = 0
    let close = 0
    let high = -Infinity
    let low = Infinity
    const take = (n: number) => {
      if (!this.sessions.happens(symbol, n)) return
      const pips = this.#pips(symbol, n)
      if (high === -Infinity) open = pips
      if (pips > high) high = pips
      if (pips < low) low = pips
      close = pips
    }
    for (let n = first; n < last; n += step) take(n)
    if (last >= first) take(last)
    if (high === -Infinity) return null
    const unit = 10 ** symbol.decimals
    return { epoch: range.beginMs / 1000, open: open / unit, high: high / unit, low: low / unit, close: close / unit }
  }

  #arm(group: PeriodGroup): void {
    if (group.cancel !== null || group.watched.size === 0) return
    const now = this.#clock.wall()
    const delayMs = (Math.floor(now / group.periodMs) + 1) * group.periodMs - now
    group.cancel = this.#clock.after(delayMs, () => {
      group.cancel = null
      for (const [symbol, watched] of group.watched) this.#pump(symbol, watched)
      this.#arm(group)
    })
  }

  #pump(symbol: SimulatedSymbol, watched: Watched): void {
    const newest = this.sessions.number(symbol)
    // After a long stop of the process the oldest ticks are left out rather than flooding everyone.
    if (watched.last < newest - MAX_CATCH_UP) watched.last = newest - MAX_CATCH_UP
    while (watched.last < newest && watched.listeners.size > 0) {
      const n = ++watched.last
      if (!this.sessions.happens(symbol, n)) continue
      const tick = this.#tick(symbol, n)
      for (const listener of watched.listeners) listener(tick)
    }
  }

  #tick(symbol: SimulatedSymbol, n: number): MarketTick {
    const pips = this.#pips(symbol, n)
    return {
      symbol,
      n,
      epoch: Math.floor((n * this.sessions.periodMs(symbol)) / 1000),
      pips,
      quote: pips / 10 ** symbol.decimals
    }
  }

  #pips(symbol: SimulatedSymbol, n: number): number {
    const scripted = this.#scripts.get(symbol)?.get(n)
    if (scripted !== undefined) return scripted
    let key = this.#keys.get(symbol)
    if (key === undefined) {
      key = hashText(symbol.code, this.#seed)
      this.#keys.set(symbol, key)
    }
    const step = symbol.volatility * Math.sqrt(symbol.intervalSeconds / SECONDS_A_YEAR)
    return Math.max(1, Math.round(symbol.level * 10 ** symbol.decimals * Math.exp(step * wander(key, n))))
  }
}

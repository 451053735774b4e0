// When there are ticks: the calendar, and what was ordered against it. A symbol can be forced open or closed,
// frozen (open, but no ticks) and suspended (ticks, but no trades). Ticks are known here by number only.
import type { WallClock } from './agenda.ts'
import { lastScheduledOpen, nextScheduledOpen, type SimulatedSymbol, scheduledOpen, symbols } from './symbols.ts'

/** A stretch of ticks forced on or off, regardless of the calendar. */
interface Span {
  from: number
  to: number
  open: boolean
}

/** A standing order to be open or closed. */
interface SessionOverride {
  open: boolean
  untilMs: number
}

const MAX_SPANS = 100

export class Sessions {
  #clock: WallClock
  #tickMs: number | null
  #spans = new Map<SimulatedSymbol, Span[]>()
  #orders = new Map<SimulatedSymbol, SessionOverride>()
  #frozen = new Set<SimulatedSymbol>()
  #suspended = new Set<SimulatedSymbol>()

  constructor(clock: WallClock, tickMs: number | null) {
    this.#clock = clock
    this.#tickMs = tickMs
  }

  /** Milliseconds between two ticks of the symbol. */
  periodMs(symbol: SimulatedSymbol): number {
    return this.#tickMs ?? symbol.intervalSeconds * 1000
  }

  /** The number of the symbol's newest tick at `ms`, happened or left out. */
  number(symbol: SimulatedSymbol, ms: number = this.#clock.wall()): number {
    return Math.floor(ms / this.periodMs(symbol))
  }

  isOpen(symbol: SimulatedSymbol, ms: number = this.#clock.wall()): boolean {
    return this.#order(symbol, ms)?.open ?? scheduledOpen(symbol, ms)
  }

  /** When a closed market opens; null when unknown. */
  nextOpening(symbol: SimulatedSymbol): number | null {
    const order = this.order(symbol)
    if (order?.untilMs === Infinity) return null
    return nextScheduledOpen(symbol, order?.untilMs ?? this.#clock.wall())
  }

  /** The standing order that overrides the calendar now, if there is one. */
  order(symbol: SimulatedSymbol): SessionOverride | null {
    return this.#order(symbol, this.#clock.wall())
  }

  /** Opens or closes the market against the calendar until `untilMs`; `open: null` returns to the calendar. */
  force(symbol: SimulatedSymbol, open: boolean | null, untilMs = Infinity): void {
    if (open === null) this.#orders.delete(symbol)
    else this.#orders.set(symbol, { open, untilMs })
    this.#redraw(symbol)
  }

  /** Stops the ticks of exactly the given symbols: their market stays open, their price no longer changes. */
  freeze(wanted: SimulatedSymbol[]): void {
    for (const symbol of symbols.values()) {
      const freeze = wanted.includes(symbol)
      if (freeze === this.#frozen.has(symbol)) continue
      if (freeze) this.#frozen.add(symbol)
      else this.#frozen.delete(symbol)
      this.#redraw(symbol)
    }
  }

  frozen(): SimulatedSymbol[] {
    return [...this.#frozen]
  }

  /** Suspends trading of the given symbols and of no others; ticks go on. */
  suspend(wanted: SimulatedSymbol[]): void {
    this.#suspended = new Set(wanted)
  }

  isSuspended(symbol: SimulatedSymbol): boolean {
    return this.#suspended.has(symbol)
  }

  /** Whether tick `n` happens. */
  happens(symbol: SimulatedSymbol, n: number): boolean {
    const span = this.#span(symbol, n)
    return span ? span.open : !symbol.weekdaysOnly || scheduledOpen(symbol, n * this.periodMs(symbol))
  }

  /** The last tick that happens at or before number `n`. */
  newest(symbol: SimulatedSymbol, n: number): number {
    const period = this.periodMs(symbol)
    let at = n
    while (!this.happens(symbol, at)) {
      const span = this.#span(symbol, at)
      at = span ? span.from - 1 : Math.min(at - 1, Math.floor(lastScheduledOpen(symbol, at * period) / period))
    }
    return at
  }

  /** The first tick that happens after number `n` and has its time by now, or null. */
  next(symbol: SimulatedSymbol, n: number): number | null {
    const period = this.periodMs(symbol)
    const newest = this.number(symbol)
    let at = n + 1
    while (at <= newest) {
      if (this.happens(symbol, at)) return at
      const span = this.#span(symbol, at)
      at = span ? span.to + 1 : Math.max(at + 1, Math.ceil(nextScheduledOpen(symbol, at * period) / period))
    }
    return null
  }

  #order(symbol: SimulatedSymbol, ms: number): SessionOverride | null {
    const order = this.#orders.get(symbol)
    return order && ms <= order.untilMs ? order : null
  }

  #span(symbol: SimulatedSymbol, n: number): Span | undefined {
    return this.#spans.get(symbol)?.findLast(span => span.from <= n && n <= span.to)
  }

  /** What was ordered so far stays history; from the next tick on the present orders hold. */
  #redraw(symbol: SimulatedSymbol): void {
    const now = this.number(symbol)
    const past = (this.#spans.get(symbol) ?? []).map(span => ({ ...span, to: Math.min(span.to, now) }))
    const spans = past.filter(span => span.from <= span.to)
    const order = this.order(symbol)
    if (order) spans.push({ from: now + 1, to: this.number(symbol, order.untilMs), open: order.open })
    if (this.#frozen.has(symbol)) spans.push({ from: now + 1, to: Infinity, open: false })
    this.#spans.set(symbol, spans.slice(-MAX_SPANS))
  }
}

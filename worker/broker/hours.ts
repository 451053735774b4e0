// When a market opens. The broker publishes each day's trading times; this walks them from today on, by the
// broker's clock, and keeps a day's table until the day ends or it proves wrong.
import { unknowns } from './dialects/next-unknowns.ts'

/** One symbol's sessions on one UTC day, as the broker prints them: "HH:MM:SS", or "--" for a day without any. */
export interface DaySessions {
  open: string[]
  close: string[]
}

/** Symbol → sessions, for one day. */
export type TradingDay = Map<string, DaySessions>

interface HoursOptions {
  /** Requests a day from the broker, given as YYYY-MM-DD. */
  tradingDay(day: string): Promise<TradingDay>
  /** The broker's clock, epoch seconds. */
  now(): Promise<number>
}

const DAYS_AHEAD = 8
const SURPRISE_EVERY_SECONDS = 60

export class Hours {
  readonly #options: HoursOptions
  #readOn = ''
  #readAt = 0
  #days = new Map<string, Promise<TradingDay>>()

  constructor(options: HoursOptions) {
    this.#options = options
  }

  /** Seconds until the asset trades; 0 when it does; null when it is not listed or stays closed for eight days. */
  async secondsUntilOpen(asset: string): Promise<number | null> {
    const now = await this.#options.now()
    for (let ahead = 0; ahead < DAYS_AHEAD; ahead++) {
      const midnight = startOfDay(now) + ahead * 86_400
      const sessions = (await this.#day(now, midnight)).get(asset)
      // A day's table need not list what has no session in it.
      if (sessions === undefined && ahead > 0) continue
      if (sessions === undefined) return null
      const opensAt = nextOpening(sessions, midnight, now)
      if (opensAt !== null) return Math.max(0, Math.ceil(opensAt - now))
    }
    return null
  }

  /**
   * The same, after the broker reported that the asset's market is closed: a table that disagrees is read again, at
   * most once a minute, and if it still does the result is null.
   */
  async secondsUntilReopening(asset: string): Promise<number | null> {
    const believed = await this.secondsUntilOpen(asset)
    if (believed !== 0) return believed
    const now = await this.#options.now()
    if (now - this.#readAt < SURPRISE_EVERY_SECONDS) return null
    this.#days = new Map()
    return (await this.secondsUntilOpen(asset)) || null
  }

  #day(now: number, midnight: number): Promise<TradingDay> {
    const today = printDay(now)
    // Yesterday's table of tomorrow may have changed.
    if (today !== this.#readOn) this.#days = new Map()
    if (this.#days.size === 0) {
      this.#readOn = today
      this.#readAt = now
    }
    const day = printDay(midnight)
    const known = this.#days.get(day)
    if (known !== undefined) return known
    const requested = this.#options.tradingDay(day)
    const days = this.#days
    days.set(day, requested)
    // All waiting callers get the failure, and the next call tries again.
    requested.catch(() => days.delete(day))
    return requested
  }
}

const stated = /^\s*(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)|open at (\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)/

/** The opening times a broker wrote into a refusal, as epoch seconds, in the order of the texts. */
export function statedOpenings(texts: string[]): number[] {
  return texts.flatMap(text => {
    const found = stated.exec(text)
    if (found === null) return []
    const epoch = Date.parse(`${found[1] ?? found[3]}T${found[2] ?? found[4]}${unknowns.zoneOfOpening}`) / 1000
    return Number.isFinite(epoch) ? [epoch] : []
  })
}

/** Seconds from `now` to the first of these that can be an opening: not past, and within 8 days; null when none can. */
export function secondsUntil(openings: readonly number[], now: number): number | null {
  for (const epoch of openings) {
    const seconds = Math.ceil(epoch - now)
    if (seconds >= 0 && seconds <= DAYS_AHEAD * 86_400) return seconds
  }
  return null
}

/** The epoch at which the asset trades on this day from `now` on: in the past when it already does, null when not. */
function nextOpening({ open, close }: DaySessions, midnight: number, now: number): number | null {
  let next: number | null = null
  for (const [index, text] of open.entries()) {
    const opens = timeOfDay(text, midnight)
    if (opens === null) continue
    const closes = timeOfDay(close[index] ?? '', midnight) ?? midnight + 86_399
    // The last second of a session belongs to it; a session that ends "before" it starts runs into the next day.
    const lasts = closes <= opens ? midnight + 86_399 : closes
    if (now < lasts + 1 && (next === null || opens < next)) next = opens
  }
  return next
}

function timeOfDay(text: string, midnight: number): number | null {
  const found = /^(\d\d):(\d\d):(\d\d)$/.exec(text)
  if (found === null) return null
  return midnight + Number(found[1]) * 3_600 + Number(found[2]) * 60 + Number(found[3])
}

function startOfDay(epoch: number): number {
  return Math.floor(epoch / 86_400) * 86_400
}

function printDay(epoch: number): string {
  return new Date(epoch * 1000).toISOString().slice(0, 10)
}

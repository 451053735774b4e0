// A day of the broker's trading times: the sessions of every asset, with the day's announced events. An early close is
// in the events alone, while the times still show the usual end.
import type { DaySessions, TradingDay } from '../hours.ts'
import { type Body, bodyOf, listOf } from './reading.ts'

/** Reads the response for `date` (YYYY-MM-DD). Throws BadFrame when it is not what we rely on. */
export function readTradingDay(times: unknown, date: string, assetOf: (row: Body) => string): TradingDay {
  const day: TradingDay = new Map()
  for (const market of listOf(bodyOf(times, 'trading_times').markets, 'markets')) {
    for (const submarket of listOf(bodyOf(market, 'a market').submarkets ?? [], 'submarkets')) {
      for (const row of listOf(bodyOf(submarket, 'a submarket').symbols ?? [], 'symbols')) {
        const body = bodyOf(row, 'a symbol')
        const events = Array.isArray(body.events) ? body.events : []
        day.set(assetOf(body), withEvents(readSessions(body.times), events, date))
      }
    }
  }
  return day
}

/** The sessions of an asset; none where they cannot be read: no schema names what its times hold, or requires any. */
function readSessions(times: unknown): DaySessions {
  const { open, close } = (times ?? {}) as Body
  if (!Array.isArray(open)) return { open: [], close: [] }
  return { open: open.map(String), close: Array.isArray(close) ? close.map(String) : [] }
}

const shifts = /(closes early|opens late) \(at (\d\d:\d\d)(:\d\d)?\)/i

/** The sessions as the day's events change them; an event with an unknown text changes nothing. */
export function withEvents(sessions: DaySessions, events: unknown[], date: string): DaySessions {
  let { open, close } = sessions
  for (const event of events) {
    const { dates, descrip } = (event ?? {}) as { dates?: unknown; descrip?: unknown }
    const [, what, time] = shifts.exec(String(descrip)) ?? []
    if (what === undefined || time === undefined || !happensOn(String(dates), date)) continue
    const at = `${time}:00`
    const early = /early/i.test(what)
    const kept = open.map((_, index) => index).filter(index => isReal(open[index]) && isLeft(index))
    function isLeft(index: number): boolean {
      return early ? (open[index] as string) < at : (close[index] ?? '23:59:59') > at
    }
    if (kept.length === 0) return { open: ['--'], close: ['--'] }
    const before = { open, close }
    open = kept.map(index => (early ? before.open[index] : later(before.open[index], at)) as string)
    close = kept.map(index => (early ? sooner(before.close[index], at) : (before.close[index] ?? '23:59:59')))
  }
  return { open, close }
}

const isReal = (time: string | undefined) => time !== undefined && time !== '--'
const later = (a: string | undefined, b: string) => (a !== undefined && a > b ? a : b)
const sooner = (a: string | undefined, b: string) => (isReal(a) && (a as string) < b ? (a as string) : b)

const weekdays = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday']

/** Whether a text like "Fridays" or "2026-12-24, 2026-12-31" means this day. */
function happensOn(dates: string, date: string): boolean {
  const weekday = weekdays[new Date(`${date}T00:00:00Z`).getUTCDay()] as string
  return dates
    .toLowerCase()
    .split(',')
    .map(part => part.trim())
    .some(part => part === date || part === weekday || part === `${weekday}s`)
}

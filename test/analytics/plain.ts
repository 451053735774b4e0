// The expected responses of analytics: a plain sum over the orders in JavaScript. It uses the time zones of ICU, the service those of
// PostgreSQL.
import { Big } from 'big.js'
import type { Interval } from '../../db/analytics/windows.ts'
import type { OrderRow } from '../../db/orders/reading.ts'

const QUARTER_MS = 900_000
const HOUR_MS = 3_600_000

const formats = new Map<string, Intl.DateTimeFormat>()
const clocks = new Map<string, { date: string; minute: number }>()

/** What clocks of the zone show at an instant (ms since the epoch). */
function clockOf(ms: number, timezone: string): { date: string; minute: number } {
  const quarter = Math.floor(ms / QUARTER_MS) * QUARTER_MS
  const key = `${timezone} ${quarter}`
  const known = clocks.get(key)
  if (known) return known
  const format =
    formats.get(timezone) ??
    new Intl.DateTimeFormat('en-CA', {
      timeZone: timezone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit'
    })
  formats.set(timezone, format)
  const parts = Object.fromEntries(format.formatToParts(quarter).map(({ type, value }) => [type, value]))
  const clock = { date: `${parts.year}-${parts.month}-${parts.day}`, minute: Number(parts.minute) }
  if (clocks.size > 500_000) clocks.clear()
  clocks.set(key, clock)
  return clock
}

/** The bucket that an instant lies in, as a text that no other bucket of the zone has. */
export function bucketOf(ms: number, { timezone, interval }: { timezone: string; interval: Interval }): string {
  if (interval === 'hour') {
    let start = Math.floor(ms / QUARTER_MS) * QUARTER_MS
    while (clockOf(start, timezone).minute !== 0 && ms - start < 2 * HOUR_MS) start -= QUARTER_MS
    return new Date(start).toISOString()
  }
  const { date } = clockOf(ms, timezone)
  if (interval === 'day') return date
  if (interval === 'month') return date.slice(0, 7)
  const day = new Date(`${date}T00:00:00Z`)
  // Back to Monday.
  return new Date(day.getTime() - ((day.getUTCDay() + 6) % 7) * 24 * HOUR_MS).toISOString().slice(0, 10)
}

/** Every bucket of a window, in order. */
export function bucketsOf(from: number, to: number, zone: { timezone: string; interval: Interval }): string[] {
  const found = new Set([bucketOf(from, zone)])
  for (let at = Math.floor(from / QUARTER_MS + 1) * QUARTER_MS; at < to; at += QUARTER_MS) found.add(bucketOf(at, zone))
  return [...found]
}

export interface PlainSums {
  contracts: number
  traders: number
  stake: string
  payout: string
  markup: string
  markupUnknown: number
  commission: string
  tradersPnl: string
}

export const stakeOf = (order: OrderRow): string => order.stake_in_account ?? order.stake

/** Sums over bought contracts. */
export function plainSums(orders: OrderRow[]): PlainSums {
  const add = (amounts: (string | null)[]) =>
    amounts.reduce((sum, amount) => sum.plus(amount ?? 0), new Big(0)).toFixed()
  const closed = orders.filter(({ phase }) => phase === 'closed')
  return {
    contracts: orders.length,
    traders: new Set(orders.map(({ trader_id }) => trader_id)).size,
    stake: add(orders.map(stakeOf)),
    payout: add(closed.map(({ buy_price, pnl }) => new Big(buy_price as string).plus(pnl as string).toFixed())),
    markup: add(orders.map(({ markup }) => markup)),
    markupUnknown: orders.filter(({ markup }) => markup === null).length,
    commission: add(orders.map(({ commission }) => commission)),
    tradersPnl: add(closed.map(({ pnl }) => pnl))
  }
}

/** What a contract is grouped under. */
export function groupOf(order: OrderRow, groupBy: string | null): string | null {
  if (groupBy === null) return null
  if (groupBy === 'asset') return order.asset
  if (groupBy === 'kind') return order.kind
  if (groupBy === 'accountMode') return order.account_mode
  return order.kind === 'BINARY' ? (order.contract_type ?? '') : order.direction === 'up' ? 'MULTUP' : 'MULTDOWN'
}

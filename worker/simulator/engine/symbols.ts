// What the simulated broker offers: its symbols, their decimals and tick intervals, their trading hours, and
// what can be bought on each. Everything that depends on a symbol and not on time or on an account is here.

import { assetOf, magics } from '../magic-list.ts'

export interface SimulatedSymbol {
  code: string
  name: string
  market: 'synthetic_index' | 'forex'
  marketName: string
  submarket: string
  submarketName: string
  /** Decimals of a printed price. */
  decimals: number
  /** Seconds between ticks. */
  intervalSeconds: number
  /** Level around which the price wanders. */
  level: number
  /** Yearly volatility, 1 = 100 %. */
  volatility: number
  /** Half the distance between bid and ask, in pips. */
  spreadPips: number
  /** CALL, PUT and their kin. */
  riseFall: boolean
  digits: boolean
  /** Allowed multipliers; none where multipliers are not offered. */
  multipliers: number[]
  /** The least stake of a multiplier contract, and the least stop loss and take profit, in US cents. */
  leastMultiplierCents: number
  leastLimitCents: number
  /** Commission of a multiplier contract as a part of stake × multiplier. */
  commissionRate: number
  /** Shortest timed contract in seconds. */
  minSeconds: number
  /** Longest contract in ticks, 0 where tick contracts are not offered. */
  maxTicks: number
  /** Closed at weekends. */
  weekdaysOnly: boolean
}

const DAY_MS = 86_400_000
const FRIDAY_CLOSE_MS = (20 * 60 + 55) * 60_000

type SymbolFacts = Pick<SimulatedSymbol, 'code' | 'name' | 'decimals' | 'level' | 'volatility'> &
  Partial<SimulatedSymbol>

function synthetic(facts: SymbolFacts): SimulatedSymbol {
  return {
    market: 'synthetic_index',
    marketName: 'Derived',
    submarket: 'random_index',
    submarketName: 'Continuous Indices',
    intervalSeconds: 2,
    spreadPips: 10,
    riseFall: true,
    digits: true,
    multipliers: [],
    leastMultiplierCents: 100,
    leastLimitCents: 10,
    commissionRate: 0.0005 * facts.volatility,
    minSeconds: 15,
    maxTicks: 10,
    weekdaysOnly: false,
    ...facts
  }
}

function forex(facts: SymbolFacts): SimulatedSymbol {
  return {
    market: 'forex',
    marketName: 'Forex',
    submarket: 'major_pairs',
    submarketName: 'Major Pairs',
    intervalSeconds: 1,
    spreadPips: 5,
    riseFall: true,
    digits: false,
    multipliers: [100, 200, 300, 500, 800],
    leastMultiplierCents: 100,
    leastLimitCents: 10,
    commissionRate: 0.0001,
    minSeconds: 900,
    maxTicks: 0,
    weekdaysOnly: true,
    ...facts
  }
}

const multipliers: Record<number, number[]> = {
  10: [400, 1000, 2000, 3000, 4000],
  25: [160, 400, 800, 1200, 1600],
  50: [80, 200, 400, 600, 800],
  75: [50, 100, 200, 300, 500],
  100: [40, 100, 200, 300, 400]
}

function volatilityIndex(percent: number, level: number, decimals: number, spreadPips: number): SimulatedSymbol {
  return synthetic({
    code: `R_${percent}`,
    name: `Volatility ${percent} Index`,
    decimals,
    level,
    volatility: percent / 100,
    spreadPips,
    multipliers: multipliers[percent] as number[]
  })
}

function secondIndex(percent: number, level: number, other: Partial<SimulatedSymbol> = {}): SimulatedSymbol {
  return synthetic({
    code: `1HZ${percent}V`,
    name: `Volatility ${percent} (1s) Index`,
    decimals: 2,
    level,
    volatility: percent / 100,
    intervalSeconds: 1,
    multipliers: multipliers[percent] as number[],
    ...other
  })
}

const all: SimulatedSymbol[] = [
  volatilityIndex(10, 6320.5, 3, 50),
  volatilityIndex(25, 2710.4, 3, 100),
  volatilityIndex(50, 218.0926, 4, 100),
  volatilityIndex(75, 41250.77, 4, 5000),
  volatilityIndex(100, 1219.6, 2, 20),
  secondIndex(10, 8641.67),
  // The least amounts differ between assets, so that a client that assumes one for all is refused here.
  secondIndex(25, 401230.5, { leastMultiplierCents: 250, leastLimitCents: 50 }),
  secondIndex(50, 192840.3),
  secondIndex(75, 5120.44),
  secondIndex(100, 1780.21),
  synthetic({
    code: 'JD10',
    name: 'Jump 10 Index',
    submarket: 'jump_index',
    submarketName: 'Jump Indices',
    decimals: 2,
    level: 152340.1,
    volatility: 0.1,
    intervalSeconds: 1
  }),
  synthetic({
    code: 'BOOM1000',
    name: 'Boom 1000 Index',
    submarket: 'crash_index',
    submarketName: 'Crash/Boom Indices',
    decimals: 3,
    level: 16240.35,
    volatility: 0.3,
    intervalSeconds: 1,
    riseFall: false,
    digits: false,
    multipliers: [100, 200, 300, 400, 500]
  }),
  forex({ code: 'frxEURUSD', name: 'EUR/USD', decimals: 5, level: 1.08421, volatility: 0.08 }),
  forex({ code: 'frxUSDJPY', name: 'USD/JPY', decimals: 3, level: 149.372, volatility: 0.1 })
]

// As the index of 100 %, whose multipliers and durations they have.
const provoking = magics.map(magic => ({
  ...volatilityIndex(100, 1219.6, 2, 20),
  code: assetOf(magic),
  name: `Test: ${magic.flag}`
}))

/** Every symbol by its code, in the order lists show them. */
export const symbols: ReadonlyMap<string, SimulatedSymbol> = new Map(
  [...all, ...provoking].map(symbol => [symbol.code, symbol])
)

/** The symbols that a broker lists: those that provoke something only where it is there to be tested against. */
export function listedSymbols({ magic }: { magic: boolean }): SimulatedSymbol[] {
  return magic ? [...all, ...provoking] : all
}

/** Whether the calendar has the symbol's market open at `ms`. */
export function scheduledOpen(symbol: SimulatedSymbol, ms: number): boolean {
  if (!symbol.weekdaysOnly) return true
  const day = new Date(ms).getUTCDay()
  if (day === 0 || day === 6) return false
  return day !== 5 || ms % DAY_MS < FRIDAY_CLOSE_MS
}

/** The last moment at or before `ms` at which the calendar had the market open. */
export function lastScheduledOpen(symbol: SimulatedSymbol, ms: number): number {
  if (scheduledOpen(symbol, ms)) return ms
  let midnight = ms - (ms % DAY_MS)
  while (new Date(midnight).getUTCDay() !== 5) midnight -= DAY_MS
  return midnight + FRIDAY_CLOSE_MS - 1
}

/** The first moment at or after `ms` at which the calendar has the market open. */
export function nextScheduledOpen(symbol: SimulatedSymbol, ms: number): number {
  if (scheduledOpen(symbol, ms)) return ms
  let midnight = ms - (ms % DAY_MS) + DAY_MS
  while (new Date(midnight).getUTCDay() !== 1) midnight += DAY_MS
  return midnight
}

/** The session of a calendar day (UTC midnight, ms) as HH:MM:SS, or null when it has none. */
export function scheduledSession(symbol: SimulatedSymbol, midnightMs: number): { open: string; close: string } | null {
  const day = new Date(midnightMs).getUTCDay()
  if (symbol.weekdaysOnly && (day === 0 || day === 6)) return null
  return { open: '00:00:00', close: symbol.weekdaysOnly && day === 5 ? '20:55:00' : '23:59:59' }
}

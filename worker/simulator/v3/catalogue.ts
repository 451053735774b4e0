// Calls about what is traded, and when.
import { isDigit } from '../engine/contracts.ts'
import type { MarketTick, SimulatedMarket } from '../engine/market.ts'
import { typesOf } from '../engine/offers.ts'
import { listedSymbols, type SimulatedSymbol, scheduledSession, symbols } from '../engine/symbols.ts'
import { V3Error } from './errors.ts'
import type { Handler } from './v3.ts'

const DAY_MS = 86_400_000

/** The symbol of that code. Throws InvalidSymbol. */
export function symbolOf(code: string): SimulatedSymbol {
  const symbol = symbols.get(code)
  if (!symbol) throw new V3Error('InvalidSymbol', `Symbol ${code} is invalid.`, { field: 'symbol' })
  return symbol
}

const activeSymbols: Handler = (request, { v3 }) => {
  const { engine } = v3
  const types = request.contract_type as string[] | undefined
  const listed = listedSymbols(v3).filter(symbol => !types || typesOf(symbol).some(type => types.includes(type)))
  const active_symbols = listed.map((symbol, i) => ({
    allow_forward_starting: 0,
    display_name: symbol.name,
    display_order: i + 1,
    exchange_is_open: engine.market.sessions.isOpen(symbol) ? 1 : 0,
    is_trading_suspended: engine.market.sessions.isSuspended(symbol) ? 1 : 0,
    market: symbol.market,
    market_display_name: symbol.marketName,
    pip: Number((10 ** -symbol.decimals).toFixed(symbol.decimals)),
    subgroup: symbol.market === 'forex' ? 'none' : 'synthetics',
    subgroup_display_name: symbol.market === 'forex' ? 'None' : 'Synthetics',
    submarket: symbol.submarket,
    submarket_display_name: symbol.submarketName,
    symbol: symbol.code,
    symbol_type: symbol.market === 'forex' ? 'forex' : 'stockindex',
    ...(request.active_symbols === 'full' ? presentSpot(engine.market.latest(symbol), engine.clock.wall()) : {})
  }))
  return { body: { active_symbols } }
}

function presentSpot(tick: MarketTick, nowMs: number): Record<string, unknown> {
  return {
    spot: tick.quote,
    spot_age: String(Math.max(0, Math.floor(nowMs / 1000) - tick.epoch)),
    spot_percentage_change: '0.00',
    spot_time: new Date(tick.epoch * 1000).toISOString().slice(0, 19).replace('T', ' ')
  }
}

const contractsFor: Handler = (request, { v3: { engine } }) => {
  const symbol = symbolOf(request.contracts_for as string)
  const { market } = engine
  const nowMs = engine.clock.wall()
  const available = catalogueOf(symbol)
  const midnightMs = nowMs - (nowMs % DAY_MS)
  const session = sessionOf(market, symbol, { midnightMs, nowMs })
  return {
    body: {
      contracts_for: {
        available,
        close: session && midnightMs / 1000 + secondsOf(session.close),
        feed_license: 'realtime',
        hit_count: available.length,
        open: session && midnightMs / 1000 + secondsOf(session.open),
        spot: market.latest(symbol).quote
      }
    }
  }
}

function catalogueOf(symbol: SimulatedSymbol): Record<string, unknown>[] {
  const base = {
    exchange_name: symbol.market === 'forex' ? 'FOREX' : 'RANDOM',
    market: symbol.market,
    start_type: 'spot',
    submarket: symbol.submarket,
    underlying_symbol: symbol.code
  }
  const ticks = { expiry_type: 'tick', min_contract_duration: '1t', max_contract_duration: `${symbol.maxTicks}t` }
  const intraday = {
    expiry_type: 'intraday',
    min_contract_duration: spell(symbol.minSeconds),
    max_contract_duration: '1d'
  }
  const daily = { expiry_type: 'daily', min_contract_duration: '1d', max_contract_duration: '365d' }
  return typesOf(symbol).flatMap((contract_type): Record<string, unknown>[] => {
    if (contract_type.startsWith('MULT')) {
      return [
        {
          ...base,
          barrier_category: 'american',
          barriers: 0,
          contract_category: 'multiplier',
          contract_category_display: 'Multiply Up/Multiply Down',
          contract_type,
          default_stake: 10,
          expiry_type: 'no_expiry',
          max_contract_duration: '',
          min_contract_duration: '',
          multiplier_range: symbol.multipliers,
          sentiment: contract_type === 'MULTUP' ? 'up' : 'down'
        }
      ]
    }
    const common = { ...base, contract_type, default_stake: 10 }
    if (isDigit(contract_type)) {
      const takesDigit = contract_type !== 'DIGITEVEN' && contract_type !== 'DIGITODD'
      return [
        {
          ...common,
          ...ticks,
          barrier_category: 'non_financial',
          barriers: takesDigit ? 1 : 0,
          contract_category: 'digits',
          contract_category_display: 'Digits',
          sentiment: contract_type.slice('DIGIT'.length).toLowerCase(),
          ...(takesDigit ? { last_digit_range: digitsOf(contract_type) } : {})
        }
      ]
    }
    const rise = {
      ...common,
      barrier_category: 'euro_atm',
      barriers: 0,
      contract_category: contract_type.endsWith('E') ? 'callputequal' : 'callput',
      contract_category_display: contract_type.endsWith('E') ? 'Rise/Fall Equal' : 'Up/Down',
      sentiment: contract_type.startsWith('CALL') ? 'up' : 'down'
    }
    return [...(symbol.maxTicks > 0 ? [{ ...rise, ...ticks }] : []), { ...rise, ...intraday }, { ...rise, ...daily }]
  })
}

function digitsOf(type: string): number[] {
  const digits = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
  if (type === 'DIGITOVER') return digits.slice(0, 9)
  return type === 'DIGITUNDER' ? digits.slice(1) : digits
}

const tradingTimes: Handler = (request, { v3 }) => {
  const { engine } = v3
  const requested = request.trading_times as string
  const nowMs = engine.clock.wall()
  const midnightMs = requested === 'today' ? nowMs - (nowMs % DAY_MS) : midnightOf(requested)
  const markets = new Map<string, Map<string, Record<string, unknown>[]>>()
  for (const symbol of listedSymbols(v3)) {
    const submarkets = markets.get(symbol.marketName) ?? new Map<string, Record<string, unknown>[]>()
    const rows = submarkets.get(symbol.submarketName) ?? []
    rows.push(timesOf(engine.market, symbol, { midnightMs, nowMs }))
    submarkets.set(symbol.submarketName, rows)
    markets.set(symbol.marketName, submarkets)
  }
  return {
    body: {
      trading_times: {
        markets: [...markets].map(([name, submarkets]) => ({
          name,
          submarkets: [...submarkets].map(([name, rows]) => ({ name, symbols: rows }))
        }))
      }
    }
  }
}

/** The day's first millisecond. Throws InputValidationFailed for a day there is not. */
function midnightOf(text: string): number {
  const [year, month, day] = text.split('-').map(Number) as [number, number, number]
  const date = new Date(Date.UTC(year, month - 1, day))
  if (date.getUTCMonth() === month - 1 && date.getUTCDate() === day) return date.getTime()
  throw new V3Error('InputValidationFailed', 'Input validation failed: trading_times.', { trading_times: 'is no date' })
}

function timesOf(
  market: SimulatedMarket,
  symbol: SimulatedSymbol,
  at: { midnightMs: number; nowMs: number }
): Record<string, unknown> {
  const session = sessionOf(market, symbol, at)
  const settlement = session ? '23:59:59' : '--'
  return {
    events: symbol.weekdaysOnly ? [{ dates: 'Fridays', descrip: 'Closes early (at 20:55)' }] : [],
    name: symbol.name,
    symbol: symbol.code,
    times: { open: [session?.open ?? '--'], close: [session?.close ?? '--'], settlement },
    trading_days: ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', ...(symbol.weekdaysOnly ? [] : ['Sat', 'Sun'])]
  }
}

/** A day's session by the calendar, unless a standing order changes that day. */
function sessionOf(
  market: SimulatedMarket,
  symbol: SimulatedSymbol,
  { midnightMs, nowMs }: { midnightMs: number; nowMs: number }
): { open: string; close: string } | null {
  const session = scheduledSession(symbol, midnightMs)
  const forced = market.sessions.order(symbol)
  const today = nowMs - (nowMs % DAY_MS)
  if (!forced || midnightMs < today) return session
  if (forced.open) return midnightMs === today ? { open: '00:00:00', close: '23:59:59' } : session
  if (forced.untilMs === Infinity) return midnightMs === today ? null : session
  if (forced.untilMs >= midnightMs + DAY_MS) return null
  if (forced.untilMs <= midnightMs || !session) return session
  return { open: new Date(forced.untilMs).toISOString().slice(11, 19), close: session.close }
}

function secondsOf(time: string): number {
  const [hours, minutes, seconds] = time.split(':').map(Number) as [number, number, number]
  return hours * 3_600 + minutes * 60 + seconds
}

function spell(seconds: number): string {
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`
}

export const catalogueCalls: Record<string, Handler> = {
  active_symbols: activeSymbols,
  contracts_for: contractsFor,
  trading_times: tradingTimes
}

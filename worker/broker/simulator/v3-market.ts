// Calls about the market: what is traded, when, and at what prices; and about the broker itself.
import { currencies } from './accounts.ts'
import { isDigit } from './contracts.ts'
import type { Market, Tick } from './market.ts'
import { MAX_MULTIPLIER_STAKE_CENTS, MIN_MULTIPLIER_STAKE_CENTS, MIN_STAKE_CENTS, typesOf } from './offers.ts'
import type { CallClass } from './quota.ts'
import { type MarketSymbol, scheduledSession, symbols } from './symbols.ts'
import type { Answer, Call, Handler, V3 } from './v3.ts'
import { V3Error } from './v3-errors.ts'
import type { Stream } from './v3-stream.ts'

const DAY_MS = 86_400_000
const MAX_HISTORY = 5_000
const DEFAULT_HISTORY = 1_000
const DEFAULT_GRANULARITY = 60
const UNLIMITED = 1_000_000_000
/** Live proposals a connection may have. */
export const MAX_PROPOSAL_STREAMS = 5

const time: Handler = (_request, { v3 }) => ({ body: { time: Math.floor(v3.engine.clock.now() / 1000) } })

const ping: Handler = () => ({ body: { ping: 'pong' } })

const forget: Handler = (request, { connection }) => ({
  body: { forget: connection.streams.forget(request.forget as string) ? 1 : 0 }
})

const forgetAll: Handler = (request, { connection }) => ({
  body: { forget_all: connection.streams.forgetAll([request.forget_all as string | string[]].flat()) }
})

const websiteStatus: Handler = (request, { v3, connection, tail }) => {
  const present = () => ({
    api_call_limits: {
      max_proposal_subscription: { applies_to: 'subscribing to proposal concurrently', max: MAX_PROPOSAL_STREAMS },
      max_requestes_general: { applies_to: 'rest of calls', ...limitOf(v3, 'general') },
      max_requests_outcome: { applies_to: 'portfolio, statement and proposal', ...limitOf(v3, 'outcome') },
      max_requests_pricing: { applies_to: 'proposal and proposal_open_contract', ...limitOf(v3, 'pricing') }
    },
    clients_country: 'aq',
    currencies_config: Object.fromEntries(currencies.map(currency => [currency, currencyConfig(currency)])),
    site_status: v3.siteStatus,
    supported_languages: ['EN'],
    terms_conditions_version: 'Version 1'
  })
  if (request.subscribe !== 1) return { body: { website_status: present() } }
  const stream = connection.streams.open({ kind: 'website_status', key: '', tail }, ({ push }) => {
    const listener = () => push('website_status', present())
    v3.statusListeners.add(listener)
    return () => v3.statusListeners.delete(listener)
  })
  return { body: { website_status: present() }, stream }
}

function limitOf(v3: V3, callClass: CallClass): { hourly: number; minutely: number } {
  const limit = v3.quota.limits?.[callClass]
  return { hourly: limit?.hour ?? UNLIMITED, minutely: limit?.minute ?? UNLIMITED }
}

function currencyConfig(name: string): Record<string, unknown> {
  return {
    fractional_digits: 2,
    is_deposit_suspended: 0,
    is_suspended: 0,
    is_withdrawal_suspended: 0,
    name,
    stake_default: 10,
    transfer_between_accounts: { fees: {}, limits: null },
    type: 'fiat'
  }
}

const activeSymbols: Handler = (request, { v3: { engine } }) => {
  const types = request.contract_type as string[] | undefined
  const listed = [...symbols.values()].filter(symbol => !types || typesOf(symbol).some(type => types.includes(type)))
  const active_symbols = listed.map((symbol, i) => ({
    allow_forward_starting: 0,
    display_name: symbol.name,
    display_order: i + 1,
    exchange_is_open: engine.market.isOpen(symbol) ? 1 : 0,
    is_trading_suspended: engine.market.isSuspended(symbol) ? 1 : 0,
    market: symbol.market,
    market_display_name: symbol.marketName,
    pip: Number((10 ** -symbol.decimals).toFixed(symbol.decimals)),
    subgroup: symbol.market === 'forex' ? 'none' : 'synthetics',
    subgroup_display_name: symbol.market === 'forex' ? 'None' : 'Synthetics',
    submarket: symbol.submarket,
    submarket_display_name: symbol.submarketName,
    symbol: symbol.code,
    symbol_type: symbol.market === 'forex' ? 'forex' : 'stockindex',
    ...(request.active_symbols === 'full' ? presentSpot(engine.market.latest(symbol), engine.clock.now()) : {})
  }))
  return { body: { active_symbols } }
}

function presentSpot(tick: Tick, nowMs: number): Record<string, unknown> {
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
  const nowMs = engine.clock.now()
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

function catalogueOf(symbol: MarketSymbol): Record<string, unknown>[] {
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
          max_stake: MAX_MULTIPLIER_STAKE_CENTS / 100,
          min_contract_duration: '',
          min_stake: MIN_MULTIPLIER_STAKE_CENTS / 100,
          multiplier_range: symbol.multipliers,
          sentiment: contract_type === 'MULTUP' ? 'up' : 'down'
        }
      ]
    }
    const common = { ...base, contract_type, default_stake: 10, min_stake: MIN_STAKE_CENTS / 100 }
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

const tradingTimes: Handler = (request, { v3: { engine } }) => {
  const asked = request.trading_times as string
  const nowMs = engine.clock.now()
  const date =
    asked === 'today' ? new Date(nowMs) : new Date(Date.UTC(...(dateParts(asked) as [number, number, number])))
  if (Number.isNaN(date.getTime()))
    throw new V3Error('InputValidationFailed', 'Invalid date format.', { trading_times: asked })
  const midnightMs = date.getTime() - (date.getTime() % DAY_MS)
  const markets = new Map<string, Map<string, Record<string, unknown>[]>>()
  for (const symbol of symbols.values()) {
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

function dateParts(text: string): [number, number, number] {
  const [year, month, day] = text.split('-').map(Number) as [number, number, number]
  return [year, month - 1, day]
}

function timesOf(
  market: Market,
  symbol: MarketSymbol,
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
  market: Market,
  symbol: MarketSymbol,
  { midnightMs, nowMs }: { midnightMs: number; nowMs: number }
): { open: string; close: string } | null {
  const session = scheduledSession(symbol, midnightMs)
  const forced = market.forced(symbol)
  const today = nowMs - (nowMs % DAY_MS)
  if (!forced || midnightMs < today) return session
  if (forced.open) return midnightMs === today ? { open: '00:00:00', close: '23:59:59' } : session
  if (forced.untilMs === Infinity) return midnightMs === today ? null : session
  if (forced.untilMs >= midnightMs + DAY_MS) return null
  if (forced.untilMs <= midnightMs || !session) return session
  return { open: new Date(forced.untilMs).toISOString().slice(11, 19), close: session.close }
}

const ticks: Handler = (request, call) => {
  const codes = [request.ticks as string | string[]].flat()
  return codes.map((code): Answer => {
    const symbol = openSymbol(code, call)
    const { market } = call.v3.engine
    if (request.subscribe !== 1) return { body: { tick: presentTick(market.latest(symbol)) } }
    const stream = openTicks(call, symbol, 'ticks')
    return { body: { tick: presentTick(market.latest(symbol), stream.id) }, stream }
  })
}

const ticksHistory: Handler = (request, call) => {
  const { market, clock } = call.v3.engine
  const code = request.ticks_history as string
  const symbol = request.adjust_start_time === 1 ? symbolOf(code) : openSymbol(code, call)
  const nowMs = clock.now()
  const endMs = Math.min(request.end === 'latest' ? nowMs : Number(request.end) * 1000 + 999, nowMs)
  const startMs = ((request.start as number | undefined) ?? 0) * 1000
  const count = Math.min(Math.max((request.count as number | undefined) ?? DEFAULT_HISTORY, 1), MAX_HISTORY)
  const granularitySeconds = (request.granularity as number | undefined) ?? DEFAULT_GRANULARITY
  if (request.style === 'candles') {
    const candles = market.candles(symbol, { startMs, endMs, count, granularitySeconds })
    const body = { candles, pip_size: symbol.decimals }
    const stream = request.subscribe === 1 ? openCandles(call, symbol, granularitySeconds) : undefined
    return { body, msgType: 'candles', ...(stream ? { stream } : {}) }
  }
  const history = market.history(symbol, { startMs, endMs, count })
  const body = {
    history: { prices: history.map(tick => tick.quote), times: history.map(tick => tick.epoch) },
    pip_size: symbol.decimals
  }
  const stream = request.subscribe === 1 ? openTicks(call, symbol, 'ticks_history') : undefined
  return { body, msgType: 'history', ...(stream ? { stream } : {}) }
}

function openTicks({ v3, connection, tail }: Call, symbol: MarketSymbol, from: string): Stream {
  return connection.streams.open({ kind: 'ticks', key: `${from} ${symbol.code}`, tail }, ({ id, push }) =>
    v3.engine.market.watch(symbol, tick => push('tick', presentTick(tick, id)))
  )
}

function openCandles({ v3, connection, tail }: Call, symbol: MarketSymbol, granularity: number): Stream {
  const { market } = v3.engine
  const lengthMs = granularity * 1000
  const key = `${symbol.code} ${granularity}`
  return connection.streams.open({ kind: 'candles', key, tail }, ({ id, push }) => {
    let openTime = -1
    let [open, high, low] = [0, 0, 0]
    return market.watch(symbol, tick => {
      const begin = Math.floor((tick.n * market.periodMs(symbol)) / lengthMs) * lengthMs
      if (begin !== openTime) {
        openTime = begin
        const range = {
          startMs: begin,
          endMs: tick.n * market.periodMs(symbol),
          count: 1,
          granularitySeconds: granularity
        }
        const candle = market.candles(symbol, range)[0]
        ;[open, high, low] = [candle?.open ?? tick.quote, candle?.high ?? tick.quote, candle?.low ?? tick.quote]
      }
      high = Math.max(high, tick.quote)
      low = Math.min(low, tick.quote)
      const print = (price: number) => price.toFixed(symbol.decimals)
      push('ohlc', {
        close: print(tick.quote),
        epoch: tick.epoch,
        granularity,
        high: print(high),
        id,
        low: print(low),
        open: print(open),
        open_time: openTime / 1000,
        pip_size: symbol.decimals,
        symbol: symbol.code
      })
    })
  })
}

function presentTick(tick: Tick, id?: string): Record<string, unknown> {
  const { symbol } = tick
  const unit = 10 ** symbol.decimals
  return {
    ask: (tick.pips + symbol.spreadPips) / unit,
    bid: (tick.pips - symbol.spreadPips) / unit,
    epoch: tick.epoch,
    ...(id === undefined ? {} : { id }),
    pip_size: symbol.decimals,
    quote: tick.quote,
    symbol: symbol.code
  }
}

function symbolOf(code: string): MarketSymbol {
  const symbol = symbols.get(code)
  if (!symbol) throw new V3Error('InvalidSymbol', `Symbol ${code} is invalid.`, { field: 'symbol' })
  return symbol
}

function openSymbol(code: string, { v3 }: Call): MarketSymbol {
  const symbol = symbolOf(code)
  if (!v3.engine.market.isOpen(symbol)) throw new V3Error('MarketIsClosed', 'This market is presently closed.')
  return symbol
}

function secondsOf(time: string): number {
  const [hours, minutes, seconds] = time.split(':').map(Number) as [number, number, number]
  return hours * 3_600 + minutes * 60 + seconds
}

function spell(seconds: number): string {
  return seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`
}

export const marketCalls: Record<string, Handler> = {
  time,
  ping,
  forget,
  forget_all: forgetAll,
  website_status: websiteStatus,
  active_symbols: activeSymbols,
  contracts_for: contractsFor,
  trading_times: tradingTimes,
  ticks,
  ticks_history: ticksHistory
}

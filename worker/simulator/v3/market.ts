// Calls about prices, live and past, and about the broker itself. What is traded is in catalogue.ts.
import { currencies, currencyType, digitsOf } from '../engine/currencies.ts'
import type { MarketTick } from '../engine/market.ts'
import type { CallClass } from '../engine/quota.ts'
import type { SimulatedSymbol } from '../engine/symbols.ts'
import { symbolOf } from './catalogue.ts'
import { V3Error } from './errors.ts'
import type { SimulatedStream } from './stream.ts'
import type { CallContext, CallResponse, Handler, V3 } from './v3.ts'

const MAX_HISTORY = 5_000
const DEFAULT_HISTORY = 1_000
const DEFAULT_GRANULARITY = 60
const UNLIMITED = 1_000_000_000
/** Live proposals a connection may have. */
export const MAX_PROPOSAL_STREAMS = 5

const time: Handler = (_request, { v3 }) => ({ body: { time: Math.floor(v3.engine.clock.wall() / 1000) } })

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

const exchangeRates: Handler = (request, { v3: { engine } }) => {
  const base = request.base_currency as string
  const target = request.target_currency as string | undefined
  const rates = engine.rates.from(base)
  if (!rates || (target !== undefined && rates[target] === undefined)) {
    throw new V3Error('InvalidCurrency', 'There is no exchange rate for this currency.')
  }
  const requested = target === undefined ? rates : { [target]: rates[target] }
  return {
    body: { exchange_rates: { base_currency: base, date: Math.floor(engine.clock.wall() / 1000), rates: requested } }
  }
}

function limitOf(v3: V3, callClass: CallClass): { hourly: number; minutely: number } {
  const limit = v3.quota.limits?.[callClass]
  return { hourly: limit?.hour ?? UNLIMITED, minutely: limit?.minute ?? UNLIMITED }
}

function currencyConfig(name: string): Record<string, unknown> {
  return {
    fractional_digits: digitsOf(name),
    is_deposit_suspended: 0,
    is_suspended: 0,
    is_withdrawal_suspended: 0,
    name,
    stake_default: 10,
    transfer_between_accounts: { fees: {}, limits: null },
    type: currencyType(name)
  }
}

const ticks: Handler = (request, call) => {
  const codes = [request.ticks as string | string[]].flat()
  return codes.map((code): CallResponse => {
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
  const nowMs = clock.wall()
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

function openTicks({ v3, connection, tail }: CallContext, symbol: SimulatedSymbol, from: string): SimulatedStream {
  return connection.streams.open({ kind: 'ticks', key: `${from} ${symbol.code}`, tail }, ({ id, push }) =>
    v3.engine.market.watch(symbol, tick => push('tick', presentTick(tick, id)))
  )
}

function openCandles(
  { v3, connection, tail }: CallContext,
  symbol: SimulatedSymbol,
  granularity: number
): SimulatedStream {
  const { market } = v3.engine
  const lengthMs = granularity * 1000
  const key = `${symbol.code} ${granularity}`
  return connection.streams.open({ kind: 'candles', key, tail }, ({ id, push }) => {
    let openTime = -1
    let [open, high, low] = [0, 0, 0]
    return market.watch(symbol, tick => {
      const begin = Math.floor((tick.n * market.sessions.periodMs(symbol)) / lengthMs) * lengthMs
      if (begin !== openTime) {
        openTime = begin
        const range = {
          startMs: begin,
          endMs: tick.n * market.sessions.periodMs(symbol),
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

function presentTick(tick: MarketTick, id?: string): Record<string, unknown> {
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

function openSymbol(code: string, { v3 }: CallContext): SimulatedSymbol {
  const symbol = symbolOf(code)
  if (!v3.engine.market.sessions.isOpen(symbol)) throw v3.engine.closed(symbol)
  return symbol
}

export const marketCalls: Record<string, Handler> = {
  time,
  ping,
  forget,
  forget_all: forgetAll,
  website_status: websiteStatus,
  exchange_rates: exchangeRates,
  ticks,
  ticks_history: ticksHistory
}

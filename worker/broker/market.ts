// Market data of one application: symbols, hours, candles, multiplier specifications and the broker's clock, each
// remembered for as long as it may be.

import Big from 'big.js'
import type { Candle, MultiplierSpec } from '../../schemas/market.ts'
import { BrokerError } from './broker-error.ts'
import type { Dialect, Request } from './dialects/dialect.ts'
import { hasNoRates, readDigits, readRates } from './dialects/exchange.ts'
import {
  type Body,
  bodyOf,
  decimalOf,
  integerOf,
  listOf,
  numberOf,
  optionalDecimal,
  timeOf
} from './dialects/reading.ts'
import { readTradingDay } from './dialects/trading-times.ts'
import { Hours, secondsUntil, type TradingDay } from './hours.ts'
import type { BrokerLog } from './port.ts'
import {
  type BinaryContract,
  type Contract,
  type ExchangeRate,
  type Least,
  type Market,
  type MarketSymbol,
  stakeCurrency
} from './port.ts'
import { BrokerTicks } from './ticks.ts'
import { type ReconnectingConnection, readResponse } from './transport/reconnecting.ts'
import type { Frame } from './transport/sockets.ts'

interface MarketOptions {
  reconnecting: ReconnectingConnection
  dialect: Dialect
  log: BrokerLog
  /** Wall clock, ms. */
  now(): number
  /** Asset → decimals of its printed price; filled in as symbols are read. */
  pipSizes: Map<string, number>
  /** How long ticks go on without a subscriber. */
  ticksKeptMs: number
}

const SYMBOLS_FRESH_MS = 5_000
const CLOCK_FRESH_MS = 180_000
// The wall clock is corrected by less than this from one minute to the next unless it is set.
const CLOCK_STEP_MS = 500
// At most thirty of the 180 calls a minute that an application has.
const RATES_FRESH_MS = 2_000
const DIGITS_FRESH_MS = 3_600_000
const LEAST_FRESH_MS = 300_000
const MAX_CANDLES = 1_000
const MAX_QUOTED = 1_000
const REOPENING_WITHIN_MS = 4_000

export class MarketData implements Market {
  readonly ticks: BrokerTicks
  lastSymbols: { symbols: MarketSymbol[]; at: number } | null = null
  readonly #options: MarketOptions
  readonly #hours: Hours
  #symbols: Fresh<MarketSymbol[]> | null = null
  #offset: Fresh<number> | null = null
  /** The content of the last quote of an asset in a currency. */
  readonly #quoted = new Map<string, Quoted>()
  /** The minimums requested last, at most as many as quotes. */
  readonly #least = new Map<string, Fresh<Least>>()
  // The wall clock minus the monotonic one when the offset was measured.
  #offsetLeadMs = 0
  #rates: Fresh<Map<string, string>> | null = null
  #digits: Fresh<Map<string, number>> | null = null

  constructor(options: MarketOptions) {
    this.#options = options
    const { reconnecting, dialect, log, pipSizes, ticksKeptMs: keptMs } = options
    this.ticks = new BrokerTicks({ reconnecting, market: this, log, pipSizes, mostStreams: dialect.maxStreams, keptMs })
    this.#hours = new Hours({ tradingDay: day => this.#tradingDay(day), now: () => this.#brokerSeconds() })
  }

  symbols(): Promise<MarketSymbol[]> {
    this.#symbols = this.#fresh(this.#symbols, SYMBOLS_FRESH_MS, () => this.#readSymbols())
    return this.#symbols.value
  }

  secondsUntilOpen(asset: string): Promise<number | null> {
    return this.#hours.secondsUntilOpen(asset)
  }

  /**
   * The same after a refusal for a closed market that named these opening times; null when it is not known within a
   * few seconds.
   */
  async secondsUntilReopening(asset: string, openings: readonly number[] = []): Promise<number | null> {
    // Where the broker's clock cannot be read in time, ours is used.
    const roughly = () => secondsUntil(openings, this.#options.now() / 1000)
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<number | null>(resolve => {
      timer = setTimeout(() => resolve(roughly()), REOPENING_WITHIN_MS)
    })
    const known = this.#reopening(asset, openings).catch((error: unknown) => {
      // The caller needs the refusal; the opening time is an addition.
      this.#options.log.warn({ err: error, asset }, 'the opening time of a closed market could not be read')
      return roughly()
    })
    return await Promise.race([known, late]).finally(() => clearTimeout(timer))
  }

  async #reopening(asset: string, openings: readonly number[]): Promise<number | null> {
    const stated = openings.length === 0 ? null : secondsUntil(openings, await this.#brokerSeconds())
    return stated ?? (await this.#hours.secondsUntilReopening(asset))
  }

  async candles(
    asset: string,
    { granularitySeconds, count }: { granularitySeconds: number; count: number }
  ): Promise<Candle[]> {
    const window = { end: 'latest', count: Math.max(1, Math.min(count, MAX_CANDLES)), adjust_start_time: 1 }
    const request = { ticks_history: asset, style: 'candles', granularity: granularitySeconds, ...window }
    const frame = await this.#options.reconnecting.read('ticks_history', request, { responseKey: 'candles' })
    // No document states their order.
    return readResponse(frame, ({ candles }) =>
      listOf(candles, 'candles')
        .map(readCandle)
        .sort((a, b) => a.epoch - b.epoch)
    )
  }

  async multiplierSpec(asset: string, currency: string): Promise<MultiplierSpec> {
    const symbol = (await this.symbols()).find(each => each.asset === asset)
    if (symbol === undefined) throw unknownAsset()
    const { dialect, reconnecting } = this.#options
    const frame = await reconnecting.read('contracts_for', dialect.contractsFor(asset, currency))
    const { defaultStake, ...offer } = readResponse(frame, readMultiplierOffer)
    const marketOpen = symbol.open && !symbol.suspended
    const secondsUntilOpen = marketOpen ? 0 : await this.secondsUntilReopening(asset)
    const [multiplier] = offer.multipliers
    const quoted = multiplier === undefined ? null : await this.#quote(asset, { currency, multiplier, defaultStake })
    const key = `${asset} ${currency}`
    // While the market is closed there is no quote, and the last one is used.
    if (quoted !== null && (this.#quoted.size < MAX_QUOTED || this.#quoted.has(key))) this.#quoted.set(key, quoted)
    return { asset, currency, ...offer, ...(this.#quoted.get(key) ?? unquoted), marketOpen, secondsUntilOpen }
  }

  async payoutOf(contract: BinaryContract): Promise<string> {
    const { dialect, reconnecting } = this.#options
    const frame = await reconnecting.read('proposal', dialect.quote(contract))
    return readResponse(frame, ({ proposal }) => decimalOf(bodyOf(proposal, 'proposal'), 'payout'))
  }

  leastOf(contract: Contract): Promise<Least> {
    const { asset, currency } = contract
    const what = contract.kind === 'BINARY' ? contract.contractType : contract.multiplier
    const key = `${contract.kind} ${what} ${asset} ${currency}`
    const known = this.#least.get(key) ?? null
    const fresh = this.#fresh(known, LEAST_FRESH_MS, () => this.#readLeast(contract))
    // The entry requested last is evicted last.
    this.#least.delete(key)
    this.#least.set(key, fresh)
    if (this.#least.size > MAX_QUOTED) this.#least.delete(this.#least.keys().next().value as string)
    return fresh.value
  }

  async exchange(currency: string): Promise<ExchangeRate | null> {
    const calls = this.#options.dialect.exchange
    if (calls === null) return null
    this.#rates = this.#fresh(this.#rates, RATES_FRESH_MS, () => this.#readRates(calls.ratesFrom(stakeCurrency)))
    this.#digits = this.#fresh(this.#digits, DIGITS_FRESH_MS, () => this.#readDigits(calls.currencies))
    const [rates, digits] = await Promise.all([this.#rates.value, this.#digits.value])
    const [rate, decimals] = [rates.get(currency), digits.get(currency)]
    return rate === undefined || decimals === undefined ? null : { rate, digits: decimals }
  }

  clockOffset(): Promise<number> {
    // Measurements from before a set wall clock or a suspended machine are worthless.
    const wallLeadMs = this.#options.now() - performance.now()
    if (Math.abs(wallLeadMs - this.#offsetLeadMs) > CLOCK_STEP_MS) {
      this.#offset = null
      this.#offsetLeadMs = wallLeadMs
    }
    this.#offset = this.#fresh(this.#offset, CLOCK_FRESH_MS, () => this.#readOffset())
    return this.#offset.value
  }

  async #brokerSeconds(): Promise<number> {
    return this.#options.now() / 1000 + (await this.clockOffset())
  }

  async #readOffset(): Promise<number> {
    const { reconnecting, now } = this.#options
    await reconnecting.connect()
    let requestedAt = now()
    // Before it is sent, a call may wait for the quota, or for another try.
    const beforeSend = () => {
      requestedAt = now()
    }
    const frame = await reconnecting.read('time', { time: 1 }, { beforeSend })
    const halfwayMs = (requestedAt + now()) / 2
    // The broker cuts seconds off: on average its time is half a second later.
    return readResponse(frame, each => timeOf(each, 'time')) + 0.5 - halfwayMs / 1000
  }

  /** Currency → its rate; empty where the broker has none. */
  async #readRates(request: Request): Promise<Map<string, string>> {
    try {
      return readResponse(await this.#options.reconnecting.read('exchange_rates', request), readRates)
    } catch (error) {
      if (error instanceof BrokerError && hasNoRates(error)) return new Map()
      throw error
    }
  }

  async #readDigits(request: Request): Promise<Map<string, number>> {
    return readResponse(await this.#options.reconnecting.read('website_status', request), readDigits)
  }

  async #readSymbols(): Promise<MarketSymbol[]> {
    const { dialect, reconnecting, pipSizes } = this.#options
    const frame = await reconnecting.read('active_symbols', { active_symbols: 'brief' })
    const rows = readResponse(frame, ({ active_symbols: list }) =>
      listOf(list, 'active_symbols').map(row => bodyOf(row, 'a symbol'))
    )
    const symbols = readResponse(frame, () => rows.map(row => dialect.readSymbol(row)))
    for (const { asset, pipSize } of symbols) pipSizes.set(asset, pipSize)
    this.lastSymbols = { symbols, at: Date.now() }
    return symbols
  }

  async #tradingDay(day: string): Promise<TradingDay> {
    const { dialect, reconnecting } = this.#options
    const frame = await reconnecting.read('trading_times', { trading_times: day })
    return readResponse(frame, ({ trading_times: times }) =>
      readTradingDay(times, day, row => dialect.readTradedAsset(row))
    )
  }

  /**
   * The commission and the limits of the stake, which the broker gives in a quote alone; null when there is no quote to be
   * had now.
   */
  async #quote(
    asset: string,
    { currency, multiplier, defaultStake }: { currency: string; multiplier: number; defaultStake: number }
  ): Promise<Quoted | null> {
    const { dialect, reconnecting, log } = this.#options
    // The larger the stake, the less its commission is rounded; it may be more than the broker takes.
    for (const stake of new Set([Math.max(PRECISE_STAKE, defaultStake), defaultStake])) {
      try {
        const frame = await reconnecting.read(
          'proposal',
          dialect.quoteMultiplier(asset, { currency, multiplier, stake })
        )
        return readResponse(frame, ({ proposal }) => readQuoted(bodyOf(proposal, 'proposal'), { stake, multiplier }))
      } catch (error) {
        if (!(error instanceof BrokerError)) throw error
        log.info({ asset, stake, brokerCode: error.brokerCode }, 'no quote to read commission and limits from')
        if (error.code !== 'INVALID_CONTRACT') return null
      }
    }
    return null
  }

  /** A quote of the contract has the least stake; the least limits of that stake are in a quote of it. */
  async #readLeast(contract: Contract): Promise<Least> {
    const { dialect, reconnecting } = this.#options
    if (contract.kind === 'BINARY') {
      const frame = await reconnecting.read('proposal', dialect.quote(contract))
      return { ...noLimits, stake: readResponse(frame, quote => leastIn(quote, 'stake')) }
    }
    const { asset, currency, multiplier } = contract
    const quote = (stake: string) =>
      reconnecting.read('proposal', dialect.quoteMultiplier(asset, { currency, multiplier, stake: Number(stake) }))
    const frame = await quote(contract.stake)
    const stake = readResponse(frame, body => leastIn(body, 'stake'))
    const smallest = stake === null || Number(stake) === Number(contract.stake) ? frame : await quote(stake)
    return readResponse(smallest, body => ({
      stake,
      stopLoss: leastIn(body, 'stop_loss'),
      takeProfit: leastIn(body, 'take_profit')
    }))
  }

  /** Caches a read while it is fresh; concurrent callers share one request; a failure is not cached. */
  #fresh<T>(known: Fresh<T> | null, freshMs: number, read: () => Promise<T>): Fresh<T> {
    const now = performance.now()
    if (known !== null && !known.failed && now - known.readAt < freshMs) return known
    const next: Fresh<T> = { readAt: now, failed: false, value: read() }
    next.value.catch(() => {
      next.failed = true
    })
    return next
  }
}

interface Fresh<T> {
  readAt: number
  failed: boolean
  value: Promise<T>
}

type MultiplierOffer = Pick<MultiplierSpec, 'multipliers' | 'cancellation'> & { defaultStake: number }
type Quoted = Pick<MultiplierSpec, 'minStake' | 'maxStake' | 'commissionPct'>

const PRECISE_STAKE = 100
const USUAL_STAKE = 10
/** Where the broker states no limits, 1 has been the least stake that it accepts. */
const unquoted: Quoted = { minStake: '1', maxStake: null, commissionPct: null }

function readCandle(value: unknown): Candle {
  const body = bodyOf(value, 'a candle')
  return {
    epoch: integerOf(body, 'epoch'),
    open: numberOf(body, 'open'),
    high: numberOf(body, 'high'),
    low: numberOf(body, 'low'),
    close: numberOf(body, 'close')
  }
}

function readMultiplierOffer({ contracts_for: offers }: Frame): MultiplierOffer {
  const available = listOf(bodyOf(offers, 'contracts_for').available, 'available').map(row => bodyOf(row, 'an offer'))
  const row = available.find(each => each.contract_type === 'MULTUP')
  if (row === undefined) return { multipliers: [], cancellation: [], defaultStake: USUAL_STAKE }
  const multipliers = listOf(row.multiplier_range ?? [], 'multiplier_range').map(Number)
  const cancellation = listOf(row.cancellation_range ?? [], 'cancellation_range').map(String)
  const defaultStake = Number(optionalDecimal(row, 'default_stake') ?? USUAL_STAKE) || USUAL_STAKE
  return { multipliers: multipliers.filter(Number.isFinite), cancellation, defaultStake }
}

const noLimits = { stopLoss: null, takeProfit: null }

/** The least amount that a quote states for a term of the contract. */
function leastIn({ proposal }: Frame, term: 'stake' | 'stop_loss' | 'take_profit'): string | null {
  return optionalDecimal(boundsIn(bodyOf(proposal, 'proposal'), term), 'min')
}

/** The bounds of a term in a quote; empty where it has none. */
function boundsIn(proposal: Body, term: string): Body {
  const params = proposal.validation_params === undefined ? {} : bodyOf(proposal.validation_params, 'validation_params')
  return params[term] === undefined ? {} : bodyOf(params[term], `validation_params.${term}`)
}

/** Both dialects keep the limits of the stake in the quote; those that contracts_for names are of other contracts. */
function readQuoted(proposal: Body, { stake, multiplier }: { stake: number; multiplier: number }): Quoted {
  const limits = boundsIn(proposal, 'stake')
  const commission = optionalDecimal(proposal, 'commission')
  return {
    minStake: optionalDecimal(limits, 'min') ?? unquoted.minStake,
    maxStake: optionalDecimal(limits, 'max'),
    commissionPct:
      commission === null ? null : new Big(commission).times(100).div(stake).div(multiplier).round(6).toFixed()
  }
}

function unknownAsset(): BrokerError {
  return new BrokerError('NOT_FOUND', 'The broker has no such asset.', { brokerCode: 'InvalidSymbol', ran: 'no' })
}

/** Decimals of a price from its pip: 0.01 has 2. */
export function decimalsOf(pip: number): number {
  const text = new Big(pip).toFixed()
  const point = text.indexOf('.')
  return point === -1 ? 0 : text.length - point - 1
}

// AI: a signal computed from the broker's candles, and an analysis of candles that a bot sends. Every number is computed here; a
// language model, where one is configured, only puts the reasons into words.
import { type AccountRecord, requireConnected } from '../../db/traders/accounts.ts'
import { BotAnalysis, BotAnalysisRequest, Signal, SignalRequest } from '../../schemas/ai.ts'
import { invalid } from '../../schemas/checks/validator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { Candle } from '../../schemas/market.ts'
import type { ApiServices, Caller, Operation, OperationRequest } from '../operation.ts'
import { requestFromBroker } from '../request/broker-requests.ts'
import { analyseBot } from './analysis.ts'
import { backtestOnce } from './backtest.ts'
import { hundredths } from './indicators.ts'
import { BUILT_IN, write } from './language.ts'
import {
  CANDLE_COUNT,
  CANDLE_SECONDS,
  contractCandles,
  decideSignal,
  isSynthetic,
  NO_MEMORY,
  type Purse,
  trackRecord
} from './signal.ts'

export const copilotSignal: Operation<{ body: SignalRequest }> = {
  name: 'copilotSignal',
  method: 'POST',
  path: '/v1/ai/copilot/signal',
  tag: 'AI',
  summary: 'A signal for an asset',
  description:
    "Computed from the broker's one-minute candles. The stake is in USD, as that of an order; it follows `balance`, or the live balance of the trader named at the broker’s exchange rate; without either it is the minimum. An asset the broker does not have is INVALID_CONTRACT. On synthetic indices, whose prices have no memory, the signal states that and suggests no stake; for other assets it contains the win rate at which the suggested contract breaks even. `backtest` is what the rules achieved on the last 1,000 candles. A signal describes the recent past and promises nothing.",
  auth: 'key',
  scope: 'ai:read',
  body: SignalRequest,
  response: Signal,
  errors: ['TRADER_NOT_FOUND', 'BROKER_DISCONNECTED', 'MARKET_CLOSED', 'INVALID_CONTRACT', 'BROKER_UPSTREAM'],
  async handle(request, services): Promise<Signal> {
    const { partner, body, signal } = request
    const account = await findAccount(request, services)
    const [candles, purse] = await Promise.all([
      readCandles(partner, body.asset, signal, services),
      readPurse(request, account, services)
    ])
    const generatedAt = Date.now()
    const decision = decideSignal({ asset: body.asset, candles, purse, now: generatedAt / 1000 })
    const { direction, confidence, suggestion, indicators } = decision
    const source = `${partner.brokerDialect} ${partner.brokerAppId} ${body.asset}`
    const record = await backtestOnce(source, candles.slice(0, -1), contractCandles(body.asset))
    const breakEvenPct =
      suggestion && (await readBreakEven(partner, { asset: body.asset, ...suggestion }, signal, services))
    const said = suggestion ? trackRecord({ breakEvenPct, record }) : []
    const wording = isSynthetic(body.asset) ? [NO_MEMORY] : said
    const written = await write(
      services,
      {
        facts: { asset: body.asset, direction, confidence, suggestion, indicators, breakEvenPct, backtest: record },
        shape: 'Write two to five lines, each one sentence on why the analysis came out as it did.',
        lines: { min: 1, max: 5 }
      },
      { signal }
    )
    return {
      asset: body.asset,
      direction,
      confidence,
      suggestion,
      // Required sentences are always ours, also where a model wrote the rest.
      rationale: written ? [...written.lines, ...wording] : [...decision.rationale, ...said],
      indicators,
      breakEvenPct,
      backtest: record,
      model: written?.model ?? BUILT_IN,
      generatedAt: new Date(generatedAt).toISOString(),
      validUntil: new Date(generatedAt + CANDLE_SECONDS * 1000).toISOString()
    }
  }
}

/** The active account of the trader named, undefined when none is. Throws TRADER_NOT_FOUND. */
async function findAccount(
  { partner, body }: OperationRequest<{ body: SignalRequest }>,
  services: ApiServices
): Promise<AccountRecord | undefined> {
  if (body.traderExternalId === undefined) return undefined
  const trading = await services.batched.trading({ partnerId: partner.partnerId, externalId: body.traderExternalId })
  if (!trading) throw new ApiError('TRADER_NOT_FOUND')
  return trading.account
}

const inUsd = { currency: 'USD', rate: 1, least: null } as const

async function readPurse(
  { body, partner, signal }: OperationRequest<{ body: SignalRequest }>,
  account: AccountRecord | undefined,
  services: ApiServices
): Promise<Purse | undefined> {
  if (body.balance !== undefined) return { amount: body.balance, ...inUsd }
  if (!account) return undefined
  requireConnected(account)
  const { balance, currency } = await requestFromBroker<{ balance: string; currency: string }>(services, {
    partnerId: account.partnerId,
    kind: 'balance',
    key: account.id,
    data: { accountRowId: account.id },
    signal
  })
  const amount = Number(balance)
  if (currency === inUsd.currency) return { amount, ...inUsd }
  // No stake is suggested on a synthetic index, so its terms are not read.
  if (isSynthetic(body.asset)) return { amount, currency, rate: null, least: null }
  return { amount, currency, ...(await readStakeTerms(partner, { asset: body.asset, currency }, signal, services)) }
}

/** The exchange rate and the least stake in the account's currency; null where the broker does not state them. */
async function readStakeTerms(
  { partnerId, brokerAppId, brokerDialect }: Caller,
  terms: { asset: string; currency: string },
  signal: AbortSignal,
  services: ApiServices
): Promise<Pick<Purse, 'rate' | 'least'>> {
  const duration = contractCandles(terms.asset)
  const data = { dialect: brokerDialect, appId: brokerAppId, ...terms, duration, durationUnit: 'm' }
  const key = Object.values(data).join(' ')
  try {
    const { rate, least } = await requestFromBroker<{ rate: string | null; least: string | null }>(services, {
      partnerId,
      kind: 'stakeTerms',
      key,
      data,
      signal
    })
    return { rate: rate === null ? null : Number(rate), least: least === null ? null : Number(least) }
  } catch (error) {
    // Without these terms the signal suggests no stake.
    if (error instanceof ApiError) return { rate: null, least: null }
    throw error
  }
}

/** The broker's candles; partners with the same application at the same moment share one broker request. */
async function readCandles(
  { partnerId, brokerAppId, brokerDialect }: Caller,
  asset: string,
  signal: AbortSignal,
  services: ApiServices
): Promise<Candle[]> {
  const data = {
    dialect: brokerDialect,
    appId: brokerAppId,
    asset,
    granularitySeconds: CANDLE_SECONDS,
    count: CANDLE_COUNT
  }
  const key = Object.values(data).join(' ')
  const { candles } = await requestFromBroker<{ candles: Candle[] }>(services, {
    partnerId,
    kind: 'candles',
    key,
    data,
    signal
  })
  return candles
}

/** The win rate, in percent, at which the suggested contract breaks even at the broker's current price; null where there is none. */
async function readBreakEven(
  { partnerId, brokerAppId, brokerDialect }: Caller,
  contract: { asset: string } & NonNullable<Signal['suggestion']>,
  signal: AbortSignal,
  services: ApiServices
): Promise<number | null> {
  const { asset, contractType, duration, durationUnit, stake } = contract
  const data = { dialect: brokerDialect, appId: brokerAppId, asset, contractType, duration, durationUnit, stake }
  const key = Object.values(data).join(' ')
  try {
    const { payout } = await requestFromBroker<{ payout: string }>(services, {
      partnerId,
      kind: 'payout',
      key,
      data,
      signal
    })
    return hundredths((stake / Number(payout)) * 100)
  } catch (error) {
    // The signal is given without it, with a note.
    if (error instanceof ApiError) return null
    throw error
  }
}

export const analyseBotCandles: Operation<{ body: BotAnalysisRequest }> = {
  name: 'analyseBotCandles',
  method: 'POST',
  path: '/v1/ai/bot-analysis',
  tag: 'AI',
  summary: 'Analyse the candles of a bot',
  description:
    'Computed from the candles sent; the broker is not called. With fewer than 26 candles some indicators are null, and `risks` states that.',
  auth: 'key',
  scope: 'ai:read',
  body: BotAnalysisRequest,
  response: BotAnalysis,
  errors: [],
  async handle({ body, signal }, services): Promise<BotAnalysis> {
    checkRanges(body.recentCandles)
    const analysis = analyseBot(body)
    const { strategies, risks, ...facts } = analysis
    const written = await write(
      services,
      {
        facts: { ...facts, strategies: strategies.map(({ why: _why, ...rest }) => rest) },
        untrusted: { symbol: body.symbol, strategyHint: body.strategyHint ?? null },
        shape: `Write exactly ${strategies.length} lines, in the order of facts.strategies: for each, one sentence on why it comes to its direction.`,
        lines: { min: strategies.length, max: strategies.length }
      },
      { signal }
    )
    return {
      symbol: body.symbol,
      trend: analysis.trend,
      volatilityPct: analysis.volatilityPct,
      support: analysis.support,
      resistance: analysis.resistance,
      indicators: analysis.indicators,
      strategies: strategies.map(({ name, direction, confidence, why }, index) => ({
        name,
        direction,
        confidence,
        why: written?.lines[index] ?? why
      })),
      risks,
      model: written?.model ?? BUILT_IN,
      generatedAt: new Date().toISOString()
    }
  }
}

// Beyond a schema: a candle whose high is below its low is a mistake of the sender.
function checkRanges(candles: readonly Candle[]): void {
  const details = candles.flatMap(({ high, low }, index) =>
    high < low ? [{ path: `/body/recentCandles/${index}/high`, message: 'must not be below low' }] : []
  )
  if (details.length > 0) throw invalid(details)
}

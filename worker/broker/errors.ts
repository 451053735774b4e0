// What each of the broker's error codes means for us: one table for every dialect. A row says our code and
// whether a buy or sell that got this answer may have run all the same ('unknown' is doubt, to be reconciled).
import { secondsUntilStated } from './hours.ts'
import { BrokerError } from './port.ts'

export interface Meaning {
  code: BrokerError['code']
  ran: 'no' | 'unknown'
  /** The token, or the account behind it, was refused. */
  rejected?: true
  /** The broker reports unlike things under this one code; only its text tells them apart. */
  byText?: true
  /** Our budget and the broker's count differ: slow down. */
  rateLimit?: true
  /** The connection lost its authorisation: a fresh one may have it. */
  reauthorise?: true
  /** A fault of ours or of our configuration: somebody should look. */
  alert?: true
}

const invalid: Meaning = { code: 'INVALID_CONTRACT', ran: 'no' }
const upstream: Meaning = { code: 'BROKER_UPSTREAM', ran: 'no' }
const ours: Meaning = { code: 'BROKER_UPSTREAM', ran: 'no', alert: true }
const doubt: Meaning = { code: 'BROKER_UPSTREAM', ran: 'unknown' }
const rejected: Meaning = { code: 'BROKER_DISCONNECTED', ran: 'no', rejected: true }
const stale: Meaning = { code: 'BROKER_DISCONNECTED', ran: 'no', rejected: true, reauthorise: true }
const slow: Meaning = { code: 'BROKER_UPSTREAM', ran: 'no', rateLimit: true }
const byText: Meaning = { code: 'INVALID_CONTRACT', ran: 'no', byText: true }

/** Code (a trailing * stands for any ending) → what it means. Unknown codes are `upstream`. */
export const meanings: Readonly<Record<string, Meaning>> = {
  // The token or the account
  InvalidToken: rejected,
  AuthorizationRequired: stale,
  BadSession: stale,
  DisabledClient: rejected,
  AccountDisabled: rejected,
  DisabledAccount: rejected,
  PermissionDenied: rejected,

  // Us
  InvalidAppID: ours,
  UnrecognisedRequest: ours,
  BadRequest: ours,
  SanityCheckFailed: ours,
  InvalidRequest: ours,
  InputValidationFailed: { ...invalid, alert: true },
  RateLimit: slow,
  RateLimitExceeded: slow,
  Throttle: slow,
  ContractUpdateTooFrequent: slow,

  // The market, the money
  MarketIsClosed: { code: 'MARKET_CLOSED', ran: 'no' },
  InsufficientBalance: { code: 'INSUFFICIENT_BALANCE', ran: 'no' },

  // What was asked for
  ContractBuyValidationError: byText,
  InvalidtoBuy: byText,
  ContractCreationFailure: invalid,
  TradingHoursExpiry: invalid,
  TradingDayExpiry: invalid,
  SameTradingDayExpiry: invalid,
  CrossMarketIntraday: invalid,
  OfferingsValidationError: invalid,
  OfferingsValidationFailure: invalid,
  InvalidOfferings: invalid,
  InvalidSymbol: invalid,
  NoSymbolProvided: invalid,
  OfferingsInvalidSymbol: invalid,
  BarrierValidationError: invalid,
  BarrierNotAllowed: invalid,
  BarrierOutOfRange: invalid,
  DigitOutOfRange: invalid,
  'InvalidBarrier*': invalid,
  NeedAbsoluteBarrier: invalid,
  ZeroAbsoluteBarrier: invalid,
  TicksNumberLimits: invalid,
  TradingDurationNotAllowed: invalid,
  InvalidMinStake: invalid,
  StakeLimits: invalid,
  PayoutLimits: invalid,
  NoReturn: invalid,
  MultiplierOutOfRange: invalid,
  LimitOrderAmountTooHigh: invalid,
  LimitOrderAmountTooLow: invalid,
  InvalidPrice: invalid,
  InvalidAmount: invalid,
  IncorrectStakeDecimals: invalid,
  IncorrectPayoutDecimals: invalid,
  NotDefaultCurrency: invalid,
  InvalidCurrency: invalid,
  NoCurrencySet: invalid,

  // A quote that no longer holds
  InvalidContractProposal: upstream,
  PriceMoved: upstream,

  // A contract that cannot be sold or changed now; the contract itself tells why
  InvalidSellContractProposal: invalid,
  NoOpenPosition: invalid,
  NotFound: invalid,
  ContractNotFound: invalid,
  ContractAlreadySold: invalid,
  BetExpired: invalid,
  SellAtEntryTick: invalid,
  SameStartSellTime: invalid,
  ResaleNotOffered: invalid,
  SellFailureDueToUpdate: invalid,
  InvalidtoSell: invalid,
  ContractUpdateFailure: invalid,
  ContractUpdateError: invalid,
  ContractUpdateNotAllowed: invalid,
  OrderUpdateNotAllowed: invalid,
  EitherStopLossOrCancel: invalid,
  UpdateStopLossNotAllowed: invalid,
  UpdateTakeProfitNotAllowed: invalid,

  // Exposure, and what the account may trade
  OpenPositionLimit: invalid,
  OpenPositionLimitExceeded: invalid,
  OpenPositionPayoutLimit: invalid,
  CompanyWideLimitExceeded: invalid,
  DailyLossLimitExceeded: invalid,
  DailyProfitLimitExceeded: invalid,
  DailyTurnoverLimitExceeded: invalid,
  ProductSpecificTurnoverLimitExceeded: invalid,
  CustomLimitsReached: invalid,
  SelfExclusion: invalid,
  ClientUnwelcome: invalid,
  PleaseAuthenticate: invalid,
  FinancialAssessmentRequired: invalid,
  NoMFProfessionalClient: invalid,
  NoBusiness: invalid,
  TradingDisabled: invalid,
  StreamingNotAllowed: invalid,
  NoRealtimeQuotes: invalid,

  // The broker's own trouble
  AlreadySubscribed: upstream,
  GetProposalFailure: upstream,
  CannotValidateContract: upstream,
  'MissingMarketData*': upstream,
  OldMarketData: upstream,
  TradeTemporarilyUnavailable: upstream,
  SellExpiredError: upstream,
  ContractUpdateHistoryError: upstream,
  Suspendedlogin: upstream,
  CallError: doubt,
  WrongResponse: doubt,
  InternalServerError: doubt,
  GeneralError: doubt,
  Timeout: doubt,
  ResponseTooLarge: doubt
}

const prefixes = Object.keys(meanings).filter(code => code.endsWith('*'))
const marketClosed = /market (is|must be)\b.*\b(closed|open)/i
const dataMissing = /suspended due to missing/i

/** What a code means; an unknown one is upstream trouble that did not run. */
export function meaningOf(code: string): Meaning {
  if (Object.hasOwn(meanings, code)) return meanings[code]!
  const prefix = prefixes.find(each => code.startsWith(each.slice(0, -1)))
  return prefix === undefined ? upstream : meanings[prefix]!
}

/** The `error` of a frame, as far as it can be read. */
export interface Refusal {
  code: string
  message: string
  /** Ordered values of the text; newer brokers put the opening time of a closed market first. */
  args: string[]
}

/** Reads an error body; one that makes no sense becomes code `BadFrame`. */
export function readRefusal(error: unknown): Refusal {
  const { code, subcode, message, code_args: args } = (error ?? {}) as Record<string, unknown>
  // The finer code wins where we know it.
  const named = typeof subcode === 'string' && meaningOf(subcode) !== upstream ? subcode : code
  return {
    code: typeof named === 'string' && /^\w{1,80}$/.test(named) ? named : 'BadFrame',
    message: typeof message === 'string' ? printable(message) : 'The broker refused without a reason.',
    args: Array.isArray(args) ? args.slice(0, 8).map(each => String(each).slice(0, 80)) : []
  }
}

/** The error a refused call ends with. `mayRun` is true for calls that change something: buy and sell. */
export function refused(refusal: Refusal, mayRun: boolean): BrokerError {
  const meaning = meaningOf(refusal.code)
  const code = meaning.byText ? codeByText(refusal.message) : meaning.code
  const unreadable = refusal.code === 'BadFrame'
  return new BrokerError(code, refusal.message, {
    brokerCode: refusal.code,
    ran: mayRun && (unreadable || meaning.ran === 'unknown') ? 'unknown' : 'no',
    rejected: meaning.rejected === true,
    secondsUntilOpen:
      code === 'MARKET_CLOSED' ? secondsUntilStated([...refusal.args, refusal.message], Date.now() / 1000) : null
  })
}

/** Whether the error says that we call too often. */
export function isRateLimit(error: BrokerError): boolean {
  return meaningOf(error.brokerCode).rateLimit === true
}

/** Whether a freshly authorised connection may answer what this one refused. */
export function wantsReauthorising(error: BrokerError): boolean {
  return meaningOf(error.brokerCode).reauthorise === true
}

/** Whether the error is about how we ask: a fault of ours or of our configuration. */
export function isOurFault(error: BrokerError): boolean {
  return meaningOf(error.brokerCode).alert === true
}

function codeByText(message: string): BrokerError['code'] {
  if (marketClosed.test(message)) return 'MARKET_CLOSED'
  return dataMissing.test(message) ? 'BROKER_UPSTREAM' : 'INVALID_CONTRACT'
}

/** The broker's words on one line, cut to a bound: they are stored with orders and shown to partners. */
function printable(message: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed
  return message.replace(/[\u0000-\u001f\u007f]+/g, ' ').slice(0, 300)
}

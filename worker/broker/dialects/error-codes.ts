// Each of the broker's error codes and its mapping: our code, and whether a buy or sell with this response may have run
// all the same ('unknown' is doubt, to be resolved). The codes both dialects use are here, those that only the newer
// one names in newer-error-codes.ts; one lookup serves both, since no code changed its meaning.
import type { BrokerError } from '../broker-error.ts'
import type { OrderField } from '../port.ts'

export interface ErrorMapping {
  code: BrokerError['code']
  ran: 'no' | 'unknown'
  /** The token, or the account behind it, was refused. */
  rejected?: true
  /** The broker reports different errors under this one code; only its text distinguishes them. */
  byText?: true
  /** Our budget allows more than the broker's: slow down. */
  rateLimit?: true
  /** The connection lost its authorisation: a fresh one may have it. */
  reauthorise?: true
  /** A fault of ours or of our configuration: raises an alert. */
  alert?: true
  /** The field of the order that the refusal is about. */
  field?: OrderField
  /** The application was refused, not the token: no trader can trade under it. */
  application?: true
}

export const invalid: ErrorMapping = { code: 'INVALID_CONTRACT', ran: 'no' }
export const about = (field: OrderField): ErrorMapping => ({ ...invalid, field })
export const upstream: ErrorMapping = { code: 'BROKER_UPSTREAM', ran: 'no' }
const ours: ErrorMapping = { code: 'BROKER_UPSTREAM', ran: 'no', alert: true }
export const application: ErrorMapping = { ...ours, application: true }
export const doubt: ErrorMapping = { code: 'BROKER_UPSTREAM', ran: 'unknown' }
export const rejected: ErrorMapping = { code: 'BROKER_DISCONNECTED', ran: 'no', rejected: true }
export const stale: ErrorMapping = { code: 'BROKER_DISCONNECTED', ran: 'no', rejected: true, reauthorise: true }
export const slow: ErrorMapping = { code: 'BROKER_UPSTREAM', ran: 'no', rateLimit: true }
export const byText: ErrorMapping = { code: 'INVALID_CONTRACT', ran: 'no', byText: true }

/** Code (a trailing * matches any ending) → its meaning. Unknown codes are `upstream`. */
export const errorMappings: Readonly<Record<string, ErrorMapping>> = {
  // The token or the account
  // In a session it is about the token that opened it; a newer one may be stored by now.
  InvalidToken: stale,
  AuthorizationRequired: stale,
  BadSession: stale,
  DisabledClient: rejected,
  AccountDisabled: rejected,
  DisabledAccount: rejected,
  PermissionDenied: rejected,

  // Us
  InvalidAppID: application,
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

  // The requested terms
  ContractBuyValidationError: byText,
  InvalidtoBuy: byText,
  ContractCreationFailure: invalid,
  TradingHoursExpiry: about('duration'),
  TradingDayExpiry: about('duration'),
  SameTradingDayExpiry: about('duration'),
  CrossMarketIntraday: about('duration'),
  OfferingsValidationError: invalid,
  OfferingsValidationFailure: invalid,
  InvalidOfferings: invalid,
  InvalidSymbol: about('asset'),
  NoSymbolProvided: about('asset'),
  OfferingsInvalidSymbol: about('asset'),
  BarrierValidationError: about('barrier'),
  BarrierNotAllowed: about('barrier'),
  BarrierOutOfRange: about('barrier'),
  DigitOutOfRange: about('barrier'),
  'InvalidBarrier*': about('barrier'),
  NeedAbsoluteBarrier: about('barrier'),
  ZeroAbsoluteBarrier: about('barrier'),
  TicksNumberLimits: about('duration'),
  TradingDurationNotAllowed: about('duration'),
  InvalidMinStake: about('stake'),
  StakeLimits: about('stake'),
  PayoutLimits: about('stake'),
  NoReturn: invalid,
  MultiplierOutOfRange: about('multiplier'),
  LimitOrderAmountTooHigh: invalid,
  LimitOrderAmountTooLow: invalid,
  InvalidPrice: invalid,
  InvalidAmount: about('stake'),
  IncorrectStakeDecimals: about('stake'),
  IncorrectPayoutDecimals: invalid,
  NotDefaultCurrency: invalid,
  InvalidCurrency: invalid,
  NoCurrencySet: invalid,

  // A quote that no longer holds
  InvalidContractProposal: upstream,
  PriceMoved: upstream,

  // A contract that cannot be sold or changed now; its state shows why
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

// Errors of the first dialect: the engine's reasons under the codes this dialect has for them.
import { type Reason, SimulatedRefusal } from '../engine/refusal.ts'

/** A refusal in this dialect's own codes. */
export class V3Error extends Error {
  readonly code: string
  readonly details: Record<string, unknown> | undefined
  /** What the newer dialect adds: a finer code, and the values that fill the text. */
  readonly finer: { subcode?: string; code_args?: (string | number)[] }

  constructor(code: string, message: string, details?: Record<string, unknown>, finer: V3Error['finer'] = {}) {
    super(message)
    this.name = 'V3Error'
    this.code = code
    this.details = details
    this.finer = finer
  }
}

const codes: Record<Reason, string> = {
  AccountDisabled: 'AccountDisabled',
  AlreadyExpired: 'ContractCreationFailure',
  BarrierNotAllowed: 'ContractBuyValidationError',
  BetExpired: 'BetExpired',
  CancelNotAvailable: 'ContractUpdateFailure',
  ContractAlreadySold: 'InvalidSellContractProposal',
  ContractNotFound: 'InvalidSellContractProposal',
  ContractNotOffered: 'OfferingsValidationError',
  ContractUpdateNotAllowed: 'ContractUpdateNotAllowed',
  ContractUpdateTooFrequent: 'ContractUpdateTooFrequent',
  DealCancellationNotOffered: 'ContractBuyValidationError',
  DigitOutOfRange: 'ContractBuyValidationError',
  IncorrectPayoutDecimals: 'ContractBuyValidationError',
  IncorrectStakeDecimals: 'ContractBuyValidationError',
  InsufficientBalance: 'InsufficientBalance',
  InvalidBarrier: 'BarrierValidationError',
  InvalidBasis: 'ContractCreationFailure',
  InvalidExpiry: 'ContractCreationFailure',
  InvalidMarkup: 'InputValidationFailed',
  InvalidStake: 'ContractCreationFailure',
  InvalidSymbol: 'InvalidSymbol',
  InvalidToken: 'InvalidToken',
  LimitOrderAmountTooHigh: 'ContractBuyValidationError',
  LimitOrderAmountTooLow: 'ContractBuyValidationError',
  MarketIsClosed: 'MarketIsClosed',
  MissingRequiredDigit: 'ContractBuyValidationError',
  MultiplierOutOfRange: 'ContractBuyValidationError',
  NoReturn: 'ContractBuyValidationError',
  NotDefaultCurrency: 'NotDefaultCurrency',
  PayoutLimits: 'ContractBuyValidationError',
  PriceMoved: 'PriceMoved',
  ResaleNotOffered: 'ResaleNotOffered',
  SellAtEntryTick: 'SellAtEntryTick',
  StakeLimits: 'ContractBuyValidationError',
  StakeMoreThanPrice: 'ContractCreationFailure',
  TicksNumberLimits: 'ContractBuyValidationError',
  TooCloseToExpiry: 'InvalidOfferings',
  TradingDurationNotAllowed: 'OfferingsValidationError',
  TradingHoursExpiry: 'ContractBuyValidationError',
  TradingSuspended: 'ContractBuyValidationError'
}

/** The error in this dialect's format. `closedCode` is the form a closed market takes on this call. */
export function toV3Error(error: unknown, closedCode: string): V3Error {
  if (error instanceof V3Error) return error
  if (!(error instanceof SimulatedRefusal)) throw error
  const code = error.reason === 'MarketIsClosed' ? closedCode : codes[error.reason]
  return new V3Error(code, error.message, error.field === undefined ? undefined : { field: error.field })
}

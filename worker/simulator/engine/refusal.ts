// A refusal of the engine. Each dialect turns the reason into its code, so the reason is as fine as any dialect needs
// and the message is the text for a person.

export type Reason =
  | 'AccountDisabled'
  | 'AlreadyExpired'
  | 'BarrierNotAllowed'
  | 'BetExpired'
  | 'CancelNotAvailable'
  | 'ContractAlreadySold'
  | 'ContractNotFound'
  | 'ContractNotOffered'
  | 'ContractUpdateNotAllowed'
  | 'ContractUpdateTooFrequent'
  | 'DealCancellationNotOffered'
  | 'DigitOutOfRange'
  | 'IncorrectPayoutDecimals'
  | 'IncorrectStakeDecimals'
  | 'InsufficientBalance'
  | 'InvalidBarrier'
  | 'InvalidBasis'
  | 'InvalidExpiry'
  | 'InvalidMarkup'
  | 'InvalidStake'
  | 'InvalidSymbol'
  | 'InvalidToken'
  | 'LimitOrderAmountTooHigh'
  | 'LimitOrderAmountTooLow'
  | 'MarketIsClosed'
  | 'MissingRequiredDigit'
  | 'MultiplierOutOfRange'
  | 'NoReturn'
  | 'NotDefaultCurrency'
  | 'PayoutLimits'
  | 'PriceMoved'
  | 'ResaleNotOffered'
  | 'SellAtEntryTick'
  | 'StakeLimits'
  | 'StakeMoreThanPrice'
  | 'TicksNumberLimits'
  | 'TooCloseToExpiry'
  | 'TradingDurationNotAllowed'
  | 'TradingHoursExpiry'
  | 'TradingSuspended'

/** `field` names the offending part of the terms; `args` are the values inside the message, in order. */
export class SimulatedRefusal extends Error {
  readonly reason: Reason
  readonly field: string | undefined
  readonly args: (string | number)[]

  constructor(reason: Reason, message: string, facts: { field?: string; args?: (string | number)[] } = {}) {
    super(message)
    this.name = 'Refusal'
    this.reason = reason
    this.field = facts.field
    this.args = facts.args ?? []
  }
}

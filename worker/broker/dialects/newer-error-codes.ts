// Codes and subcodes that only the broker's newer API names, grouped as error-codes.ts groups the others.
import {
  about,
  application,
  byText,
  doubt,
  type ErrorMapping,
  invalid,
  rejected,
  slow,
  stale,
  upstream
} from './error-codes.ts'

const rows: readonly (readonly [ErrorMapping, string])[] = [
  [stale, 'Unauthorized UnauthorizedAccess'],
  [rejected, 'AccessDenied AccountNotFound'],
  [byText, 'ValidationError'],
  // Neither is published. The first is our name for a refused application, however the broker words it.
  [application, 'InvalidApplication ApplicationNotFound'],
  [slow, 'TooManyRequests'],
  [doubt, 'InternalError'],

  // Stake and payout
  [about('stake'), 'StakeLimitExceeded PayoutLimitExceeded StakeTooLow InvalidStake InvalidStakeMoreThanPrice'],

  // The requested terms
  [about('contractType'), 'InvalidContractType'],
  [about('asset'), 'InvalidInputAsset'],
  [about('duration'), 'SingleTickNumberLimits InvalidExpiry InvalidExpiryTime'],
  [invalid, 'PastExpiryTime PastStartTime AlreadyExpired ContractExpiryNotAllowed TooManyHolidays'],
  [about('barrier'), 'MissingRequiredDigit BarrierNotInRange'],
  [about('multiplier'), 'MultiplierRangeDisabled'],
  [about('takeProfit'), 'NegativeTakeProfit'],
  [invalid, 'EitherTakeProfitOrCancel InvalidDealCancellation DealCancellation*'],

  // Exposure
  [invalid, 'SpecificOpenPositionLimitExceeded ClientVolumeLimitReached Daily*LimitExceeded NoBusinessMultiplier'],

  // A contract that cannot be sold or changed now
  [invalid, 'ResaleNotOffered* CancelIsBetter WaitForContractSettlement EntryTickMissing ContractUpdateDisabled'],
  [invalid, 'Update*NotAllowed'],

  // The broker's own trouble
  [upstream, 'MissingTickMarketData MissingSpotMarketData MissingVolatilityMarketData TradingConfigError'],
  [upstream, 'TradingNotAvailable TradingSuspendedSpecificHours']
]

/** Code (a * matches anything) → its meaning. */
export const newerErrorMappings: Readonly<Record<string, ErrorMapping>> = Object.fromEntries(
  rows.flatMap(([mapping, codes]) => codes.split(' ').map(code => [code, mapping] as const))
)

// The troubles that a simulated broker with `magic` has ready: an order provokes one by its stake, its asset or the token of its
// account. The page on testing lists them from here, and a test tries each with a running service.
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import type { Effect } from './effects.ts'

/** Assets that begin so provoke something. */
export const TEST_ASSET = 'TEST_'

interface Fate {
  effect: Effect
  code?: string
  delayMs?: number
}

export interface Magic {
  /** The flag of a token; in capitals, behind TEST_, the asset. */
  flag: string
  /** The stake in USD as a program writes it. */
  stake: string
  /** What happens at the broker, for people. */
  what: string
  /** How the order ends. */
  ends: 'CLOSED' | 'FAILED'
  /** The error of the first response, where it is none of an order. */
  error?: ErrorCode
  /** The field that the error names. */
  field?: string
  /** Why the account is REJECTED from then on, until its token is exchanged again. */
  rejects?: string
  /** The error of closing the order. */
  closeError?: ErrorCode
  /** The least time that the first response takes. */
  atLeastMs?: number
  /** What the purchase meets. */
  buy?: Fate
  /** What a sale before the contract's end meets. */
  sell?: Fate
  /** Between the end of the contract and its settlement. */
  settlesAfterMs?: number
}

export const magics: readonly Magic[] = [
  {
    flag: 'closed',
    stake: '4.01',
    what: 'the market is closed',
    ends: 'FAILED',
    error: 'MARKET_CLOSED',
    buy: { effect: 'error', code: 'MarketIsClosed' }
  },
  {
    flag: 'notoffered',
    stake: '4.02',
    what: 'the contract is not offered',
    ends: 'FAILED',
    error: 'INVALID_CONTRACT',
    buy: { effect: 'error', code: 'OfferingsValidationError' }
  },
  {
    flag: 'nofunds',
    stake: '4.03',
    what: 'the balance does not suffice, whatever it is',
    ends: 'FAILED',
    error: 'INSUFFICIENT_BALANCE',
    buy: { effect: 'error', code: 'InsufficientBalance' }
  },
  {
    flag: 'cutbefore',
    stake: '4.04',
    what: 'the broker drops the connection before it buys: a doubt, which ends without a contract',
    ends: 'FAILED',
    error: 'BROKER_UPSTREAM',
    buy: { effect: 'drop-before' }
  },
  {
    flag: 'cutafter',
    stake: '4.05',
    what: 'the broker buys and drops the connection: a doubt, which ends with the contract',
    ends: 'CLOSED',
    buy: { effect: 'drop-after' }
  },
  {
    flag: 'silent',
    stake: '4.06',
    what: 'the broker neither buys nor responds, as in an outage: PENDING, then FAILED',
    ends: 'FAILED',
    error: 'BROKER_UPSTREAM',
    buy: { effect: 'ignore' }
  },
  {
    flag: 'slow',
    stake: '4.07',
    what: 'the broker buys and responds 2 seconds later',
    ends: 'CLOSED',
    atLeastMs: 2000,
    buy: { effect: 'slow', delayMs: 2000 }
  },
  {
    flag: 'late',
    stake: '4.08',
    what: 'the contract settles 4 seconds after its end',
    ends: 'CLOSED',
    atLeastMs: 4000,
    settlesAfterMs: 4000
  },
  {
    flag: 'suspended',
    stake: '4.09',
    what: 'the broker has disabled the account since its exchange',
    ends: 'FAILED',
    error: 'BROKER_DISCONNECTED',
    rejects: 'TOKEN_REFUSED',
    buy: { effect: 'error', code: 'AccountDisabled' }
  },
  {
    flag: 'revoked',
    stake: '4.10',
    what: 'the trader has revoked the token since its exchange',
    ends: 'FAILED',
    error: 'BROKER_DISCONNECTED',
    rejects: 'TOKEN_REFUSED',
    buy: { effect: 'error', code: 'InvalidToken' }
  },
  {
    flag: 'noscope',
    stake: '4.11',
    what: 'the token does not allow trading',
    ends: 'FAILED',
    error: 'BROKER_DISCONNECTED',
    rejects: 'TOKEN_REFUSED',
    buy: { effect: 'error', code: 'PermissionDenied' }
  },
  {
    flag: 'busy',
    stake: '4.12',
    what: 'the broker says that it was called too often',
    ends: 'FAILED',
    error: 'BROKER_UPSTREAM',
    buy: { effect: 'error', code: 'RateLimit' }
  },
  {
    flag: 'moved',
    stake: '4.13',
    what: 'the price moved while the order was on its way',
    ends: 'FAILED',
    error: 'BROKER_UPSTREAM',
    buy: { effect: 'error', code: 'PriceMoved' }
  },
  {
    flag: 'unavailable',
    stake: '4.14',
    what: 'trading is interrupted at the broker',
    ends: 'FAILED',
    error: 'BROKER_UPSTREAM',
    buy: { effect: 'error', code: 'TradeTemporarilyUnavailable' }
  },
  {
    flag: 'badbarrier',
    stake: '4.15',
    what: 'the barrier is out of range',
    ends: 'FAILED',
    error: 'INVALID_CONTRACT',
    field: 'barrier',
    buy: { effect: 'error', code: 'BarrierOutOfRange' }
  },
  {
    flag: 'badduration',
    stake: '4.16',
    what: 'the duration is not offered',
    ends: 'FAILED',
    error: 'INVALID_CONTRACT',
    field: 'duration',
    buy: { effect: 'error', code: 'TradingDurationNotAllowed' }
  },
  {
    flag: 'badstake',
    stake: '4.17',
    what: 'the stake is beyond the limits of the contract',
    ends: 'FAILED',
    error: 'INVALID_CONTRACT',
    field: 'stake',
    buy: { effect: 'error', code: 'StakeLimits' }
  },
  {
    flag: 'toomany',
    stake: '4.18',
    what: 'the account holds as many contracts as it may',
    ends: 'FAILED',
    error: 'INVALID_CONTRACT',
    buy: { effect: 'error', code: 'OpenPositionLimit' }
  },
  {
    flag: 'excluded',
    stake: '4.19',
    what: 'the trader has excluded itself from trading',
    ends: 'FAILED',
    error: 'INVALID_CONTRACT',
    buy: { effect: 'error', code: 'SelfExclusion' }
  },
  {
    flag: 'broken',
    stake: '4.20',
    what: 'the broker reports an error of its own, which leaves open whether it bought: a doubt, which ends without a contract',
    ends: 'FAILED',
    error: 'BROKER_UPSTREAM',
    buy: { effect: 'error', code: 'InternalServerError' }
  },
  {
    flag: 'unsaid',
    stake: '4.21',
    what: 'the broker buys and never responds: a doubt, which ends with the contract',
    ends: 'CLOSED',
    buy: { effect: 'mute' }
  },
  {
    flag: 'afterall',
    stake: '4.22',
    what: 'the broker reports a time-out and buys a moment later: a doubt, which ends with the contract',
    ends: 'CLOSED',
    buy: { effect: 'timeout-late' }
  },
  {
    flag: 'twice',
    stake: '4.23',
    what: 'the broker sends its response twice',
    ends: 'CLOSED',
    buy: { effect: 'duplicate' }
  },
  {
    flag: 'noresale',
    stake: '4.24',
    what: 'the contract cannot be sold before its end: the order opens, and closing it is refused',
    ends: 'CLOSED',
    sell: { effect: 'error', code: 'ResaleNotOffered' },
    closeError: 'INVALID_CONTRACT'
  }
]

/** The asset that provokes it. */
export function assetOf({ flag }: Magic): string {
  return `${TEST_ASSET}${flag.toUpperCase()}`
}

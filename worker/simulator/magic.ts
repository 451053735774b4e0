// Stakes that provoke something, each on every account in USD that a simulated broker with `magic` has. The page on testing lists them
// from here, and a test holds each against a running service.
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import type { FaultRule } from './faults.ts'

export interface MagicStake {
  /** The stake in USD as a program writes it. */
  stake: string
  /** What happens at the broker, for people. */
  what: string
  /** How the order ends. */
  ends: 'CLOSED' | 'FAILED'
  /** The error of the first answer, where it is none of an order. */
  error?: ErrorCode
  /** The least time that the first answer takes. */
  atLeastMs?: number
  /** What the purchase meets. */
  buy?: Pick<FaultRule, 'effect' | 'code' | 'delayMs'>
  /** Between the end of the contract and its settlement. */
  settlesAfterMs?: number
}

export const magicStakes: readonly MagicStake[] = [
  {
    stake: '4.01',
    what: 'the market is closed',
    ends: 'FAILED',
    error: 'MARKET_CLOSED',
    buy: { effect: 'error', code: 'MarketIsClosed' }
  },
  {
    stake: '4.02',
    what: 'the contract is not offered',
    ends: 'FAILED',
    error: 'INVALID_CONTRACT',
    buy: { effect: 'error', code: 'OfferingsValidationError' }
  },
  {
    stake: '4.03',
    what: 'the balance does not suffice, whatever it is',
    ends: 'FAILED',
    error: 'INSUFFICIENT_BALANCE',
    buy: { effect: 'error', code: 'InsufficientBalance' }
  },
  {
    stake: '4.04',
    what: 'the broker drops the connection before it buys: a doubt, which ends without a contract',
    ends: 'FAILED',
    error: 'BROKER_UPSTREAM',
    buy: { effect: 'drop-before' }
  },
  {
    stake: '4.05',
    what: 'the broker buys and drops the connection: a doubt, which ends with the contract',
    ends: 'CLOSED',
    buy: { effect: 'drop-after' }
  },
  {
    stake: '4.06',
    what: 'the broker neither buys nor responds, as in an outage: PENDING, then FAILED',
    ends: 'FAILED',
    error: 'BROKER_UPSTREAM',
    buy: { effect: 'ignore' }
  },
  {
    stake: '4.07',
    what: 'the broker buys and responds 2 seconds later',
    ends: 'CLOSED',
    atLeastMs: 2000,
    buy: { effect: 'slow', delayMs: 2000 }
  },
  {
    stake: '4.08',
    what: 'the contract settles 4 seconds after its end',
    ends: 'CLOSED',
    atLeastMs: 4000,
    settlesAfterMs: 4000
  }
]

const byAmount = new Map(magicStakes.map(magic => [Number(magic.stake), magic]))
const byCents = new Map(magicStakes.map(magic => [Math.round(Number(magic.stake) * 100), magic]))

/** What a purchase for this stake in USD meets; null: nothing. */
export function magicOfPurchase(stake: unknown, currency: unknown): FaultRule | null {
  const magic = currency === 'USD' ? byAmount.get(Number(stake)) : undefined
  return magic?.buy ? { ...magic.buy } : null
}

/** How much later than others a contract of this stake settles, in ms. */
export function magicDelayMs({ amountCents, currency }: { amountCents: number; currency: string }): number {
  return currency === 'USD' ? (byCents.get(amountCents)?.settlesAfterMs ?? 0) : 0
}

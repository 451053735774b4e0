// What a simulated broker with `magic` does where an order asks for it, by its stake, its asset or the token of its account. The page on
// testing lists it from here, and a test holds each against a running service.
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import { TEST_ASSET } from './engine/symbols.ts'
import type { FaultRule } from './faults.ts'

export interface Magic {
  /** The flag of a token; in capitals, behind TEST_, the asset. */
  flag: string
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
  }
]

const byFlag = new Map(magics.map(magic => [magic.flag, magic]))
const byCents = new Map(magics.map(magic => [Math.round(Number(magic.stake) * 100), magic]))

/** The asset that provokes it. */
export function assetOf({ flag }: Magic): string {
  return `${TEST_ASSET}${flag.toUpperCase()}`
}

/** An order as far as it may provoke something; the amount in hundredths of the currency. */
interface Order {
  cents: number
  currency: string | undefined
  asset: unknown
  /** Flags of the token it came with. */
  flags: Iterable<string>
}

function magicOf({ cents, currency, asset, flags }: Order): Magic | undefined {
  const named = typeof asset === 'string' && asset.startsWith(TEST_ASSET) ? asset.slice(TEST_ASSET.length) : ''
  const byToken = [...flags].map(flag => byFlag.get(flag)).find(magic => magic !== undefined)
  return (currency === 'USD' ? byCents.get(cents) : undefined) ?? byFlag.get(named.toLowerCase()) ?? byToken
}

/** What a purchase meets; null: nothing. */
export function magicOfPurchase({ amount, ...order }: Omit<Order, 'cents'> & { amount: unknown }): FaultRule | null {
  // A fraction of a cent is no stake, and none of these.
  const hundredths = Number(amount) * 100
  const cents = Math.abs(hundredths - Math.round(hundredths)) < 1e-6 ? Math.round(hundredths) : Number.NaN
  const magic = magicOf({ ...order, cents })
  return magic?.buy ? { ...magic.buy } : null
}

/** How much later than others a contract settles, in ms. */
export function magicDelayMs(order: Order): number {
  return magicOf(order)?.settlesAfterMs ?? 0
}

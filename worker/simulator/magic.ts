// What happens to an order that provokes trouble at a simulated broker with `magic`, and from when its contract settles.
import type { SimulatedContract } from './engine/records.ts'
import type { FaultRule } from './faults.ts'
import { type Magic, magics, TEST_ASSET } from './magic-list.ts'

const byFlag = new Map(magics.map(magic => [magic.flag, magic]))
const byCents = new Map(magics.map(magic => [Math.round(Number(magic.stake) * 100), magic]))

/** An order as far as it may provoke something; the amount in hundredths of the currency. */
interface MagicOrder {
  cents: number
  currency: string | undefined
  asset: unknown
  /** Flags of the token it came with. */
  flags: Iterable<string>
}

/** The order that a contract was bought by. */
export function orderOf({ offer, account }: Pick<SimulatedContract, 'offer' | 'account'>): MagicOrder {
  const { amountCents: cents, currency, symbol } = offer
  return { cents, currency, asset: symbol.code, flags: account.flags }
}

function magicOf({ cents, currency, asset, flags }: MagicOrder): Magic | undefined {
  const named = typeof asset === 'string' && asset.startsWith(TEST_ASSET) ? asset.slice(TEST_ASSET.length) : ''
  const byToken = [...flags].map(flag => byFlag.get(flag)).find(magic => magic !== undefined)
  return (currency === 'USD' ? byCents.get(cents) : undefined) ?? byFlag.get(named.toLowerCase()) ?? byToken
}

/** What happens to a purchase; null: nothing. */
export function magicOfPurchase({
  amount,
  ...order
}: Omit<MagicOrder, 'cents'> & { amount: unknown }): FaultRule | null {
  // A fraction of a cent is no stake, and none of these.
  const hundredths = Number(amount) * 100
  const cents = Math.abs(hundredths - Math.round(hundredths)) < 1e-6 ? Math.round(hundredths) : Number.NaN
  const magic = magicOf({ ...order, cents })
  return magic?.buy ? { ...magic.buy } : null
}

/** What the sale of a contract meets; null: nothing. */
export function magicOfSale(order: MagicOrder): FaultRule | null {
  const magic = magicOf(order)
  return magic?.sell ? { ...magic.sell } : null
}

/** How much later than others a contract settles, in ms. */
export function magicDelayMs(order: MagicOrder): number {
  return magicOf(order)?.settlesAfterMs ?? 0
}

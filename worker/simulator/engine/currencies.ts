// The currencies of the simulated broker's accounts. Money is kept in whole units of the smallest amount a currency has:
// cents for most, which is why the fields are called so; hundred millionths for BTC, whole yen for JPY.

/** Currency → its decimals and what one US dollar is worth in it at the start. */
const known = {
  USD: { digits: 2, rate: 1 },
  EUR: { digits: 2, rate: 0.9214 },
  GBP: { digits: 2, rate: 0.7853 },
  AUD: { digits: 2, rate: 1.5267 },
  BTC: { digits: 8, rate: 0.00001087 },
  JPY: { digits: 0, rate: 154.37 }
} as const

type Currency = keyof typeof known

/** Currencies accounts may have. */
export const currencies = Object.keys(known) as Currency[]

/** Whether there are accounts in it. */
export function isCurrency(text: string): text is Currency {
  return Object.hasOwn(known, text)
}

/** Decimals of an amount of the currency. */
export function digitsOf(currency: string): number {
  return isCurrency(currency) ? known[currency].digits : 2
}

/** The broker's word for the kind of currency. */
export function currencyType(currency: string): 'crypto' | 'fiat' {
  return currency === 'BTC' ? 'crypto' : 'fiat'
}

/** An amount as whole smallest units, rounded; undefined where it has more decimals than the currency. */
export function toUnits(amount: number, currency: string): number | undefined {
  const digits = digitsOf(currency)
  return Number(amount.toFixed(digits)) === amount ? Math.round(amount * 10 ** digits) : undefined
}

/** The most whole smallest units that are not above the amount, and the fewest that are not below it. */
export function unitsWithin(amount: number, currency: string): { floor: number; ceiling: number } {
  const exact = amount * 10 ** digitsOf(currency)
  return { floor: Math.floor(exact + 1e-6), ceiling: Math.ceil(exact - 1e-6) }
}

/** Whole smallest units as a number of the currency. */
export function toAmount(units: number, currency: string): number {
  return Number(printUnits(units, currency))
}

/** The same as text, with every decimal of the currency. */
export function printUnits(units: number, currency: string): string {
  const digits = digitsOf(currency)
  return (units / 10 ** digits).toFixed(digits)
}

/** A limit given in US cents, in whole smallest units of the currency at its rate of the start, at least one. */
export function limitIn(currency: string, usCents: number): number {
  if (!isCurrency(currency)) return usCents
  const { digits, rate } = known[currency]
  return Math.max(1, Math.floor((usCents / 100) * rate * 10 ** digits + 1e-6))
}

/** What an account holds at its start, given in US cents: the same figure where the currency has cents, else its worth. */
export function startIn(currency: string, usCents: number): number {
  return digitsOf(currency) === 2 ? usCents : limitIn(currency, usCents)
}

/** What one US dollar is worth; changed and taken away on request. */
export class Rates {
  #rates = new Map<string, number>(currencies.map(currency => [currency, known[currency].rate]))

  /** Currency → units of it that one unit of `base` buys; null where `base` has no rate. */
  from(base: string): Record<string, number> | null {
    const unit = this.#rates.get(base)
    if (unit === undefined) return null
    return Object.fromEntries(
      [...this.#rates].map(([currency, rate]) => [currency, base === 'USD' ? rate : rate / unit])
    )
  }

  /** Sets what a dollar is worth; null takes the rate away. */
  set(currency: string, rate: number | null): void {
    if (rate === null) this.#rates.delete(currency)
    else this.#rates.set(currency, rate)
  }
}

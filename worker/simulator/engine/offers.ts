// What may be bought: the checks that turn terms into an offer, and the catalogue of a symbol.
import { isDigit, type PurchaseTerms } from './contracts.ts'
import { digitsOf, isCurrency, limitIn, printUnits, toUnits } from './currencies.ts'
import type { Price } from './pricing.ts'
import { type Barrier, type ContractType, digitTypes, multiplierTypes, type Offer, riseFallTypes } from './records.ts'
import { SimulatedRefusal } from './refusal.ts'
import { type SimulatedSymbol, symbols } from './symbols.ts'

const MIN_STAKE_CENTS = 35
const MAX_MULTIPLIER_STAKE_CENTS = 200_000
const MAX_PAYOUT_CENTS = 500_000
export const MAX_SECONDS = 365 * 86_400
const MAX_MARKUP_PCT = 3
const UNIT_SECONDS = { t: 0, s: 1, m: 60, h: 3_600, d: 86_400 } as const

const known = new Set<string>([...riseFallTypes, ...digitTypes, ...multiplierTypes])

/** The bounds of amounts for a symbol, in whole smallest units of the currency. */
export function boundsOf({ symbol, currency }: Pick<Offer, 'symbol' | 'currency'>) {
  return {
    minStake: limitIn(currency, MIN_STAKE_CENTS),
    minMultiplierStake: limitIn(currency, symbol.leastMultiplierCents),
    maxMultiplierStake: limitIn(currency, MAX_MULTIPLIER_STAKE_CENTS),
    maxPayout: limitIn(currency, MAX_PAYOUT_CENTS),
    minLimit: limitIn(currency, symbol.leastLimitCents)
  }
}

/** The contract types a symbol offers. */
export function typesOf(symbol: SimulatedSymbol): ContractType[] {
  return [
    ...(symbol.riseFall ? riseFallTypes : []),
    ...(symbol.digits ? digitTypes : []),
    ...(symbol.multipliers.length > 0 ? multiplierTypes : [])
  ]
}

/** Checks terms at a moment (ms) and makes them an offer. Throws SimulatedRefusal; money limits are checked with the price. */
export function offerOf(terms: PurchaseTerms, nowMs: number): Offer {
  const symbol = symbols.get(terms.symbol)
  if (!symbol) throw new SimulatedRefusal('InvalidSymbol', `Symbol ${terms.symbol} is invalid.`, { field: 'symbol' })
  const type = terms.type as ContractType
  if (!known.has(type) || !typesOf(symbol).includes(type)) {
    throw new SimulatedRefusal('ContractNotOffered', 'Trading is not offered for this asset.', {
      field: 'contract_type'
    })
  }
  if (!isCurrency(terms.currency)) {
    throw new SimulatedRefusal('NotDefaultCurrency', 'The provided currency is invalid.', { field: 'currency' })
  }
  const markupPct = terms.markupPct ?? 0
  if (markupPct < 0 || markupPct > MAX_MARKUP_PCT) {
    const field = 'app_markup_percentage'
    throw new SimulatedRefusal('InvalidMarkup', `Markup must be between 0 and ${MAX_MARKUP_PCT}.`, { field })
  }
  if (terms.cancellation !== undefined) {
    const field = 'cancellation'
    throw new SimulatedRefusal('DealCancellationNotOffered', 'Deal cancellation is not offered for this asset.', {
      field
    })
  }
  const { basis } = terms
  if (basis === undefined)
    throw new SimulatedRefusal('InvalidBasis', 'Basis must be payout or stake.', { field: 'basis' })
  const offer: Offer = {
    type,
    kind: 'ticks',
    symbol,
    currency: terms.currency,
    basis,
    amountCents: amountOf(terms),
    ticks: 0,
    seconds: 0,
    fixedExpiry: false,
    digit: null,
    barrier: { relative: true, pips: 0 },
    multiplier: 0,
    takeProfitCents: null,
    stopLossCents: null,
    markupPct,
    markupOnTop: terms.markupOnTop ?? false
  }
  if (multiplierTypes.includes(type as 'MULTUP')) return multiplierOffer(offer, terms)
  takeDuration(offer, terms, nowMs)
  if (isDigit(type)) offer.digit = digitOf(type, terms.barrier)
  else if (terms.barrier !== undefined) offer.barrier = barrierOf(symbol, terms.barrier)
  return offer
}

function amountOf(terms: PurchaseTerms): number {
  const amount = terms.amount
  if (amount === undefined || amount <= 0) {
    throw new SimulatedRefusal('InvalidStake', 'Please enter a stake amount.', { field: 'amount' })
  }
  const cents = toUnits(amount, terms.currency)
  if (cents === undefined) {
    const digits = digitsOf(terms.currency)
    const word = terms.basis === 'stake' ? 'Stake' : 'Payout'
    const reason = terms.basis === 'stake' ? 'IncorrectStakeDecimals' : 'IncorrectPayoutDecimals'
    const text = `${word} can not have more than ${digits} decimal places.`
    throw new SimulatedRefusal(reason, text, { field: 'amount', args: [digits] })
  }
  return cents
}

function takeDuration(offer: Offer, terms: PurchaseTerms, nowMs: number): void {
  const { symbol } = offer
  const field = 'duration'
  const notAllowed = () =>
    new SimulatedRefusal('TradingDurationNotAllowed', 'Trading is not offered for this duration.', { field })
  const nowEpoch = Math.floor(nowMs / 1000)
  if (terms.expiry !== undefined) {
    if (terms.expiry <= nowEpoch)
      throw new SimulatedRefusal('AlreadyExpired', 'Expiry time cannot be in the past.', { field })
    offer.seconds = terms.expiry - nowEpoch
    offer.fixedExpiry = true
  } else if (terms.duration === undefined || terms.unit === undefined || terms.duration < 1) {
    throw new SimulatedRefusal('InvalidExpiry', 'Please specify either duration or date_expiry.', { field })
  } else if (terms.unit === 't') {
    if (symbol.maxTicks === 0) throw notAllowed()
    if (terms.duration > symbol.maxTicks) {
      const text = `Number of ticks must be between 1 and ${symbol.maxTicks}.`
      throw new SimulatedRefusal('TicksNumberLimits', text, { field, args: [1, symbol.maxTicks] })
    }
    offer.ticks = terms.duration
    return
  } else offer.seconds = terms.duration * UNIT_SECONDS[terms.unit]
  if (isDigit(offer.type) || offer.seconds < symbol.minSeconds || offer.seconds > MAX_SECONDS) throw notAllowed()
  offer.kind = 'timed'
}

function digitOf(type: ContractType, barrier: string | undefined): number | null {
  const field = 'barrier'
  if (type === 'DIGITEVEN' || type === 'DIGITODD') {
    if (barrier === undefined) return null
    throw new SimulatedRefusal('BarrierNotAllowed', 'Barrier is not allowed for this contract type.', { field })
  }
  if (barrier === undefined) throw new SimulatedRefusal('MissingRequiredDigit', 'Missing required digit.', { field })
  if (!/^[0-9]$/.test(barrier)) {
    throw new SimulatedRefusal('DigitOutOfRange', 'Digit must be in the range of 0 to 9.', { field, args: [0, 9] })
  }
  const digit = Number(barrier)
  if ((type === 'DIGITOVER' && digit === 9) || (type === 'DIGITUNDER' && digit === 0)) {
    throw new SimulatedRefusal('NoReturn', 'This contract offers no return.', { field })
  }
  return digit
}

function barrierOf(symbol: SimulatedSymbol, text: string): Barrier {
  const field = 'barrier'
  const relative = text.startsWith('+') || text.startsWith('-')
  const exact = Number(text) * 10 ** symbol.decimals
  const pips = Math.round(exact)
  if (!Number.isFinite(exact) || Math.abs(exact - pips) > 1e-4) {
    throw new SimulatedRefusal('InvalidBarrier', `Barrier can only be up to ${symbol.decimals} decimal places.`, {
      field
    })
  }
  if (!relative && pips === 0)
    throw new SimulatedRefusal('InvalidBarrier', 'Absolute barrier cannot be zero.', { field })
  return { relative, pips }
}

function multiplierOffer(offer: Offer, terms: PurchaseTerms): Offer {
  const { symbol } = offer
  if (terms.barrier !== undefined) {
    throw new SimulatedRefusal('BarrierNotAllowed', 'Barrier is not allowed for this contract type.', {
      field: 'barrier'
    })
  }
  if (terms.basis !== 'stake') throw new SimulatedRefusal('InvalidStake', 'Basis must be stake.', { field: 'basis' })
  if (terms.duration !== undefined || terms.expiry !== undefined) {
    throw new SimulatedRefusal('InvalidExpiry', 'This contract takes no duration.', { field: 'duration' })
  }
  if (terms.multiplier === undefined || !symbol.multipliers.includes(terms.multiplier)) {
    const list = symbol.multipliers.join(',')
    const text = `Multiplier is not in acceptable range. Accepts ${list}.`
    throw new SimulatedRefusal('MultiplierOutOfRange', text, { field: 'multiplier', args: [list] })
  }
  offer.kind = 'multiplier'
  offer.multiplier = terms.multiplier
  const limits = limitsOf(offer, terms)
  offer.takeProfitCents = limits.takeProfitCents ?? null
  offer.stopLossCents = limits.stopLossCents ?? null
  return offer
}

/** Checks limit orders of a multiplier offer; undefined stays undefined, null (remove) stays null. */
export function limitsOf(
  offer: Offer,
  limits: { takeProfit?: number | null | undefined; stopLoss?: number | null | undefined }
): { takeProfitCents?: number | null; stopLossCents?: number | null } {
  const commission = Math.round(offer.amountCents * offer.symbol.commissionRate * offer.multiplier)
  const { currency } = offer
  const { minLimit: min, maxPayout } = boundsOf(offer)
  const takeProfitCents = limitOf(limits.takeProfit, { field: 'take_profit', min, max: maxPayout, currency })
  const stopLossCents = limitOf(limits.stopLoss, {
    field: 'stop_loss',
    min: Math.max(min, commission + 1),
    max: offer.amountCents,
    currency
  })
  return {
    ...(takeProfitCents === undefined ? {} : { takeProfitCents }),
    ...(stopLossCents === undefined ? {} : { stopLossCents })
  }
}

function limitOf(
  amount: number | null | undefined,
  rule: { field: string; min: number; max: number; currency: string }
): number | null | undefined {
  if (amount === undefined || amount === null) return amount
  const cents = toUnits(amount, rule.currency)
  if (cents === undefined) {
    const digits = digitsOf(rule.currency)
    const text = `Only ${digits} decimal places are allowed.`
    throw new SimulatedRefusal('IncorrectStakeDecimals', text, { field: rule.field, args: [digits] })
  }
  if (cents < rule.min) {
    const min = printUnits(rule.min, rule.currency)
    const text = `Enter an amount equal to or higher than ${min}.`
    throw new SimulatedRefusal('LimitOrderAmountTooLow', text, { field: rule.field, args: [min] })
  }
  if (cents > rule.max) {
    const max = printUnits(rule.max, rule.currency)
    const text = `Enter an amount equal to or lower than ${max}.`
    throw new SimulatedRefusal('LimitOrderAmountTooHigh', text, { field: rule.field, args: [max] })
  }
  return cents
}

/** Throws where the price of an offer is outside what is sold. */
export function checkPrice(offer: Offer, price: Price): void {
  if (offer.kind === 'multiplier') checkMultiplierStake(offer)
  else checkBinaryPrice(price, offer)
}

function checkMultiplierStake(offer: Offer): void {
  const { amountCents, currency } = offer
  const { minMultiplierStake, maxMultiplierStake } = boundsOf(offer)
  const [min, max] = [printUnits(minMultiplierStake, currency), printUnits(maxMultiplierStake, currency)]
  if (amountCents < minMultiplierStake) {
    throw new SimulatedRefusal('StakeLimits', `Please enter a stake amount of at least ${min}.`, {
      field: 'amount',
      args: [min]
    })
  }
  if (amountCents > maxMultiplierStake) {
    throw new SimulatedRefusal('StakeLimits', `Maximum stake allowed is ${max}.`, { field: 'amount', args: [max] })
  }
}

function checkBinaryPrice({ askCents, payoutCents }: Price, offer: Offer): void {
  const { currency } = offer
  const { minStake, maxPayout } = boundsOf(offer)
  const print = (cents: number) => printUnits(cents, currency)
  const [min, max, stake, payout] = [minStake, maxPayout, askCents, payoutCents].map(print)
  const bounds = `Minimum stake of ${min} and maximum payout of ${max}.`
  const field = 'amount'
  if (askCents < minStake) {
    throw new SimulatedRefusal('StakeLimits', `${bounds} Current stake is ${stake}.`, {
      field,
      args: [`${min}`, `${max}`, `${stake}`]
    })
  }
  if (payoutCents > maxPayout) {
    const args = [`${min}`, `${max}`, `${payout}`]
    throw new SimulatedRefusal('PayoutLimits', `${bounds} Current payout is ${payout}.`, { field, args })
  }
  if (askCents >= payoutCents) throw new SimulatedRefusal('NoReturn', 'This contract offers no return.', { field })
}

/** Throws where the price of an offer is above the most its buyer would pay. */
export function checkCeiling(offer: Offer, askCents: number, maxCents: number): void {
  if (askCents <= maxCents) return
  if (offer.basis === 'stake') {
    const text = "Contract's stake amount is more than the maximum purchase price."
    throw new SimulatedRefusal('StakeMoreThanPrice', text, { field: 'price' })
  }
  const [was, is] = [printUnits(maxCents, offer.currency), printUnits(askCents, offer.currency)]
  throw new SimulatedRefusal('PriceMoved', `The contract price has moved from ${was} to ${is}.`, {
    args: [offer.currency, was, is]
  })
}

// A contract: its terms, its facts, and the texts and codes made from them. Its cost is in pricing.ts, the offers in
// offers.ts, its life in engine.ts.

import { printUnits } from './currencies.ts'
import { lastDigit, type MarketTick, printPips } from './market.ts'
import type { ContractType, Offer, SimulatedContract } from './records.ts'

/** A purchase as requested, before validation. Amounts are decimal numbers of the currency. */
export interface PurchaseTerms {
  type: string
  symbol: string
  currency: string
  amount?: number | undefined
  basis?: 'stake' | 'payout' | undefined
  duration?: number | undefined
  unit?: 't' | 's' | 'm' | 'h' | 'd' | undefined
  /** Fixed end, epoch seconds, instead of a duration. */
  expiry?: number | undefined
  barrier?: string | undefined
  multiplier?: number | undefined
  takeProfit?: number | undefined
  stopLoss?: number | undefined
  cancellation?: string | undefined
  markupPct?: number | undefined
  /** The markup is paid beside the stake instead of being taken from what a win pays. */
  markupOnTop?: boolean | undefined
}

/** The broker's own application id, found on settlements. */
export const BROKER_APP_ID = 2

export function isDigit(type: ContractType): boolean {
  return type.startsWith('DIGIT')
}

/** How many ticks a tick contract waits for: digits count the entry tick as the first, the others do not. */
export function ticksNeeded(offer: Offer): number {
  return isDigit(offer.type) ? offer.ticks : offer.ticks + 1
}

/** The level, in pips, a rise or fall is measured against; null where there is none, or none yet. */
export function barrierPips(contract: SimulatedContract): number | null {
  const { barrier, kind, type } = contract.offer
  if (kind === 'multiplier' || isDigit(type)) return null
  if (!barrier.relative) return barrier.pips
  return contract.entry ? contract.entry.pips + barrier.pips : null
}

/** Whether the contract wins with this exit. */
export function wins(contract: SimulatedContract, exit: MarketTick): boolean {
  const { type, digit } = contract.offer
  if (isDigit(type)) return digitWins(type, lastDigit(exit), digit ?? 0)
  const distance = exit.pips - (barrierPips(contract) ?? exit.pips)
  if (distance === 0) return type === 'CALLE' || type === 'PUTE'
  return type.startsWith('CALL') ? distance > 0 : distance < 0
}

function digitWins(type: ContractType, digit: number, barrier: number): boolean {
  switch (type) {
    case 'DIGITMATCH':
      return digit === barrier
    case 'DIGITDIFF':
      return digit !== barrier
    case 'DIGITOVER':
      return digit > barrier
    case 'DIGITUNDER':
      return digit < barrier
    case 'DIGITEVEN':
      return digit % 2 === 0
    default:
      return digit % 2 === 1
  }
}

/** The compact code of a contract, as lists carry it. */
export function shortcodeOf(
  offer: Offer,
  facts: { payoutCents: number; startEpoch: number; expiryEpoch: number }
): string {
  const symbol = offer.symbol.code.toUpperCase()
  if (offer.kind === 'multiplier') {
    const takeProfit = printUnits(offer.takeProfitCents ?? 0, offer.currency)
    const stake = printUnits(offer.amountCents, offer.currency)
    return `${offer.type}_${symbol}_${stake}_${offer.multiplier}_${facts.startEpoch}_${facts.expiryEpoch}_0_${takeProfit}_N1`
  }
  const expiry = offer.kind === 'ticks' ? `${offer.ticks}T` : `${facts.expiryEpoch}${offer.fixedExpiry ? 'F' : ''}`
  const head = `${offer.type}_${symbol}_${printUnits(facts.payoutCents, offer.currency)}_${facts.startEpoch}_${expiry}`
  if (isDigit(offer.type)) return offer.digit === null ? head : `${head}_${offer.digit}_0`
  const { relative, pips } = offer.barrier
  return `${head}_${relative ? `S${pips}P` : Math.round((pips * 1e6) / 10 ** offer.symbol.decimals)}_0`
}

/** The barrier as printed: the digit, or the level once it is known. */
export function printBarrier(contract: SimulatedContract): string | null {
  const { digit, symbol } = contract.offer
  if (digit !== null) return String(digit)
  const level = barrierPips(contract)
  return level === null ? null : printPips(symbol, level)
}

/** The contract in a sentence. */
export function longcodeOf(offer: Offer): string {
  const name = offer.symbol.name
  const stop = offer.kind === 'ticks' ? `${offer.ticks} tick${offer.ticks === 1 ? '' : 's'}` : spell(offer.seconds)
  const digit = offer.digit
  switch (offer.type) {
    case 'MULTUP':
    case 'MULTDOWN': {
      const way = offer.type === 'MULTUP' ? 'rises' : 'falls'
      return `Gains ${offer.multiplier} times the stake for each part by which ${name} ${way} from its entry, less commission.`
    }
    case 'DIGITMATCH':
      return `Pays if the last digit of ${name} is ${digit} after ${stop}.`
    case 'DIGITDIFF':
      return `Pays if the last digit of ${name} is not ${digit} after ${stop}.`
    case 'DIGITOVER':
      return `Pays if the last digit of ${name} is above ${digit} after ${stop}.`
    case 'DIGITUNDER':
      return `Pays if the last digit of ${name} is below ${digit} after ${stop}.`
    case 'DIGITEVEN':
      return `Pays if the last digit of ${name} is even after ${stop}.`
    case 'DIGITODD':
      return `Pays if the last digit of ${name} is odd after ${stop}.`
    default: {
      const side = offer.type.startsWith('CALL') ? 'above' : 'below'
      const equal = offer.type.endsWith('E') ? ' or at' : ''
      const level = offer.barrier.relative && offer.barrier.pips === 0 ? 'its entry' : 'its barrier'
      return `Pays if ${name} is ${side}${equal} ${level} after ${stop}.`
    }
  }
}

function spell(seconds: number): string {
  for (const [length, word] of [
    [86_400, 'day'],
    [3_600, 'hour'],
    [60, 'minute']
  ] as const) {
    if (seconds % length === 0) return `${seconds / length} ${word}${seconds === length ? '' : 's'}`
  }
  return `${seconds} seconds`
}

const MULTIPLIER_DAYS = 36_501
const DAY_SECONDS = 86_400

/** When an offer bought at `startEpoch` expires, in epoch seconds; of tick contracts the expected time. */
export function expiryOf(offer: Offer, startEpoch: number): number {
  if (offer.kind === 'multiplier') return (Math.floor(startEpoch / DAY_SECONDS) + MULTIPLIER_DAYS) * DAY_SECONDS - 1
  return startEpoch + (offer.kind === 'ticks' ? offer.ticks * offer.symbol.intervalSeconds : offer.seconds)
}

// What contracts cost and are worth. A payout's price is payout × (chance + commission + markup); a
// multiplier's value follows the price. A markup on top of the price leaves payout and commission as they are and is
// paid beside the stake: the broker's documents show both ways. Money in whole cents.
import { barrierPips, isDigit } from './contracts.ts'
import type { MarketTick } from './market.ts'
import type { Offer, SimulatedContract } from './records.ts'
import type { SimulatedSymbol } from './symbols.ts'

const COMMISSION = 0.012
const SECONDS_A_YEAR = 31_536_000

/** The price of an offer: what is paid, what a win pays, and the parts of both that are fees. */
export interface Price {
  askCents: number
  payoutCents: number
  markupCents: number
  /** Multipliers only. */
  commissionCents: number
}

/** Prices an offer at the given spot. */
export function priceOf(offer: Offer, spot: MarketTick): Price {
  if (offer.kind === 'multiplier') {
    const rate = offer.symbol.commissionRate * offer.multiplier
    const markupCents = Math.round((offer.amountCents * offer.markupPct) / 100)
    const commissionCents = Math.round(offer.amountCents * rate)
    return offer.markupOnTop
      ? { askCents: offer.amountCents + markupCents, payoutCents: 0, markupCents, commissionCents }
      : { askCents: offer.amountCents, payoutCents: 0, markupCents, commissionCents: commissionCents + markupCents }
  }
  if (offer.markupOnTop && offer.basis === 'stake') {
    const payoutCents = Math.round(offer.amountCents / (chance(offer, spot) + COMMISSION))
    const markupCents = Math.round((payoutCents * offer.markupPct) / 100)
    return { askCents: offer.amountCents + markupCents, payoutCents, markupCents, commissionCents: 0 }
  }
  const cost = chance(offer, spot) + COMMISSION + offer.markupPct / 100
  const payoutCents = offer.basis === 'payout' ? offer.amountCents : Math.round(offer.amountCents / cost)
  const askCents = offer.basis === 'stake' ? offer.amountCents : Math.round(offer.amountCents * cost)
  return { askCents, payoutCents, markupCents: Math.round((payoutCents * offer.markupPct) / 100), commissionCents: 0 }
}

/** Whether the price of the offer changes with the market. */
export function priceMoves(offer: Offer): boolean {
  return offer.kind === 'multiplier' || (!isDigit(offer.type) && !(offer.barrier.relative && offer.barrier.pips === 0))
}

/** The chance that a binary offer wins, at the spot of its purchase. */
function chance(offer: Offer, spot: MarketTick): number {
  const digit = offer.digit ?? 0
  switch (offer.type) {
    case 'DIGITEVEN':
    case 'DIGITODD':
      return 0.5
    case 'DIGITMATCH':
      return 0.1
    case 'DIGITDIFF':
      return 0.9
    case 'DIGITOVER':
      return (9 - digit) / 10
    case 'DIGITUNDER':
      return digit / 10
  }
  const level = offer.barrier.relative ? spot.pips + offer.barrier.pips : offer.barrier.pips
  const seconds = offer.kind === 'ticks' ? offer.ticks * offer.symbol.intervalSeconds : offer.seconds
  return above(offer.symbol, { pips: spot.pips, level, seconds, rising: offer.type.startsWith('CALL') })
}

/** The chance to end beyond a level after so many seconds. */
function above(symbol: SimulatedSymbol, at: { pips: number; level: number; seconds: number; rising: boolean }): number {
  const side = at.rising ? 1 : -1
  if (at.pips === at.level) return 0.5
  if (at.level <= 0) return at.rising ? 1 : 0
  const spread = symbol.volatility * Math.sqrt(Math.max(at.seconds, 0.5) / SECONDS_A_YEAR)
  return normal((side * Math.log(at.pips / at.level)) / spread)
}

/** The share of a normal distribution below z (Abramowitz and Stegun 26.2.17, good to seven places). */
function normal(z: number): number {
  if (z < 0) return 1 - normal(-z)
  const t = 1 / (1 + 0.2316419 * z)
  const tail = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return 1 - (Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)) * tail
}

/** What an open binary contract would be bought back for, with so many seconds to go. */
export function bidOf(contract: SimulatedContract, spot: MarketTick, secondsLeft: number): number {
  const { offer, payoutCents } = contract
  const level = barrierPips(contract)
  if (isDigit(offer.type)) return Math.floor(payoutCents * chance(offer, spot))
  const rising = offer.type.startsWith('CALL')
  const p = level === null ? 0.5 : above(offer.symbol, { pips: spot.pips, level, seconds: secondsLeft, rising })
  return Math.max(0, Math.floor(payoutCents * (p - COMMISSION)))
}

/** The profit of a multiplier contract at a price, never less than losing the stake. */
export function multiplierProfit(contract: SimulatedContract, pips: number): number {
  const { offer, entry, commissionCents } = contract
  if (!entry) return -commissionCents
  const side = offer.type === 'MULTUP' ? 1 : -1
  const gross = side * offer.amountCents * offer.multiplier * (pips / entry.pips - 1)
  return Math.max(-offer.amountCents, Math.round(gross) - commissionCents)
}

/** The price, in pips, at which a multiplier contract's profit would be `profitCents`. */
export function multiplierLevel(
  offer: Offer,
  facts: { entryPips: number; stakeCents: number; commissionCents: number; profitCents: number }
): number {
  const side = offer.type === 'MULTUP' ? 1 : -1
  const move = (facts.profitCents + facts.commissionCents) / (facts.stakeCents * offer.multiplier)
  return Math.round(facts.entryPips * (1 + side * move))
}

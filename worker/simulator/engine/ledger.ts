// The broker's own books, as tests and audits read them: one entry a contract, money as decimal strings.

import { printBarrier } from './contracts.ts'
import { printUnits } from './currencies.ts'
import type { AppId, SimulatedContract } from './records.ts'

export interface LedgerEntry {
  contractId: number
  loginid: string
  appId: AppId
  contractType: string
  symbol: string
  currency: string
  /** What was paid less a markup on top of it; for purchases by payout, what that came to. */
  stake: string
  buyPrice: string
  /** What the application charged. */
  markup: string
  payout: string
  commission: string
  duration: number | null
  durationUnit: 't' | 's' | null
  /** The digit, or the level once it is known. */
  barrier: string | null
  multiplier: number | null
  takeProfit: string | null
  stopLoss: string | null
  buyTransactionId: number
  sellTransactionId: number | null
  boughtAtMs: number
  soldAtMs: number | null
  status: string
  sellPrice: string | null
  /** Of a closed contract. */
  profit: string | null
  entry: string | null
  exit: string | null
  shortcode: string
  /** Whether the purchase response was handed to a socket; null (unknown) after a restart. */
  delivered: boolean | null
}

/** A contract's entry. */
export function ledgerEntry(contract: SimulatedContract): LedgerEntry {
  const { offer, account, sellCents } = contract
  const decimal = (cents: number) => printUnits(cents, offer.currency)
  return {
    contractId: contract.id,
    loginid: account.loginid,
    appId: contract.appId,
    contractType: offer.type,
    symbol: offer.symbol.code,
    currency: offer.currency,
    stake: decimal(offer.basis === 'stake' ? offer.amountCents : contract.buyCents),
    buyPrice: decimal(contract.buyCents),
    markup: decimal(contract.markupCents),
    payout: decimal(contract.payoutCents),
    commission: decimal(contract.commissionCents),
    duration: offer.kind === 'multiplier' ? null : offer.ticks || offer.seconds,
    durationUnit: offer.kind === 'multiplier' ? null : offer.kind === 'ticks' ? 't' : 's',
    barrier: printBarrier(contract),
    multiplier: offer.kind === 'multiplier' ? offer.multiplier : null,
    takeProfit: offer.takeProfitCents === null ? null : decimal(offer.takeProfitCents),
    stopLoss: offer.stopLossCents === null ? null : decimal(offer.stopLossCents),
    buyTransactionId: contract.buyTransaction,
    sellTransactionId: contract.sellTransaction,
    boughtAtMs: contract.boughtMs,
    soldAtMs: contract.soldMs,
    status: contract.status,
    sellPrice: sellCents === null ? null : decimal(sellCents),
    profit: sellCents === null ? null : decimal(sellCents - contract.buyCents),
    entry: contract.entry?.quote.toFixed(offer.symbol.decimals) ?? null,
    exit: contract.exit?.quote.toFixed(offer.symbol.decimals) ?? null,
    shortcode: contract.shortcode,
    delivered: contract.delivered
  }
}

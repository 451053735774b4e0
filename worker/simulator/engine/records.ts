// What the broker keeps: accounts, contracts and movements of money. They refer to each other, so they are declared together.
import type { MarketTick } from './market.ts'
import type { SimulatedSymbol } from './symbols.ts'

export const riseFallTypes = ['CALL', 'PUT', 'CALLE', 'PUTE'] as const
export const digitTypes = ['DIGITMATCH', 'DIGITDIFF', 'DIGITOVER', 'DIGITUNDER', 'DIGITEVEN', 'DIGITODD'] as const
export const multiplierTypes = ['MULTUP', 'MULTDOWN'] as const
export type ContractType =
  | (typeof riseFallTypes)[number]
  | (typeof digitTypes)[number]
  | (typeof multiplierTypes)[number]

/** A level in pips: fixed, or so far from the entry tick. */
export type Barrier = { relative: boolean; pips: number }

/** Checked terms with everything that follows from them, the price excepted. */
export interface Offer {
  type: ContractType
  kind: 'ticks' | 'timed' | 'multiplier'
  symbol: SimulatedSymbol
  currency: string
  basis: 'stake' | 'payout'
  amountCents: number
  /** Ticks of a tick contract, otherwise 0. */
  ticks: number
  /** Seconds of a timed contract, otherwise 0. */
  seconds: number
  fixedExpiry: boolean
  digit: number | null
  barrier: Barrier
  multiplier: number
  takeProfitCents: number | null
  stopLossCents: number | null
  markupPct: number
  markupOnTop: boolean
}

type ContractStatus = 'open' | 'won' | 'lost' | 'sold' | 'cancelled'

export interface SimulatedContract {
  id: number
  offer: Offer
  account: SimulatedAccount
  appId: AppId
  buyTransaction: number
  sellTransaction: number | null
  /** Application of the sale: the broker's own for a settlement. */
  sellAppId: AppId | null
  buyCents: number
  payoutCents: number
  markupCents: number
  commissionCents: number
  boughtMs: number
  startEpoch: number
  expiryEpoch: number
  /** When a timed contract really ends; differs from expiryEpoch where time is scaled. */
  endMs: number
  /** The tick that was newest at the purchase: whatever decides comes after it. */
  startTick: number
  /** Period of the ticks `startTick` counts. */
  periodMs: number
  entry: MarketTick | null
  exit: MarketTick | null
  /** Ticks that count, for tick contracts. */
  ticks: MarketTick[]
  status: ContractStatus
  /** Ended, its result known, its money not yet moved. */
  ended: boolean
  sellCents: number | null
  soldMs: number | null
  limitsChangedMs: number
  shortcode: string
  /** Whether the purchase response was handed to a socket; null (unknown) after a restart. */
  delivered: boolean | null
  watchers: Set<(contract: SimulatedContract) => void>
}

/** An application: a number in the first dialect, any text in the newer one. */
export type AppId = number | string

/** One movement of money. The balances of an account's rows form a chain. */
export interface Row {
  transactionId: number
  /** The purchase this row settles; null for purchases and deposits. */
  referenceId: number | null
  action: 'buy' | 'sell' | 'deposit' | 'virtual_credit'
  contract: SimulatedContract | null
  amountCents: number
  balanceCents: number
  atMs: number
  /** Application the movement came from; null for deposits. */
  appId: AppId | null
}

type AccountEvent = { kind: 'bought'; contract: SimulatedContract } | { kind: 'row'; row: Row }

export interface SimulatedAccount {
  loginid: string
  userId: number
  currency: string
  isVirtual: boolean
  disabled: boolean
  /** Of the token that opened it last. */
  flags: ReadonlySet<string>
  balanceCents: number
  createdMs: number
  open: Map<number, SimulatedContract>
  /** Closed contracts in the order they closed. */
  closed: SimulatedContract[]
  rows: Row[]
  listeners: Set<(event: AccountEvent) => void>
}

/** How a contract leaves the books. */
export interface ContractExit {
  status: Exclude<ContractStatus, 'open'>
  cents: number
  appId: AppId
}

/** A sale as it is entered. */
export type SaleEntry = ContractExit & { soldMs: number; transactionId: number }

/** Money as it comes in. */
export interface Deposit {
  cents: number
  atMs: number
  transactionId: number
}

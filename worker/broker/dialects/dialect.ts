// What differs between the broker's APIs, behind everything they share: how a connection is opened and authorised, how
// requests are written and responses read. Requests and responses named here are the only ones we use.

import type { MarkupReport, ReportAccess } from '../markup-report.ts'
import type { BrokerAccount, BrokerLog, Contract, ContractState, Evidence, MarketSymbol, Unreachable } from '../port.ts'
import type { CallLimits } from '../transport/call-window.ts'
import type { Budget } from '../transport/quota.ts'
import type { BrokerConnection } from '../transport/sockets.ts'
import type { Body } from './reading.ts'

/** What a dialect is given to open a connection with. */
export interface DialectContext {
  appId: string
  budget: Budget
  log: BrokerLog
  responseTimeoutMs: number
  /** Opens a socket at `url`; rejects with BrokerError. */
  connect(url: string): Promise<BrokerConnection>
  /**
   * Counts this connection as one of the user's, of which there may be `most` at a time: at the bound the one unused
   * longest is closed, and where all are in use it throws BrokerError TooManyConnections.
   */
  claimSeat(user: string, most: number): void
  /** Applies limits from the broker, to present budgets and to those made later. */
  learnLimits(limits: CallLimits): void
  /** Aborted once an opening waits that is not for contracts: then it goes first. */
  hurry: AbortSignal
}

/** A request's body without its number. */
export type Request = Record<string, unknown>

/** Decimals of an asset's printed price, where known. */
export type PipSizeOf = (asset: string) => number | undefined

export interface Dialect {
  /** As it is stored with partners and orders. */
  name: 'v3' | 'next'
  /** Call budgets until the broker sends better ones; one named `general` holds for all other classes. */
  limits: CallLimits
  /** Streams one connection may have open at a time. */
  maxStreams: number
  /** Publishes to other workers what was spent of quotas that are not an account's: all, or those that `spenders` spent of. */
  settle?: (spenders?: ReadonlySet<string>) => Promise<void>
  /** Calls one connection may make in a second; any number where it is not given. */
  callsPerSecond?: number
  /** Call → class of the budget it counts in. */
  classOf(call: string): string
  /** An address where any response shows that the broker's sockets can be reached. */
  probeAddress(appId: string): string
  /** What else of the broker cannot be reached right now. */
  unreachable?: () => Unreachable[]
  close?: () => void
  /** A connection for market data, without an account. */
  openMarket(place: DialectContext): Promise<BrokerConnection>
  /** A connection authorised for the account, and for no other; BROKER_DISCONNECTED when the token is refused. */
  openAccount(place: DialectContext, account: BrokerAccount): Promise<BrokerConnection>
  /** The application's markups on a day of UTC (YYYY-MM-DD), by the broker's report; over a connection of its own. */
  reportMarkup(place: DialectContext, access: ReportAccess, day: string): Promise<MarkupReport>
  /** A purchase without a quote, at `maxPrice` at most. */
  buy(contract: Contract, maxPrice: string): Request
  /** A quote for a multiplier, to read its commission and limits from. */
  quoteMultiplier(asset: string, terms: { currency: string; multiplier: number; stake: number }): Request
  /** A quote for a contract, to read its payout and least stake from. */
  quote(contract: Contract): Request
  contractsFor(asset: string, currency: string): Request
  /** Calls for the rates from a currency and the decimals of all; null where the dialect has none. */
  exchange: { ratesFrom(currency: string): Request; currencies: Request } | null
  /** The account a balance is about; null where only the connection identifies it. */
  accountOfBalance(body: Body): string | null
  /** These read a body and throw BadFrame when it is not what we rely on. */
  readState(body: Body, pipSizeOf: PipSizeOf): ContractState
  readPortfolio(row: Body): Evidence
  readStatement(row: Body): Evidence
  readProfitTable(row: Body): Evidence
  readSymbol(row: Body): MarketSymbol
  /** The asset named by a row of trading_times. */
  readTradedAsset(row: Body): string
}

// The broker as a port, in our terms; its errors are in broker-error.ts. The dialects (dialects/v3.ts and next.ts) implement it; the code
// above it knows no tokens, login ids, request ids or field names of the broker. Money and prices are decimal strings
// exactly as the broker sent them; times are epoch seconds (UTC).

import type { Logger } from 'pino'
import type { AccountMode } from '../../schemas/fields/fields.ts'
import type { Candle, ContractLimits, MultiplierSpec } from '../../schemas/market.ts'
import type { contractTypes, DurationUnit, MultiplierDirection } from '../../schemas/orders.ts'
import type { MarkupReport, ReportAccess } from './markup-report.ts'

/** Where the client logs. */
export type BrokerLog = Pick<Logger, 'debug' | 'info' | 'warn' | 'error'>

/** An address of the broker that cannot be reached. */
export interface Unreachable {
  /** What cannot be reached: an address, never with a token. */
  what: string
  /** Epoch ms. */
  since: number
  cause: string
}

export interface BinaryContract {
  kind: 'BINARY'
  contractType: (typeof contractTypes)[number]
  asset: string
  stake: string
  currency: string
  duration: number
  durationUnit: DurationUnit
  barrier: string | null
}

export interface MultiplierContract {
  kind: 'MULTIPLIER'
  direction: MultiplierDirection
  asset: string
  stake: string
  currency: string
  multiplier: number
  stopLoss: string | null
  takeProfit: string | null
}

/** A field of a request that places an order. */
export type OrderField =
  | 'asset'
  | 'contractType'
  | 'stake'
  | 'duration'
  | 'durationUnit'
  | 'barrier'
  | 'multiplier'
  | 'stopLoss'
  | 'takeProfit'

/** The currency of stakes on the wire. */
export const stakeCurrency = 'USD'

/** What one unit of the stakes' currency is worth in another one. */
export interface ExchangeRate {
  rate: string
  /** Decimals of an amount of the currency. */
  digits: number
}

export type Contract = BinaryContract | MultiplierContract

/** The least amounts that the broker takes of a contract, in the contract's currency; null where it states none. */
export interface Least {
  stake: string | null
  /** For a multiplier with the least stake; a larger stake may need more, at least its commission. */
  stopLoss: string | null
  takeProfit: string | null
}

/** A broker account as the port needs it: its id, its application, and how to get its token. */
export interface BrokerAccount {
  /** The broker's own account id. */
  accountId: string
  /** The partner's application id at the broker. */
  appId: string
  /**
   * Our name for the stored token. A live session is shared only between calls that name the same one: else a second
   * partner who merely claims an account id would trade on the first one's authorisation. Give it a new value when
   * the token is replaced.
   */
  credentialId?: string
  /** For subscriptions to contracts: an opening that orders and other requests go before. */
  leisurely?: boolean
  /** Unseals the token; called only when a connection has to be authorised, the value is not kept. */
  token(): Promise<string>
  /** The version of the token that was read last. */
  version?(): number | undefined
  /** Whose account it is, known with its token: accounts of one owner may be of one user at the broker, whatever their tokens. */
  owner?(): string | undefined
  /** Whether the broker's facts of the account were compared already for the token that was read last. */
  compared?(): boolean
  /**
   * Called with the broker's facts of the account once it has accepted the token, before the connection is used for
   * anything; if it rejects, the connection is closed.
   */
  accepted?(facts: AccountFacts): Promise<void>
}

/** The broker's facts of an account; null where unknown. */
export interface AccountFacts {
  mode: AccountMode | null
  currency: string | null
}

/** The broker's receipt of a purchase. */
export interface Bought {
  contractId: string
  transactionId: string
  buyPrice: string
  payout: string
  purchaseTime: number
  shortcode: string
  /** When the contract ends, where that is known beforehand. */
  expiryTime: number | null
}

/**
 * A contract as the broker shows it. `settled` means that it is over. Any field may be missing or unreadable, and is
 * null then: worker/orders/plausible.ts decides whether a settled state is plausible.
 */
export interface ContractState {
  /** null where it cannot be read. */
  contractId: string | null
  status: 'open' | 'won' | 'lost' | 'sold' | 'cancelled'
  settled: boolean
  buyPrice: string | null
  payout: string | null
  bidPrice: string | null
  /** Realised once settled, indicative before. */
  profit: string | null
  sellPrice: string | null
  entryPrice: string | null
  exitPrice: string | null
  currentSpot: string | null
  commission: string | null
  /** The application's markup on the contract; null where the state does not contain it, which is not 0. */
  markup: string | null
  purchaseTime: number | null
  sellTime: number | null
  expiryTime: number | null
  sellable: boolean
  shortcode: string | null
  /** Of all amounts; absent where the state does not show it. */
  currency?: string | null
  /** For a multiplier: its present limits; absent where the broker does not state them, or they cannot be read. */
  limits?: ContractLimits
  /** The broker's own flag and status, from which `settled` and `status` follow; null where they cannot be read. */
  reported?: { sold: boolean | null; status: ContractState['status'] | null }
  /** Names of the broker's fields that were sent and could not be read. */
  unreadable?: readonly string[]
}

/** A contract as a list of the account shows it, or the contract itself, for resolution and reconciliation. */
export interface Evidence {
  source: 'portfolio' | 'statement' | 'profit_table' | 'contract'
  /** A name of ours for the row where the list shows no id (dialects/mapping.ts `isNamed`). */
  contractId: string
  transactionId: string | null
  /** null where the dialect has none. */
  appId: string | null
  /** null, like the time, where the list does not show it or shows garbage. */
  buyPrice: string | null
  payout: string | null
  /** For a closed contract, where the list has it. */
  sellPrice?: string | null
  sellTime?: number | null
  purchaseTime: number | null
  /** Parsed by dialects/shortcode.ts; null when it could not be read. */
  terms: ContractTerms | null
  shortcode: string
}

/** The terms of a contract in its shortcode. */
export interface ContractTerms {
  contractType: string
  asset: string
  /** Binary: '5t' or seconds until expiry; multipliers: null. */
  durationTicks: number | null
  durationSeconds: number | null
  barrier: string | null
  payout: string | null
  stake: string | null
  multiplier: number | null
  startTime: number
}

/**
 * Gets every update of a contract; `lost` is called once when the stream ends without settlement. The settled state is
 * the last update and comes once. An update may come before the promise of the purchase or subscription that requested it has
 * resumed.
 */
export interface ContractListener {
  update(state: ContractState): void
  /** The contract is parked: no update comes for so many ms, unless it ends before. */
  parked?(ms: number): void
  lost(cause: unknown): void
}

export interface BuyOptions {
  /** Called synchronously right before the frame is written; if it throws, nothing was sent. */
  beforeSend(): void
  /** Ends the wait for a response that has not come (never the purchase itself). */
  signal?: AbortSignal
  /** Ceiling price: the stake and the most markup the broker may add, in the account's currency. */
  maxPrice: string
  /** When given, the contract is subscribed to from its purchase on, and its updates come here. */
  listener?: ContractListener
  /** How long the purchase may wait for its turn in the account's quota. */
  waitMs?: number
  /**
   * Called with a receipt that comes although the purchase was refused, or names another contract than the one before; the contract
   * has no subscription.
   */
  late?(bought: Bought): void
}

/** A page of a list, `from` and `to` in epoch seconds. */
export interface ListRange {
  from: number
  to?: number
  limit?: number
  offset?: number
}

/** One account's authorised conversation with the broker; shared, re-used and closed by the dialect when idle. */
export interface Session {
  /** Buys once. Errors carry `ran`; after 'unknown' the caller must resolve the order. */
  buy(contract: Contract, options: BuyOptions): Promise<Bought>
  /** Subscribes to a contract; resolves when the first state has arrived (which was also given to the listener). */
  subscribe(contractId: string, listener: ContractListener): Promise<ContractState>
  /** Unsubscribes; harmless when there is no subscription. */
  unsubscribe(contractId: string): void
  /** The contract's present state; `leisurely` only while plenty of calls are left, else it throws QuotaExhausted. */
  contract(contractId: string, options?: { leisurely?: boolean }): Promise<ContractState>
  /** Sells at the market. Repeating is safe: a contract is sold at most once. */
  sell(contractId: string): Promise<{ contractId: string; soldFor: string; transactionId: string }>
  /**
   * Replaces both limits of an open multiplier contract. Repeating is safe: the limits are absolute. Errors carry
   * `ran`; after 'unknown' the contract's state shows which limits it has.
   */
  changeLimits(contractId: string, limits: ContractLimits): Promise<void>
  /** The account's balance; without a currency until its owner has chosen one. */
  balance(): Promise<{ balance: string; currency: string | null }>
  /** Open contracts. */
  portfolio(): Promise<Evidence[]>
  /** Purchases since `from`, newest first, at most `limit` (999); fewer need not be the last ones. null is a row of no purchase. */
  statement(range: ListRange): Promise<(Evidence | null)[]>
  /**
   * Closed contracts bought (or, with some brokers, closed) since `from`, newest first, at most `limit` (500), like `statement`. null
   * is a row of no contract.
   */
  profitTable(range: ListRange): Promise<(Evidence | null)[]>
}

export interface MarketSymbol {
  asset: string
  displayName: string
  market: string
  /** Decimals of a printed price. */
  pipSize: number
  open: boolean
  suspended: boolean
}

/** A price of an asset. */
export interface Tick {
  asset: string
  /** Epoch seconds. */
  epoch: number
  /** As printed, with its last zeros. */
  price: string
}

/** Live prices of some assets. */
export interface TickStreams {
  /** Streams these assets from now on, and no others. Call it at intervals: it also renews what has gone silent. */
  want(assets: ReadonlySet<string>): void
  /** The wanted assets of which the broker has no ticks. */
  readonly unknown: ReadonlySet<string>
  /** Attempts to subscribe that failed in a row. */
  readonly failures: number
  /** Calls `listener` with every tick, until the returned function is called. */
  listen(listener: (tick: Tick) => void): () => void
}

/** Market data: no account behind it. Reads are retried within their time-out. */
export interface Market {
  symbols(): Promise<MarketSymbol[]>
  /** Seconds until the asset's market opens, 0 when open, null when unknown. */
  secondsUntilOpen(asset: string): Promise<number | null>
  /** Up to `count` (≤ 1000) candles, oldest first; the last one is still forming. */
  candles(asset: string, range: { granularitySeconds: number; count: number }): Promise<Candle[]>
  /** What the contract would pay if it were bought now and won. Throws BrokerError where it is not offered. */
  payoutOf(contract: BinaryContract): Promise<string>
  /** The least amounts of such a contract, minutes old at most. Throws BrokerError where it is not offered. */
  leastOf(contract: Contract): Promise<Least>
  /** Throws BrokerError NOT_FOUND for an unknown asset. */
  multiplierSpec(asset: string, currency: string): Promise<MultiplierSpec>
  /** The broker's own rate into the currency, seconds old at most; null where it has none. */
  exchange(currency: string): Promise<ExchangeRate | null>
  /** The broker's clock minus ours, in seconds. */
  clockOffset(): Promise<number>
  readonly ticks: TickStreams
}

/** A broker in one dialect. */
export interface Broker {
  /**
   * Opens, or finds, the account's session; `anew` authorises with the token that is stored now even where a connection is
   * open. Rejects with BrokerError (BROKER_DISCONNECTED when the token is refused).
   */
  session(account: BrokerAccount, options?: { anew?: boolean }): Promise<Session>
  /** Unsubscribes from a contract of an account that has a session here; opens none, and is harmless without a subscription. */
  unsubscribe(account: Pick<BrokerAccount, 'appId' | 'accountId' | 'credentialId'>, contractId: string): void
  /** Market data under the given application id. */
  market(appId: string): Market
  /**
   * The broker's report of an application's markups on a day of UTC (YYYY-MM-DD). Rejects with BrokerError: `rejected` when the
   * token is refused, or lacks the scope.
   */
  markupReport(access: ReportAccess, day: string): Promise<MarkupReport>
  /** Resolves within its time-out with whether the broker can be reached. */
  reachable(appId: string): Promise<boolean>
  /** The parts of the broker that cannot be reached right now; empty while it can, or before the first try. */
  unreachable(): Unreachable[]
  /** When the broker was last reached, in epoch ms: now while a connection is open, null before the first time. */
  reachedAt(): number | null
  /** The symbols that were read last, by any application, and when in epoch ms; null before the first time. */
  lastSymbols(): { symbols: MarketSymbol[]; at: number } | null
  /** How full the call budgets are, for metrics: class → fraction left of the tightest window. */
  budget(): Record<string, number>
  /** The ids of accounts that have a session here; an account may be named twice. */
  accounts(): string[]
  /** The ids of accounts whose calls are counted here, which may have no session any more: other workers allow for that. */
  counted(): string[]
  /** Gives up accounts that other workers are going to serve: publishes what was spent, closes unused connections. */
  leave(accountIds: string[]): Promise<void>
  /** Closes every connection; pending calls end as Disconnected. */
  close(): Promise<void>
}

// What the documents of the broker's newer API leave open, and our assumptions: all of them here, so that each is
// changed in one place once the broker's behaviour is known. Figures it publishes but does not send over the API are
// here too.
import type { CallLimits, CallWindows } from '../transport/call-window.ts'

export const unknowns = {
  /**
   * Limits of calls that share a count. The figures are published; whether the broker counts for each connection, account,
   * application or address is not. We assume: for each account.
   */
  limits: {
    trading: { perMinute: 360, perHour: 14_400 },
    money: { perMinute: 100, perHour: 2_000 },
    lists: { perMinute: 30, perHour: 1_500 },
    general: { perMinute: 220, perHour: 14_400 },
    uncounted: { perMinute: 0, perHour: 0 }
  } satisfies CallLimits,
  classes: {
    proposal: 'trading',
    proposal_open_contract: 'trading',
    buy: 'trading',
    sell: 'trading',
    balance: 'money',
    statement: 'money',
    portfolio: 'lists',
    profit_table: 'lists',
    ping: 'uncounted'
  } as Readonly<Record<string, string>>,

  /**
   * REST calls from one server address, all users together. The workers of a machine share the count; several machines behind one
   * address do not know of each other.
   */
  restOfAddress: { perMinute: 300, perTenMinutes: 1_000, perHour: 0, reserve: 0.4 } satisfies CallWindows,
  /** REST calls of one user: 80 in one document, 60 in another. */
  restOfUser: { perMinute: 60, perHour: 0 } satisfies CallWindows,
  /** How long an opening waits for these budgets. */
  restWaitMs: 10_000,
  /** The same for an opening that is only for subscriptions to contracts. */
  restLeisurelyWaitMs: 60_000,
  restTimeoutMs: 10_000,

  /**
   * Sockets that a user may have open. The published limit is 5; the error of one more is not published, nor whether other
   * programs of the user count. One place is kept for a connection that is being closed.
   */
  socketsOfUser: 4,

  /**
   * Streams that a connection may have open. 100 is published; the response to one more is not, nor whether a purchase that
   * subscribes has run by then: so no purchase subscribes beyond this. A few places are kept for streams that the broker still
   * counts as open.
   */
  streamsOfConnection: 90,

  /** Calls of a connection in a second. The limit is published; whether pings count, and where such a second begins, is not. */
  callsPerSecond: 100,

  /**
   * How a refusal of the application is worded. A refused token has the same status and code; seen are "Invalid application"
   * and "… header is required".
   */
  applicationNamed:
    /\binvalid app(lication)?\b|\bapplication\b.*\b(invalid|unknown|not found|not registered)\b|\bapp[-_ ]?id\b/i,

  /** The time zone of the opening time in a refusal for a closed market: UTC in the only sample there is. */
  zoneOfOpening: 'Z',

  /** Public market data has no address of its own in the documents' examples: the REST host, over WebSocket. */
  publicSocket: (base: string) => `${base.replace(/^http/, 'ws')}/trading/v1/options/ws/public`,

  /** Tokens are opaque; these are the characters a header may carry. */
  tokenForm: /^[\x21-\x7e]{1,4096}$/,
  accountForm: /^\w[\w-]{0,63}$/
}

// Analytics: the windows and buckets that all requests share, and the shapes of the responses.
import type { FromSchema } from 'json-schema-to-ts'
import {
  currency,
  cursor,
  money,
  nextCursor,
  nullable,
  pageSize,
  timestamp,
  traderExternalId
} from './fields/fields.ts'

const from = {
  type: 'string',
  format: 'date-time',
  maxLength: 40,
  description: 'Start of the window, inclusive: ISO 8601, with a zone. Default: 30 days before `to`.',
  examples: ['2026-10-23T00:00:00Z']
} as const
const to = {
  type: 'string',
  format: 'date-time',
  maxLength: 40,
  description:
    'End of the window, exclusive: ISO 8601, with a zone. Default: now. At most 731 days after `from`, 31 with interval `hour`.',
  examples: ['2026-11-22T00:00:00Z']
} as const
export const timezone = {
  type: 'string',
  maxLength: 64,
  pattern: '^[A-Za-z][A-Za-z0-9+-]*(/[A-Za-z0-9_+-]+){0,2}$',
  default: 'UTC',
  description:
    'IANA name of the time zone by whose clocks days, weeks and months begin: area and place, as in the example, a name of one word such as Japan, or UTC. Not the abbreviations CET, EET, EST, HST, MET, MST and WET.',
  examples: ['Asia/Kolkata']
} as const
export const interval = {
  type: 'string',
  enum: ['hour', 'day', 'week', 'month'],
  default: 'day',
  description: 'Length of a bucket. Weeks begin on Monday.',
  examples: ['day']
} as const
export const analyticsMode = {
  type: 'string',
  enum: ['REAL', 'DEMO', 'ALL'],
  default: 'REAL',
  description: 'Accounts that count: real money, demo, or both.',
  examples: ['REAL']
} as const
const oneCurrency = {
  ...currency,
  description: 'Only this account currency. Default: all, a row for each; money is never added across currencies.'
} as const

/** The window of requests that have no other buckets than days of UTC. */
export const analyticsWindow = { from, to } as const
const common = { from, to, timezone, interval, accountMode: analyticsMode } as const

export const AnalyticsQuery = { type: 'object', properties: { ...common, currency: oneCurrency } } as const
export type AnalyticsQuery = FromSchema<typeof AnalyticsQuery>

export const ActivityQuery = {
  type: 'object',
  properties: {
    ...common,
    currency: {
      ...currency,
      description: 'Only orders on accounts in this currency. Default: those in all of them, counted together.'
    }
  }
} as const

export const revenueGroups = ['asset', 'contractType', 'kind', 'accountMode'] as const
export const RevenueQuery = {
  type: 'object',
  properties: {
    ...common,
    currency: oneCurrency,
    groupBy: {
      type: 'string',
      enum: revenueGroups,
      description: 'A row for each of these that occurs; `contractType` of multipliers is MULTUP or MULTDOWN.',
      examples: ['asset']
    }
  }
} as const
export type RevenueQuery = FromSchema<typeof RevenueQuery>

export const TradersQuery = {
  type: 'object',
  properties: {
    ...common,
    currency: {
      ...currency,
      default: 'USD',
      description: 'Only this account currency: traders are ordered by amounts, which must be of one.'
    },
    sort: {
      type: 'string',
      enum: ['pnl', 'volume', 'markup', 'trades', 'lastTradeAt'],
      default: 'pnl',
      description: 'What traders are ordered by, the largest first. `volume` is the sum of stakes.',
      examples: ['volume']
    },
    limit: pageSize,
    cursor
  }
} as const
export type TradersQuery = FromSchema<typeof TradersQuery>

export const MarketplaceQuery = { type: 'object', properties: { from, to, timezone, interval } } as const
export type MarketplaceQuery = FromSchema<typeof MarketplaceQuery>

export const TraderPath = {
  type: 'object',
  required: ['traderExternalId'],
  properties: { traderExternalId }
} as const

const count = (description: string, example: number) =>
  ({ type: 'integer', minimum: 0, description, examples: [example] }) as const
const amount = (description: string, example: number) => ({ ...money, description, examples: [example] }) as const
const usd = (description: string, example: number) => ({ type: 'number', description, examples: [example] }) as const

const window = {
  from: { ...timestamp, description: 'Start of the window, inclusive.', examples: ['2026-10-23T00:00:00.000Z'] },
  to: { ...timestamp, description: 'End of the window, exclusive.', examples: ['2026-11-22T00:00:00.000Z'] },
  timezone: { type: 'string', description: 'By whose clocks buckets begin.', examples: ['UTC'] },
  interval,
  asOf: { ...timestamp, description: 'The instant that the response is of: what was committed by then is counted.' },
  complete: {
    type: 'boolean',
    description:
      'false while something of the window is still unknown: it is not over, a contract is open, a markup is unknown, or an order is in doubt; of activity also while an order that failed in the last hour may be repeated. A window without `to` is over.',
    examples: [true]
  }
} as const

const start = {
  ...timestamp,
  description: 'Start of the bucket, or `from` where that is later.',
  examples: ['2026-11-21T00:00:00.000Z']
} as const
const rowCurrency = nullable({ ...currency, description: 'Currency of the amounts; null where the account has none.' })

const BY_BUCKET = 'The rows, oldest bucket first.'

function responseOf<Row extends { readonly properties: object }, More extends object>(
  row: Row,
  more: More,
  order = BY_BUCKET
) {
  return {
    type: 'object',
    additionalProperties: false,
    required: [...Object.keys(window), ...Object.keys(more), 'data'],
    properties: {
      ...window,
      data: { type: 'array', description: order, items: row },
      ...more
    }
  } as const
}

function rowOf<Fields extends object>(properties: Fields, optional: readonly string[] = []) {
  const required = Object.keys(properties).filter(name => !optional.includes(name))
  return { type: 'object', additionalProperties: false, required, properties } as const
}

const markupUnknown = count('Contracts whose markup the broker has not reported (yet): not in `markup`.', 0)

export const Revenue = responseOf(
  rowOf(
    {
      start,
      currency: rowCurrency,
      group: {
        type: 'string',
        description: 'Only with `groupBy`: the asset, contract type, kind or mode.',
        examples: ['R_100']
      },
      contracts: count('Contracts bought.', 1204),
      traders: count('Different traders who bought them.', 87),
      stake: amount('Stakes of these contracts.', 12040),
      payout: amount('What they paid out so far; 0 while open.', 11630.5),
      markup: amount("What your application earns by them, by the broker's own state of each contract.", 361.2),
      markupUnknown,
      commission: amount('What the broker takes for multiplier contracts, as far as known.', 18.4),
      tradersPnl: amount('Profit or loss of the traders by those that are closed.', -409.5)
    },
    ['group']
  ),
  {}
)

const ofTrader = {
  currency: rowCurrency,
  trades: count('Contracts closed.', 42),
  won: count('Those with a profit.', 23),
  winRatePct: {
    type: 'number',
    minimum: 0,
    maximum: 100,
    description: 'Share of those with a profit, in percent.',
    examples: [54.76]
  },
  stake: amount('Stakes of these contracts.', 420),
  payout: amount('What they paid out.', 431.25),
  pnl: amount('Profit or loss.', 11.25),
  markup: amount("What your application earns by them, by the broker's own state of each contract.", 12.6),
  markupUnknown,
  copied: count('Those that are copies.', 3)
} as const
const TraderRow = rowOf({
  traderExternalId,
  ...ofTrader,
  firstTradeAt: { ...timestamp, description: 'First close in the window.', examples: ['2026-11-01T09:12:44.000Z'] },
  lastTradeAt: { ...timestamp, description: 'Last close in the window.', examples: ['2026-11-21T21:40:03.000Z'] }
})

export const Traders = responseOf(TraderRow, { nextCursor }, 'A row for each trader, the largest by `sort` first.')
export const TraderAnalytics = responseOf(
  TraderRow,
  {
    series: {
      type: 'array',
      description: 'The same by bucket and currency, oldest bucket first; buckets without a close are left out.',
      items: rowOf({ start, ...ofTrader })
    }
  },
  'A row for each currency.'
)

export const Activity = responseOf(
  rowOf({
    start,
    activeTraders: count('Different traders who placed an order.', 87),
    newTraders: count('Those for whom it was the first ever, of accounts of this `accountMode` and `currency`.', 5),
    returningTraders: count('The others of them.', 82),
    placed: count('Orders accepted, copies among them.', 1210),
    failed: count('Those that FAILED.', 6),
    failedBy: {
      type: 'object',
      additionalProperties: { type: 'integer', minimum: 1 },
      description: 'FAILED orders by their code.',
      examples: [{ INSUFFICIENT_BALANCE: 4, MARKET_CLOSED: 2 }]
    },
    inDoubt: count('Orders sent whose outcome is not known yet, or in review.', 0),
    answerMs: {
      type: 'object',
      additionalProperties: false,
      required: ['p50', 'p99'],
      description:
        'Milliseconds from sending an order to the broker until its purchase was known, as they were measured; null where none was bought.',
      properties: {
        p50: { type: ['number', 'null'], description: 'Of half of the orders at most.', examples: [112.4] },
        p99: { type: ['number', 'null'], description: 'Of 99 % of the orders at most.', examples: [843.9] }
      }
    }
  }),
  {}
)

export const Marketplace = responseOf(
  rowOf({
    start,
    sales: count('Bots sold.', 3),
    subscriptions: count('Months of subscriptions paid.', 12),
    refunds: count('Sales and months taken back.', 0),
    grossUsd: usd('What buyers paid, less refunds, in USD.', 149),
    feesUsd: usd("The platform's share of it, in USD.", 29.8),
    netUsd: usd('What you earned, in USD.', 119.2)
  }),
  {}
)

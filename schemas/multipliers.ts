// Multiplier orders, the multiplier specification of an asset, and open positions of both kinds.
import type { FromSchema } from 'json-schema-to-ts'
import {
  asset,
  clientOrderId,
  converted,
  currency,
  idField,
  money,
  nullable,
  price,
  stakeUsd,
  timestamp,
  traderExternalId
} from './fields/fields.ts'
import { contractType, direction, expectedAccountMode } from './orders.ts'

const multiplier = {
  type: 'number',
  minimum: 1,
  maximum: 100_000,
  description: 'Factor on the move of the market; see the specification.',
  examples: [100]
} as const
const stopLoss = {
  type: 'number',
  minimum: 0,
  maximum: 1_000_000,
  description:
    "Close when the loss reaches this amount of the account's currency, unlike the stake, which is in USD; 0 or absent: none.",
  examples: [5]
} as const
const takeProfit = {
  type: 'number',
  minimum: 0,
  maximum: 1_000_000,
  description:
    "Close when the profit reaches this amount of the account's currency, unlike the stake, which is in USD; 0 or absent: none.",
  examples: [20]
} as const

export const MultiplierOrderRequest = {
  type: 'object',
  required: ['traderExternalId', 'clientOrderId', 'asset', 'direction', 'stake', 'multiplier'],
  properties: {
    traderExternalId,
    clientOrderId,
    asset,
    direction,
    stake: {
      type: 'number',
      minimum: 1,
      maximum: 1_000_000,
      description:
        "Stake in USD, at least 1. On an account in another currency it is converted at the broker's own rate right before the purchase and rounded down to the currency's decimals.",
      examples: [10]
    },
    multiplier,
    stopLoss,
    takeProfit,
    expectedAccountMode
  },
  examples: [
    {
      traderExternalId: 'user-42',
      clientOrderId: '3f0d9a34-4a0b-4e0e-8a7e-6e0f1f2a9c55',
      asset: 'R_100',
      direction: 'up',
      stake: 10,
      multiplier: 100,
      takeProfit: 20
    }
  ]
} as const
export type MultiplierOrderRequest = FromSchema<typeof MultiplierOrderRequest>

const opened = {
  orderId: idField('ord', 'Identifier of the order.'),
  brokerOrderId: { type: 'string', description: "The broker's contract id.", examples: ['290769704688'] },
  status: { const: 'OPEN', description: 'Bought.', examples: ['OPEN'] },
  asset,
  direction,
  multiplier,
  stake: stakeUsd,
  buyPrice: { ...money, description: 'What the contract cost in the account currency.' },
  commission: {
    ...nullable(money),
    description: 'Commission of the broker; null while it is not known.',
    examples: [0.3]
  },
  stopLoss: {
    ...nullable(money),
    description: 'null: none. One that was changed at the broker is shown as it is now.',
    examples: [null]
  },
  takeProfit: {
    ...nullable(money),
    description: 'null: none. One that was changed at the broker is shown as it is now.',
    examples: [20]
  },
  openedAt: timestamp
} as const
const openedFields = Object.keys(opened) as (keyof typeof opened)[]

export const OpenMultiplierOrder = {
  type: 'object',
  additionalProperties: false,
  required: openedFields,
  properties: { ...opened, ...converted },
  description: 'A multiplier order whose contract runs.'
} as const

export const ClosedMultiplierOrder = {
  type: 'object',
  additionalProperties: false,
  required: [...openedFields, 'pnl', 'entryPrice', 'exitPrice', 'closedAt'],
  properties: {
    ...opened,
    ...converted,
    status: { const: 'CLOSED', description: 'Sold or stopped out.', examples: ['CLOSED'] },
    pnl: { ...money, description: 'Profit or loss in the account currency.', examples: [3.21] },
    entryPrice: { ...nullable(price), description: 'Price at the start.' },
    exitPrice: { ...nullable(price), description: 'Price at the end.', examples: [1219.93] },
    closedAt: timestamp
  },
  description: 'A multiplier order with its result.'
} as const

/** A multiplier order in the responses of placing and closing. */
export const MultiplierOrder = {
  type: 'object',
  oneOf: [ClosedMultiplierOrder, OpenMultiplierOrder],
  description: '`status` distinguishes them: CLOSED with the result, OPEN without.',
  examples: [
    {
      orderId: 'ord_01k3hv9c7bf5tvxkz1qd3rn8ma',
      brokerOrderId: '290769704688',
      status: 'OPEN',
      asset: 'R_100',
      direction: 'up',
      multiplier: 100,
      stake: 10,
      buyPrice: 10,
      commission: 0.3,
      stopLoss: null,
      takeProfit: 20,
      openedAt: '2026-11-21T08:00:00.000Z'
    },
    {
      orderId: 'ord_01k3hv9c7bf5tvxkz1qd3rn8ma',
      brokerOrderId: '290769704688',
      status: 'CLOSED',
      asset: 'R_100',
      direction: 'up',
      multiplier: 100,
      stake: 10,
      buyPrice: 10,
      commission: 0.3,
      stopLoss: null,
      takeProfit: 20,
      openedAt: '2026-11-21T08:00:00.000Z',
      pnl: 3.21,
      entryPrice: 1219.5,
      exitPrice: 1219.93,
      closedAt: '2026-11-21T08:07:31.000Z'
    }
  ]
} as const

export const MultiplierSpec = {
  type: 'object',
  additionalProperties: false,
  required: ['asset', 'currency', 'multipliers', 'minStake', 'maxStake', 'commissionPct', 'cancellation', 'marketOpen'],
  properties: {
    asset,
    currency,
    multipliers: {
      type: 'array',
      items: { type: 'number' },
      description: 'Factors the broker offers.',
      examples: [[40, 100, 200, 300, 400]]
    },
    minStake: { ...money, description: 'Smallest stake.', examples: [1] },
    maxStake: {
      ...nullable(money),
      description: 'Largest stake; null when the broker does not state it.',
      examples: [2000]
    },
    commissionPct: {
      ...nullable({ type: 'number' } as const),
      description: 'Commission in percent of stake × multiplier; null when the broker does not state it.',
      examples: [0.03]
    },
    cancellation: {
      type: 'array',
      items: { type: 'string' },
      description: 'Lengths of deal cancellation.',
      examples: [['5m', '60m']]
    },
    marketOpen: { type: 'boolean', description: 'Whether the market is open.', examples: [true] },
    secondsUntilOpen: {
      type: 'integer',
      minimum: 0,
      description: 'While the market is closed, when the broker states it.',
      examples: [3600]
    }
  }
} as const

export const PositionsQuery = { type: 'object', properties: { traderExternalId } } as const
export type PositionsQuery = FromSchema<typeof PositionsQuery>

export const Position = {
  type: 'object',
  additionalProperties: false,
  required: [
    'orderId',
    'brokerOrderId',
    'kind',
    'traderExternalId',
    'asset',
    'stake',
    'buyPrice',
    'currentValue',
    'unrealizedPnl',
    'markedAt',
    'openedAt',
    'expiresAt'
  ],
  properties: {
    orderId: idField('ord', 'Identifier of the order.'),
    brokerOrderId: { type: 'string', description: "The broker's contract id.", examples: ['290769704688'] },
    kind: { type: 'string', enum: ['BINARY', 'MULTIPLIER'], description: 'Kind of order.', examples: ['BINARY'] },
    traderExternalId,
    asset,
    contractType: { ...contractType, description: 'For binary orders.' },
    direction: { ...direction, description: 'For multiplier orders.' },
    stake: stakeUsd,
    ...converted,
    buyPrice: { ...money, description: 'What the contract cost in the account currency.' },
    currentValue: {
      ...nullable(money),
      description: 'What a sale would bring at markedAt; null before the first mark.',
      examples: [10.4]
    },
    unrealizedPnl: { ...nullable(money), description: 'currentValue less buyPrice.', examples: [0.4] },
    markedAt: { ...nullable(timestamp), description: 'When the value was read from the broker.' },
    openedAt: timestamp,
    expiresAt: { ...nullable(timestamp), description: 'End of the contract; null for tick and multiplier contracts.' }
  },
  examples: [
    {
      orderId: 'ord_01k3hv9c7bf5tvxkz1qd3rn8ma',
      brokerOrderId: '290769704688',
      kind: 'BINARY',
      traderExternalId: 'user-42',
      asset: 'R_100',
      contractType: 'CALL',
      stake: 10,
      buyPrice: 10,
      currentValue: 10.4,
      unrealizedPnl: 0.4,
      markedAt: '2026-11-21T08:03:00.000Z',
      openedAt: '2026-11-21T08:00:00.000Z',
      expiresAt: '2026-11-21T08:05:00.000Z'
    }
  ]
} as const

export const PositionList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: 'The newest first.', items: Position } }
} as const

// The orders of a partner as its lists, lookups and events show them: one form for all kinds of orders.
import type { FromSchema } from 'json-schema-to-ts'
import {
  accountId,
  accountMode,
  asset,
  clientOrderId,
  converted,
  currency,
  cursor,
  idField,
  money,
  nextCursor,
  nullable,
  pageSize,
  price,
  stakeUsd,
  timestamp,
  traderExternalId
} from './fields/fields.ts'
import {
  barrier,
  brokerOrderId,
  closed,
  contractType,
  direction,
  duration,
  durationUnit,
  Order,
  opened,
  orderId,
  orderStatus
} from './orders.ts'

export const OrdersQuery = {
  type: 'object',
  properties: {
    traderExternalId,
    status: orderStatus,
    clientOrderId: { ...clientOrderId, description: 'The order of this idempotency key.' },
    brokerOrderId: {
      type: 'string',
      minLength: 1,
      maxLength: 64,
      pattern: '^[\\u0021-\\u007e]+$',
      description: "The order of this contract, by the broker's id.",
      examples: ['290769704688']
    },
    limit: pageSize,
    cursor
  }
} as const
export type OrdersQuery = FromSchema<typeof OrdersQuery>

export const OrderQuery = {
  type: 'object',
  properties: {
    wait: {
      type: 'integer',
      minimum: 0,
      maximum: 30,
      default: 0,
      description: 'Seconds to wait for the order to be CLOSED or FAILED; 0: return at once.',
      examples: [30]
    }
  }
} as const
export type OrderQuery = FromSchema<typeof OrderQuery>

const listed = {
  orderId,
  brokerOrderId: nullable(brokerOrderId),
  status: orderStatus,
  stake: stakeUsd,
  stakeInAccount: nullable(converted.stakeInAccount),
  exchangeRate: nullable(converted.exchangeRate),
  potentialPayout: nullable(opened.potentialPayout),
  buyPrice: nullable(opened.buyPrice),
  openedAt: nullable(timestamp),
  pnl: nullable(closed.pnl),
  entryPrice: nullable(price),
  exitPrice: nullable(price),
  closedAt: nullable(timestamp),
  kind: { type: 'string', enum: ['BINARY', 'MULTIPLIER'], description: 'Kind of order.', examples: ['BINARY'] },
  clientOrderId: nullable({ ...clientOrderId, description: 'The idempotency key; null for a copy.' }),
  traderExternalId,
  accountId,
  accountMode,
  currency: nullable(currency),
  asset,
  contractType: nullable({ ...contractType, description: 'For binary orders.' }),
  direction: nullable({ ...direction, description: 'For multiplier orders.' }),
  multiplier: nullable({ type: 'number', description: 'For multiplier orders.', examples: [100] } as const),
  duration: nullable(duration),
  durationUnit: nullable(durationUnit),
  barrier: nullable(barrier),
  stopLoss: { ...nullable(money), description: 'For multiplier orders; null: none.', examples: [null] },
  takeProfit: { ...nullable(money), description: 'For multiplier orders; null: none.', examples: [null] },
  commission: {
    ...nullable(money),
    description: 'What the broker takes for a multiplier contract; null while unknown, and for binary orders.',
    examples: [null]
  },
  markup: {
    ...nullable(money),
    description:
      "What your application earns by the contract, in the account currency, by the broker's own state of it; null: not known (yet), which is not 0.",
    examples: [0.59]
  },
  createdAt: timestamp,
  copiedFrom: nullable(idField('ord', "The leader's order this one copies.")),
  raisedToMinimum: {
    type: ['boolean', 'null'],
    description: "Of a copy: whether its stake was raised to the broker's minimum; null for other orders.",
    examples: [null]
  },
  error: {
    type: ['object', 'null'],
    additionalProperties: false,
    required: ['error', 'message'],
    properties: {
      error: { type: 'string', description: 'Code of the refusal, or REVIEW_REQUIRED.', examples: ['MARKET_CLOSED'] },
      message: { type: 'string', description: 'In words.', examples: ['The market is closed.'] }
    },
    description: 'Why the order FAILED, or why it waits for a review; null otherwise.'
  }
} as const

/** An order in a list: every field, null while unknown. */
export const OrderEntry = {
  type: 'object',
  additionalProperties: false,
  required: Object.keys(listed) as (keyof typeof listed)[],
  properties: listed,
  examples: [
    {
      ...Order.examples[0],
      stakeInAccount: null,
      exchangeRate: null,
      kind: 'BINARY',
      clientOrderId: '0b9f5e6e-6f0f-4b4e-9a35-0c9d3f0f8a11',
      traderExternalId: 'user-42',
      accountId: 'VRTC1234567',
      accountMode: 'DEMO',
      currency: 'USD',
      asset: 'R_100',
      contractType: 'CALL',
      direction: null,
      multiplier: null,
      duration: 5,
      durationUnit: 't',
      barrier: null,
      stopLoss: null,
      takeProfit: null,
      commission: null,
      markup: 0.59,
      createdAt: '2026-11-21T07:59:59.500Z',
      copiedFrom: null,
      raisedToMinimum: null,
      error: null
    }
  ]
} as const
export type OrderEntry = { [K in keyof typeof listed]: unknown }

export const OrderPage = {
  type: 'object',
  additionalProperties: false,
  required: ['data', 'nextCursor'],
  properties: { data: { type: 'array', description: 'The newest first.', items: OrderEntry }, nextCursor }
} as const

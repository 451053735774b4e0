// What is sold in the marketplace: purchases, for ever, and subscriptions, by the month.
import type { FromSchema } from 'json-schema-to-ts'
import { cursor, idField, pageSize, timestamp } from '../fields/fields.ts'
import { cursorListOf } from '../fields/pages.ts'
import { MAX_PRICE_USD } from './creator.ts'
import { botId, lines, orNull } from './marketplace.ts'

const priceUsd = { type: 'number', minimum: 0, description: 'Price in USD.', examples: [19.9] } as const

export const Purchase = {
  type: 'object',
  additionalProperties: false,
  required: ['purchaseId', 'botId', 'priceUsd', 'status', 'purchasedAt', 'refundedAt'],
  properties: {
    purchaseId: idField('pur', 'Identifier of the purchase.'),
    botId,
    priceUsd,
    status: {
      type: 'string',
      enum: ['COMPLETED', 'REFUNDED'],
      description: 'COMPLETED: paid and owned. REFUNDED: paid back, no longer owned.',
      examples: ['COMPLETED']
    },
    purchasedAt: timestamp,
    refundedAt: { ...orNull(timestamp), description: 'When it was paid back.' }
  }
} as const
export type PurchaseStatus = 'COMPLETED' | 'REFUNDED'

export const PurchaseList = cursorListOf(Purchase)

export const Subscription = {
  type: 'object',
  additionalProperties: false,
  required: [
    'subscriptionId',
    'botId',
    'priceUsd',
    'status',
    'currentPeriodEnd',
    'cancelAtPeriodEnd',
    'createdAt',
    'refundedAt'
  ],
  properties: {
    subscriptionId: idField('sub', 'Identifier of the subscription.'),
    botId,
    priceUsd: { ...priceUsd, description: 'Price of a month in USD, as it was when subscribing.' },
    status: {
      type: 'string',
      enum: ['ACTIVE', 'PAST_DUE', 'CANCELED'],
      description:
        'ACTIVE: paid. PAST_DUE: the month is over and the next was not paid: the wallet is empty, or the partner INACTIVE or SUSPENDED; still usable, for three days. CANCELED: over.',
      examples: ['ACTIVE']
    },
    currentPeriodEnd: { ...timestamp, description: 'Until when it is paid.' },
    cancelAtPeriodEnd: {
      type: 'boolean',
      description: 'Ends with its period: it was canceled, or the bot was retired.',
      examples: [false]
    },
    createdAt: timestamp,
    refundedAt: { ...orNull(timestamp), description: 'When its last month was paid back.' }
  }
} as const
export type SubscriptionStatus = 'ACTIVE' | 'PAST_DUE' | 'CANCELED'

export const SubscriptionList = cursorListOf(Subscription)

/** How many a page of what a party has may show, and shows where nothing else is requested. */
export const OWNED_PAGE = 1000

/** Query of the lists of what a party has. */
export const OwnedQuery = {
  type: 'object',
  properties: { limit: { ...pageSize, maximum: OWNED_PAGE, default: OWNED_PAGE }, cursor }
} as const
export type OwnedQuery = FromSchema<typeof OwnedQuery>

/** Body of a purchase and of a subscription; without it the price is whatever it is. */
export const Sale = {
  type: 'object',
  properties: {
    expectedPriceUsd: {
      type: 'number',
      minimum: 0,
      maximum: MAX_PRICE_USD,
      description: 'The price that was shown; another one is a 409 PRICE_CHANGED, and no money moves.',
      examples: [19.9]
    }
  },
  examples: [{ expectedPriceUsd: 19.9 }]
} as const
export type Sale = FromSchema<typeof Sale>

/** Body of the refund, and the reason of `operator purchases refund`. */
export const Refund = {
  type: 'object',
  required: ['reason'],
  properties: {
    reason: {
      type: 'string',
      minLength: 3,
      maxLength: 500,
      pattern: lines,
      description: 'Why it is paid back; kept with the purchase and in the audit log.',
      examples: ['The bot does not do what it says.']
    }
  }
} as const
export type Refund = FromSchema<typeof Refund>

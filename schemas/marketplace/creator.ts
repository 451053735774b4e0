// The creator's side of the marketplace: the bots one makes, what they earn, and payouts.
import type { FromSchema } from 'json-schema-to-ts'
import { idField, timestamp } from '../fields/fields.ts'
import { listOf, pageOf } from '../fields/pages.ts'
import {
  botId,
  category,
  code,
  demoVideoUrl,
  description,
  detailFactNames,
  detailFacts,
  longDescription,
  name,
  orNull,
  riskLevel,
  screenshots,
  strategyType,
  supportedAssets,
  version
} from './marketplace.ts'

/** What nothing in the marketplace costs more than, in USD. */
export const MAX_PRICE_USD = 100_000

const price = (what: string) =>
  ({
    type: 'number',
    minimum: 0,
    maximum: MAX_PRICE_USD,
    description: `${what} in USD, with at most two decimals; 0 is free, left out it is not offered.`,
    examples: [19.9]
  }) as const

const oneTimePriceUsd = price('Price of a purchase')
const monthlyPriceUsd = price('Price of a month')

export const NewBot = {
  type: 'object',
  required: ['name', 'description', 'category', 'riskLevel', 'strategyType', 'code'],
  properties: {
    name,
    description: { ...description, minLength: 10 },
    longDescription,
    category,
    riskLevel,
    strategyType,
    supportedAssets,
    screenshots,
    demoVideoUrl,
    oneTimePriceUsd,
    monthlyPriceUsd,
    code,
    version
  }
} as const
export type NewBot = FromSchema<typeof NewBot>

const withdrawable = <Field extends { readonly type: string; readonly description: string }>(field: Field) =>
  ({ ...field, type: [field.type, 'null'], description: `${field.description} null takes it away.` }) as Omit<
    Field,
    'type'
  > & { readonly type: readonly [Field['type'], 'null'] }

export const BotChanges = {
  type: 'object',
  properties: {
    name,
    description: { ...description, minLength: 1 },
    longDescription: withdrawable(longDescription),
    category,
    riskLevel,
    strategyType,
    supportedAssets,
    screenshots,
    demoVideoUrl: withdrawable(demoVideoUrl),
    oneTimePriceUsd: withdrawable(oneTimePriceUsd),
    monthlyPriceUsd: withdrawable(monthlyPriceUsd),
    code
  }
} as const
export type BotChanges = FromSchema<typeof BotChanges>

export const botStatus = {
  type: 'string',
  enum: ['DRAFT', 'PUBLISHED', 'RETIRED'],
  description: 'DRAFT: not yet shown. PUBLISHED: listed and sold. RETIRED: neither; buyers keep theirs.',
  examples: ['PUBLISHED']
} as const
export type BotStatus = (typeof botStatus.enum)[number]

export const CreatorBot = {
  type: 'object',
  additionalProperties: false,
  required: [...detailFactNames, 'status', 'createdAt', 'updatedAt'],
  properties: {
    ...detailFacts,
    status: botStatus,
    createdAt: timestamp,
    updatedAt: { ...timestamp, description: 'Last change of its facts, code or state.' }
  }
} as const

export const CreatorBots = listOf(CreatorBot)

const amount = (what: string) => ({ type: 'number', description: `${what}, USD.`, examples: [120.5] }) as const

export const BotEarnings = {
  type: 'object',
  additionalProperties: false,
  required: ['botId', 'name', 'sales', 'subscribers', 'grossUsd', 'netUsd'],
  properties: {
    botId,
    name,
    sales: { type: 'integer', minimum: 0, description: 'Purchases less refunds.', examples: [12] },
    subscribers: { type: 'integer', minimum: 0, description: 'Subscriptions not canceled.', examples: [3] },
    grossUsd: amount('What buyers paid, less refunds'),
    netUsd: amount('The same after fees')
  }
} as const

export const Earnings = {
  type: 'object',
  additionalProperties: false,
  required: ['availableUsd', 'heldUsd', 'lifetimeUsd', 'paidOutUsd', 'feePct', 'bots'],
  properties: {
    availableUsd: amount('What may be paid out; below zero after refunds of what was paid out already'),
    heldUsd: amount('Requested and not yet paid'),
    lifetimeUsd: amount('Everything earned, after fees and refunds'),
    paidOutUsd: amount('Paid out'),
    feePct: { type: 'number', minimum: 0, maximum: 100, description: "The platform's share, %.", examples: [20] },
    bots: {
      type: 'array',
      description: 'Each bot that was ever published, newest first, at most 1000.',
      items: BotEarnings
    }
  }
} as const

/** The result of the checksum of a payout's address. */
export const addressChecks = ['OK', 'FAILED'] as const

export const NewPayout = {
  type: 'object',
  required: ['amountUsd', 'destinationAddress'],
  properties: {
    amountUsd: {
      type: 'number',
      minimum: 0.01,
      maximum: 1_000_000_000,
      description: 'USD, with at most two decimals, not more than is available.',
      examples: [120.5]
    },
    destinationAddress: {
      type: 'string',
      minLength: 34,
      maxLength: 34,
      pattern: '^[\\u0021-\\u007e]*$',
      description:
        'Where to pay: an address of exactly 34 characters. One whose checksum (base58check) is wrong is accepted, and marked.',
      examples: ['TQn9Y2khEsLJW1ChVWFMSMeRDow5KcbLSE']
    }
  }
} as const
export type NewPayout = FromSchema<typeof NewPayout>

export const payoutStatuses = ['REQUESTED', 'APPROVED', 'PAID', 'REJECTED'] as const
export type PayoutStatus = (typeof payoutStatuses)[number]

export const Payout = {
  type: 'object',
  additionalProperties: false,
  required: [
    'payoutId',
    'traderExternalId',
    'amountUsd',
    'destinationAddress',
    'addressCheck',
    'status',
    'requestedAt',
    'decidedAt',
    'paidAt',
    'reference',
    'reason'
  ],
  properties: {
    payoutId: idField('pay', 'Identifier of the payout.'),
    traderExternalId: {
      type: ['string', 'null'],
      description: 'The trader who requested it; null when the partner did.',
      examples: ['user-42']
    },
    amountUsd: amount('What is paid'),
    destinationAddress: NewPayout.properties.destinationAddress,
    addressCheck: {
      type: 'string',
      enum: addressChecks,
      description:
        'OK: the checksum of the address is right. FAILED: it is wrong, or the text is not an address of this form; check whether it was mistyped.',
      examples: ['OK']
    },
    status: {
      type: 'string',
      enum: payoutStatuses,
      description:
        'REQUESTED: the amount is held. APPROVED: to be paid. PAID. REJECTED: the amount is available again.',
      examples: ['REQUESTED']
    },
    requestedAt: timestamp,
    decidedAt: { ...orNull(timestamp), description: 'When it was approved or rejected.' },
    paidAt: { ...orNull(timestamp), description: 'When it was paid.' },
    reference: { type: ['string', 'null'], description: 'Proof of payment.', examples: ['tx 5e2f…'] },
    reason: { type: ['string', 'null'], description: 'Why it was rejected.', examples: ['Address unknown.'] }
  }
} as const

export const PayoutPage = pageOf(Payout)

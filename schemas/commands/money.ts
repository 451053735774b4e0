// What the operator's commands about money take: wallets, billing, purchases, payouts.
import type { FromSchema } from 'json-schema-to-ts'
import { amountArgument } from '../fields/money.ts'
import { payoutStatuses } from '../marketplace/creator.ts'
import { id, instant, lineOfText } from './text.ts'

const reference = (what: string) =>
  ({
    type: 'string',
    minLength: 1,
    maxLength: 120,
    // A blank at either end, pasted by mistake, would make another reference of the same one.
    pattern: '^[\\u0021-\\u007e]([\\u0020-\\u007e]*[\\u0021-\\u007e])?$',
    description: `${what}, unique per partner; without blanks at its ends.`
  }) as const

export const TopUpOrder = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'amount'],
  properties: {
    partner: id('Whose wallet.'),
    amount: amountArgument,
    reference: reference("The payment's own name")
  }
} as const
export type TopUpOrder = FromSchema<typeof TopUpOrder>

export const DebitOrder = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'amount', 'reason'],
  properties: {
    partner: id('Whose wallet.'),
    amount: amountArgument,
    reason: lineOfText(3, 500, 'Why; the partner reads it in its statement.'),
    reference: reference("The correction's own name")
  }
} as const
export type DebitOrder = FromSchema<typeof DebitOrder>

export const StatementQuery = {
  type: 'object',
  additionalProperties: false,
  required: ['partner'],
  properties: {
    partner: id('Whose wallet.'),
    limit: { type: 'integer', minimum: 1, maximum: 1000, default: 50, description: 'How many movements at most.' },
    cursor: { type: 'string', pattern: '^\\d{1,15}$', description: 'nextCursor of the page before.' }
  }
} as const
export type StatementQuery = FromSchema<typeof StatementQuery>

export const BillingOrder = {
  type: 'object',
  additionalProperties: false,
  properties: {
    now: instant('Charge what is due as of this instant: ISO 8601 with its zone, or a day (its beginning, UTC).')
  }
} as const
export type BillingOrder = FromSchema<typeof BillingOrder>

const limit = { type: 'integer', minimum: 1, maximum: 1000, default: 100, description: 'How many at most.' } as const

export const PurchaseFilter = {
  type: 'object',
  additionalProperties: false,
  properties: { partner: id('Whose purchases.'), limit }
} as const
export type PurchaseFilter = FromSchema<typeof PurchaseFilter>

export const PurchaseRefund = {
  type: 'object',
  additionalProperties: false,
  required: ['purchaseId', 'reason'],
  properties: { purchaseId: id('The purchase.'), reason: lineOfText(3, 500, 'Why it is paid back.') }
} as const
export type PurchaseRefund = FromSchema<typeof PurchaseRefund>

export const PayoutFilter = {
  type: 'object',
  additionalProperties: false,
  properties: {
    status: { type: 'string', enum: payoutStatuses, description: 'Only payouts in this state.' },
    limit
  }
} as const
export type PayoutFilter = FromSchema<typeof PayoutFilter>

export const PayoutApproval = {
  type: 'object',
  additionalProperties: false,
  required: ['payoutId'],
  properties: {
    payoutId: id('The payout.'),
    reason: lineOfText(3, 500, 'Why, for the audit log; for example where the checksum of the address is wrong.')
  }
} as const
export type PayoutApproval = FromSchema<typeof PayoutApproval>

export const PayoutPayment = {
  type: 'object',
  additionalProperties: false,
  required: ['payoutId', 'reference'],
  properties: { payoutId: id('The payout.'), reference: lineOfText(1, 200, 'Proof of the payment.') }
} as const
export type PayoutPayment = FromSchema<typeof PayoutPayment>

export const PayoutRejection = {
  type: 'object',
  additionalProperties: false,
  required: ['payoutId', 'reason'],
  properties: { payoutId: id('The payout.'), reason: lineOfText(3, 500, 'Why; the creator reads it.') }
} as const
export type PayoutRejection = FromSchema<typeof PayoutRejection>

// What the operator's commands take, arguments and options together, by their names. A partner's or a key's
// identifier is any text here: one that does not exist is NOT_FOUND.
import type { FromSchema } from 'json-schema-to-ts'
import { cursor, traderExternalId } from './fields.ts'
import { queues } from './jobs.ts'
import { payoutStatuses } from './marketplace-creator.ts'
import { amountArgument } from './money.ts'
import { orderStatus } from './orders.ts'
import { brokerAppId, brokerDialect, plan } from './partners.ts'

const id = (description: string) => ({ type: 'string', minLength: 1, maxLength: 128, description }) as const

export const PartnerRef = {
  type: 'object',
  additionalProperties: false,
  required: ['partnerId'],
  properties: { partnerId: id('The partner.') }
} as const
export type PartnerRef = FromSchema<typeof PartnerRef>

export const PlanChange = {
  type: 'object',
  additionalProperties: false,
  required: ['partnerId', 'plan'],
  properties: { partnerId: id('The partner.'), plan }
} as const
export type PlanChange = FromSchema<typeof PlanChange>

export const BrokerChange = {
  type: 'object',
  additionalProperties: false,
  required: ['partnerId', 'dialect'],
  properties: { partnerId: id('The partner.'), dialect: brokerDialect, brokerAppId }
} as const
export type BrokerChange = FromSchema<typeof BrokerChange>

/** Arguments of `operator broker check`. */
export const BrokerCheck = {
  type: 'object',
  additionalProperties: false,
  required: ['account'],
  properties: {
    account: { type: 'string', pattern: '^\\w[\\w-]{0,63}$' },
    dialect: brokerDialect,
    brokerAppId,
    readOnly: { type: 'boolean' }
  }
} as const
export type BrokerCheck = FromSchema<typeof BrokerCheck>

/** A command about everything of one partner: `--partner ID`. */
export const OfPartner = {
  type: 'object',
  additionalProperties: false,
  required: ['partner'],
  properties: { partner: id('The partner.') }
} as const
export type OfPartner = FromSchema<typeof OfPartner>

export const KeyOrder = {
  type: 'object',
  additionalProperties: false,
  required: ['partner'],
  properties: {
    partner: id('Whose key.'),
    label: { type: 'string', maxLength: 80, pattern: '^[^\\u0000-\\u001f\\u007f]*$', description: 'What it is for.' },
    scopes: { type: 'string', minLength: 1, maxLength: 1000, description: 'Scopes between commas.' }
  }
} as const
export type KeyOrder = FromSchema<typeof KeyOrder>

export const KeyRef = {
  type: 'object',
  additionalProperties: false,
  required: ['keyId'],
  properties: { keyId: id('The key.') }
} as const
export type KeyRef = FromSchema<typeof KeyRef>

export const SessionRef = {
  type: 'object',
  additionalProperties: false,
  required: ['sessionId'],
  properties: { sessionId: id('The session.') }
} as const
export type SessionRef = FromSchema<typeof SessionRef>

export const TopUpOrder = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'amount'],
  properties: {
    partner: id('Whose wallet.'),
    amount: amountArgument,
    reference: {
      type: 'string',
      minLength: 1,
      maxLength: 120,
      pattern: '^[\\u0020-\\u007e]+$',
      description: "The payment's own name, unique per partner."
    }
  }
} as const
export type TopUpOrder = FromSchema<typeof TopUpOrder>

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
    now: {
      type: 'string',
      pattern: '^\\d{4}-\\d\\d-\\d\\d(T\\d\\d:\\d\\d(:\\d\\d(\\.\\d{1,9})?)?(Z|[+-]\\d\\d:\\d\\d))?$',
      description: 'Charge what is due as of this instant: ISO 8601 with its zone, or a day (its beginning, UTC).'
    }
  }
} as const
export type BillingOrder = FromSchema<typeof BillingOrder>

export const RunOptions = {
  type: 'object',
  additionalProperties: false,
  required: ['tickMs'],
  properties: {
    once: { type: 'boolean', description: 'Stop after the first order.' },
    tickMs: { type: 'integer', minimum: 1, maximum: 60_000, description: 'Interval of the simulated ticks.' }
  }
} as const
export type RunOptions = FromSchema<typeof RunOptions>

export const TraderRef = {
  type: 'object',
  additionalProperties: false,
  required: ['traderId'],
  properties: { traderId: id('The trader.') }
} as const
export type TraderRef = FromSchema<typeof TraderRef>

export const TradersQuery = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'limit'],
  properties: {
    partner: id('Whose traders.'),
    limit: { type: 'integer', minimum: 1, maximum: 100_000, description: 'How many at most.' }
  }
} as const
export type TradersQuery = FromSchema<typeof TradersQuery>

export const OrderRef = {
  type: 'object',
  additionalProperties: false,
  required: ['orderId'],
  properties: { orderId: id('The order.') }
} as const
export type OrderRef = FromSchema<typeof OrderRef>

export const ReconcileOrder = {
  type: 'object',
  additionalProperties: false,
  required: ['orderId'],
  properties: {
    orderId: id('The order in doubt.'),
    adopt: { type: 'string', pattern: '^[0-9]{1,20}$', description: "The broker's contract that is the order's." },
    absent: { type: 'boolean', description: 'The broker did not buy it.' }
  }
} as const
export type ReconcileOrder = FromSchema<typeof ReconcileOrder>

/** A command without arguments. */
export const Nothing = { type: 'object', additionalProperties: false, properties: {} } as const

export const OrdersQuery = {
  type: 'object',
  additionalProperties: false,
  required: ['limit'],
  properties: {
    partner: id('Whose orders.'),
    trader: traderExternalId,
    status: {
      type: 'string',
      enum: [...orderStatus.enum, 'REVIEW'],
      description: 'REVIEW: PENDING, and waiting for a decision by the operator.'
    },
    limit: { type: 'integer', minimum: 1, maximum: 1000, description: 'How many at most.' },
    cursor
  }
} as const
export type OrdersQuery = FromSchema<typeof OrdersQuery>

export const AuditQuery = {
  type: 'object',
  additionalProperties: false,
  required: ['limit'],
  properties: {
    target: id('What it was done to.'),
    limit: { type: 'integer', minimum: 1, maximum: 1000, description: 'How many at most.' },
    cursor: { type: 'string', pattern: '^aud_[0-9a-z]{26}$', description: 'nextCursor of the page before.' }
  }
} as const
export type AuditQuery = FromSchema<typeof AuditQuery>

export const QueueRef = {
  type: 'object',
  additionalProperties: false,
  required: ['queue'],
  properties: { queue: { type: 'string', enum: Object.keys(queues), description: 'The queue.' } }
} as const

const limit = { type: 'integer', minimum: 1, maximum: 1000, default: 100, description: 'How many at most.' } as const

/** Text for people: one line. */
const said = (minLength: number, maxLength: number, description: string) =>
  ({ type: 'string', minLength, maxLength, pattern: '^[^\\u0000-\\u001f\\u007f]+$', description }) as const

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
  properties: { purchaseId: id('The purchase.'), reason: said(3, 500, 'Why it is paid back.') }
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
    reason: said(3, 500, 'Why an address is approved whose checksum is wrong.')
  }
} as const
export type PayoutApproval = FromSchema<typeof PayoutApproval>

export const PayoutPayment = {
  type: 'object',
  additionalProperties: false,
  required: ['payoutId', 'reference'],
  properties: { payoutId: id('The payout.'), reference: said(1, 200, 'Proof of the payment.') }
} as const
export type PayoutPayment = FromSchema<typeof PayoutPayment>

export const PayoutRejection = {
  type: 'object',
  additionalProperties: false,
  required: ['payoutId', 'reason'],
  properties: { payoutId: id('The payout.'), reason: said(3, 500, 'Why; the creator reads it.') }
} as const
export type PayoutRejection = FromSchema<typeof PayoutRejection>

export const RoleRef = {
  type: 'object',
  required: ['role'],
  properties: {
    role: { type: 'string', pattern: '^[a-z_][a-z0-9_]{0,62}$', maxLength: 63, description: 'Name of a database role.' }
  }
} as const
export type RoleRef = FromSchema<typeof RoleRef>

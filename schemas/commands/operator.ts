// What the operator's commands take, arguments and options together, by their names. A partner's or a key's
// identifier is any text here: one that does not exist is NOT_FOUND.
import type { FromSchema } from 'json-schema-to-ts'
import { accountId, asset, cursor, traderExternalId } from '../fields/fields.ts'
import { amountArgument } from '../fields/money.ts'
import { queues } from '../jobs.ts'
import { payoutStatuses } from '../marketplace/creator.ts'
import { orderStatus } from '../orders.ts'
import { brokerAppId, brokerDialect, plan } from '../partners.ts'

/** Text for people: one line. */
const said = (minLength: number, maxLength: number, description: string) =>
  ({ type: 'string', minLength, maxLength, pattern: '^[^\\u0000-\\u001f\\u007f]+$', description }) as const
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

export const Mcp = {
  type: 'object',
  additionalProperties: false,
  properties: {
    url: { type: 'string', pattern: '^https?://[^/]+' },
    allowOrders: { type: 'boolean' }
  }
} as const
export type Mcp = FromSchema<typeof Mcp>

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
    scopes: { type: 'string', minLength: 1, maxLength: 1000, description: 'Scopes between commas.' },
    test: { type: 'boolean', description: 'A key of the test side.' }
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

export const DebitOrder = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'amount', 'reason'],
  properties: {
    partner: id('Whose wallet.'),
    amount: amountArgument,
    reason: said(3, 500, 'Why; the partner reads it in its statement.')
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

/** ISO 8601 with its zone, or a day (its beginning, UTC). */
const instant = (description: string) =>
  ({
    type: 'string',
    pattern:
      '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])(T([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d{1,9})?)?(Z|[+-]\\d\\d:\\d\\d))?$',
    description
  }) as const

export const BillingOrder = {
  type: 'object',
  additionalProperties: false,
  properties: {
    now: instant('Charge what is due as of this instant: ISO 8601 with its zone, or a day (its beginning, UTC).')
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

/** A trader by whatever a ticket calls it. */
export const TraderName = {
  type: 'object',
  additionalProperties: false,
  required: ['trader'],
  properties: { trader: said(1, 320, 'Its id, external id, e-mail or broker account.') }
} as const
export type TraderName = FromSchema<typeof TraderName>

export const TraderExport = {
  type: 'object',
  additionalProperties: false,
  required: ['trader'],
  properties: {
    ...TraderName.properties,
    file: { type: 'string', minLength: 1, maxLength: 1000, description: 'A file that does not exist yet.' }
  }
} as const
export type TraderExport = FromSchema<typeof TraderExport>

export const TraderErasure = {
  type: 'object',
  additionalProperties: false,
  required: ['trader', 'reason'],
  properties: {
    ...TraderName.properties,
    reason: said(3, 500, 'Why, for the audit log; without the name of the person.')
  }
} as const
export type TraderErasure = FromSchema<typeof TraderErasure>

export const TraderSearch = {
  type: 'object',
  additionalProperties: false,
  required: ['text', 'limit'],
  properties: {
    text: said(2, 320, 'Part of an id, a name, an e-mail or a broker account.'),
    limit: { type: 'integer', minimum: 1, maximum: 1000, description: 'How many at most.' }
  }
} as const
export type TraderSearch = FromSchema<typeof TraderSearch>

export const PartnerName = {
  type: 'object',
  additionalProperties: false,
  required: ['partner'],
  properties: { partner: said(1, 200, 'Its id or name.') }
} as const
export type PartnerName = FromSchema<typeof PartnerName>

const callsAMinute = {
  type: 'string',
  pattern: '^(default|[1-9][0-9]{0,6})$',
  description: 'Calls a minute, or `default`.'
} as const

export const PartnerLimit = {
  type: 'object',
  additionalProperties: false,
  required: ['partnerId'],
  properties: { partnerId: id('The partner.'), perKey: callsAMinute, perTrader: callsAMinute }
} as const
export type PartnerLimit = FromSchema<typeof PartnerLimit>

const haltScope = {
  partner: id('Only orders of this partner.'),
  application: {
    type: 'string',
    pattern: '^[A-Za-z0-9._-]{1,64}$',
    description: 'Only under this application at the broker.'
  },
  asset
} as const

export const TradingHalt = {
  type: 'object',
  additionalProperties: false,
  required: ['reason'],
  properties: { ...haltScope, reason: said(3, 500, 'Why; partners read it.') }
} as const
export type TradingHalt = FromSchema<typeof TradingHalt>

export const TradingResume = {
  type: 'object',
  additionalProperties: false,
  properties: { ...haltScope, reason: said(3, 500, 'Why, for the audit log.') }
} as const
export type TradingResume = FromSchema<typeof TradingResume>

export const SessionEnd = {
  type: 'object',
  additionalProperties: false,
  required: ['session'],
  properties: { session: said(1, 320, 'A session, or a trader by its id, external id, e-mail or broker account.') }
} as const
export type SessionEnd = FromSchema<typeof SessionEnd>

export const TraderListQuery = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'limit'],
  properties: {
    partner: id('Whose traders.'),
    limit: { type: 'integer', minimum: 1, maximum: 100_000, description: 'How many at most.' }
  }
} as const
export type TraderListQuery = FromSchema<typeof TraderListQuery>

/** An order by whatever a ticket calls it. */
export const OrderName = {
  type: 'object',
  additionalProperties: false,
  required: ['order'],
  properties: { order: id('Its orderId, clientOrderId or contract id.') }
} as const
export type OrderName = FromSchema<typeof OrderName>

export const OrderClose = {
  type: 'object',
  additionalProperties: false,
  required: ['order', 'reason'],
  properties: { ...OrderName.properties, reason: said(3, 500, 'Why, for the audit log.') }
} as const
export type OrderClose = FromSchema<typeof OrderClose>

export const ReconcileOrder = {
  type: 'object',
  additionalProperties: false,
  required: ['order'],
  properties: {
    order: id('The order in doubt: its orderId or clientOrderId.'),
    adopt: { type: 'string', pattern: '^[0-9]{1,20}$', description: "The broker's contract that is the order's." },
    absent: { type: 'boolean', description: 'The broker did not buy it.' }
  }
} as const
export type ReconcileOrder = FromSchema<typeof ReconcileOrder>

/** A command without arguments. */
export const Nothing = { type: 'object', additionalProperties: false, properties: {} } as const

export const OrderSearch = {
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
    error: { type: 'string', pattern: '^[A-Z][A-Z_]{2,63}$', description: 'Failed with this code.' },
    asset,
    account: accountId,
    from: instant('Placed at or after.'),
    to: instant('Placed before.'),
    limit: { type: 'integer', minimum: 1, maximum: 1000, description: 'How many at most.' },
    cursor
  }
} as const
export type OrderSearch = FromSchema<typeof OrderSearch>

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

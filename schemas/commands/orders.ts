// What the operator's commands about orders and halts of trading take.
import type { FromSchema } from 'json-schema-to-ts'
import { errors } from '../errors/errors.ts'
import { accountId, asset, cursor, traderExternalId } from '../fields/fields.ts'
import { orderStatus } from '../orders.ts'
import { id, instant, lineOfText } from './text.ts'

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
  properties: { ...haltScope, reason: lineOfText(3, 500, 'Why; partners read it.') }
} as const
export type TradingHalt = FromSchema<typeof TradingHalt>

export const TradingResume = {
  type: 'object',
  additionalProperties: false,
  properties: { ...haltScope, reason: lineOfText(3, 500, 'Why, for the audit log.') }
} as const
export type TradingResume = FromSchema<typeof TradingResume>

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
  properties: { ...OrderName.properties, reason: lineOfText(3, 500, 'Why, for the audit log.') }
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
    error: { type: 'string', enum: [...Object.keys(errors), 'REVIEW_REQUIRED'], description: 'Failed with this code.' },
    asset,
    account: accountId,
    from: instant('Placed at or after.'),
    to: instant('Placed before.'),
    limit: { type: 'integer', minimum: 1, maximum: 1000, description: 'How many at most.' },
    cursor
  }
} as const
export type OrderSearch = FromSchema<typeof OrderSearch>

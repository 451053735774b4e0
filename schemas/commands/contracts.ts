// What the operator's commands about contracts, findings and settlements by hand take.
import type { FromSchema } from 'json-schema-to-ts'

const text = (description: string) => ({ type: 'string', minLength: 1, maxLength: 128, description }) as const
const contractId = { type: 'string', pattern: '^[0-9]{1,20}$', description: "The broker's contract id." } as const
const reason = {
  type: 'string',
  minLength: 3,
  maxLength: 500,
  pattern: '^[^\\u0000-\\u001f\\u007f]+$',
  description: 'Why, for the audit log.'
} as const

export const SettleOrder = {
  type: 'object',
  additionalProperties: false,
  required: ['order', 'soldFor', 'closedAt', 'reason'],
  properties: {
    order: text('Its orderId, clientOrderId or contract id.'),
    soldFor: {
      type: 'string',
      pattern: '^\\d{1,9}(\\.\\d{1,8})?$',
      description: "What the contract paid, in the account's currency."
    },
    closedAt: {
      type: 'string',
      pattern:
        '^\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])T([01]\\d|2[0-3]):[0-5]\\d(:[0-5]\\d(\\.\\d{1,9})?)?(Z|[+-]\\d\\d:\\d\\d)$',
      description: 'When it ended: ISO 8601 with its zone.'
    },
    reason
  }
} as const
export type SettleOrder = FromSchema<typeof SettleOrder>

export const SellContract = {
  type: 'object',
  additionalProperties: false,
  required: ['account', 'contract', 'reason'],
  properties: { account: text("The broker's account id."), contract: contractId, reason }
} as const
export type SellContract = FromSchema<typeof SellContract>

export const FindingsQuery = {
  type: 'object',
  additionalProperties: false,
  properties: {
    all: { type: 'boolean', description: 'Resolved ones too.' },
    limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100, description: 'How many at most.' }
  }
} as const
export type FindingsQuery = FromSchema<typeof FindingsQuery>

export const FindingDecision = {
  type: 'object',
  additionalProperties: false,
  required: ['findingId', 'reason'],
  properties: {
    findingId: { type: 'integer', minimum: 1, maximum: 9_007_199_254_740_991, description: 'The finding.' },
    reason
  }
} as const
export type FindingDecision = FromSchema<typeof FindingDecision>

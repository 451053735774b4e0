// The partner: an operator of a trading front end.
import type { FromSchema } from 'json-schema-to-ts'
import { lineOfText } from './commands/text.ts'
import { ApiError } from './errors/errors.ts'
import { idField } from './fields/fields.ts'
import { allScopes } from './fields/scopes.ts'

export const plans = ['LAUNCH', 'PRO', 'SCALE'] as const
export type Plan = (typeof plans)[number]

export const plan = { type: 'string', enum: plans, description: 'Tier of the plan.', examples: ['PRO'] } as const

export const saasStatus = {
  type: 'string',
  enum: ['ACTIVE', 'INACTIVE', 'SUSPENDED'],
  description: 'ACTIVE: the plan is paid. INACTIVE: its fee is unpaid. SUSPENDED: stopped by the operator.',
  examples: ['ACTIVE']
} as const
export type SaasStatus = (typeof saasStatus.enum)[number]

export const scopeList = {
  type: 'array',
  items: { type: 'string', enum: allScopes },
  description: "Scopes of the key, '<area>:<read or write>'.",
  examples: [['trading:read', 'trading:write']]
} as const

export const Partner = {
  type: 'object',
  additionalProperties: false,
  required: ['partnerId', 'name', 'plan', 'saasStatus', 'tradersCount', 'scopes'],
  properties: {
    partnerId: idField('ptn', 'Identifier of the partner.'),
    name: { type: 'string', description: 'Display name of the operator.', examples: ['Acme Markets'] },
    plan,
    saasStatus,
    tradersCount: { type: 'integer', minimum: 0, description: 'Traders known for this partner.', examples: [12] },
    scopes: scopeList,
    test: {
      type: 'boolean',
      description: 'true with a test key: partner and traders are those of the test side. Left out with other keys.',
      examples: [true]
    }
  }
} as const
export type Partner = FromSchema<typeof Partner>

export const brokerAppId = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z0-9_-]+$',
  description: "The partner's application at the broker: a number in v3, in its successor a text that is not a number."
} as const

/** Forms of application ids. No document gives the successor's; the numbers of v3 are not valid there. */
export const brokerAppIdForms = { v3: /^[1-9]\d{0,14}$/, next: /^(?=.*[A-Za-z])[\w-]{2,64}$/ } as const

export const brokerDialect = {
  type: 'string',
  enum: ['v3', 'next'],
  description: 'The protocol spoken with the broker.'
} as const

/** Arguments of `operator partners create`. */
export const NewPartner = {
  type: 'object',
  additionalProperties: false,
  required: ['name', 'plan'],
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 120, pattern: '^[^\\u0000-\\u001f\\u007f]+$' },
    plan,
    balance: { type: 'string', pattern: '^\\d{1,10}(\\.\\d{1,2})?$', default: '0' },
    trialDays: { type: 'integer', minimum: 0, maximum: 3650, default: 30 },
    brokerAppId,
    brokerDialect
  }
} as const
export type NewPartner = FromSchema<typeof NewPartner>

/** Arguments of `operator partners suspend`. */
export const SuspendPartner = {
  type: 'object',
  additionalProperties: false,
  required: ['partnerId', 'reason'],
  properties: {
    partnerId: { type: 'string', minLength: 1, maxLength: 128 },
    reason: lineOfText(3, 500, 'Why, for the audit log.')
  }
} as const
export type SuspendPartner = FromSchema<typeof SuspendPartner>

/** The refusal of a test side where its partner has to be named: what it is follows from that one. */
export const refuseTestSide = (partnerId: string, testOf: string): ApiError =>
  new ApiError('NOT_FOUND', `${partnerId} is the test side of ${testOf}: name that partner.`)

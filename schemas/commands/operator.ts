// What the operator's other commands take, arguments and options together, by their names.
import type { FromSchema } from 'json-schema-to-ts'
import { queues } from '../jobs.ts'
import { brokerAppId, brokerDialect, plan } from '../partners.ts'
import { id, lineOfText } from './text.ts'

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

export const PartnerName = {
  type: 'object',
  additionalProperties: false,
  required: ['partner'],
  properties: { partner: lineOfText(1, 200, 'Its id or name.') }
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

/** A command without arguments. */
export const Nothing = { type: 'object', additionalProperties: false, properties: {} } as const

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

export const RoleRef = {
  type: 'object',
  required: ['role'],
  properties: {
    role: { type: 'string', pattern: '^[a-z_][a-z0-9_]{0,62}$', maxLength: 63, description: 'Name of a database role.' }
  }
} as const
export type RoleRef = FromSchema<typeof RoleRef>

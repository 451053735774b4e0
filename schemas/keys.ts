// API keys, as partners manage them themselves.
import type { FromSchema } from 'json-schema-to-ts'
import { idField, nullable, timestamp } from './fields/fields.ts'
import { defaultScopes } from './fields/scopes.ts'
import { scopeList } from './partners.ts'

const keyId = idField('key', 'Identifier of the key; not secret.')
const ofTestSide = {
  type: 'boolean',
  description: 'true: a key of the test side. Left out of other keys.',
  examples: [true]
} as const
const label = {
  type: 'string',
  maxLength: 80,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  description: 'What the key is for, in the words of its owner.',
  examples: ['Production backend']
} as const

export const NewKey = {
  type: 'object',
  properties: {
    label,
    scopes: {
      ...scopeList,
      items: { type: 'string', enum: defaultScopes },
      maxItems: 100,
      description: 'What the key may do; without it everything but admin, which only the operator grants.'
    },
    test: {
      type: 'boolean',
      default: false,
      description:
        'A key of the test side: everything under it lives apart, its orders go to a simulated broker, and its wallet holds play money.',
      examples: [true]
    }
  },
  examples: [{ label: 'Production backend', scopes: ['trading:read', 'trading:write'] }]
} as const
export type NewKey = FromSchema<typeof NewKey>

export const IssuedKey = {
  type: 'object',
  additionalProperties: false,
  required: ['keyId', 'label', 'scopes', 'key', 'createdAt'],
  properties: {
    keyId,
    label: { ...nullable(label), description: 'null when none was given.' },
    scopes: scopeList,
    key: {
      type: 'string',
      pattern: '^service_(live|test)_[0-9a-f]{16}_[0-9a-f]{48}$',
      description: 'The key itself, shown this once only. For servers; never send it to a browser.',
      examples: ['service_live_0123456789abcdef_0123456789abcdef0123456789abcdef0123456789abcdef']
    },
    test: ofTestSide,
    createdAt: timestamp
  }
} as const
export type IssuedKey = FromSchema<typeof IssuedKey>

export const KeyEntry = {
  type: 'object',
  additionalProperties: false,
  required: ['keyId', 'label', 'scopes', 'hint', 'createdAt', 'lastUsedAt', 'revokedAt'],
  properties: {
    keyId,
    label: { ...nullable(label), description: 'null when none was given.' },
    scopes: scopeList,
    hint: {
      type: 'string',
      description: 'The part of the key that is not secret, to recognise it by.',
      examples: ['service_live_0123456789abcdef_…']
    },
    test: ofTestSide,
    createdAt: timestamp,
    lastUsedAt: { ...nullable(timestamp), description: 'To within some seconds; null before its first use.' },
    revokedAt: { ...nullable(timestamp), description: 'null while the key is valid.' }
  }
} as const
export type KeyEntry = FromSchema<typeof KeyEntry>

export const KeyList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: 'The newest first.', items: KeyEntry } }
} as const

export const RevokedKey = {
  type: 'object',
  additionalProperties: false,
  required: ['keyId', 'revokedAt'],
  properties: { keyId, revokedAt: timestamp }
} as const
export type RevokedKey = FromSchema<typeof RevokedKey>

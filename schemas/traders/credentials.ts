// Traders' credentials after the sign-up: passwords, resets, sessions, disabling.
import type { FromSchema } from 'json-schema-to-ts'
import { idField, timestamp } from '../fields/fields.ts'
import { Login, Signup } from './traders.ts'

const traderId = idField('trd', 'Identifier of the trader.')
const newPassword = {
  ...Signup.properties.password,
  description: 'At least 8 characters, and not a common one.'
} as const
const token = '^[A-Za-z0-9_-]{43}$'

export const PasswordChange = {
  type: 'object',
  required: ['currentPassword', 'newPassword'],
  properties: {
    currentPassword: { ...Login.properties.password, description: 'The password as it is.' },
    newPassword
  }
} as const
export type PasswordChange = FromSchema<typeof PasswordChange>

export const ResetRequest = {
  type: 'object',
  required: ['email'],
  properties: { email: Login.properties.email }
} as const
export type ResetRequest = FromSchema<typeof ResetRequest>

export const PasswordReset = {
  type: 'object',
  additionalProperties: false,
  required: ['resetToken', 'expiresAt'],
  properties: {
    resetToken: {
      type: 'string',
      pattern: token,
      description: 'For the trader alone; shown this once.',
      examples: ['Zm9yIHRoZSBleGFtcGxlIG9ubHksIG5vdCBhIHRva2V']
    },
    expiresAt: { ...timestamp, description: 'When it ends by itself; ISO 8601, UTC.' }
  }
} as const

export const NewPassword = {
  type: 'object',
  required: ['resetToken', 'newPassword'],
  properties: {
    resetToken: {
      type: 'string',
      minLength: 1,
      maxLength: 128,
      pattern: '^[\\u0021-\\u007e]+$',
      description: 'The token of the reset.',
      examples: ['Zm9yIHRoZSBleGFtcGxlIG9ubHksIG5vdCBhIHRva2V']
    },
    newPassword
  }
} as const
export type NewPassword = FromSchema<typeof NewPassword>

export const SessionsEnd = {
  type: 'object',
  properties: {
    traderId: {
      type: 'string',
      minLength: 1,
      maxLength: 128,
      pattern: '^[^\\u0000]+$',
      description: 'Whose sessions; left out, those of the trader whose session comes with the request.',
      examples: ['trd_01k3hv9c7bf5tvxkz1qd3rn8ma']
    }
  },
  examples: [{ traderId: 'trd_01k3hv9c7bf5tvxkz1qd3rn8ma' }]
} as const
export type SessionsEnd = FromSchema<typeof SessionsEnd>

export const EndedSessions = {
  type: 'object',
  additionalProperties: false,
  required: ['traderId', 'sessionsEnded'],
  properties: {
    traderId,
    sessionsEnded: { type: 'integer', minimum: 0, description: 'How many sessions ended.', examples: [2] }
  }
} as const

export const DisabledTrader = {
  type: 'object',
  additionalProperties: false,
  required: ['traderId', 'disabledAt'],
  properties: {
    traderId,
    disabledAt: {
      type: ['string', 'null'],
      format: 'date-time',
      description: 'Since when it cannot log in; null when it can.',
      examples: ['2026-11-21T08:00:00.000Z']
    }
  }
} as const

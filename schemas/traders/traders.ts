// Traders' own accounts: sign-up, login, session.
import type { FromSchema } from 'json-schema-to-ts'
import { idField, nullable, timestamp, traderExternalId } from '../fields/fields.ts'
import { Account } from './accounts.ts'

const email = {
  type: 'string',
  minLength: 5,
  maxLength: 254,
  format: 'email',
  description: 'E-mail address; compared without case.',
  examples: ['trader@example.com']
} as const

const name = {
  type: 'string',
  maxLength: 128,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  description: "The trader's name.",
  examples: ['Ada Example']
} as const

export const Signup = {
  type: 'object',
  required: ['email', 'password'],
  properties: {
    email,
    password: {
      type: 'string',
      minLength: 8,
      maxLength: 256,
      description: 'At least 8 characters; stored as an argon2id hash only.',
      examples: ['correct horse battery staple']
    },
    name
  }
} as const
export type Signup = FromSchema<typeof Signup>

export const Login = {
  type: 'object',
  required: ['email', 'password'],
  properties: {
    // A text that cannot be an address is simply not the address of an account.
    email: {
      type: 'string',
      minLength: 5,
      maxLength: 254,
      pattern: '^[^\\u0000]*$',
      description: 'The e-mail address of the sign-up, in any case.',
      examples: ['Trader@example.com']
    },
    password: {
      type: 'string',
      minLength: 1,
      maxLength: 256,
      description: 'The password of the sign-up.',
      examples: ['correct horse battery staple']
    }
  }
} as const
export type Login = FromSchema<typeof Login>

const trader = {
  traderId: idField('trd', 'Identifier of the trader.'),
  traderExternalId: {
    ...traderExternalId,
    description: 'What the trader is called in all other calls; for a sign-up its traderId, ready for the exchange.',
    examples: ['trd_01k3hv9c7bf5tvxkz1qd3rn8ma']
  },
  email: { type: 'string', description: 'As it was given at sign-up.', examples: ['trader@example.com'] },
  name: { ...nullable(name), description: 'null when none was given.' },
  createdAt: timestamp
} as const

const expiresAt = { ...timestamp, description: 'When the session ends by itself; ISO 8601, UTC.' } as const

/** The response of signing up and logging in. */
export const TraderLogin = {
  type: 'object',
  additionalProperties: false,
  required: ['traderId', 'traderExternalId', 'email', 'name', 'createdAt', 'sessionToken', 'expiresAt'],
  properties: {
    ...trader,
    sessionToken: {
      type: 'string',
      pattern: '^[A-Za-z0-9_-]{43}$',
      description: 'Send it as X-Trader-Session in addition to the key; the cookie trader_session carries it too.',
      examples: ['Zm9yIHRoZSBleGFtcGxlIG9ubHksIG5vdCBhIHRva2V']
    },
    expiresAt
  }
} as const
export type TraderLogin = FromSchema<typeof TraderLogin>

export const TraderAccount = {
  type: 'object',
  additionalProperties: false,
  required: ['traderId', 'traderExternalId', 'email', 'name', 'createdAt', 'expiresAt', 'accounts'],
  properties: {
    ...trader,
    expiresAt,
    accounts: {
      type: 'array',
      description: 'Broker accounts, as GET /v1/accounts shows them; empty before the exchange.',
      items: Account
    }
  }
} as const

export const LoggedOut = {
  type: 'object',
  additionalProperties: false,
  required: ['loggedOut'],
  properties: { loggedOut: { type: 'boolean', const: true, description: 'Always true.', examples: [true] } }
} as const

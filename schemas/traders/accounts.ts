// Broker accounts of a trader: the token exchange, the list, the active one, the live balance.
import type { FromSchema } from 'json-schema-to-ts'
import { accountId, accountMode, currency, idField, money, timestamp, traderExternalId } from '../fields/fields.ts'

/** Ids of the test broker's accounts. No account of the real broker begins with TST. */
export const testAccountId = /^TST\d{1,10}$/

export const Exchange = {
  type: 'object',
  required: ['traderExternalId', 'accounts'],
  properties: {
    traderExternalId,
    email: {
      type: 'string',
      maxLength: 254,
      description: "The trader's e-mail address: your own note, any text.",
      examples: ['trader@example.com']
    },
    name: {
      type: 'string',
      maxLength: 128,
      pattern: '^[^\\u0000-\\u001f\\u007f]*$',
      description: "The trader's name.",
      examples: ['Ada Example']
    },
    accounts: {
      type: 'array',
      minItems: 1,
      maxItems: 20,
      description: 'Broker accounts with their tokens; a new trader trades on the first one.',
      items: {
        type: 'object',
        required: ['accountId', 'token', 'accountMode'],
        properties: {
          accountId,
          token: {
            type: 'string',
            minLength: 10,
            maxLength: 4096,
            pattern: '^[\\u0021-\\u007e]+$',
            description: "The broker's token for this account; stored encrypted (AES-256-GCM), never returned.",
            examples: ['sim-VRTC1234567']
          },
          refreshToken: {
            type: 'string',
            minLength: 10,
            maxLength: 4096,
            pattern: '^[\\u0021-\\u007e]+$',
            description:
              'What the broker gave to renew the token with, where its tokens expire; stored like the token. The service renews ahead of the end; do not use it yourself meanwhile.',
            examples: ['refresh-of-VRTC1234567']
          },
          tokenExpiresAt: {
            type: 'string',
            format: 'date-time',
            description:
              'When the token ends, where it does. Without a refreshToken, or when the broker refuses that one, the account is REJECTED with TOKEN_EXPIRED then; in its API v3, where no token is renewed, once the broker refuses the token after that time.',
            examples: ['2026-11-23T10:00:00Z']
          },
          accountMode,
          currency
        }
      }
    }
  }
} as const
export type Exchange = FromSchema<typeof Exchange>

export const Connection = {
  type: 'object',
  additionalProperties: false,
  required: ['traderId', 'activeAccountId', 'activeAccountMode', 'connectedAt'],
  properties: {
    traderId: idField('trd', 'Identifier of the trader.'),
    activeAccountId: accountId,
    activeAccountMode: accountMode,
    connectedAt: timestamp
  }
} as const
export type Connection = FromSchema<typeof Connection>

export const AccountQuery = {
  type: 'object',
  required: ['traderExternalId'],
  properties: { traderExternalId }
} as const
export type AccountQuery = FromSchema<typeof AccountQuery>

/** Why the broker refused an account, and what to do about it, in words for the partner. */
export const rejectionMessages = {
  TOKEN_REFUSED: 'The broker refused the token of this account (TOKEN_REFUSED): exchange a new one.',
  MODE_MISMATCH:
    'By the broker’s information this account is not of the accountMode with which it was exchanged (MODE_MISMATCH): exchange it again with the other one.',
  CURRENCY_MISMATCH:
    'By the broker’s information this account is not in the currency with which it was exchanged (CURRENCY_MISMATCH): exchange it again with its own.',
  TOKEN_EXPIRED: 'The token of this account has expired (TOKEN_EXPIRED): exchange a new one.',
  ACCOUNT_NOT_FOUND:
    'The broker has no such account for this token (ACCOUNT_NOT_FOUND): exchange the account with its own token.'
} as const

export type RejectedReason = keyof typeof rejectionMessages

export const Account = {
  type: 'object',
  additionalProperties: false,
  required: ['accountId', 'accountMode', 'currency', 'active', 'status', 'connectedAt'],
  properties: {
    accountId,
    accountMode,
    currency: {
      ...currency,
      type: ['string', 'null'],
      description: 'null until the account was given a currency or first used.'
    },
    active: { type: 'boolean', description: 'Whether orders go to this account.', examples: [true] },
    status: {
      type: 'string',
      enum: ['CONNECTED', 'REJECTED'],
      description: 'REJECTED once the broker refused the token or the account; `reason` has the cause.',
      examples: ['CONNECTED']
    },
    reason: {
      type: 'string',
      enum: Object.keys(rejectionMessages) as RejectedReason[],
      description:
        'Only when REJECTED: the token was refused (TOKEN_REFUSED) or has expired, the account is not of the mode or currency it was exchanged with, or the token does not have this account. Exchange it again to correct that.',
      examples: ['TOKEN_REFUSED']
    },
    connectedAt: timestamp
  }
} as const
export type Account = FromSchema<typeof Account>

export const AccountList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: 'The oldest first.', items: Account } }
} as const

export const ActiveAccountChoice = {
  type: 'object',
  required: ['traderExternalId', 'accountId'],
  properties: { traderExternalId, accountId }
} as const
export type ActiveAccountChoice = FromSchema<typeof ActiveAccountChoice>

export const ActiveAccount = {
  type: 'object',
  additionalProperties: false,
  required: ['traderId', 'activeAccountId', 'activeAccountMode'],
  properties: {
    traderId: idField('trd', 'Identifier of the trader.'),
    activeAccountId: accountId,
    activeAccountMode: accountMode
  }
} as const

export const Balance = {
  type: 'object',
  additionalProperties: false,
  required: ['accountId', 'accountMode', 'balance', 'currency'],
  properties: {
    accountId,
    accountMode,
    balance: { ...money, description: 'Balance at the broker, read live.', examples: [9990.5] },
    currency
  }
} as const
export type Balance = FromSchema<typeof Balance>

// Fields that recur in many shapes, each defined once: its limits, its words and an example.

/** A JSON Schema, as Ajv 2020-12 and OpenAPI 3.1 both read it. */
export type Schema = { readonly [key: string]: unknown }

export const traderExternalId = {
  type: 'string',
  minLength: 1,
  maxLength: 128,
  pattern: '^[^\\u0000-\\u001f\\u007f]+$',
  description: "The partner's own stable user id of the trader.",
  examples: ['user-42']
} as const

export const clientOrderId = {
  type: 'string',
  minLength: 8,
  maxLength: 64,
  pattern: '^[\\u0021-\\u007e]+$',
  description: 'The idempotency key, unique per partner for ever; a UUID v4 is expected.',
  examples: ['0b9f5e6e-6f0f-4b4e-9a35-0c9d3f0f8a11']
} as const

export const accountId = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z0-9_-]+$',
  description: "The broker's account id.",
  examples: ['VRTC1234567']
} as const

export const accountMode = {
  type: 'string',
  enum: ['REAL', 'DEMO'],
  description: 'Real money or a demo account.',
  examples: ['DEMO']
} as const
export type AccountMode = (typeof accountMode.enum)[number]

export const currency = {
  type: 'string',
  minLength: 2,
  maxLength: 20,
  pattern: '^[A-Za-z0-9]+$',
  description: 'Account currency.',
  examples: ['USD']
} as const

export const asset = {
  type: 'string',
  minLength: 1,
  maxLength: 30,
  pattern: '^[A-Za-z0-9_]+$',
  description: 'Broker symbol: a synthetic index or a forex pair.',
  examples: ['R_100']
} as const

export const timestamp = {
  type: 'string',
  format: 'date-time',
  description: 'ISO 8601, UTC.',
  examples: ['2026-11-21T08:00:00.000Z']
} as const

export const money = {
  type: 'number',
  description: 'Amount in the account currency.',
  examples: [10]
} as const

/** A stake as requested. */
export const stakeUsd = { type: 'number', description: 'What was requested, in USD.', examples: [10] } as const

/** What the stake came to on an account in another currency. */
export const converted = {
  stakeInAccount: {
    type: 'number',
    description:
      "The stake in the account's currency, rounded down to its decimals; only on accounts in another currency than USD.",
    examples: [9.21]
  },
  exchangeRate: {
    type: 'number',
    description:
      "Units of the account's currency that one USD was worth at the broker right before the purchase; only with stakeInAccount.",
    examples: [0.9214]
  }
} as const

export const price = { type: 'number', description: 'Market price.', examples: [1219.5] } as const

export const pageSize = {
  type: 'integer',
  minimum: 1,
  maximum: 200,
  default: 50,
  description: 'How many entries at most.',
  examples: [50]
} as const

export const cursor = {
  type: 'string',
  minLength: 1,
  maxLength: 200,
  pattern: '^[A-Za-z0-9_-]+$',
  description: 'nextCursor of the page before, of the same list under the same filters; opaque.',
  examples: ['WyIyMDI2LTExLTIxVDA4OjAwOjAwLjAwMFoiLCJvcmRfMDEiXQ']
} as const

export const nextCursor = {
  type: ['string', 'null'],
  description: 'Pass as cursor for the next page; null on the last one.',
  examples: [null]
} as const

/** The pattern of an identifier: prefix and TypeID suffix. */
export function idField(prefix: string, description: string) {
  return {
    type: 'string',
    pattern: `^${prefix}_[0-9a-z]{26}$`,
    description,
    examples: [`${prefix}_01k3hv9c7bf5tvxkz1qd3rn8ma`]
  } as const
}

/** The same field, or null. */
export function nullable<S extends { readonly type: string; readonly enum?: readonly string[] }>(field: S) {
  const values = field.enum === undefined ? {} : { enum: [...field.enum, null] }
  return { ...field, ...values, type: [field.type, 'null'] } as unknown as Nullable<S>
}

type Nullable<S extends { readonly type: string; readonly enum?: readonly string[] }> = Omit<S, 'type' | 'enum'> & {
  readonly type: readonly [S['type'], 'null']
} & (S extends { readonly enum: infer Values extends readonly string[] }
    ? { readonly enum: readonly [...Values, null] }
    : object)

/** A path parameter: any string goes in, an unknown one is a 404. */
export function pathId(prefix: string, description: string) {
  return {
    type: 'string',
    minLength: 1,
    maxLength: 128,
    // A NUL is no text to PostgreSQL.
    pattern: '^[^\\u0000]+$',
    description,
    examples: [`${prefix}_01k3hv9c7bf5tvxkz1qd3rn8ma`]
  } as const
}

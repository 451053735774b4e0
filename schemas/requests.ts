// The request log: a partner's requests and their results.
import type { FromSchema } from 'json-schema-to-ts'
import { errors } from './errors/errors.ts'
import { cursor, idField, nextCursor, nullable, pageSize, timestamp, traderExternalId } from './fields/fields.ts'

const requestId = {
  type: 'string',
  minLength: 8,
  maxLength: 64,
  pattern: '^[A-Za-z0-9._-]+$',
  description: 'X-Request-Id of the response: the one that the caller sent, or a new one, a UUID of version 7.',
  examples: ['019ab5c2-8f40-7a55-9a3e-0d5f1c2b7a10']
} as const

const operation = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  pattern: '^[A-Za-z0-9]+$',
  description: 'operationId of this description.',
  examples: ['placeBinaryOrder']
} as const

const status = {
  type: 'integer',
  minimum: 100,
  maximum: 599,
  description: 'HTTP status of the response.',
  examples: [422]
} as const

export const RequestEntry = {
  type: 'object',
  additionalProperties: false,
  required: ['requestId', 'at', 'operation', 'method', 'path', 'status', 'error', 'traderExternalId', 'keyId', 'ms'],
  properties: {
    requestId,
    at: { ...timestamp, description: 'When the request arrived; ISO 8601, UTC.' },
    operation,
    method: { type: 'string', description: 'HTTP method.', examples: ['POST'] },
    path: {
      type: 'string',
      maxLength: 256,
      description:
        'Path without the query; identifiers that broke their schema are shown as the name of the parameter.',
      examples: ['/v1/orders/binary']
    },
    status,
    error: {
      ...nullable({ type: 'string', description: 'Code of the error' } as const),
      description: 'Code of the error; null when there was none.',
      examples: ['MARKET_CLOSED']
    },
    traderExternalId: {
      ...nullable(traderExternalId),
      description: 'The trader that the request named, or whose session came along; null without one.'
    },
    keyId: {
      ...nullable(idField('key', 'The key of the request')),
      description: 'The key of the request; null when a session authenticated it.'
    },
    ms: { type: 'number', minimum: 0, description: 'Duration in milliseconds, waiting included.', examples: [12.4] }
  }
} as const
export type RequestEntry = FromSchema<typeof RequestEntry>

export const RequestsQuery = {
  type: 'object',
  properties: {
    status: { ...status, description: 'Only responses of this HTTP status.' },
    error: {
      type: 'string',
      enum: Object.keys(errors),
      description: 'Only this error.',
      examples: ['MARKET_CLOSED']
    },
    operation: { ...operation, description: 'Only this operation, by its operationId.' },
    traderExternalId: { ...traderExternalId, description: 'Only requests about this trader.' },
    requestId: { ...requestId, description: 'Only requests under this X-Request-Id.' },
    from: { ...timestamp, description: 'Only requests that arrived at this instant or later.' },
    to: { ...timestamp, description: 'Only requests that arrived before this instant.' },
    limit: pageSize,
    cursor
  }
} as const
export type RequestsQuery = FromSchema<typeof RequestsQuery>

export const RequestPage = {
  type: 'object',
  additionalProperties: false,
  required: ['data', 'nextCursor'],
  properties: { data: { type: 'array', description: 'The newest first.', items: RequestEntry }, nextCursor }
} as const

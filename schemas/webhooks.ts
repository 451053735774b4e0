// Webhooks: endpoints that partners register, deliveries to them, replays and tests.
import type { FromSchema } from 'json-schema-to-ts'
import { eventCursor, eventId, eventTypeNames } from './events.ts'
import { cursor, idField, nextCursor, nullable, pageSize, pathId, timestamp } from './fields/fields.ts'
import { deliveryError, Webhook, webhookDescription, webhookId, webhookUrl } from './webhook-endpoint.ts'

/** Endpoints a partner may have. */
export const MAX_WEBHOOKS = 10
/** Replays of an endpoint that may be under way. */
export const MAX_REPLAYS = 10
/** Type of the event that a test sends; it is in no log. */
export const TEST_TYPE = 'webhook.test'

const types = {
  type: 'array',
  minItems: 1,
  maxItems: 100,
  uniqueItems: true,
  items: { type: 'string', enum: eventTypeNames },
  description: 'Only events of these types; without it all.',
  examples: [['order.opened', 'order.closed']]
} as const

const secret = {
  type: 'string',
  pattern: '^whsec_[A-Za-z0-9+/]{43}=$',
  description: 'With it you verify signatures. Shown this once only.',
  examples: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo=']
} as const

export const NewWebhook = {
  type: 'object',
  required: ['url'],
  properties: { url: webhookUrl, types, description: webhookDescription },
  examples: [{ url: 'https://example.com/hooks/trading', types: ['order.opened', 'order.closed'] }]
} as const
export type NewWebhook = FromSchema<typeof NewWebhook>

export const IssuedWebhook = {
  ...Webhook,
  required: [...Webhook.required, 'secret'],
  properties: { ...Webhook.properties, secret }
} as const

export const WebhookList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: 'The newest first.', items: Webhook } }
} as const

export const WebhookPath = {
  type: 'object',
  required: ['id'],
  properties: { id: pathId('whk', 'webhookId of the endpoint.') }
} as const
export type WebhookPath = FromSchema<typeof WebhookPath>

export const WebhookChange = {
  type: 'object',
  minProperties: 1,
  properties: {
    url: webhookUrl,
    types: { ...types, type: ['array', 'null'], description: 'Only events of these types from now on; null: all.' },
    description: { ...nullable(webhookDescription), description: 'null takes it away.' },
    status: {
      type: 'string',
      enum: ['ENABLED', 'DISABLED'],
      description: 'DISABLED: nothing is sent. ENABLED: goes on where it stopped, with all that happened in between.',
      examples: ['ENABLED']
    },
    skip: {
      type: 'boolean',
      description: 'With status ENABLED: leave out everything up to now, waiting retries and replays included.',
      examples: [false]
    }
  },
  examples: [{ status: 'ENABLED' }]
} as const
export type WebhookChange = FromSchema<typeof WebhookChange>

export const DeletedWebhook = {
  type: 'object',
  additionalProperties: false,
  required: ['webhookId', 'deleted'],
  properties: {
    webhookId,
    deleted: { type: 'boolean', const: true, description: 'Nothing more is sent to it.', examples: [true] }
  }
} as const

export const RotatedSecret = {
  type: 'object',
  additionalProperties: false,
  required: ['webhookId', 'secret', 'oldSecretUntil'],
  properties: {
    webhookId,
    secret,
    oldSecretUntil: {
      ...timestamp,
      description: 'Until then requests are signed with both secrets; any library accepts either.'
    }
  }
} as const

const deliveryId = idField('dlv', 'Identifier of the attempt.')
const httpStatus = {
  type: ['integer', 'null'],
  minimum: 100,
  maximum: 999,
  description: 'Status of the response; null without one.',
  examples: [200]
} as const
const ms = {
  type: ['integer', 'null'],
  minimum: 0,
  description: 'How long the attempt took, ms; null where nothing was sent.',
  examples: [87]
} as const
const response = {
  type: ['string', 'null'],
  maxLength: 1024,
  description: 'The beginning of the response, at most 1 KiB, as text. Never show it as HTML.',
  examples: ['ok']
} as const
const error = { ...nullable(deliveryError), examples: [null] } as const

export const Delivery = {
  type: 'object',
  additionalProperties: false,
  required: [
    'deliveryId',
    'eventId',
    'type',
    'attempt',
    'status',
    'httpStatus',
    'ms',
    'error',
    'response',
    'at',
    'nextAt',
    'replay'
  ],
  properties: {
    deliveryId,
    eventId: {
      ...nullable(eventId),
      description: 'The event; null of one that the log dropped before, and of a test.'
    },
    type: { type: 'string', maxLength: 64, description: 'Type of the event.', examples: ['order.closed'] },
    attempt: {
      type: 'integer',
      minimum: 1,
      description:
        'Which attempt of this event it is; a retry of one that does not wait any more, or a replay, counts from 1 again.',
      examples: [1]
    },
    status: {
      type: 'string',
      enum: ['PENDING', 'DELIVERED', 'RETRYING', 'FAILED'],
      description:
        'PENDING: not sent yet. RETRYING: this attempt failed, and the event is sent again at `nextAt`. FAILED: it is not sent again by itself.',
      examples: ['DELIVERED']
    },
    httpStatus,
    ms,
    error,
    response,
    at: { ...timestamp, description: 'When it was sent; of a PENDING one, since when it waits.' },
    nextAt: { ...nullable(timestamp), description: 'When the event is sent again, at the earliest.', examples: [null] },
    replay: { type: 'boolean', description: 'Whether a retry or a replay was requested.', examples: [false] }
  }
} as const
export type Delivery = FromSchema<typeof Delivery>

export const DeliveriesQuery = {
  type: 'object',
  properties: {
    status: {
      type: 'string',
      enum: ['PENDING', 'DELIVERED', 'RETRYING', 'FAILED'],
      description: 'Only attempts of this status.',
      examples: ['FAILED']
    },
    limit: pageSize,
    cursor
  }
} as const
export type DeliveriesQuery = FromSchema<typeof DeliveriesQuery>

export const DeliveryPage = {
  type: 'object',
  additionalProperties: false,
  required: ['data', 'nextCursor'],
  properties: { data: { type: 'array', description: 'The newest first.', items: Delivery }, nextCursor }
} as const

export const DeliveryPath = {
  type: 'object',
  required: ['id', 'deliveryId'],
  properties: {
    id: pathId('whk', 'webhookId of the endpoint.'),
    deliveryId: pathId('dlv', 'deliveryId of the attempt.')
  }
} as const
export type DeliveryPath = FromSchema<typeof DeliveryPath>

/** The event that a test sends. */
export const WebhookTestEvent = {
  type: 'object',
  additionalProperties: false,
  required: ['id', 'type', 'createdAt', 'traderExternalId', 'data'],
  properties: {
    id: eventId,
    type: { type: 'string', const: TEST_TYPE, description: 'Constant: it is a test.', examples: [TEST_TYPE] },
    createdAt: timestamp,
    traderExternalId: { type: 'null', description: 'A test is about no trader.', examples: [null] },
    data: {
      type: 'object',
      additionalProperties: false,
      required: ['webhookId'],
      properties: { webhookId },
      description: 'Which endpoint is tested.'
    }
  }
} as const

export const WebhookTest = {
  type: 'object',
  additionalProperties: false,
  required: ['deliveryId', 'httpStatus', 'ms', 'error', 'response'],
  properties: { deliveryId, httpStatus, ms, error, response }
} as const
export type WebhookTest = FromSchema<typeof WebhookTest>

export const NewReplay = {
  type: 'object',
  properties: {
    after: { ...eventCursor, description: 'Events after this cursor. Either this or `since`.' },
    since: { ...timestamp, description: 'Events from this instant on. Either this or `after`.' },
    until: { ...timestamp, description: 'Events before this instant; without it all that the endpoint has passed.' },
    types
  },
  examples: [{ since: '2026-11-21T08:00:00.000Z', types: ['order.closed'] }]
} as const
export type NewReplay = FromSchema<typeof NewReplay>

export const Replay = {
  type: 'object',
  additionalProperties: false,
  required: ['events'],
  properties: {
    events: {
      type: 'integer',
      minimum: 0,
      description:
        'How many events will be sent again; fewer where the endpoint is disabled, or its types are changed, before they are.',
      examples: [42]
    }
  }
} as const

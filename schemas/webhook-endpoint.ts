// A webhook endpoint as its partner sees it; apart from schemas/webhooks.ts, since an event shows one, too.
import { idField, nullable, timestamp } from './fields/fields.ts'

export const webhookId = idField('whk', 'Identifier of the endpoint.')

export const webhookUrl = {
  type: 'string',
  format: 'uri',
  minLength: 1,
  maxLength: 2000,
  description:
    'Where events are sent: https, without user information and fragment. The name must resolve to public addresses; that is checked at each connection.',
  examples: ['https://example.com/hooks/trading']
} as const

export const webhookDescription = {
  type: 'string',
  maxLength: 200,
  pattern: '^[^\\u0000-\\u001f\\u007f]*$',
  description: 'What the endpoint is for, in the words of its owner.',
  examples: ['Production back office']
} as const

export const webhookStatus = {
  type: 'string',
  enum: ['ENABLED', 'FAILING', 'DISABLED'],
  description:
    'FAILING: the last five attempts failed; one event at a time is tried until one is delivered. DISABLED: nothing is sent.',
  examples: ['ENABLED']
} as const

/** Why nothing is sent to an endpoint. */
export const disabledReasons = ['PARTNER', 'OPERATOR', 'GONE', 'FAILURES'] as const

/** Why an attempt failed. */
export const deliveryErrors = {
  HTTP_STATUS: 'the response was no 2xx',
  REDIRECT: 'the response was a redirect, which is not followed',
  GONE: 'the response was 410, which disables the endpoint',
  TIMEOUT: 'no response within 15 s',
  CONNECTION_FAILED: 'the connection was refused, reset or closed before the response',
  TLS_FAILED: 'the certificate or the TLS handshake was not accepted',
  ADDRESS_NOT_ALLOWED: 'the name does not resolve to public addresses alone',
  INVALID_EVENT: 'the event cannot be shown; it is not tried again',
  EXPIRED: 'the event is not kept any more; it is not tried again',
  SECRET_UNREADABLE: 'the secret cannot be decrypted: rotate it'
} as const

export type DeliveryError = keyof typeof deliveryErrors
export const deliveryErrorNames = Object.keys(deliveryErrors) as DeliveryError[]

export const deliveryError = {
  type: 'string',
  enum: deliveryErrorNames,
  description: `Why it failed. ${Object.entries(deliveryErrors)
    .map(([name, words]) => `${name}: ${words}`)
    .join('; ')}.`,
  examples: ['TIMEOUT']
} as const

export const Webhook = {
  type: 'object',
  additionalProperties: false,
  required: [
    'webhookId',
    'url',
    'types',
    'description',
    'status',
    'disabledReason',
    'failingSince',
    'lastError',
    'missedEvents',
    'createdAt'
  ],
  properties: {
    webhookId,
    url: webhookUrl,
    types: {
      type: ['array', 'null'],
      items: { type: 'string', maxLength: 64 },
      maxItems: 100,
      description: 'Types of the events that are sent; null: all, those of later versions included.',
      examples: [['order.opened', 'order.closed']]
    },
    description: { ...nullable(webhookDescription), description: 'null when none was given.' },
    status: webhookStatus,
    disabledReason: {
      type: ['string', 'null'],
      enum: [...disabledReasons, null],
      description:
        'Only while DISABLED. PARTNER and OPERATOR: who did it; GONE: the endpoint returned 410; FAILURES: it only failed for five days.',
      examples: [null]
    },
    failingSince: {
      ...nullable(timestamp),
      description:
        'When the first of the attempts failed that have failed since the last success; null after a success.',
      examples: [null]
    },
    lastError: {
      ...nullable(deliveryError),
      description: 'Why the last attempt failed; null after a success.',
      examples: [null]
    },
    missedEvents: {
      type: 'integer',
      minimum: 0,
      description:
        'Events that could not be delivered before the log dropped them. Compare your records when it grows.',
      examples: [0]
    },
    createdAt: timestamp
  },
  description: 'A webhook endpoint, without its secret.'
} as const

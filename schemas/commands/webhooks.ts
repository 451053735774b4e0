// What the operator's commands about webhooks take.
import type { FromSchema } from 'json-schema-to-ts'
import { instant } from './text.ts'

const partner = { type: 'string', minLength: 1, maxLength: 128, description: 'Whose endpoints.' } as const
const webhookId = { type: 'string', minLength: 1, maxLength: 128, description: 'The endpoint.' } as const
const reason = { type: 'string', minLength: 3, maxLength: 500, description: 'Why; for the audit log.' } as const
const types = { type: 'string', minLength: 1, maxLength: 1000, description: 'Types between commas.' } as const

export const WebhooksFilter = {
  type: 'object',
  additionalProperties: false,
  required: ['limit'],
  properties: { partner, limit: { type: 'integer', minimum: 1, maximum: 1000, description: 'How many at most.' } }
} as const
export type WebhooksFilter = FromSchema<typeof WebhooksFilter>

export const WebhookRef = {
  type: 'object',
  additionalProperties: false,
  required: ['webhookId'],
  properties: { webhookId }
} as const
export type WebhookRef = FromSchema<typeof WebhookRef>

export const WebhookDisabling = {
  type: 'object',
  additionalProperties: false,
  required: ['webhookId', 'reason'],
  properties: { webhookId, reason }
} as const
export type WebhookDisabling = FromSchema<typeof WebhookDisabling>

export const WebhookReplay = {
  type: 'object',
  additionalProperties: false,
  required: ['webhookId', 'since'],
  properties: { webhookId, since: instant('Events from then on.'), until: instant('Events before.'), types }
} as const
export type WebhookReplay = FromSchema<typeof WebhookReplay>

export const Forwarding = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'forwardTo'],
  properties: {
    partner,
    types,
    // `localhost:3000/hooks` is an address, too, of the scheme "localhost".
    forwardTo: {
      type: 'string',
      format: 'uri',
      pattern: '^[Hh][Tt][Tt][Pp][Ss]?://[^/]',
      maxLength: 2000,
      description: 'Where events are sent.'
    }
  }
} as const
export type Forwarding = FromSchema<typeof Forwarding>

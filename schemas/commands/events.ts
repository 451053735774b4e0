// What the operator's commands about events take.
import type { FromSchema } from 'json-schema-to-ts'
import { traderExternalId } from '../fields/fields.ts'

const partner = { type: 'string', minLength: 1, maxLength: 128, description: 'Whose events.' } as const
const types = { type: 'string', minLength: 1, maxLength: 1000, description: 'Types between commas.' } as const

export const EventsFilter = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'limit'],
  properties: {
    partner,
    types,
    trader: traderExternalId,
    after: { type: 'string', minLength: 1, maxLength: 200, description: 'cursor of the page before.' },
    limit: { type: 'integer', minimum: 1, maximum: 1000, description: 'How many at most.' }
  }
} as const
export type EventsFilter = FromSchema<typeof EventsFilter>

export const EventRef = {
  type: 'object',
  additionalProperties: false,
  required: ['eventId'],
  properties: { eventId: { type: 'string', minLength: 1, maxLength: 128, description: 'The event.' } }
} as const
export type EventRef = FromSchema<typeof EventRef>

export const EventsTail = {
  type: 'object',
  additionalProperties: false,
  properties: { partner, types }
} as const
export type EventsTail = FromSchema<typeof EventsTail>

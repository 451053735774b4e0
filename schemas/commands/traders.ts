// What the operator's commands about traders and their sessions take.
import type { FromSchema } from 'json-schema-to-ts'
import { id, lineOfText } from './text.ts'

/** A trader by whatever a ticket calls it. */
export const TraderName = {
  type: 'object',
  additionalProperties: false,
  required: ['trader'],
  properties: { trader: lineOfText(1, 320, 'Its id, external id, e-mail or broker account.') }
} as const
export type TraderName = FromSchema<typeof TraderName>

export const TraderExport = {
  type: 'object',
  additionalProperties: false,
  required: ['trader'],
  properties: {
    ...TraderName.properties,
    file: { type: 'string', minLength: 1, maxLength: 1000, description: 'A file that does not exist yet.' }
  }
} as const
export type TraderExport = FromSchema<typeof TraderExport>

export const TraderErasure = {
  type: 'object',
  additionalProperties: false,
  required: ['trader', 'reason'],
  properties: {
    ...TraderName.properties,
    reason: lineOfText(3, 500, 'Why, for the audit log; without the name of the person.')
  }
} as const
export type TraderErasure = FromSchema<typeof TraderErasure>

export const TraderSearch = {
  type: 'object',
  additionalProperties: false,
  required: ['text', 'limit'],
  properties: {
    text: lineOfText(2, 320, 'Part of an id, a name, an e-mail or a broker account.'),
    limit: { type: 'integer', minimum: 1, maximum: 1000, description: 'How many at most.' }
  }
} as const
export type TraderSearch = FromSchema<typeof TraderSearch>

export const SessionEnd = {
  type: 'object',
  additionalProperties: false,
  required: ['session'],
  properties: {
    session: lineOfText(1, 320, 'A session, or a trader by its id, external id, e-mail or broker account.')
  }
} as const
export type SessionEnd = FromSchema<typeof SessionEnd>

export const TraderListQuery = {
  type: 'object',
  additionalProperties: false,
  required: ['partner', 'limit'],
  properties: {
    partner: id('Whose traders.'),
    limit: { type: 'integer', minimum: 1, maximum: 100_000, description: 'How many at most.' }
  }
} as const
export type TraderListQuery = FromSchema<typeof TraderListQuery>

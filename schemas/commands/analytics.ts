// What the operator's commands about analytics take.
import type { FromSchema } from 'json-schema-to-ts'
import { analyticsMode, timezone } from '../analytics.ts'

const partner = { type: 'string', minLength: 1, maxLength: 128, description: 'Whose analytics.' } as const
const days = { type: 'integer', minimum: 1, maximum: 731, description: 'How many days up to today.' } as const

export const ShowAnalytics = {
  type: 'object',
  additionalProperties: false,
  required: ['days', 'mode', 'timezone'],
  properties: { partner, days, mode: analyticsMode, timezone }
} as const
export type ShowAnalytics = FromSchema<typeof ShowAnalytics>

export const ReconcileAnalytics = {
  type: 'object',
  additionalProperties: false,
  required: ['days'],
  properties: {
    partner,
    day: {
      type: 'string',
      format: 'date',
      description: 'One day of UTC, YYYY-MM-DD, today among them; else what is due.'
    },
    days
  }
} as const
export type ReconcileAnalytics = FromSchema<typeof ReconcileAnalytics>

export const VerifyAnalytics = {
  type: 'object',
  additionalProperties: false,
  required: ['days'],
  properties: { partner, days, repair: { type: 'boolean', description: 'Recompute what differs.' } }
} as const
export type VerifyAnalytics = FromSchema<typeof VerifyAnalytics>

// What the operator's commands about requests take.
import type { FromSchema } from 'json-schema-to-ts'

export const RequestsTail = {
  type: 'object',
  additionalProperties: false,
  properties: {
    partner: { type: 'string', minLength: 1, maxLength: 128, description: 'Whose requests.' },
    errors: { type: 'boolean', description: 'Only those that were refused or failed.' }
  }
} as const
export type RequestsTail = FromSchema<typeof RequestsTail>

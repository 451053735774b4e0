// What the operator's commands about archived orders take.
import type { FromSchema } from 'json-schema-to-ts'

const month = (description: string) => ({ type: 'string', pattern: '^20\\d\\d-(0[1-9]|1[0-2])$', description }) as const
const path = (description: string) => ({ type: 'string', minLength: 1, maxLength: 1000, description }) as const

export const ArchiveExport = {
  type: 'object',
  additionalProperties: false,
  required: ['month', 'file'],
  properties: {
    month: month('The month in which the orders were created, YYYY-MM.'),
    format: {
      type: 'string',
      enum: ['csv', 'jsonl'],
      default: 'jsonl',
      description: 'CSV with a head, or JSON lines.'
    },
    file: path('A new file.')
  }
} as const
export type ArchiveExport = FromSchema<typeof ArchiveExport>

export const ArchiveDrop = {
  type: 'object',
  additionalProperties: false,
  required: ['before', 'directory'],
  properties: {
    before: month('Months before this one go, YYYY-MM.'),
    directory: path('Where the exports are written.')
  }
} as const
export type ArchiveDrop = FromSchema<typeof ArchiveDrop>

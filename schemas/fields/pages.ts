// Lists that are read by page number or by cursor, and lists that come whole.
import { nextCursor } from './fields.ts'

export const page = {
  type: 'integer',
  minimum: 1,
  maximum: 1_000_000_000,
  default: 1,
  description: 'Page, from 1.',
  examples: [1]
} as const

/** `limit` of a page list. */
export const pageLimit = (maximum: number) =>
  ({
    type: 'integer',
    minimum: 1,
    maximum,
    default: 20,
    description: 'Entries a page.',
    examples: [20]
  }) as const

/** The query of a page list. */
export const pageQuery = <Max extends number>(maximum: Max) =>
  ({ type: 'object', properties: { page, limit: pageLimit(maximum) } }) as const
export interface PageQuery {
  page: number
  limit: number
}

/** A page of a list with what is on all pages together. */
export function pageOf<Item extends object>(item: Item) {
  return {
    type: 'object',
    additionalProperties: false,
    required: ['data', 'page', 'limit', 'total'],
    properties: {
      data: { type: 'array', items: item, description: 'The entries of this page.' },
      page: { type: 'integer', minimum: 1, description: 'This page.', examples: [1] },
      limit: { type: 'integer', minimum: 1, description: 'Entries a page.', examples: [20] },
      total: { type: 'integer', minimum: 0, description: 'Entries on all pages.', examples: [137] }
    }
  } as const
}

/** A page of a list, and where the next one begins. */
export function cursorListOf<Item extends object>(item: Item) {
  return {
    type: 'object',
    additionalProperties: false,
    required: ['data', 'nextCursor'],
    properties: { data: { type: 'array', items: item, description: 'The entries, newest first.' }, nextCursor }
  } as const
}

/** A list that comes whole. */
export function listOf<Item extends object>(item: Item) {
  return {
    type: 'object',
    additionalProperties: false,
    required: ['data'],
    properties: { data: { type: 'array', items: item, description: 'The entries, newest first.' } }
  } as const
}

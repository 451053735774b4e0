// Cursors of lists: the place after which a page begins, and a hash of the list that it belongs to. A cursor of another partner,
// of another list, or of the same list under other filters is refused.
import { createHash } from 'node:crypto'
import { ApiError } from '../../schemas/errors/errors.ts'

/** A list as its cursors know it. */
export interface CursorList {
  name: string
  /** Undefined for a list of all partners. */
  partnerId: string | undefined
  /**
   * What chooses its entries, and their order; those that are undefined are not given. The size of a page and the bounds of a window of
   * time are not among them: they may differ from page to page, since every entry keeps its place.
   */
  filters: Readonly<Record<string, unknown>>
}

// Not a secret: a client that makes up a cursor of its own list gets entries of its own list.
function hashOf({ name, partnerId, filters }: CursorList): string {
  const given = Object.entries(filters).filter(([, value]) => value !== undefined)
  const text = JSON.stringify([name, partnerId ?? null, given.sort(([a], [b]) => (a < b ? -1 : 1))])
  return createHash('sha256').update(text).digest('base64url').slice(0, 11)
}

/** The cursor of a place, which is a few texts and numbers. */
export function writeListCursor(list: CursorList, place: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify([...place, hashOf(list)])).toString('base64url')
}

/**
 * The parts of a cursor's place, `length` of them; undefined for a cursor that is not of this list. A cursor of the previous
 * version has no hash and is accepted: clients keep cursors across an upgrade.
 */
export function readListCursor(list: CursorList, cursor: string, length: number): unknown[] | undefined {
  let parts: unknown
  try {
    parts = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))
  } catch {
    return undefined
  }
  if (!Array.isArray(parts) || parts.length < length || parts.length > length + 1) return undefined
  if (parts.length > length && parts[length] !== hashOf(list)) return undefined
  return parts.slice(0, length)
}

/** VALIDATION_FAILED for a cursor that is not of this list. */
export function foreignCursor(): ApiError {
  const message = 'is not a cursor of this list under these filters'
  return new ApiError('VALIDATION_FAILED', `cursor ${message}`, {
    extras: { details: [{ path: '/query/cursor', message }] }
  })
}

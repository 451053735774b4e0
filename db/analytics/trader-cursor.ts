// Cursors of pages of traders.
import { ApiError } from '../../schemas/errors/errors.ts'
import type { TraderSort } from './traders.ts'

// What a list is sorted by, as a cursor has it. Seconds since 1970 have no more digits than an instant of PostgreSQL's.
const AMOUNT = /^-?\d{1,30}(\.\d{1,20})?$/
const SECONDS = /^\d{1,11}(\.\d{1,6})?$/

// A cursor holds what its list is sorted by, and the last entry's value and trader.
export function writeCursor(sort: TraderSort, value: string, traderId: string): string {
  return Buffer.from(JSON.stringify([sort, value, traderId])).toString('base64url')
}

/** The value and the trader after which a page begins. Throws VALIDATION_FAILED for a cursor of another list. */
export function readCursor(cursor: string, sort: TraderSort): [string, string] {
  let position: unknown
  try {
    position = JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))
  } catch {
    position = undefined
  }
  const [by, value, id] = Array.isArray(position) ? position : []
  if (
    by !== sort ||
    typeof value !== 'string' ||
    !(sort === 'lastTradeAt' ? SECONDS : AMOUNT).test(value) ||
    typeof id !== 'string' ||
    !/^[a-z0-9_]{1,64}$/.test(id)
  ) {
    const details = [{ path: '/query/cursor', message: 'is not a cursor of this list' }]
    throw new ApiError('VALIDATION_FAILED', 'cursor is not a cursor of this list', { extras: { details } })
  }
  return [value, id]
}

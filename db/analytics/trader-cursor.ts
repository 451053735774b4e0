// Cursors of pages of traders.
import { type CursorList, foreignCursor, readListCursor, writeListCursor } from '../platform/list-cursors.ts'
import type { TraderSort } from './traders.ts'

// What a list is sorted by, as a cursor has it: a sum has as many decimals as the longest of its amounts. Seconds since 1970 have no more
// digits than an instant of PostgreSQL's.
const AMOUNT = /^-?\d{1,100}(\.\d{1,100})?$/
const SECONDS = /^\d{1,11}(\.\d{1,6})?$/

/** What decides which traders are listed, and in which order. */
interface TraderList {
  partnerId: string
  accountMode: string
  currency: string
  sort: TraderSort
}

const cursorList = ({ partnerId, accountMode, currency, sort }: TraderList): CursorList => ({
  name: 'traders',
  partnerId,
  filters: { accountMode, currency, sort }
})

/** A cursor holds what its list is sorted by, and the last entry's value and trader. */
export function writeCursor(list: TraderList, value: string, traderId: string): string {
  return writeListCursor(cursorList(list), [list.sort, value, traderId])
}

/** The value and the trader after which a page begins. Throws VALIDATION_FAILED for a cursor of another list. */
export function readCursor(list: TraderList, cursor: string): [string, string] {
  const [by, value, id] = readListCursor(cursorList(list), cursor, 3) ?? []
  if (
    by !== list.sort ||
    typeof value !== 'string' ||
    !(list.sort === 'lastTradeAt' ? SECONDS : AMOUNT).test(value) ||
    typeof id !== 'string' ||
    !/^[a-z0-9_]{1,64}$/.test(id)
  )
    throw foreignCursor()
  return [value, id]
}

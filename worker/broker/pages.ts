// The lists of an account at the broker, page by page.
import type { Evidence } from './port.ts'

/** How one list is read: rows that a page has at most by the broker's documents, and pages that one reading takes at most. */
interface Paging {
  pageRows: number
  pages: number
}

export const STATEMENT: Paging = { pageRows: 999, pages: 3 }
export const PROFIT_TABLE: Paging = { pageRows: 500, pages: 6 }

// Rows of a page without a requested limit. A broker may lower a requested limit, but hardly below its own default.
const DEFAULT_ROWS = 50

/** Whether a page of so many rows is surely the last of its list. One below the requested limit need not be: the broker may have lowered it. */
export function isLastPage(rows: number): boolean {
  return rows < DEFAULT_ROWS
}

/**
 * The rows of a list, newest first, and whether they are all of it. Purchases made meanwhile are added in front: a row may appear
 * twice, none is missed. Reads no further than the page that has the row which is `sought`, if any.
 */
export async function readPages(
  { pageRows, pages }: Paging,
  read: (page: { limit: number; offset: number }) => Promise<(Evidence | null)[]>,
  sought: (row: Evidence) => boolean = () => false
): Promise<{ rows: Evidence[]; whole: boolean }> {
  const rows: Evidence[] = []
  let offset = 0
  // One page more, which shows that nothing follows the others.
  for (let page = 0; page <= pages && offset < pages * pageRows; page++) {
    const found = await read({ limit: pageRows, offset })
    rows.push(...found.filter(row => row !== null))
    offset += found.length
    if (isLastPage(found.length)) return { rows, whole: true }
    if (found.some(row => row !== null && sought(row))) break
  }
  return { rows, whole: false }
}

// A response's rows as CSV (RFC 4180), for `Accept: text/csv`: a header line, then a line for each row.
import { textCell } from '../../schemas/fields/csv.ts'
import type { Schema } from '../../schemas/fields/fields.ts'
import { Reply } from '../request/respond.ts'

type ColumnSchemas = Record<string, Schema>

/** The rows of `body[list]` under the columns of its schema; the response's other fields are in header fields. */
export function csvOf(response: Schema, body: Record<string, unknown>, list: string): Reply {
  const lists = response.properties as Record<string, { items: { properties: ColumnSchemas } }>
  const columns = columnsOf(lists[list]?.items.properties ?? {})
  const rows = body[list] as Record<string, unknown>[]
  // A column that no row has is left out: `group` without groupBy.
  const shown = columns.filter(({ path }) => rows.length === 0 || rows.some(row => at(row, path) !== undefined))
  const lines = [
    shown.map(({ name }) => quoted(name)),
    ...rows.map(row => shown.map(({ path }) => cell(at(row, path))))
  ]
  return new Reply(`${lines.map(line => line.join(',')).join('\r\n')}\r\n`, {
    'Content-Type': 'text/csv; charset=utf-8; header=present',
    'X-As-Of': String(body.asOf),
    'X-Complete': String(body.complete),
    ...(typeof body.nextCursor === 'string' ? { 'X-Next-Cursor': body.nextCursor } : {})
  })
}

/** The columns of a row; those of an object within get its name before theirs. */
function columnsOf(fields: ColumnSchemas): { name: string; path: string[] }[] {
  return Object.entries(fields).flatMap(([name, { properties }]) =>
    properties === undefined
      ? [{ name, path: [name] }]
      : Object.keys(properties as ColumnSchemas).map(inner => ({ name: `${name}.${inner}`, path: [name, inner] }))
  )
}

// The fields of an object that is null are null, not absent: they have their columns.
const at = (row: unknown, path: string[]): unknown =>
  path.reduce<unknown>((value, name) => value && (value as Record<string, unknown>)[name], row)

function cell(value: unknown): string {
  if (value === null || value === undefined) return ''
  // Numbers are never formulas, -1e-7 included.
  if (typeof value === 'number') return String(value)
  return quoted(typeof value === 'object' ? JSON.stringify(value) : String(value))
}

function quoted(text: string): string {
  const safe = textCell(text)
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

// Results on stdout: with --json exactly one document, otherwise a table that fits the terminal or lines of
// name and value. Colours only on a terminal, and never with NO_COLOR.
import Table from 'cli-table3'
import { stringify } from 'csv-stringify/sync'
import pc from 'picocolors'
import { UsageError } from './refusals.ts'

/** Column names to show of a list or an object, or a function that writes the text itself. */
export type Show<Result> = string[] | ((result: Result) => string)

export type Format = 'text' | 'json' | 'csv'

/** The refusal of --csv where the result is no list. */
export const NO_LIST = '--csv is for lists; this command takes --json'

/** Prints a result; `{ data: [...] }` is a table, other objects are lines. `before` is printed before a text. */
export function print<Result extends object>(
  result: Result,
  { format, show, before = '' }: { format: Format; show?: Show<Result>; before?: string }
): void {
  if (format === 'json') process.stdout.write(`${toJson(result)}\n`)
  else if (format === 'csv') printCsv(result)
  else process.stdout.write(`${before}${toText(result, show)}\n`)
}

/** A list with all its fields, whatever columns a table shows; everything but its rows goes to stderr. */
function printCsv(result: object): void {
  const { data, ...rest } = result as { data?: unknown }
  if (!Array.isArray(data)) throw new UsageError(NO_LIST)
  const records = (data as object[]).map(flat)
  const columns = columnsOf(records)
  process.stdout.write(stringify([columns, ...records.map(record => columns.map(name => record[name] ?? ''))], CSV))
  for (const [name, value] of Object.entries(rest))
    if (value !== null && value !== undefined) process.stderr.write(`${name}: ${cell(value)}\n`)
}

// A name that a partner chose must not run as a formula where the file is opened.
const CSV = { escape_formulas: true, record_delimiter: 'windows' } as const

/** Fields of one level: `{ error: { message } }` becomes `error.message`. */
function flat(record: object): Record<string, string | number> {
  const entries = Object.entries(record).flatMap(([name, value]): [string, unknown][] =>
    value !== null && typeof value === 'object' && !Array.isArray(value) && !(value instanceof Date)
      ? Object.entries(value).map(([inner, each]) => [`${name}.${inner}`, each])
      : [[name, value]]
  )
  return Object.fromEntries(entries.map(([name, value]) => [name, typeof value === 'number' ? value : raw(value)]))
}

function raw(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Date) return value.toISOString()
  return cell(value)
}

// Escaped, a character is the same to a program and does nothing to a terminal.
function toJson(result: object): string {
  return JSON.stringify(result, null, 2).replaceAll(
    UNSEEN,
    character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  )
}

function toText<Result extends object>(result: Result, show: Show<Result> | undefined): string {
  if (typeof show === 'function') return show(result)
  const { data, ...rest } = result as { data?: unknown }
  if (!Array.isArray(data)) return lines(result, show)
  const more = Object.entries(rest).filter(([, value]) => value !== null && value !== undefined)
  return [table(data as object[], show), ...more.map(([name, value]) => `${name}: ${cell(value)}`)].join('\n')
}

/** One line for each field: its name and its value. Fields of an object, or of objects in a list, have lines of their own. */
export function lines(record: object, names: string[] = Object.keys(record)): string {
  const fields = names.flatMap(name => fieldsOf(name, (record as Record<string, unknown>)[name]))
  const width = Math.max(0, ...fields.map(([name]) => name.length))
  return fields.map(([name, value]) => `${pc.bold(name.padEnd(width))}  ${cell(value)}`).join('\n')
}

/** `{ limits: { perKey: 60 } }` is the field `limits.perKey`, the second of a list's objects has names as `accounts.2.mode`. */
function fieldsOf(name: string, value: unknown): [string, unknown][] {
  if (value === null || typeof value !== 'object' || value instanceof Date) return [[name, value]]
  if (Array.isArray(value) && !value.some(item => item !== null && typeof item === 'object')) return [[name, value]]
  const inner = Array.isArray(value) ? value.map((item, i) => [String(i + 1), item] as const) : Object.entries(value)
  return inner.length === 0 ? [[name, null]] : inner.flatMap(([key, each]) => fieldsOf(`${name}.${key}`, each))
}

/**
 * A table of records. On a terminal its widest columns give way until it fits; where that would cut identifiers or
 * instants, which are worth nothing in part, each record is a block of lines instead.
 */
export function table(
  records: object[],
  names: string[] = columnsOf(records),
  available = process.stdout.columns ?? Infinity
): string {
  if (records.length === 0) return 'None.'
  const body = records.map(record => names.map(name => cell((record as Record<string, unknown>)[name])))
  const natural = names.map((name, i) => Math.max(name.length, ...body.map(row => (row[i] as string).length)))
  const whole = names.map((name, i) => IDENTIFYING.test(name) || body.some(row => IDENTIFIER.test(row[i] as string)))
  const widths = fit(natural, whole, available)
  if (!widths) return records.map(record => lines(record, names)).join('\n\n')
  const drawn = new Table({
    head: names.map(name => pc.bold(name)),
    colWidths: widths.map(width => width + GAP),
    chars: frameless,
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': GAP, compact: true }
  })
  drawn.push(...body)
  return drawn
    .toString()
    .split('\n')
    .map(line => line.trimEnd())
    .join('\n')
}

const GAP = 2
const NARROWEST = 6
/** Columns whose values are often copied into another command. */
const IDENTIFYING = /(Id|Ids|target|reference|subject|hash|address)$/
const IDENTIFIER = /^[a-z]{3}_[0-9a-z]{26}$|^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/
const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$/
const frameless = {
  top: '',
  'top-mid': '',
  'top-left': '',
  'top-right': '',
  bottom: '',
  'bottom-mid': '',
  'bottom-left': '',
  'bottom-right': '',
  left: '',
  'left-mid': '',
  mid: '',
  'mid-mid': '',
  right: '',
  'right-mid': '',
  middle: ''
}

/**
 * Column widths that fit the terminal, the widest column that may be cut giving way first; undefined when there are none.
 * Piped output has no width and keeps everything.
 */
function fit(natural: number[], whole: boolean[], available: number): number[] | undefined {
  const widths = [...natural]
  const room = available - GAP * widths.length
  while (widths.reduce((sum, width) => sum + width, 0) > room) {
    const widest = Math.max(0, ...widths.filter((_, i) => !whole[i]))
    if (widest <= NARROWEST) return undefined
    widths[widths.findIndex((width, i) => !whole[i] && width === widest)] = widest - 1
  }
  return widths
}

function columnsOf(records: object[]): string[] {
  return [...new Set(records.flatMap(record => Object.keys(record)))]
}

// Control characters of terminals (C0, C1) and of text direction, and characters without width: a partner's chosen name
// must not control the terminal or imitate another name.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression removes them
const STEERING = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
// The same without line feeds, with which JSON is laid out.
const UNSEEN = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
/** A text without what steers terminals. */
export const cleaned = (text: string): string => text.replaceAll(STEERING, '�')

function cell(value: unknown): string {
  if (value === null || value === undefined) return '–'
  if (value instanceof Date) return value.toISOString().replace(INSTANT, '$1Z')
  if (typeof value === 'string' && INSTANT.test(value)) return value.replace(INSTANT, '$1Z')
  if (Array.isArray(value) && value.length === 0) return '–'
  if (Array.isArray(value) && value.every(item => typeof item !== 'object')) return cleaned(value.join(' '))
  if (typeof value === 'object') return cleaned(JSON.stringify(value))
  return cleaned(String(value))
}

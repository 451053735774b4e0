// Results on stdout: with --json exactly one document, otherwise a table that fits the terminal or lines of
// name and value. Colours only on a terminal, and never with NO_COLOR.
import Table from 'cli-table3'
import pc from 'picocolors'

/** Column names to show of a list or an object, or a function that writes the text itself. */
export type Show<Result> = string[] | ((result: Result) => string)

/** Prints a result; `{ data: [...] }` is a table, other objects are lines. */
export function print<Result extends object>(
  result: Result,
  { json, show }: { json: boolean; show?: Show<Result> }
): void {
  process.stdout.write(`${json ? toJson(result) : toText(result, show)}\n`)
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

/** One line for each field: its name and its value. */
export function lines(record: object, names: string[] = Object.keys(record)): string {
  const width = Math.max(0, ...names.map(name => name.length))
  return names
    .map(name => `${pc.bold(name.padEnd(width))}  ${cell((record as Record<string, unknown>)[name])}`)
    .join('\n')
}

/** A table of records; on a terminal its widest columns give way until it fits. */
export function table(records: object[], names: string[] = columnsOf(records)): string {
  if (records.length === 0) return 'None.'
  const body = records.map(record => names.map(name => cell((record as Record<string, unknown>)[name])))
  const natural = names.map((name, i) => Math.max(name.length, ...body.map(row => (row[i] as string).length)))
  const drawn = new Table({
    head: names.map(name => pc.bold(name)),
    colWidths: fit(
      natural,
      names.map((_, i) => body.some(row => IDENTIFIER.test(row[i] as string)))
    ).map(width => width + GAP),
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
 * Column widths that fit the terminal: the widest column gives way first, one with identifiers or instants last,
 * since those are worth nothing in part. Piped output has no width and keeps everything.
 */
function fit(natural: number[], identifying: boolean[], available = process.stdout.columns ?? Infinity): number[] {
  const widths = [...natural]
  const room = available - GAP * widths.length
  const shrink = (may: (i: number) => boolean) => {
    while (widths.reduce((sum, width) => sum + width, 0) > room) {
      const widest = Math.max(...widths.map((width, i) => (may(i) ? width : 0)))
      if (widest <= NARROWEST) return
      widths[widths.findIndex((width, i) => may(i) && width === widest)] = widest - 1
    }
  }
  shrink(i => !identifying[i])
  shrink(() => true)
  return widths
}

function columnsOf(records: object[]): string[] {
  return [...new Set(records.flatMap(record => Object.keys(record)))]
}

// Controls of terminals (C0, C1) and of the direction of writing, and what has no width: what a partner chose as its name
// must not steer the terminal or pass for another.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const STEERING = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
// The same without line feeds, which JSON is laid out with.
const UNSEEN = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g
/** A text without what steers terminals. */
export const cleaned = (text: string): string => text.replaceAll(STEERING, '�')

function cell(value: unknown): string {
  if (value === null || value === undefined) return '–'
  if (value instanceof Date) return value.toISOString().replace(INSTANT, '$1Z')
  if (typeof value === 'string' && INSTANT.test(value)) return value.replace(INSTANT, '$1Z')
  if (Array.isArray(value) && value.every(item => typeof item !== 'object')) return cleaned(value.join(' '))
  if (typeof value === 'object') return cleaned(JSON.stringify(value))
  return cleaned(String(value))
}

// Text for a terminal of a given width: cut, padded, set in columns, drawn as bars. Widths are terminal
// columns; text from outside is cleaned before it is measured, so that a name cannot steer the terminal.
import pc from 'picocolors'

export type Tone = (text: string) => string

/** Colours by what they mean; without colours (NO_COLOR, a plain terminal) they leave the text alone. */
export const tones = {
  title: pc.bold as Tone,
  quiet: pc.dim as Tone,
  good: pc.green as Tone,
  warn: pc.yellow as Tone,
  bad: pc.red as Tone,
  link: pc.cyan as Tone,
  chosen: pc.inverse as Tone
}

let segmenter: Intl.Segmenter | undefined

/** What is seen as one character each. Made when it is first needed: a command starts with some 8 ms of CPU less, and plain text needs none. */
function graphemesOf(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter()
  return segmenter.segment(text)
}

const WIDE =
  /^(?:\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6])|\ufe0f/u

const widthOfGrapheme = (segment: string): number => (WIDE.test(segment) ? 2 : 1)

/** How many columns a text takes. */
export function widthOf(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what is plain is counted at once
  if (/^[\u0000-\u00ff…–·▁-█]*$/.test(text)) return text.length
  let width = 0
  for (const { segment } of graphemesOf(text)) width += widthOfGrapheme(segment)
  return width
}

/** The text without anything that moves a cursor or turns the direction of writing. */
export function clean(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression removes them
  return text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, '�')
}

/** At most `width` columns of the text, ending in … where something is left out. */
export function cut(text: string, width: number): string {
  const whole = clean(text)
  if (widthOf(whole) <= width) return whole
  if (width <= 0) return ''
  let kept = ''
  let used = 0
  for (const { segment } of graphemesOf(whole)) {
    const wide = widthOfGrapheme(segment)
    if (used + wide > width - 1) break
    kept += segment
    used += wide
  }
  return `${kept}…`
}

/** The end of a text, as much of it as takes at most `width` columns. */
export function lastColumns(text: string, width: number): string {
  const whole = clean(text)
  if (widthOf(whole) <= width) return whole
  let kept = ''
  for (const { segment } of [...graphemesOf(whole)].reverse()) {
    if (widthOf(segment + kept) > width) break
    kept = segment + kept
  }
  return kept
}

/** Exactly `width` columns. */
export function fit(text: string, width: number, right = false): string {
  const shown = cut(text, width)
  const gap = ' '.repeat(Math.max(0, width - widthOf(shown)))
  return right ? gap + shown : shown + gap
}

/** How much of a text, from its start, takes at most so many columns: at least one character. In UTF-16 units. */
function lengthWithin(text: string, width: number): number {
  let length = 0
  let used = 0
  for (const { segment } of graphemesOf(text)) {
    used += widthOfGrapheme(segment)
    if (used > width && length > 0) break
    length += segment.length
  }
  return length
}

/** The text in lines of at most `width` columns, broken between words where there are any, at most `most` lines. */
export function wrap(text: string, width: number, most: number): string[] {
  const lines: string[] = []
  let rest = clean(text)
  while (widthOf(rest) > width && lines.length < most - 1) {
    const room = lengthWithin(rest, width)
    const space = rest.slice(0, room + 1).lastIndexOf(' ')
    const end = space > room / 2 ? space : room
    lines.push(rest.slice(0, end))
    rest = rest.slice(end).trimStart()
  }
  return [...lines, cut(rest, width)]
}

export interface Column<Row> {
  title: string
  width: number
  /** Takes a share of what is left over. */
  grow?: boolean
  right?: boolean
  /** Shown only on terminals at least this wide. */
  from?: number
  of(row: Row): string
  tone?(row: Row): Tone | undefined
}

const GAP = 1

/** A table's title line and one line for each row, none wider than `width`. */
export function columns<Row>(
  all: Column<Row>[],
  data: readonly Row[],
  width: number
): { title: string; lines: string[] } {
  const shown = all.filter(({ from = 0 }) => width >= from)
  const spare = width - shown.reduce((sum, column) => sum + column.width + GAP, -GAP)
  const growing = shown.filter(({ grow }) => grow).length
  const widths = shown.map(column =>
    column.grow ? Math.max(1, column.width + Math.floor(spare / Math.max(1, growing))) : column.width
  )
  return {
    title: tones.quiet(
      cut(shown.map(({ title, right }, i) => fit(title, widths[i] as number, right)).join(' '), width)
    ),
    lines: data.map(row =>
      shown
        .map((column, i) => {
          const text = fit(column.of(row), widths[i] as number, column.right)
          return column.tone?.(row)?.(text) ?? text
        })
        .join(' '.repeat(GAP))
    )
  }
}

const BARS = '▁▂▃▄▅▆▇'

/** A bar for each value, the highest one full; `null` is a gap. */
export function sparkline(values: readonly (number | null)[]): string {
  const highest = Math.max(...values.map(value => value ?? 0))
  return values
    .map(value => {
      if (value === null) return ' '
      return BARS[highest === 0 ? 0 : Math.round((value / highest) * (BARS.length - 1))] as string
    })
    .join('')
}

/** 0.4 s, 12 s, 3 m 20 s, 5 h 2 m, 3 d 4 h. */
export function age(seconds: number | null): string {
  if (seconds === null) return '–'
  const s = Math.max(0, Math.floor(seconds))
  if (s < 60) return `${s} s`
  if (s < 3600) return `${Math.floor(s / 60)} m ${s % 60} s`
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} m`
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`
}

/** An amount with its thousands apart, never by way of a float. */
export function usd(amount: string): string {
  const [, sign = '', whole = '0', cents = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(amount) ?? []
  return `${sign}${whole.replaceAll(/\B(?=(\d{3})+$)/g, ',')}.${cents.padEnd(2, '0')}`
}

/** 14:03:59 of the day it is, the day as well for another one; UTC. */
export function clock(at: Date): string {
  const [day, time] = [at.toISOString().slice(0, 10), at.toISOString().slice(11, 19)]
  return day === new Date().toISOString().slice(0, 10) ? time : `${day.slice(5)} ${time.slice(0, 5)}`
}

/** 2026-01-31T14:03:59.123Z, or – while there is none. */
export function instant(at: Date | null): string {
  return at?.toISOString() ?? '–'
}

/** The colour of a status, in every view. */
export function toneOf(status: string): Tone | undefined {
  switch (status) {
    case 'ACTIVE':
    case 'CLOSED':
    case 'PAID':
      return tones.good
    case 'PENDING':
    case 'REQUESTED':
    case 'INACTIVE':
      return tones.warn
    case 'FAILED':
    case 'REVIEW':
    case 'SUSPENDED':
    case 'REJECTED':
      return tones.bad
    case 'OPEN':
    case 'APPROVED':
      return tones.link
    default:
      return undefined
  }
}

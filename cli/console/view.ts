// What a view of the console is: data to read, lines to draw, keys that act on the row under the cursor. A view changes
// nothing by itself; it names the command that does, which confirms first and writes the audit log.
import type { Db } from '../../db/postgres/connection.ts'
import type { Config } from '../../schemas/config/config.ts'
import type { Opened } from '../terminal/context.ts'
import { type Column, columns } from './text.ts'

/** The operator's position in a view. */
export interface ViewPosition {
  /** The row under the cursor. */
  chosen?: string
  /** What has been opened; the list when nothing. */
  opened?: string
  /** What Esc goes back to from there. */
  from?: string
  /** The row that was under the cursor in the list. */
  left?: string
  filter: string
  search: string
}

export interface ViewLine {
  text: string
  /** Rows with an id can be under the cursor. */
  id?: string
}

export interface Drawn {
  /** Stays in place above the lines. */
  head: string[]
  lines: ViewLine[]
  /** Text to scroll through, without a cursor. */
  plain?: boolean
}

export interface Size {
  columns: number
  rows: number
}

/** What a key does: moves, prompts for a text, or runs a command. */
export interface Move {
  place?: Partial<ViewPosition>
  /** A line of text to type first. */
  input?: { label: string; initial?: string; use(text: string): Move }
  /** Runs with `confirm` being the confirmation line of the console; returns the message to show. */
  run?(opened: Opened): Promise<string>
}

export interface KeyAction {
  /** A character, or 'enter'. */
  key: string
  /** One word for the foot. */
  label: string
  press(): Move
}

export interface View<Data> {
  name: string
  /** All data of one read of this view; `before` is the result of the previous read of the same place. */
  read(trx: Db, place: ViewPosition, context: { config: Config; before: Data | undefined }): Promise<Data>
  draw(data: Data, place: ViewPosition, size: Size): Drawn
  /** The keys that do something here and now. */
  actions(data: Data, place: ViewPosition): KeyAction[]
}

/** Columns the cursor takes in front of a row. */
export const MARK = 2

/** The next of several filters. */
export function next(filters: readonly string[], current: string): string {
  return filters[(filters.indexOf(current) + 1) % filters.length] as string
}

/** A key that prompts for a search text; an empty text ends the search. */
export function searching(place: ViewPosition): KeyAction {
  return {
    key: '/',
    label: 'search',
    press: () => ({
      input: {
        label: 'Search for (empty: everything)',
        initial: place.search,
        use: search => ({ place: { search, chosen: undefined } })
      }
    })
  }
}

/** A table whose rows can be under the cursor; the title is the last line of the head. */
export function listing<Row>(
  all: Column<Row>[],
  data: readonly Row[],
  idOf: (row: Row) => string,
  width: number
): { title: string; lines: ViewLine[] } {
  const { title, lines } = columns(all, data, width)
  return { title, lines: lines.map((text, i) => ({ text, id: idOf(data[i] as Row) })) }
}

/** Opens what is under the cursor. */
export function open(place: ViewPosition, id: string): Move {
  return { place: { opened: id, from: place.opened, left: place.chosen, chosen: undefined } }
}

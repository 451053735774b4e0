// A prepared statement sent to PostgreSQL by the interface that pg-cursor uses: it runs the extended query protocol
// itself. pg's own query has the server describe the columns again at each run and builds its readers again; for a
// statement of one row both sides spent longer on that than on the row.
import pg from 'pg'

/** The part of a pg connection that a statement uses. */
interface Wire {
  stream: { cork(): void; uncork(): void }
  parsedStatements: Record<string, string>
  submittedNamedStatements: Record<string, string>
  parse(statement: { name: string; text: string }): void
  bind(bound: { statement: string; values: (string | Buffer | null)[] }): void
  describe(what: { type: 'P'; name: string }): void
  execute(what: object): void
  sync(): void
}

interface Shape {
  names: string[]
  parsers: ((text: string) => unknown)[]
  /** A row with each column null, to be copied: the rows of a statement are of one hidden class then. */
  empty: Record<string, unknown>
}

const { prepareValue } = (pg as unknown as { utils: { prepareValue(value: unknown): string | Buffer | null } }).utils

// The row shapes of a connection's statements. A statement whose columns change is refused by the server itself.
const shapes = new WeakMap<Wire, Map<string, Shape>>()

function shapesOf(wire: Wire): Map<string, Shape> {
  let known = shapes.get(wire)
  if (!known) {
    known = new Map()
    shapes.set(wire, known)
  }
  return known
}

const nothing: Shape = { names: [], parsers: [], empty: {} }

/** One run of a statement: handed to `client.query`, it calls `done` once with its rows or an error. */
export class Statement<T> {
  readonly name: string
  readonly text: string
  readonly values: unknown[]
  // pg assigns this property; the name is its contract.
  callback: (error: unknown, rows: T[]) => void
  #rows: T[] = []
  #shape: Shape | undefined
  #failure: unknown

  /** `name` identifies exactly this `text`. */
  constructor(
    { name, text, values }: { name: string; text: string; values: unknown[] },
    done: (error: unknown, rows: T[]) => void
  ) {
    this.name = name
    this.text = text
    this.values = values
    this.callback = done
  }

  submit(wire: Wire): Error | null {
    // Before anything is written: the responses of half an exchange would reach the next statement.
    let values: (string | Buffer | null)[]
    try {
      values = this.values.map(value => prepareValue(value))
    } catch (error) {
      return error as Error
    }
    const known = wire.parsedStatements[this.name] ?? wire.submittedNamedStatements[this.name]
    this.#shape = shapesOf(wire).get(this.name)
    // One packet instead of one for each message.
    wire.stream.cork()
    if (known === undefined) {
      wire.parse({ name: this.name, text: this.text })
      wire.submittedNamedStatements[this.name] = this.text
    }
    wire.bind({ statement: this.name, values })
    if (!this.#shape) wire.describe({ type: 'P', name: '' })
    wire.execute({})
    wire.sync()
    wire.stream.uncork()
    return null
  }

  handleRowDescription({ fields }: { fields: { name: string; dataTypeID: number }[] }): void {
    const names = fields.map(({ name }) => name)
    const parsers = fields.map(({ dataTypeID }) => pg.types.getTypeParser(dataTypeID, 'text'))
    this.#shape = { names, parsers, empty: Object.fromEntries(names.map(name => [name, null])) }
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    const { names, parsers, empty } = this.#shape ?? nothing
    try {
      const row = { ...empty }
      for (let index = 0; index < fields.length; index++) {
        const text = fields[index] as string | null
        if (text !== null) row[names[index] as string] = (parsers[index] as Shape['parsers'][0])(text)
      }
      this.#rows.push(row as T)
    } catch (error) {
      this.#failure ??= error
    }
  }

  handleCommandComplete(_message: object, wire: Wire): void {
    const known = shapesOf(wire)
    // Without a description there are no columns.
    if (!known.has(this.name)) known.set(this.name, this.#shape ?? nothing)
  }

  handleEmptyQuery(): void {}

  handleReadyForQuery(): void {
    this.callback(this.#failure, this.#rows)
  }

  handleError(error: unknown): void {
    this.callback(error, [])
  }
}

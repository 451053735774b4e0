// Reads single fields of the broker's frames by hand: cheap checks of the shape we rely on, nothing else.
// Numbers and texts are both taken where money is meant, since the dialects differ in that.

export type Body = Record<string, unknown>

/** A frame, or a field of it, that is not what we rely on. Names the field, never its value. */
export class BadFrame extends Error {
  constructor(what: string) {
    super(`The broker sent something unexpected: ${what}`)
    this.name = 'BadFrame'
  }
}

// An escaped backslash and a whole pair come first, so that nothing of them is taken for one of the others.
const ESCAPES = /\\\\|\\u(?:d[89ab]..\\ud[c-f]..|d[89a-f]..|0000)/gi

/**
 * JSON of the broker. U+0000 and half of a surrogate pair, which only an escape brings in, become U+FFFD: PostgreSQL stores neither, and
 * a response or a refusal with one would never reach its caller. Throws SyntaxError.
 */
export function parseJson(text: string): unknown {
  if (!text.includes('\\u')) return JSON.parse(text)
  return JSON.parse(text.replace(ESCAPES, code => (code.length === 6 ? '\\ufffd' : code)))
}

/** The first `most` characters of a text, without half of a surrogate pair at the end. */
export const cut = (text: string, most: number): string => text.slice(0, most).toWellFormed()

/** An object, or BadFrame. */
export function bodyOf(value: unknown, what: string): Body {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new BadFrame(`${what} is not an object`)
  return value as Body
}

/** An array, or BadFrame. */
export function listOf(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new BadFrame(`${what} is not a list`)
  return value
}

/** An identifier that the broker prints as an integer. */
export function idOf(body: Body, field: string): string {
  const value = body[field]
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return String(value)
  if (typeof value === 'string' && /^\d{1,20}$/.test(value)) return value
  throw new BadFrame(`${field} is not an identifier`)
}

/** A whole number: times and flags. */
export function integerOf(body: Body, field: string): number {
  const value = body[field]
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new BadFrame(`${field} is not a whole number`)
}

/**
 * Epoch seconds. Milliseconds, and other figures that cannot be a time of a contract, are refused: contracts would be searched at
 * the wrong time.
 */
export function timeOf(body: Body, field: string): number {
  const value = integerOf(body, field)
  if (value >= firstTime && value < lastTime) return value
  throw new BadFrame(`${field} is not a time`)
}

/** A whole number, or null where there is none. */
export function optionalInteger(body: Body, field: string): number | null {
  return body[field] === undefined || body[field] === null ? null : integerOf(body, field)
}

/** A finite number. */
export function numberOf(body: Body, field: string): number {
  const value = body[field]
  if (typeof value === 'number' && Number.isFinite(value)) return value
  if (typeof value === 'string' && plainDecimal.test(value)) return Number(value)
  throw new BadFrame(`${field} is not a number`)
}

/** An amount as plain decimal text, with every digit the broker gave. */
export function decimalOf(body: Body, field: string): string {
  const value = optionalDecimal(body, field)
  if (value === null) throw new BadFrame(`${field} is missing`)
  return value
}

/** An amount as plain decimal text, or null where there is none. */
export function optionalDecimal(body: Body, field: string): string | null {
  const value = body[field]
  if (value === undefined || value === null) return null
  if (typeof value === 'number' && Number.isFinite(value)) return plain(value)
  if (typeof value === 'string' && plainDecimal.test(value)) return value.startsWith('+') ? value.slice(1) : value
  throw new BadFrame(`${field} is not an amount`)
}

/** An amount of money that may not be negative, nor beyond what a contract can cost. */
export function moneyOf(body: Body, field: string): string {
  const amount = bounded(decimalOf(body, field), value => value >= 0 && value < mostMoney)
  if (amount === null) throw new BadFrame(`${field} is not an amount of money`)
  return amount
}

/** A text, or BadFrame. */
export function textOf(body: Body, field: string): string {
  const value = body[field]
  if (typeof value === 'string') return value
  throw new BadFrame(`${field} is not a text`)
}

/** A text, or null where there is none. */
export function optionalText(body: Body, field: string): string | null {
  const value = body[field]
  return typeof value === 'string' ? value : null
}

const plainDecimal = /^[+-]?\d{1,30}(\.\d{1,20})?$/

/** A number without exponent: 1e-7 is "0.0000001". */
function plain(value: number): string {
  const text = String(value)
  if (!text.includes('e')) return text
  // toFixed keeps the exponent of such a number, whose zeros would then be cut off: 1e30 would read as 1000.
  if (Math.abs(value) >= 1e21) return BigInt(value).toString()
  return value.toFixed(20).replace(/\.?0+$/, '')
}

// Bounds of what can be a figure of a contract at all: beyond them a number is garbage, however well it is formed.
const mostMoney = 1e12
const firstTime = Date.UTC(2000) / 1000
const lastTime = Date.UTC(2300) / 1000
const grouped = /^[+-]?\d{1,3}(,\d{3})+(\.\d{1,20})?$/

/**
 * Fields of a body that may be missing or garbage: null is returned for both, and garbage is listed in `unreadable`. For
 * frames of which one bad field must not spoil the rest.
 */
export class Fields {
  /** Names of the fields that were sent and could not be read. */
  readonly unreadable: string[] = []
  readonly #body: Body

  constructor(body: Body) {
    this.#body = body
  }

  /** An identifier that the broker prints as an integer. */
  id(field: string): string | null {
    return this.#read(field, () => idOf(this.#body, field))
  }

  /** An amount of money, not negative. */
  amount(field: string): string | null {
    return this.#read(field, value => bounded(decimalIn(value), amount => amount >= 0 && amount < mostMoney))
  }

  /** An amount of money that may be negative. */
  signedAmount(field: string): string | null {
    return this.#read(field, value => bounded(decimalIn(value), amount => Math.abs(amount) < mostMoney))
  }

  /** A price of the market, above zero. */
  price(field: string): string | null {
    return this.#read(field, value => bounded(decimalIn(value), price => price > 0 && price < mostMoney))
  }

  /** Epoch seconds; a fraction is cut off. */
  time(field: string): number | null {
    return this.#read(field, value => {
      const seconds = bounded(decimalIn(value), time => time >= firstTime && time < lastTime)
      return seconds === null ? null : Math.floor(Number(seconds))
    })
  }

  /** 0 or 1, as a number, a text or a boolean. */
  flag(field: string): boolean | null {
    return this.#read(field, value => {
      if (value === 1 || value === '1' || value === true) return true
      return value === 0 || value === '0' || value === false ? false : null
    })
  }

  text(field: string): string | null {
    return this.#read(field, value => (typeof value === 'string' ? value : null))
  }

  /** One of these texts. */
  oneOf<Text extends string>(field: string, texts: readonly Text[]): Text | null {
    return this.#read(field, value => texts.find(text => text === value) ?? null)
  }

  /** The fields of an object in this one; null where there is none. */
  inside(field: string): Fields | null {
    return this.#read(field, value =>
      typeof value === 'object' && !Array.isArray(value) ? new Fields(value as Body) : null
    )
  }

  #read<T>(field: string, read: (value: unknown) => T | null): T | null {
    const value = this.#body[field]
    if (value === undefined || value === null) return null
    let found: T | null
    try {
      found = read(value)
    } catch (error) {
      if (!(error instanceof BadFrame)) throw error
      found = null
    }
    if (found === null && !this.unreadable.includes(field)) this.unreadable.push(field)
    return found
  }
}

/** A number or text as plain decimal text, thousands separated by commas or not; null for anything else. */
function decimalIn(value: unknown): string | null {
  if (typeof value === 'number' && Number.isFinite(value)) return plain(value)
  if (typeof value !== 'string') return null
  const text = grouped.test(value) && /[.]|,\d{3},/.test(value) ? value.replaceAll(',', '') : value
  if (!plainDecimal.test(text)) return null
  return text.startsWith('+') ? text.slice(1) : text
}

function bounded(text: string | null, fits: (value: number) => boolean): string | null {
  return text !== null && fits(Number(text)) ? text : null
}

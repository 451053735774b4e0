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

/** An object, or BadFrame. */
export function bodyOf(value: unknown, what: string): Body {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new BadFrame(`${what} is no object`)
  return value as Body
}

/** An array, or BadFrame. */
export function listOf(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw new BadFrame(`${what} is no list`)
  return value
}

/** An identifier that the broker prints as an integer. */
export function idOf(body: Body, field: string): string {
  const value = body[field]
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return String(value)
  if (typeof value === 'string' && /^\d{1,20}$/.test(value)) return value
  throw new BadFrame(`${field} is no identifier`)
}

/** A whole number: times and flags. */
export function integerOf(body: Body, field: string): number {
  const value = body[field]
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  throw new BadFrame(`${field} is no whole number`)
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
  throw new BadFrame(`${field} is no number`)
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
  throw new BadFrame(`${field} is no amount`)
}

/** A text, or BadFrame. */
export function textOf(body: Body, field: string): string {
  const value = body[field]
  if (typeof value === 'string') return value
  throw new BadFrame(`${field} is no text`)
}

/** A text, or null where there is none. */
export function optionalText(body: Body, field: string): string | null {
  const value = body[field]
  return typeof value === 'string' ? value : null
}

const plainDecimal = /^[+-]?\d{1,30}(\.\d{1,20})?$/

/** A number without exponent: 1e-7 is "0.0000001". */
export function plain(value: number): string {
  const text = String(value)
  if (!text.includes('e')) return text
  return value.toFixed(20).replace(/\.?0+$/, '')
}

// Sizes of a request, checked before anything walks through it: Ajv collects an error for every element of an array even
// when `maxItems` has already refused it, so the cost of refusing a body must not depend on what the body holds.
import type { Schema } from './fields.ts'

export interface Violation {
  path: string
  message: string
}

/** Values in one body: arrays, objects, their elements and fields. The largest free-form field has 8,192. */
const MAX_VALUES = 10_000
/** Levels of nesting; free-form fields allow 20. */
const MAX_DEPTH = 100

const [QUOTE, BACKSLASH, COMMA, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [...'"\\,[]{}'].map(character =>
  character.charCodeAt(0)
) as [number, number, number, number, number, number, number]

/**
 * Counts the values of a JSON text in UTF-8 that has not been decoded, part by part as it comes. The returned function takes the
 * next part, and returns what is too much in all of them: their number of values or their depth. Linear in the length, some
 * 7 ms for 1 MiB, where parsing the same text can take 180 ms. Text that is not JSON is judged as far as it resembles it.
 */
export function countValues(): (part: Uint8Array) => string | undefined {
  // `inside`: the latest part ended in a string; `escaped`: and the byte that follows is escaped.
  const soFar = { values: 1, depth: 0, inside: false, escaped: false }
  return part => {
    let { values, depth, inside, escaped } = soFar
    let index = 0
    if (inside && part.length > 0) {
      index = endOfString(part, escaped ? 1 : 0)
      inside = index >= part.length
      escaped = index > part.length
      index++
    }
    for (; index < part.length; index++) {
      const code = part[index]
      if (code === QUOTE) {
        index = endOfString(part, index + 1)
        inside = index >= part.length
        escaped = index > part.length
      } else if (code === COMMA) values++
      else if (code === OPEN_ARRAY || code === OPEN_OBJECT) {
        values++
        if (++depth > MAX_DEPTH) return `must not be nested deeper than ${MAX_DEPTH} levels`
      } else if (code === CLOSE_ARRAY || code === CLOSE_OBJECT) depth--
      if (values > MAX_VALUES) return `must not hold more than ${MAX_VALUES} values`
    }
    Object.assign(soFar, { values, depth, inside, escaped })
    return undefined
  }
}

// The first bytes of a string are read one by one before its end is searched: the search pays for long strings only.
const READ_BYTES = 64

/**
 * Where the string that goes on at `from` has its closing quote; where it has none, the length of the text, and one more when the
 * byte after it is escaped.
 */
function endOfString(text: Uint8Array, from: number): number {
  let index = from
  for (;;) {
    for (const until = index + READ_BYTES; index < until; index++) {
      const code = text[index]
      if (code === undefined || code === QUOTE) return index
      if (code === BACKSLASH) index++
    }
    const quote = text.indexOf(QUOTE, index)
    const end = quote === -1 ? text.length : quote
    // An odd number of backslashes before it escapes it.
    let before = end
    while (before > index && text[before - 1] === BACKSLASH) before--
    const isEscaped = (end - before) % 2 === 1
    if (quote === -1) return isEscaped ? end + 1 : Math.max(index, end)
    if (!isEscaped) return quote
    index = quote + 1
  }
}

/**
 * Arrays and strings of `value` that are far over their limits in `schema`; at most `most`. Only what the schema names is
 * visited, and nothing below an array that is too long. A string is counted in UTF-16 units here, of which a character has
 * at most two: what is not far over is left to the validator, which counts characters.
 */
export function oversized(schema: Schema, value: unknown, root: string, most: number): Violation[] {
  const found: Violation[] = []
  visit(schema, value, root, { found, most })
  return found
}

function visit(schema: Schema, value: unknown, path: string, all: { found: Violation[]; most: number }): void {
  if (all.found.length >= all.most) return
  const { maxItems, maxLength, items, properties } = schema as {
    maxItems?: number
    maxLength?: number
    items?: Schema
    properties?: Record<string, Schema>
  }
  if (typeof value === 'string') {
    if (maxLength !== undefined && value.length > 2 * maxLength)
      all.found.push({ path, message: `must have at most ${maxLength} character${maxLength === 1 ? '' : 's'}` })
  } else if (Array.isArray(value)) {
    if (maxItems !== undefined && value.length > maxItems)
      all.found.push({ path, message: `must have at most ${maxItems} entries` })
    else if (items) for (const [index, item] of value.entries()) visit(items, item, `${path}/${index}`, all)
  } else if (value !== null && typeof value === 'object' && properties) {
    for (const [name, inner] of Object.entries(properties))
      if (Object.hasOwn(value, name)) visit(inner, (value as Record<string, unknown>)[name], `${path}/${name}`, all)
  }
}

const KIB = 1024
/** No body is larger, whatever its schema. */
export const MAX_BODY_BYTES = KIB * KIB
// Room for white space and for fields that are ignored.
const MIN_BODY_BYTES = 64 * KIB
// A character outside the BMP, written as two \u escapes.
const BYTES_PER_CHARACTER = 12
const BYTES_OF_A_SCALAR = 64
// A free-form object is measured after parsing (16 KiB, 20 levels). As text it may be escaped, and a pretty printer writes each of its
// thousands of values on a line of its own, behind as many blanks as it is deep: more than any body may have.
const BYTES_OF_FREE_FORM = MAX_BODY_BYTES

/** The largest body an operation takes: what its schema allows, however it is escaped, and some room; 64 KiB to 1 MiB. */
export function bodyLimit(schema: Schema): number {
  const needed = Math.ceil((2 * bytesOf(schema)) / KIB) * KIB
  return Math.min(MAX_BODY_BYTES, Math.max(MIN_BODY_BYTES, needed))
}

function bytesOf(schema: Schema): number {
  const { type, maxItems, maxLength, items, properties } = schema as {
    type?: string | string[]
    maxItems?: number
    maxLength?: number
    items?: Schema
    properties?: Record<string, Schema>
  }
  const types = [type].flat()
  if (types.includes('array')) return (maxItems ?? Number.POSITIVE_INFINITY) * (bytesOf(items ?? {}) + 1)
  if (types.includes('object') || properties) {
    if (!properties) return BYTES_OF_FREE_FORM
    return Object.entries(properties).reduce((sum, [name, inner]) => sum + 6 * name.length + 4 + bytesOf(inner), 2)
  }
  if (types.includes('string') && maxLength !== undefined) return maxLength * BYTES_PER_CHARACTER + 2
  return BYTES_OF_A_SCALAR
}

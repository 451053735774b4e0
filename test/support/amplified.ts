// Bodies at their limit, made from a schema: every array filled, every object with as many fields, every string as long as
// the limit allows, and the same under a name the schema does not know. None fits the schema's sizes; each must cost no
// more to refuse than any other request.

/** A JSON Schema, as far as this file reads it. */
export type AmplifiedShape = { readonly [key: string]: unknown }

const FILLERS = ['{}', '[]', '0', 'null', '""', '"\\u0000"', '{"a":{}}'] as const

interface Filling {
  what: string
  /** The JSON text, made only when it is sent. */
  text(): string
}

/** `text` repeated between commas up to `bytes`. */
const filled = (text: string, bytes: number) =>
  `${text},`.repeat(Math.max(1, Math.floor(bytes / (text.length + 1)))).slice(0, -1)

const keyed = (value: string, bytes: number) => {
  const count = Math.max(1, Math.floor(bytes / (value.length + 10)))
  return Array.from({ length: count }, (_, index) => `"k${String(index).padStart(5, '0')}":${value}`).join()
}

/** JSON texts of at most `bytes` that take the place of a text or a number. */
function* scalars(bytes: number): Generator<Filling> {
  yield { what: 'an array of {}', text: () => `[${filled('{}', bytes)}]` }
  yield { what: 'a long string', text: () => `"${'x'.repeat(bytes)}"` }
  yield { what: 'a string of quotes', text: () => `"${'\\"'.repeat(bytes / 2)}"` }
  yield { what: 'a long number', text: () => '9'.repeat(bytes) }
}

/** JSON texts of at most `bytes` that take the place of an object or an array. */
function* fillings(bytes: number): Generator<Filling> {
  for (const filler of FILLERS) yield { what: `an array of ${filler}`, text: () => `[${filled(filler, bytes)}]` }
  yield { what: 'an object of numbers', text: () => `{${keyed('0', bytes)}}` }
  yield { what: 'an object of objects', text: () => `{${keyed('{}', bytes)}}` }
  yield { what: 'one name again and again', text: () => `{${filled('"a":0', bytes)}}` }
  yield { what: 'a long string', text: () => `"${'x'.repeat(bytes)}"` }
  yield { what: 'a string of escapes', text: () => `"${'\\u0061'.repeat(bytes / 6)}"` }
  yield { what: 'a string of quotes', text: () => `"${'\\"'.repeat(bytes / 2)}"` }
  yield { what: 'a long number', text: () => '9'.repeat(bytes) }
  yield { what: 'a long fraction', text: () => `0.${'1'.repeat(bytes - 2)}` }
  yield { what: 'nested arrays', text: () => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2) }
  yield { what: 'nested objects', text: () => `${'{"a":'.repeat(bytes / 6)}0${'}'.repeat(bytes / 6)}` }
  yield { what: 'a long name', text: () => `{"${'n'.repeat(bytes - 5)}":0}` }
  yield { what: 'a forbidden name at the end', text: () => `[${filled('{}', bytes - 40)},{"\\u005f_proto__":{}}]` }
}

/** Every place of the schema: names of fields, and 0 for the first element of an array. */
function* placesOf(
  schema: AmplifiedShape,
  resolve: (schema: AmplifiedShape) => AmplifiedShape,
  at: string[] = []
): Generator<{ at: string[]; composite: boolean }> {
  const { properties, items, type } = resolve(schema) as Record<string, never> & {
    properties?: Record<string, AmplifiedShape>
    items?: AmplifiedShape
  }
  yield { at, composite: Boolean(properties ?? items) || [type].flat().includes('object' as never) }
  for (const [name, inner] of Object.entries(properties ?? {})) yield* placesOf(inner, resolve, [...at, name])
  if (items) yield* placesOf(items, resolve, [...at, '0'])
}

/** The JSON text with `text` at `place`. */
function around(place: string[], text: string): string {
  return place.reduceRight((inner, name) => (name === '0' ? `[${inner}]` : `{${JSON.stringify(name)}:${inner}}`), text)
}

/** Bodies of just under `limit` bytes for a schema, one for each of its places and each way to fill it. */
export function* amplified(
  schema: AmplifiedShape,
  limit: number,
  resolve: (schema: AmplifiedShape) => AmplifiedShape = same => same
): Generator<Filling> {
  for (const { at, composite } of [...placesOf(schema, resolve), { at: ['unheardOf'], composite: true }]) {
    for (const { what, text } of composite ? fillings(limit - 200) : scalars(limit - 200))
      yield { what: `${what} at /${at.join('/')}`, text: () => around(at, text()) }
  }
}

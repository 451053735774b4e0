// Values that fit a schema, of the kinds that programs stumble over: texts of many scripts, numbers at their limits,
// absent and null fields. Names that mean something get values that mean something, so that requests get past the
// first look-up.
import fc, { type Arbitrary } from 'fast-check'
import type { DescribedSchema } from './description.ts'

/** The password of the fuzzer's own traders. */
export const PASSWORD = 'correct horse'

/** Values known by the name of a field, from what the fuzzer has seen and made. */
export type KnownValues = (name: string) => readonly unknown[]

const CHARACTERS = [
  ...'abcXYZ019 _-.,:;!?@#%&/\\\'"`<>{}[]()|~^$*+=',
  ...[
    'é',
    'ß',
    'İ',
    'ı',
    'ﬁ',
    '中',
    '日',
    'ف',
    'א',
    '\u200f',
    '\u202e',
    '\u0301',
    '\u00a0',
    '\u2028',
    '\ufeff',
    '\ufffd'
  ],
  ...['🙂', '👩‍👩‍👧', '𝒳', '\u{10ffff}', '\n', '\t', '\r', '\u001b', '\u007f', '\u0085']
]
const AWKWARD = [
  "'; drop table orders; --",
  '<script>alert(1)</script>',
  '{{7*7}}#{7*7}',
  '%s%n%x',
  '../../etc/passwd',
  'null',
  'undefined',
  'NaN',
  '__proto__',
  'constructor',
  '-1',
  '1e400',
  'true'
]

const texts = new Map<string, Arbitrary<string>>()

/** Texts of a length and a pattern. */
function text({ minLength = 0, maxLength = 200, pattern, format }: DescribedSchema): Arbitrary<string> {
  // Made once each: to read a pattern takes longer than to draw from it.
  const key = JSON.stringify([minLength, maxLength, pattern, format])
  const made = texts.get(key) ?? textOf({ minLength, maxLength, pattern, format })
  texts.set(key, made)
  return made
}

function textOf(schema: DescribedSchema): Arbitrary<string> {
  const { minLength, maxLength, pattern, format } = schema as Record<string, never>
  const [least, most] = [Number(minLength), Math.min(Number(maxLength), Number(minLength) + 300)]
  if (format === 'email') {
    const word = fc.stringMatching(/^[a-z0-9]{4,20}$/)
    return fc.tuple(word, word).map(([name, host]) => `${name}@${host}.example`)
  }
  if (format === 'uri') return fc.stringMatching(/^https:\/\/[a-z]{3,20}\.example\/[a-z0-9/]{0,40}$/)
  if (format === 'date-time') {
    const time = fc.date({ min: new Date('1970-01-01'), max: new Date('2100-01-01'), noInvalidDate: true })
    const written = ['Z', '+00:00', '-03:30', '.5Z', 't']
    return fc.tuple(time, fc.constantFrom(...written)).map(([date, form]) => {
      const text = date.toISOString()
      return form === 't' ? text : text.slice(0, 19) + form
    })
  }
  const fits = pattern === undefined ? null : new RegExp(pattern, 'u')
  // A pattern about single characters decides which may be used; any other makes the texts itself.
  const repeated = fits === null || /^\^(\(\?=[^)]*\)+)?\[(\\.|[^\]])*\][*+]\$$/.test(String(pattern))
  const inBounds = (value: string) => [...value].length >= least && [...value].length <= most
  if (fits && !repeated) return fc.stringMatching(fits).filter(inBounds)
  const good = CHARACTERS.filter(character => !fits || fits.test(`a${character}`))
  const awkward = AWKWARD.filter(value => inBounds(value) && (!fits || fits.test(value)))
  const made = fc
    .array(fc.constantFrom(...good), { minLength: least, maxLength: most, size: 'small' })
    // Some characters are several code points.
    .map(characters => [...characters.join('')].slice(0, most).join(''))
    .filter(value => inBounds(value) && (!fits || fits.test(value)))
  return awkward.length === 0 ? made : fc.oneof({ weight: 4, arbitrary: made }, fc.constantFrom(...awkward))
}

function number(schema: DescribedSchema): Arbitrary<number> {
  const { minimum, maximum, exclusiveMinimum, type } = schema as Record<string, number | undefined> & { type: string }
  const least = minimum ?? (exclusiveMinimum === undefined ? -1e9 : exclusiveMinimum + 0.01)
  const most = maximum ?? 1e9
  const whole = { min: Math.ceil(least), max: Math.floor(most) }
  const edges = fc.constantFrom(...[least, most].filter(value => type !== 'integer' || Number.isInteger(value)))
  if (type === 'integer')
    return fc.oneof(edges, fc.integer({ ...whole, max: Math.min(whole.max, whole.min + 50) }), fc.integer(whole))
  // In cents: no amount has more decimals.
  const cents = fc
    .integer({ min: Math.ceil(least * 100), max: Math.min(Math.floor(most * 100), 10_000) })
    .map(n => n / 100)
  return fc.oneof({ weight: 4, arbitrary: cents }, edges)
}

const key = fc.stringMatching(/^[a-z][a-z_]{0,11}$/)
const json = fc.object({ maxDepth: 3, maxKeys: 4, key }).map(plain)

// What survives JSON.
function plain(value: unknown): object {
  return JSON.parse(
    JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? Number(inner) : inner)),
    (_, inner) => (typeof inner === 'string' ? inner.replaceAll('\u0000', '').toWellFormed() : inner)
  )
}

const candles = fc.array(
  fc.tuple(fc.nat(1e6), fc.nat(1000), fc.nat(1000), fc.nat(1000)).map(([epoch, a, b, c]) => {
    const [low = 0, middle = 0, high = 0] = [a, b, c].sort((x, y) => x - y).map(n => 1 + n / 10)
    return { epoch: 1_795_000_000 + epoch * 60, open: middle, high, low, close: middle }
  }),
  { maxLength: 200 }
)

// Accounts of the simulated broker with their tokens, so that orders find somewhere to go.
const accounts = fc.uniqueArray(
  fc
    .tuple(fc.integer({ min: 700_001, max: 700_300 }), fc.constantFrom('DEMO', 'DEMO', 'DEMO', 'REAL'))
    .map(([id, accountMode]) => ({
      accountId: `VRTC${id}`,
      token: `sim-VRTC${id}`,
      accountMode,
      currency: 'USD'
    })),
  { minLength: 1, maxLength: 4, selector: ({ accountId }) => accountId }
)

/** What the description cannot express: fields whose values depend on each other, or mean something. */
const meant: Record<string, Arbitrary<unknown>> = {
  trade_timestamp: fc.constantFrom('2026-11-21T08:00:00Z', '2026-11-21', '1795248000', '2026-11-21 08:00:00.123+02:00'),
  recentCandles: candles,
  metadata: json,
  config: json,
  clientOrderId: fc.uuid(),
  broker_contract_id: fc.nat(1e9).map(n => `fuzz-${n}`),
  tenantSlug: fc.stringMatching(/^[a-z]{6,20}$/),
  duration: fc.integer({ min: 1, max: 12 }),
  // Stays the same, so that the current password is right later too: wrong ones are slowed down. Odd passwords are signed up with.
  currentPassword: fc.oneof({ weight: 3, arbitrary: fc.constant(PASSWORD) }, fc.constantFrom('!', 'not the one', '🙂')),
  newPassword: fc.constant(PASSWORD)
}

/** Values that fit `schema`; `name` is that of the field. */
export function valid(schema: DescribedSchema, known: KnownValues, name = ''): Arbitrary<unknown> {
  if (name === 'accounts') return fc.oneof({ weight: 4, arbitrary: accounts }, bySchema(schema, known, name))
  const seen = known(name).filter(value => !schema.enum || (schema.enum as unknown[]).includes(value))
  const made = meant[name] ?? bySchema(schema, known, name)
  return seen.length === 0 ? made : fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...seen) }, made)
}

function bySchema(schema: DescribedSchema, known: KnownValues, name: string): Arbitrary<unknown> {
  const {
    type,
    enum: values,
    properties,
    items
  } = schema as {
    type?: string | string[]
    enum?: unknown[]
    properties?: Record<string, DescribedSchema>
    items?: DescribedSchema
  }
  if ('const' in schema) return fc.constant(schema.const)
  if (values) return fc.constantFrom(...values)
  if (Array.isArray(type)) {
    const kinds = type.map(one =>
      one === 'null' ? fc.constant(null) : bySchema({ ...schema, type: one }, known, name)
    )
    return fc.oneof(...kinds)
  }
  if (type === 'string') return text(schema)
  if (type === 'integer' || type === 'number') return number(schema)
  if (type === 'boolean') return fc.boolean()
  if (type === 'array' && items) {
    const { minItems = 0, maxItems = 5 } = schema as { minItems?: number; maxItems?: number }
    const bounds = { minLength: minItems, maxLength: Math.min(maxItems, minItems + 5) }
    // Accounts may not be named twice; what else repeats does no harm.
    return fc.uniqueArray(valid(items, known), {
      ...bounds,
      selector: (item: unknown) => (item as { accountId?: string })?.accountId ?? item
    })
  }
  if (properties) {
    const fields = Object.fromEntries(Object.entries(properties).map(([key, field]) => [key, valid(field, known, key)]))
    const { minProperties = 0 } = schema as { minProperties?: number }
    return fc
      .record(fields, { requiredKeys: (schema.required ?? []) as string[], noNullPrototype: true })
      .filter(value => Object.keys(value).length >= minProperties)
  }
  return json
}

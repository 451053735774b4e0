// The classes of requests that nobody sends by mistake.
import fc, { type Arbitrary } from 'fast-check'
import { amplification, charsets, duplicateKeys, nesting, unreadable } from './bodies.ts'
import type { Described, DescribedSchema } from './description.ts'
import type { FuzzKind } from './kinds.ts'
import {
  changed,
  credentials,
  type FuzzCase,
  type FuzzScene,
  type Input,
  identifierIn,
  inputsFor,
  pathOf,
  placesIn,
  rawRequestOf
} from './requests.ts'
import { sharedAccount } from './sharing.ts'

const ASSIGNED = 'assigned-by-the-fuzzer'
const refused = (...only: number[]) => ({ check: 'negative_data_rejection', only })

/** Fields that are not the caller's to set: those of every response, and the usual suspects. */
function unassignable(operation: Described, { description }: FuzzScene): string[] {
  const own = Object.keys((description.resolve(operation.body ?? {}).properties ?? {}) as object)
  const answered = description.operations.flatMap(({ answers }) =>
    Object.keys((description.resolve(answers[200]?.schema ?? {}).properties ?? {}) as object)
  )
  const usual = [
    'partner_id',
    'id',
    'isAdmin',
    'role',
    'phase',
    'origin',
    'feePct',
    'passwordHash',
    'constructor',
    'toString'
  ]
  return [...new Set([...answered, ...usual])].filter(name => !own.includes(name))
}

const massAssignment: FuzzKind = (operation, scene) => {
  if (!operation.body) return null
  const closed = scene.description.resolve(operation.body).additionalProperties === false
  const names = unassignable(operation, scene)
  return fc
    .tuple(inputsFor(operation, scene), fc.subarray(names, { minLength: 1, maxLength: 12 }))
    .map(([input, fields]) => {
      const more = Object.fromEntries(fields.map(name => [name, ASSIGNED]))
      const body = { ...(input.body as object), ...more }
      return {
        operation,
        kind: 'mass-assignment',
        raw: rawRequestOf(operation, { ...input, body }, credentials(operation, scene)),
        secret: ASSIGNED,
        expected: closed ? refused(400) : { check: 'positive_data_acceptance', never: [400, 413, 415] }
      }
    })
}

// What is another partner's is as if it were not there. A filter fits nothing; the exchange would make a trader
// of one's own of the name, and an admin key acts for the platform on anybody's purchase.
const crossed: FuzzKind = (operation, scene) => {
  const [fine, owns] = [
    ['listOrders', 'listEvents', 'listRequests'],
    ['exchangeTokens', 'refundPurchase']
  ]
  const { others } = scene
  const identifier = identifierIn(operation.path)
  const inPath = Object.keys(operation.params).length > 0 && others[identifier]
  const body = operation.body ? scene.description.resolve(operation.body) : {}
  const fields = [
    ...(inPath ? [['params', Object.keys(operation.params)[0] as string, identifier]] : []),
    ...Object.keys(operation.query)
      .filter(name => others[name])
      .map(name => ['query', name, name]),
    // A clientOrderId in a body is the caller's own, whoever else has used the same.
    ...Object.keys((body.properties ?? {}) as object)
      .filter(name => others[name] && name !== 'clientOrderId')
      .map(name => ['body', name, name])
  ] as [string, string, string][]
  if (fields.length === 0 || owns.includes(operation.name)) return null
  return fc
    .tuple(inputsFor(operation, scene), fc.constantFrom(...fields), fc.nat(1000), fc.noBias(fc.uuid()))
    .map(([input, [part, name, kind], pick, clientOrderId]) => {
      const values = others[kind] as string[]
      // Another filter beside it would hide what leaks.
      const alone = part === 'query' ? { ...input, query: {} } : input
      const naming = changed(alone, [part, name], values[pick % values.length]) as Input
      // Values that are preferred come again: with the one of an order before it the response would be about that order.
      const asked = Object.hasOwn((body.properties ?? {}) as object, 'clientOrderId')
        ? (changed(naming, ['body', 'clientOrderId'], clientOrderId) as Input)
        : naming
      return {
        operation,
        kind: 'other-partners',
        raw: rawRequestOf(operation, asked, credentials(operation, scene)),
        ...(fine.includes(operation.name) ? {} : { expected: { check: 'other_partners', only: [404, 422] } })
      }
    })
}

const NUMBERS = [
  '1e308',
  '-1e308',
  '1e400',
  '-1e400',
  '9'.repeat(400),
  '0.1'.padEnd(400, '3'),
  '9007199254740993',
  '-0',
  '1e-320',
  '4.9e-324',
  '1E+2',
  '2147483648',
  '9223372036854775808'
]

const hugeNumbers: FuzzKind = (operation, scene) => {
  const body = operation.body ? scene.description.resolve(operation.body) : undefined
  const places = (value: unknown) => placesIn(value).filter(place => typeof at(value, place) === 'number')
  const queries = Object.keys(operation.query)
  if (!body && queries.length === 0) return null
  return fc
    .tuple(inputsFor(operation, scene), fc.constantFrom(...NUMBERS), fc.nat(1000))
    .map(([input, written, pick]) => {
      const headers = credentials(operation, scene)
      const found = body ? places(input.body) : []
      const ask = { operation, kind: 'huge-numbers' }
      const place = found[pick % Math.max(1, found.length)]
      if (place === undefined && queries.length > 0) {
        const name = queries[pick % queries.length] as string
        return {
          ...ask,
          raw: rawRequestOf(operation, { ...input, query: { ...input.query, [name]: written } }, headers)
        }
      }
      // Written as it is: JSON.stringify has no words for most of these.
      const marked = place ? changed(input.body, place, '@number@') : { ...(input.body as object), number: '@number@' }
      const text = JSON.stringify(marked).replace('"@number@"', written)
      const raw = rawRequestOf(operation, { ...input, body: {} }, headers)
      return { ...ask, raw: { ...raw, body: Buffer.from(text) } }
    })
}

const at = (value: unknown, place: (string | number)[]): unknown =>
  place.reduce<unknown>((part, key) => (part as Record<string | number, unknown>)[key], value)

const unstorable: FuzzKind = (operation, scene) => {
  const texts = Object.entries(operation.query).filter(([, schema]) => schema.type === 'string' && !schema.enum)
  if (!operation.body && texts.length === 0) return null
  return fc
    .tuple(
      inputsFor(operation, scene),
      fc.constantFrom('\u0000', 'a\u0000b', '\ud800', 'a\udfffb', '\udc00\ud800'),
      fc.nat(1000)
    )
    .map(([input, text, pick]) => {
      const ask = { operation, kind: 'unstorable-text', expected: refused(400) }
      const headers = credentials(operation, scene)
      if (operation.body) {
        const places = placesIn(input.body).filter(place => typeof at(input.body, place) === 'string')
        const place = places[pick % Math.max(1, places.length)] ?? ['unheardOf']
        return { ...ask, raw: rawRequestOf(operation, { ...input, body: changed(input.body, place, text) }, headers) }
      }
      const [name] = texts[pick % texts.length] as [string, DescribedSchema]
      return {
        ...ask,
        raw: rawRequestOf(operation, { ...input, query: { ...input.query, [name]: 'a\u0000' } }, headers)
      }
    })
}

const duplicateQuery: FuzzKind = (operation, scene) => {
  const names = Object.keys(operation.query)
  if (names.length === 0) return null
  return fc.tuple(inputsFor(operation, scene), fc.constantFrom(...names)).map(([input, name]) => {
    const raw = rawRequestOf(operation, input, credentials(operation, scene))
    const both = `${name}=1&${encodeURIComponent(name)}=2`
    const path = raw.path.includes('?') ? `${raw.path}&${both}` : `${raw.path}?${both}`
    return { operation, kind: 'duplicate-query', raw: { ...raw, path }, expected: refused(400) }
  })
}

const ESCAPES = [
  '%2F',
  '%2f..%2f',
  '%00',
  '%',
  '%ZZ',
  '%E0%80%80',
  '%C0%AF',
  '%25',
  '%20',
  '%0d%0aX-Injected:%201',
  '..',
  '.',
  '%2e%2e',
  '%FF',
  '%ED%A0%80',
  ';a=b',
  '%3F',
  '%23',
  'a'.repeat(3000)
]

const paths: FuzzKind = (operation, scene) =>
  fc.tuple(inputsFor(operation, scene), fc.constantFrom(...ESCAPES), fc.nat(3)).map(([input, twist, way]): FuzzCase => {
    const good = pathOf(operation, { ...input, query: {} })
    const names = Object.keys(operation.params)
    const twisted = [
      () => (names.length > 0 ? operation.path.replaceAll(/\{\w+\}/g, twist) : `${good}/${twist}`),
      () => `${good}${twist}`,
      () => good.replace(/[a-z](?=[^/]*$)/, letter => `%${letter.charCodeAt(0).toString(16)}`),
      () => `/${twist}${good}`
    ][way] as () => string
    const raw = rawRequestOf(operation, input, credentials(operation, scene))
    return { operation, kind: 'percent-encoded-paths', raw: { ...raw, path: twisted() }, stray: true }
  })

const HEADERS: Record<string, string>[] = [
  { 'x-request-id': 'a b' },
  { 'x-request-id': 'x'.repeat(5000) },
  { 'x-request-id': 'good-request-id' },
  { traceparent: '00-00000000000000000000000000000000-0000000000000000-00' },
  { traceparent: '%'.repeat(500) },
  { cookie: `trader_session=${'a=b;'.repeat(500)}` },
  { 'x-trader-session': '\u00e9\u00ff' },
  { origin: 'https://elsewhere.example', 'sec-fetch-site': 'cross-site' },
  { 'x-forwarded-for': '1.2.3.4, 5.6.7.8', 'x-forwarded-proto': 'gopher', 'x-forwarded-host': 'evil.example' },
  { 'x-http-method-override': 'DELETE' },
  { host: 'evil.example' },
  { accept: 'text/html', 'accept-encoding': 'nonsense', 'accept-language': '%' },
  { range: 'bytes=0-1', 'if-none-match': '*', 'if-modified-since': 'never' }
]

const oddHeaders: FuzzKind = (operation, scene) =>
  fc.tuple(inputsFor(operation, scene), fc.constantFrom(...HEADERS)).map(([input, headers]) => ({
    operation,
    kind: 'odd-headers',
    raw: rawRequestOf(operation, input, { ...credentials(operation, scene), ...headers })
  }))

export const hostile: Record<string, (operation: Described, scene: FuzzScene) => Arbitrary<FuzzCase> | null> = {
  'mass-assignment': massAssignment,
  'other-partners': crossed,
  'huge-numbers': hugeNumbers,
  'unstorable-text': unstorable,
  'duplicate-keys': duplicateKeys,
  'deep-nesting': nesting,
  amplification,
  'shared-account': sharedAccount,
  'wrong-charset': charsets,
  unreadable,
  'duplicate-query': duplicateQuery,
  'percent-encoded-paths': paths,
  'odd-headers': oddHeaders
}

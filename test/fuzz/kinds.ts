// The classes of requests every operation gets: what fits its description, what does not, and the wrong credentials
// and methods. The hostile ones are in hostile.ts.
import fc, { type Arbitrary } from 'fast-check'
import type { Described } from './description.ts'
import {
  changed,
  credentials,
  endsItsSession,
  type FuzzCase,
  type FuzzScene,
  type Input,
  inputsFor,
  pathOf,
  placesIn,
  rawRequestOf
} from './requests.ts'

/** Makes requests of one class for an operation; null where the class means nothing to it. */
export type FuzzKind = (operation: Described, scene: FuzzScene) => Arbitrary<FuzzCase> | null

/** What means that the request itself is at fault. */
export const REFUSALS = [400, 401, 403, 405, 408, 413, 415, 431] as const

// The session may have been ended by an earlier request of such an operation, and a password may be wrong.
const mayBeUnknown = (operation: Described) =>
  endsItsSession(operation) || operation.answers[401]?.codes.includes('INVALID_CREDENTIALS')

const fits: FuzzKind = (operation, scene) =>
  fc.nat(1000).chain(pick =>
    inputsFor(operation, scene, pick).map(input => ({
      operation,
      kind: 'valid',
      raw: rawRequestOf(operation, input, credentials(operation, scene, pick)),
      expected: {
        check: 'positive_data_acceptance',
        never: mayBeUnknown(operation) ? REFUSALS.filter(status => status !== 401) : REFUSALS
      }
    }))
  )

const WRONG = [
  ...[
    null,
    true,
    0,
    -1,
    1.5,
    1e308,
    -1e308,
    2 ** 53,
    '',
    ' ',
    'x',
    '0',
    'x'.repeat(5000),
    '\u0007',
    '🙂',
    [],
    {},
    [[]]
  ],
  ...[{ a: 1 }, ['x'], 'TRUE', '2026-13-45', 'not-an-e-mail', 'javascript:alert(1)', undefined]
]

const breaks: FuzzKind = (operation, scene) => {
  const { body: schema, query } = operation
  const names = Object.keys(query)
  if (!schema && names.length === 0) return null
  const { problems } = scene.description
  return fc
    .tuple(inputsFor(operation, scene), fc.nat(1000), fc.constantFrom(...WRONG), fc.boolean())
    .map(([input, pick, wrong, inBody]) => {
      const headers = credentials(operation, scene, 0)
      const ask = { operation, kind: 'broken' }
      const refused = { check: 'negative_data_rejection', only: [400] }
      if (schema && (inBody || names.length === 0)) {
        const places = [[], ...placesIn(input.body)]
        const body = changed(input.body, places[pick % places.length] as string[], wrong)
        const raw = rawRequestOf(operation, { ...input, body }, headers)
        // A body taken away altogether is one that is not there, and so `{}`.
        const isWrong = problems(schema, body === undefined ? {} : body).length > 0
        return isWrong ? { ...ask, raw, expected: refused } : { ...ask, raw }
      }
      const name = names[pick % names.length] as string
      const value = String(wrong)
      const read = query[name]?.type === 'integer' && value.trim() !== '' && Number.isFinite(+value) ? +value : value
      const raw = rawRequestOf(operation, { ...input, query: { ...input.query, [name]: value } }, headers)
      const isWrong = wrong !== undefined && problems(query[name] ?? {}, read).length > 0
      return isWrong ? { ...ask, raw, expected: refused } : { ...ask, raw }
    })
}

const missing: FuzzKind = (operation, scene) => {
  const body = operation.body ? scene.description.resolve(operation.body) : {}
  const required = (body.required ?? []) as string[]
  const names = [...operation.requiredQuery.map(name => ['query', name]), ...required.map(name => ['body', name])]
  if (names.length === 0) return null
  return fc.tuple(inputsFor(operation, scene), fc.constantFrom(...names)).map(([input, place]) => ({
    operation,
    kind: 'missing',
    raw: rawRequestOf(operation, changed(input, place, undefined) as Input, credentials(operation, scene)),
    expected: { check: 'negative_data_rejection', only: [400] }
  }))
}

const strangers: FuzzKind = (operation, scene) => {
  const right = credentials(operation, scene)
  const all: Record<string, string>[] = [
    {},
    { authorization: 'Bearer' },
    { authorization: `Basic ${scene.key}` },
    { authorization: `Bearer ${scene.key.slice(0, -1)}0` },
    { authorization: 'Bearer service_live_0123456789abcdef_0123456789abcdef0123456789abcdef0123456789abcdef' },
    { authorization: `Bearer ${'x'.repeat(3000)}` },
    { cookie: 'service_session=Zm9yIHRoZSBleGFtcGxlIG9ubHksIG5vdCBhIHRva2V' },
    operation.auth === 'session' ? { authorization: `Bearer ${scene.key}` } : { cookie: scene.cookie },
    ...(operation.auth === 'trader' || operation.actor ? [{ ...right, 'x-trader-session': 'nobody' }] : []),
    ...(operation.auth === 'trader' ? [{ authorization: `Bearer ${scene.key}` }] : [])
  ]
  const none = all.filter(headers => JSON.stringify(headers) !== JSON.stringify(right))
  const scoped = operation.answers[403]?.codes.includes('INSUFFICIENT_SCOPE')
  const keys = scene.badKeys.filter(({ needs }) => operation.auth !== 'session' && (needs === undefined || scoped))
  const options = [
    ...none.map(headers => ({ headers, status: 401 })),
    ...keys.map(({ key, status }) => ({ headers: { ...right, authorization: `Bearer ${key}` }, status }))
  ]
  return fc.tuple(inputsFor(operation, scene), fc.constantFrom(...options)).map(([input, { headers, status }]) => ({
    operation,
    kind: 'credentials',
    raw: rawRequestOf(operation, input, headers),
    expected: { check: 'ignored_auth', only: [status] }
  }))
}

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'QUERY', 'MKCOL']

const methods: FuzzKind = (operation, scene) => {
  const taken = scene.description.methods.get(operation.path) ?? []
  const others = METHODS.filter(name => !taken.includes(name) && !(name === 'HEAD' && taken.includes('GET')))
  return fc
    .tuple(inputsFor(operation, scene), fc.constantFrom(...others), fc.boolean())
    .map(([input, method, named]) => ({
      operation,
      kind: 'methods',
      raw: { method, path: pathOf(operation, input), headers: named ? credentials(operation, scene) : {} },
      expected: { check: 'unsupported_method', only: [405] },
      stray: true
    }))
}

export const kinds: Record<string, FuzzKind> = { valid: fits, broken: breaks, missing, credentials: strangers, methods }

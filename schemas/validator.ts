// The one Ajv instance (JSON Schema 2020-12). A schema becomes a check that throws VALIDATION_FAILED
// with one entry per violation, so that a caller sees everything that is wrong at once.

import type { ErrorObject } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { ApiError } from './errors.ts'
import type { Schema } from './fields.ts'
import { unstorableText } from './text.ts'

// Past this many entries a caller learns nothing more, and a hostile body only makes us work.
const MAX_DETAILS = 50

const options = {
  allErrors: true,
  useDefaults: true,
  strict: true,
  allowUnionTypes: true,
  strictTypes: false,
  strictRequired: false
} as const

const plain = new Ajv2020(options)
// Query strings are text: numbers and booleans in them are read as such.
const coercing = new Ajv2020({ ...options, coerceTypes: true })
for (const ajv of [plain, coercing]) {
  formats.default(ajv)
  // Words about a schema, for the description only.
  ajv.addVocabulary(['example', 'x-internal'])
}

const compiled = new WeakMap<object, ReturnType<Ajv2020['compile']>>()
const compiledCoercing = new WeakMap<object, ReturnType<Ajv2020['compile']>>()

function compile(ajv: Ajv2020, cache: typeof compiled, schema: Schema) {
  const known = cache.get(schema)
  if (known) return known
  const check = ajv.compile(schema)
  cache.set(schema, check)
  return check
}

function describe(error: ErrorObject, root: string): { path: string; message: string } {
  const at = root + error.instancePath
  if (error.keyword === 'required') return { path: `${at}/${error.params.missingProperty}`, message: 'is required' }
  if (error.keyword === 'additionalProperties') {
    return { path: `${at}/${error.params.additionalProperty}`, message: 'is not a known property' }
  }
  if (error.keyword === 'enum') return { path: at, message: `must be one of ${error.params.allowedValues.join(', ')}` }
  return { path: at, message: error.message ?? 'is invalid' }
}

/** Violations of `schema` in `value`, empty when there are none. Fills in defaults. */
export function violations(schema: Schema, value: unknown, root = ''): { path: string; message: string }[] {
  const check = compile(plain, compiled, schema)
  if (check(value)) return []
  return (check.errors ?? []).slice(0, MAX_DETAILS).map(error => describe(error, root))
}

/**
 * Checks `value` against `schema`, and that its texts can be stored, and returns it typed; defaults are filled in.
 * `root` names the part of the request in the paths of the details (`/body`, `/query`, `/path`). Throws ApiError
 * VALIDATION_FAILED.
 */
export function check<T>(schema: Schema, value: unknown, root = '', { coerce = false } = {}): T {
  const validate = coerce ? compile(coercing, compiledCoercing, schema) : compile(plain, compiled, schema)
  const details = validate(value)
    ? [...(coerce ? endless(value, root) : []), ...unstorableText(value, root, MAX_DETAILS)]
    : (validate.errors ?? []).slice(0, MAX_DETAILS).map(error => describe(error, root))
  if (details.length === 0) return value as T
  const first = details[0]
  throw new ApiError('VALIDATION_FAILED', `${first?.path || 'The request'} ${first?.message ?? 'is invalid'}`, {
    extras: { details }
  })
}

// Ajv reads a number past all numbers as Infinity, and then asks nothing more of it.
function endless(value: unknown, root: string): { path: string; message: string }[] {
  return Object.entries(value as object)
    .filter(([, field]) => typeof field === 'number' && !Number.isFinite(field))
    .map(([name]) => ({ path: `${root}/${name}`, message: 'must be a number there is' }))
}

/** Whether `value` matches `schema`. */
export function matches(schema: Schema, value: unknown): boolean {
  return compile(plain, compiled, schema)(value) as boolean
}

// The one Ajv instance (JSON Schema 2020-12). A schema becomes a check that throws VALIDATION_FAILED with one entry per
// violation, so that a caller sees what is wrong at once. Sizes are checked first, and no error outlives its check: the
// compiled function would keep the last ones, and with them the request they came from.

import type { ErrorObject, Options, ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { ApiError } from '../errors/errors.ts'
import type { Schema } from '../fields/fields.ts'
import { oversized, type Violation } from '../fields/sizes.ts'
import { unstorableText } from '../fields/text.ts'
import { addLengths } from './lengths.ts'
import { wordsOf } from './words.ts'

/** Entries of `details`; more of them would not help a caller. */
export const MAX_DETAILS = 20
/** What `violations` counts to. */
const MAX_VIOLATIONS = 1000
// A path may hold the name of a field, which is the caller's.
const MAX_PATH_LENGTH = 200

const options = {
  allErrors: true,
  useDefaults: true,
  strict: true,
  // A test checks every schema with the meta-schema (test/request/words.test.ts). Doing it here, and optimizing the code of
  // a check that runs in a microsecond, would take two thirds of the time of compiling, at every start of a process.
  validateSchema: false,
  code: { optimize: false },
  allowUnionTypes: true,
  strictTypes: false,
  strictRequired: false
} as const

const plain = checks(options)
// Settings and options of commands are text: numbers and booleans in them are read as such, in any spelling of JavaScript.
const coercing = checks({ ...options, coerceTypes: true })

/** The compiled checks of schemas. Most processes need one of the two instances of Ajv at their start. */
function checks(settings: Options): (schema: Schema) => ValidateFunction {
  const compiled = new WeakMap<object, ValidateFunction>()
  let ajv: Ajv2020 | undefined
  return schema => {
    const known = compiled.get(schema)
    if (known) return known
    ajv ??= openAjv(settings)
    const check = ajv.compile(schema)
    compiled.set(schema, check)
    return check
  }
}

function openAjv(settings: Options): Ajv2020 {
  const ajv = new Ajv2020(settings)
  formats.default(ajv)
  addLengths(ajv)
  // Words about a schema, for the description only.
  ajv.addVocabulary(['example', 'x-internal'])
  return ajv
}

function describe(error: ErrorObject, root: string): Violation {
  const at = root + error.instancePath
  if (error.keyword === 'required') return { path: `${at}/${error.params.missingProperty}`, message: 'is required' }
  if (error.keyword === 'additionalProperties') {
    const path = `${at}/${error.params.additionalProperty}`
    const shown = path.length > MAX_PATH_LENGTH ? `${path.slice(0, MAX_PATH_LENGTH).toWellFormed()}…` : path
    return { path: shown, message: 'is not a known property' }
  }
  return { path: at, message: wordsOf(error) ?? error.message ?? 'is invalid' }
}

interface ValidationOutcome {
  /** The first violations, at most MAX_DETAILS. */
  details: Violation[]
  /** All of them, at most MAX_VIOLATIONS. */
  violations: number
}

/** Runs the compiled check over a value whose sizes are within bounds. Fills in defaults. */
function run(schema: Schema, value: unknown, root: string, coerce: boolean): ValidationOutcome {
  const large = oversized(schema, value, root, MAX_DETAILS)
  if (large.length > 0) return { details: large, violations: large.length }
  const validate = (coerce ? coercing : plain)(schema)
  if (validate(value)) return { details: [], violations: 0 }
  const found = withoutEchoes(validate.errors ?? [])
  validate.errors = null
  return {
    details: found.slice(0, MAX_DETAILS).map(error => describe(error, root)),
    violations: Math.min(MAX_VIOLATIONS, found.length)
  }
}

/** An empty text has no character that a pattern could refuse: where it must not be empty, that is its one violation. */
function withoutEchoes(found: ErrorObject[]): ErrorObject[] {
  const empty = new Set(
    found.filter(({ keyword, params }) => keyword === 'minLength' && params.limit === 1).map(at => at.instancePath)
  )
  return empty.size === 0 ? found : found.filter(error => error.keyword !== 'pattern' || !empty.has(error.instancePath))
}

/** Violations of `schema` in `value`, at most MAX_DETAILS, empty when there are none. Fills in defaults. */
export function violations(schema: Schema, value: unknown, root = ''): Violation[] {
  return run(schema, value, root, false).details
}

/**
 * Checks `value` against `schema`, and that its texts can be stored, and returns it typed; defaults are filled in.
 * `root` names the part of the request in the paths of the details (`/body`, `/query`, `/path`). Throws ApiError
 * VALIDATION_FAILED.
 */
export function check<T>(schema: Schema, value: unknown, root = '', { coerce = false } = {}): T {
  const blank = coerce ? blankFields(value) : []
  let outcome = run(schema, value, root, coerce)
  if (outcome.violations === 0) {
    const details = [...(coerce ? noNumbers(value, { root, blank }) : []), ...unstorableText(value, root, MAX_DETAILS)]
    outcome = { details: details.slice(0, MAX_DETAILS), violations: details.length }
  }
  if (outcome.violations === 0) return value as T
  throw invalid(outcome.details, outcome.violations)
}

/** VALIDATION_FAILED over these details; `violations` is their number where there are more than are listed. */
export function invalid(details: Violation[], violations = details.length): ApiError {
  const [first] = details
  return new ApiError('VALIDATION_FAILED', `${first?.path || 'The request'} ${first?.message ?? 'is invalid'}`, {
    extras: { details: details.slice(0, MAX_DETAILS), violations: Math.min(MAX_VIOLATIONS, violations) }
  })
}

const spellings: Readonly<Record<string, RegExp>> = {
  integer: /^-?\d+$/,
  number: /^-?\d+(\.\d+)?$/,
  boolean: /^(true|false)$/
}

/**
 * The parameters of a query as values of their types: decimal digits are a number, `true` and `false` a boolean. What is spelled in
 * another way (0x10, 1e2, +5, 5.0 for a whole number, a blank) stays text, and the check refuses it.
 */
export function readQuery(schema: Schema, texts: Readonly<Record<string, string>>): Record<string, unknown> {
  const properties = (schema.properties ?? {}) as Record<string, { type?: string }>
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => {
      const type = properties[name]?.type ?? 'string'
      if (!spellings[type]?.test(text)) return [name, text]
      return [name, type === 'boolean' ? text === 'true' : Number(text)]
    })
  )
}

function blankFields(value: unknown): string[] {
  return Object.entries(value as object)
    .filter(([, field]) => typeof field === 'string' && field.trim() === '')
    .map(([name]) => name)
}

// Ajv reads a number past all numbers as Infinity, and a blank as 0, and checks neither further.
function noNumbers(value: unknown, { root, blank }: { root: string; blank: string[] }): Violation[] {
  return Object.entries(value as object)
    .filter(([name, field]) => typeof field === 'number' && (!Number.isFinite(field) || blank.includes(name)))
    .map(([name]) => ({ path: `${root}/${name}`, message: 'must be a number there is' }))
}

/** Whether `value` matches `schema`. */
export function matches(schema: Schema, value: unknown): boolean {
  return run(schema, value, '', false).violations === 0
}

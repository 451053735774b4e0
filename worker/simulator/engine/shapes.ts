// Shapes of requests: the parts of their schemas, and the check, compiled at the first request of a call. One row per
// call lists which fields it may carry, which scope it needs, and which budget it is counted in.
import { Ajv, type ValidateFunction } from 'ajv'
import type { TokenScope } from './accounts.ts'
import type { CallClass } from './quota.ts'

type Field = Record<string, unknown>

export interface CallRule {
  fields: Record<string, Field>
  required: string[]
  /** Scopes of which any one suffices; null: no authorisation needed. */
  scopes: TokenScope[] | null
  /** Whether the call may name the account it is about. */
  loginid: boolean
  /** Budget; null: not counted. */
  class: CallClass | null
  /** The message type of its responses, where it differs from the call's name. */
  msgType?: string
}

/**
 * What is wrong with a request of that call, by field; null when nothing is. Lenient checks turn numbers into
 * strings and back where the schema wants the other, in place, as the live broker does.
 */
export type Complaints = (
  call: string,
  request: Record<string, unknown>,
  mode: 'strict' | 'lenient'
) => Record<string, string> | null

/** The check of a dialect's calls. */
export function complaintsOf(calls: Record<string, CallRule>): Complaints {
  const checks = { strict: new Map<string, ValidateFunction>(), lenient: new Map<string, ValidateFunction>() }
  return (call, request, mode) => {
    let check = checks[mode].get(call)
    if (!check) {
      check = compilers[mode].compile(schemaOf(calls[call] as CallRule))
      checks[mode].set(call, check)
    }
    if (check(request)) return null
    const details: Record<string, string> = {}
    for (const error of check.errors ?? []) {
      const params = error.params as { missingProperty?: string; additionalProperty?: string }
      const inside = error.instancePath.split('/').slice(1)
      const path = [...inside, params.missingProperty ?? params.additionalProperty ?? []].flat().join('/')
      details[path || call] ??=
        error.keyword === 'additionalProperties' ? 'Properties not allowed.' : String(error.message)
    }
    return details
  }
}

/** For the schemas of the simulated broker. A test checks them with the meta-schema, whose compilation takes 45 ms of CPU. */
export const simulatorAjv = { allErrors: true, allowUnionTypes: true, validateSchema: false } as const

const compilers = {
  strict: new Ajv(simulatorAjv),
  lenient: new Ajv({ ...simulatorAjv, coerceTypes: true })
}

function schemaOf(rule: CallRule): object {
  const loginid: Record<string, Field> = rule.loginid ? { loginid: matching('^[A-Za-z]+[0-9]+$') } : {}
  return object({ ...rule.fields, ...loginid, passthrough: { type: 'object' }, req_id: integer }, rule.required)
}

export const number = { type: 'number' }
export const integer = { type: 'integer' }
export const positive = { type: 'number', minimum: 0 }
export const flag = oneOf(1)
export const bit = oneOf(0, 1)
export const symbol = matching('^\\w{2,30}$')
export const currency = matching('^[a-zA-Z0-9]{2,20}$')
export const streamId = matching('^[\\w-]{32,128}$')
export const barrier = matching('^(?=.{1,20}$)[+-]?[0-9]+\\.?[0-9]*$')
const day = '[0-9]{4}-(0?[1-9]|1[012])-(0?[1-9]|[12][0-9]|3[01])'
export const date = matching(`^(${day}|[0-9]{1,10})$`)
export const offset = { type: 'integer', minimum: 0 }

export function object(properties: Record<string, Field>, required: string[] = []): Field {
  return { type: 'object', properties, required, additionalProperties: false }
}

export function oneOf(...values: (string | number)[]): Field {
  return { type: typeof values[0] === 'number' ? 'integer' : 'string', enum: values }
}

export function matching(pattern: string): Field {
  return { type: 'string', pattern }
}

export function epoch(minimum: number): Field {
  return { type: 'integer', minimum, maximum: 9_999_999_999 }
}

// The description as the service serves it, and nothing else: operations with their requests, responses and
// credentials. The fuzzer knows of the rows only what a partner can read.
import { openValidator } from '../support/openapi.ts'

export type DescribedSchema = { [key: string]: unknown }

export interface Described {
  name: string
  method: string
  /** With parameters in braces. */
  path: string
  params: Record<string, DescribedSchema>
  query: Record<string, DescribedSchema>
  requiredQuery: string[]
  body: DescribedSchema | undefined
  /** Bytes a body may have, as the description of the body has it. */
  bodyLimit: number | undefined
  answers: Record<string, DescribedAnswer>
  auth: 'none' | 'key' | 'session' | 'trader'
  /** The trader's session may come with the key. */
  actor: boolean
}

export interface DescribedAnswer {
  schema: DescribedSchema
  headers: Record<string, { required: boolean; pattern: RegExp | undefined }>
  /** Codes of the error envelope; empty for a success. */
  codes: string[]
}

export interface Description {
  operations: Described[]
  /** The methods of each path. */
  methods: Map<string, string[]>
  /** What in a value breaks a schema of the document. */
  problems(schema: DescribedSchema, value: unknown): string[]
  /** A schema with what it refers to in place. */
  resolve(schema: DescribedSchema): DescribedSchema
}

interface Raw {
  paths: Record<string, Record<string, RawOperation>>
}
interface RawOperation {
  operationId: string
  parameters?: { name: string; in: string; required: boolean; schema: DescribedSchema }[]
  requestBody?: { description?: string; content: Record<string, { schema: DescribedSchema }> }
  responses: Record<string, DescribedSchema>
  security: Record<string, unknown>[]
}
interface RawAnswer {
  headers?: Record<string, DescribedSchema>
  content: Record<string, { schema: DescribedSchema; examples?: Record<string, unknown> }>
}

/** The credential that the names of a row of `security` mean; a row that is missing needs none. */
function authOf(schemes: string[] | undefined): Described['auth'] {
  if (schemes === undefined) return 'none'
  if (schemes.includes('session')) return 'session'
  return schemes.includes('trader') ? 'trader' : 'key'
}

/** Reads the document at `address` with a key. */
export async function readDescription(address: string, key: string): Promise<Description> {
  const answer = await fetch(`${address}/v1/_spec`, { headers: { authorization: `Bearer ${key}` } })
  if (answer.status !== 200) throw new Error(`GET /v1/_spec answered ${answer.status}`)
  const document = (await answer.json()) as Raw
  const resolve = (schema: DescribedSchema) => follow(document, schema)
  const operations = Object.entries(document.paths).flatMap(([path, { parameters: _, ...methods }]) =>
    Object.entries(methods).map(([method, operation]) => read(path, method.toUpperCase(), operation, resolve))
  )
  return {
    // GET /status needs no key and may be a page: most classes of requests are about neither.
    operations: operations.filter(({ auth }) => auth !== 'none'),
    methods: new Map(
      Object.entries(document.paths).map(([path, { parameters: _, ...methods }]) => [
        path,
        Object.keys(methods).map(method => method.toUpperCase())
      ])
    ),
    problems: openValidator(document).problems,
    resolve
  }
}

function read(
  path: string,
  method: string,
  raw: RawOperation,
  resolve: (schema: DescribedSchema) => DescribedSchema
): Described {
  const parameters = raw.parameters ?? []
  const named = (place: string) =>
    Object.fromEntries(parameters.filter(({ in: at }) => at === place).map(({ name, schema }) => [name, schema]))
  const schemes = raw.security.map(Object.keys)
  return {
    name: raw.operationId,
    method,
    path,
    params: named('path'),
    query: named('query'),
    requiredQuery: parameters.filter(({ in: at, required }) => at === 'query' && required).map(({ name }) => name),
    body: raw.requestBody?.content['application/json']?.schema,
    bodyLimit: limitIn(raw.requestBody?.description),
    answers: Object.fromEntries(
      Object.entries(raw.responses).map(([status, response]) => [
        status,
        readAnswer(resolve(response) as never, resolve)
      ])
    ),
    auth: authOf(schemes[0]),
    actor: schemes.length > 1
  }
}

function limitIn(description = ''): number | undefined {
  const [, kib] = /at most (\d+) KiB/.exec(description) ?? []
  return kib === undefined ? undefined : Number(kib) * 1024
}

function readAnswer(
  { headers = {}, content }: RawAnswer,
  resolve: (schema: DescribedSchema) => DescribedSchema
): DescribedAnswer {
  const { schema = {}, examples = {} } = content['application/json'] ?? {}
  return {
    schema,
    // One example for each code, under its name.
    codes: 'allOf' in schema ? Object.keys(examples) : [],
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, header]) => {
        const { required = false, schema: field = {} } = resolve(header) as {
          required?: boolean
          schema?: DescribedSchema
        }
        return [name, { required, pattern: field.pattern ? new RegExp(field.pattern as string, 'u') : undefined }]
      })
    )
  }
}

// Requests do not refer in circles, so what is referred to can be put in place.
function follow(document: object, part: DescribedSchema): DescribedSchema {
  const walk = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(walk)
    if (value === null || typeof value !== 'object') return value
    const { $ref } = value as { $ref?: string }
    if ($ref === undefined) return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, walk(inner)]))
    const found = $ref
      .slice(2)
      .split('/')
      .reduce<unknown>(
        (at, name) => (at as DescribedSchema)[name.replaceAll('~1', '/').replaceAll('~0', '~')],
        document
      )
    return walk(found)
  }
  return walk(part) as DescribedSchema
}

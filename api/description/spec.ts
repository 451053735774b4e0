// The description: rows to OpenAPI 3.1, and GET /v1/_spec. JSON Schema 2020-12 is the schema language of
// both, so nothing is translated.
import type { Schema } from '../../schemas/fields/fields.ts'
import { bodyLimit } from '../../schemas/fields/sizes.ts'
import type { Operation } from '../operation.ts'
import { deprecationText } from '../request/deprecation.ts'
import { takesKey } from '../request/idempotency.ts'
import { PAGE_WEIGHT } from '../request/limit.ts'
import { Reply } from '../request/respond.ts'
import { statusPath } from '../status.ts'
import { ErrorEnvelope, ErrorResponses, exampleOfCode } from './errors.ts'
import { guides, tags } from './guides.ts'
import { deprecationHeaders, endUserIp, headers, headersOf, idempotencyKey, requestHeaders } from './headers.ts'
import { samplesOf } from './samples.ts'
import { Components, exampleOf } from './schemas.ts'
import { describeWebhooks } from './webhooks.ts'

/** The operation that describes `rows`. They are read at the first request, as the operation is one of them. */
export const specOperation = (rows: () => Operation[]): Operation<object> => ({
  name: 'getSpec',
  weight: 10,
  method: 'GET',
  path: '/v1/_spec',
  tag: 'Usage',
  summary: 'This description',
  description:
    'The OpenAPI 3.1 document of the service, assembled from the schemas that check every request. The same document is shown, without a key, at `/docs`.',
  auth: 'key',
  scope: null,
  response: {
    type: 'object',
    description: 'An OpenAPI 3.1 document.',
    required: ['openapi', 'info', 'paths'],
    properties: {
      openapi: { type: 'string', description: 'Version of OpenAPI.' },
      info: { type: 'object', description: 'What is described.' },
      paths: { type: 'object', description: 'Every operation.' }
    },
    additionalProperties: true,
    examples: [{ openapi: '3.1.0', info: { title: 'Trading Operator Service', version: '1.0.0' }, paths: {} }]
  },
  errors: [],
  async handle(_request, { config }) {
    // As text, made once: writing some 500 kB of JSON takes milliseconds of everybody's time.
    const text = written.get(config.baseUrl) ?? JSON.stringify(describe(rows(), config.baseUrl))
    written.set(config.baseUrl, text)
    return new Reply(text, { 'Content-Type': 'application/json; charset=utf-8' })
  }
})

const written = new Map<string, string>()
const described = new WeakMap<Operation[], Map<string, object>>()

/** The OpenAPI 3.1 document of these rows, for a service at `baseUrl`; made once for each. */
export function describe(operations: Operation[], baseUrl: string): object {
  const known = described.get(operations) ?? new Map<string, object>()
  described.set(operations, known)
  const document = known.get(baseUrl) ?? assemble(operations, baseUrl)
  known.set(baseUrl, document)
  return document
}

function assemble(operations: Operation[], baseUrl: string): object {
  const components = new Components()
  const errors = new ErrorResponses()
  const paths: Record<string, Record<string, unknown>> = {}
  for (const row of operations) {
    paths[row.path] ??= { parameters: Object.keys(requestHeaders).map(name => ref('parameters', name)) }
    ;(paths[row.path] as Record<string, unknown>)[row.method.toLowerCase()] = describeOperation(row, {
      components,
      errors,
      baseUrl
    })
  }
  paths[statusPath.path] = { get: describeStatus(components) }
  const used = new Set<string>(operations.map(({ tag }) => tag))
  return {
    openapi: '3.1.0',
    info: {
      title: 'Trading Operator Service',
      version: '1.0.0',
      summary: 'Headless trading infrastructure for partners.',
      description: guides(baseUrl, operations),
      contact: { name: 'The operator of this service', url: `${baseUrl}/docs` },
      license: { name: 'MIT', identifier: 'MIT' }
    },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    servers: [{ url: baseUrl, description: 'This service.' }],
    tags: Object.entries(tags)
      .filter(([name]) => used.has(name))
      .map(([name, description]) => ({ name, description })),
    paths,
    webhooks: describeWebhooks(components),
    components: {
      schemas: { Error: components.refer(ErrorEnvelope), ...components.schemas },
      responses: errors.responses,
      headers: operations.some(({ deprecated }) => deprecated) ? { ...headers, ...deprecationHeaders } : headers,
      parameters: requestHeaders,
      securitySchemes
    }
  }
}

const securitySchemes = {
  key: {
    type: 'http',
    scheme: 'bearer',
    description:
      "The partner's API key, `service_live_` with 16 and 48 hexadecimal characters, or `service_test_` for the test side. For servers only: it must never reach a browser."
  },
  session: {
    type: 'apiKey',
    in: 'cookie',
    name: 'service_session',
    description: "The partner's own session, issued by the operator; it manages keys and nothing else."
  },
  trader: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Trader-Session',
    description:
      "A trader's session, in addition to the key: the `sessionToken` of signing up or logging in. The cookie `trader_session` is accepted too."
  }
}

const ref = (kind: string, name: string) => ({ $ref: `#/components/${kind}/${name}` })

/** GET /status, which needs no key and so is none of the operations. */
function describeStatus(components: Components): object {
  const { summary, description, response } = statusPath
  const plain = (schema: Schema, example: unknown) => ({
    'application/json': { schema: components.refer(schema), example }
  })
  return {
    operationId: 'getStatus',
    tags: ['Usage'],
    summary,
    description,
    security: [],
    responses: {
      200: {
        description: summary,
        headers: { 'X-Request-Id': ref('headers', 'RequestId') },
        content: plain(response, exampleOf(response))
      },
      429: {
        description: 'The calls of this address are used up for this minute.',
        headers: { 'X-Request-Id': ref('headers', 'RequestId'), 'Retry-After': ref('headers', 'RetryAfter') },
        content: plain(ErrorEnvelope, exampleOfCode('RATE_LIMITED'))
      }
    }
  }
}

function describeOperation(
  row: Operation,
  { components, errors, baseUrl }: { components: Components; errors: ErrorResponses; baseUrl: string }
): object {
  const parameters = [
    ...parametersOf(row.params, 'path'),
    ...parametersOf(row.query, 'query'),
    ...(takesKey(row) ? [idempotencyKey] : []),
    ...(row.endUser ? [endUserIp] : [])
  ]
  const json = (schema: Schema) => ({
    'application/json': { schema: components.refer(schema), ...examplesOf(schema) }
  })
  return {
    operationId: row.name,
    tags: [row.tag],
    summary: row.summary,
    description: wordsOf(row, baseUrl),
    ...(row.deprecated ? { deprecated: true } : {}),
    security: securityOf(row),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(row.body
      ? {
          requestBody: {
            required: (row.body.required as unknown[] | undefined) !== undefined,
            description: `JSON, at most ${bodyLimit(row.body) / 1024} KiB.`,
            content: json(row.body)
          }
        }
      : {}),
    responses: {
      200: {
        description: row.summary,
        headers: headersOf(200, headersOfRow(row)),
        content: { ...json(row.response), ...(row.csv ? csvContent : {}) }
      },
      ...errors.of(row)
    },
    'x-codeSamples': samplesOf(row, baseUrl)
  }
}

/** Rows as CSV. */
const csvContent = {
  'text/csv': {
    schema: {
      type: 'string',
      description:
        'A header line with the fields of a row, then a line for each row. `asOf`, `complete` and `nextCursor` are in X-As-Of, X-Complete and X-Next-Cursor.'
    },
    example: 'start,currency\r\n2026-11-21T00:00:00.000Z,USD\r\n'
  }
}

function wordsOf({ name, tag, description, deprecated, scope, weight = 1 }: Operation, baseUrl: string): string {
  const words = [
    deprecated && deprecationText(deprecated),
    description,
    scope && `Needs the scope \`${scope}\`.`,
    weight === 'page' ? `${PAGE_WEIGHT} of the key.` : weight > 1 && `Counts as ${weight} calls of the key.`,
    `[Try it](${baseUrl}/docs/try#/${encodeURIComponent(tag)}/${name})`
  ]
  return words.filter(Boolean).join('\n\n')
}

const headersOfRow = (row: Operation) => [
  ...(row.headers ?? []),
  ...(takesKey(row) ? (['Idempotent-Replayed'] as const) : []),
  ...(row.csv ? (['X-As-Of'] as const) : []),
  ...(row.deprecated ? (['Deprecation'] as const) : [])
]

// A schema with several examples shows each, by the state it is about.
function examplesOf(schema: Schema): object {
  const all = (schema.examples ?? []) as { status?: string }[]
  if (all.length < 2) return { example: exampleOf(schema) }
  return { examples: Object.fromEntries(all.map((value, index) => [value.status ?? String(index + 1), { value }])) }
}

function securityOf({ auth, actor }: Operation): Record<string, []>[] {
  if (auth === 'session') return [{ session: [] }]
  if (auth === 'trader') return [{ key: [], trader: [] }]
  return actor ? [{ key: [] }, { key: [], trader: [] }] : [{ key: [] }]
}

function parametersOf(schema: Schema | undefined, place: 'path' | 'query'): object[] {
  const properties = (schema?.properties ?? {}) as Record<string, Schema>
  const required = (schema?.required ?? []) as string[]
  return Object.entries(properties).map(([name, { description, examples, ...field }]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    description,
    schema: field,
    example: exampleOf({ ...field, ...(examples ? { examples } : {}) })
  }))
}

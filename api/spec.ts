// The description: rows to OpenAPI 3.1, and GET /v1/_spec. JSON Schema 2020-12 is the schema language of
// both, so nothing is translated.
import { type ErrorCode, errors } from '../schemas/errors.ts'
import type { Schema } from '../schemas/fields.ts'
import type { Operation } from './operations.ts'

export const getSpec: Operation<object> = {
  name: 'getSpec',
  method: 'GET',
  path: '/v1/_spec',
  tag: 'Usage',
  summary: 'This description',
  description: 'The OpenAPI 3.1 document of the service, assembled from the schemas that check every request.',
  auth: 'key',
  scope: null,
  response: { type: 'object', required: ['openapi', 'info', 'paths'], additionalProperties: true },
  errors: [],
  async handle(_asked, { config }) {
    // Read here and not at the top: this file stands in the list itself.
    const { operations } = await import('./operations.ts')
    return describe(operations, config.baseUrl)
  }
}

/** The schema of the error envelope; extras appear with the codes that carry them. */
export const ErrorEnvelope = {
  type: 'object',
  additionalProperties: false,
  required: ['error', 'message', 'requestId'],
  properties: {
    error: {
      type: 'string',
      enum: Object.keys(errors),
      description: 'Code of the error.',
      examples: ['VALIDATION_FAILED']
    },
    message: { type: 'string', description: 'For people; may change.', examples: ['/body/stake must be >= 0.35'] },
    requestId: {
      type: 'string',
      description: 'Repeats X-Request-Id.',
      examples: ['5f0c6a8e-0d3b-4a55-9b7a-3d1b8a6f2f10']
    },
    details: {
      type: 'array',
      description: 'One entry per violation.',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['path', 'message'],
        properties: { path: { type: 'string' }, message: { type: 'string' } }
      }
    },
    requiredScope: { type: 'string' },
    secondsUntilOpen: { type: ['integer', 'null'], minimum: 0, description: 'null when the broker does not tell.' },
    orderId: { type: 'string' },
    status: { type: 'string', enum: ['PENDING', 'FAILED'] },
    requiredUsd: { type: 'number' },
    balanceUsd: { type: 'number' },
    saasStatus: { type: 'string' },
    topUpUsd: { type: 'number' }
  }
} as const

/** Every code an operation can answer: its own, and those of its checks. */
export function codesOf(row: Operation): ErrorCode[] {
  const codes = new Set<ErrorCode>([
    'UNAUTHENTICATED',
    'SUBSCRIPTION_INACTIVE',
    'PARTNER_SUSPENDED',
    'HTTPS_REQUIRED',
    'INTERNAL',
    'UNAVAILABLE'
  ])
  codes.add('RATE_LIMITED')
  if (row.auth !== 'session') codes.add('KEY_REVOKED')
  if (row.method !== 'GET' && (row.auth !== 'key' || row.actor)) codes.add('CROSS_SITE_REFUSED')
  if (row.scope) codes.add('INSUFFICIENT_SCOPE')
  if (row.params || row.query || row.body) codes.add('VALIDATION_FAILED')
  if (row.method !== 'GET') codes.add('PAYLOAD_TOO_LARGE')
  if (row.body) for (const code of ['MALFORMED_JSON', 'UNSUPPORTED_MEDIA_TYPE'] as const) codes.add(code)
  for (const code of row.errors) codes.add(code)
  return [...codes].sort((a, b) => errors[a].status - errors[b].status || a.localeCompare(b))
}

/** The OpenAPI 3.1 document of these rows. */
export function describe(operations: Operation[], baseUrl: string): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const row of operations) {
    paths[row.path] ??= {}
    ;(paths[row.path] as Record<string, object>)[row.method.toLowerCase()] = describeOperation(row)
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Trading Operator Service',
      version: '1.0.0',
      summary: 'Headless trading infrastructure for partners.',
      description:
        'Place binary, digit and multiplier contracts for your traders over one REST API. Timestamps are ISO 8601 in UTC.'
    },
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    servers: [{ url: baseUrl }],
    tags: [...new Set(operations.map(({ tag }) => tag))].map(name => ({ name })),
    paths,
    components: {
      schemas: { Error: ErrorEnvelope },
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'service_live_<16 hex>_<48 hex>' },
        session: { type: 'apiKey', in: 'cookie', name: 'service_session', description: "The partner's session." },
        trader: {
          type: 'apiKey',
          in: 'header',
          name: 'X-Trader-Session',
          description: "A trader's session, beside the key; also taken from the cookie trader_session."
        }
      }
    }
  }
}

function describeOperation(row: Operation): object {
  const parameters = [...parametersOf(row.params, 'path'), ...parametersOf(row.query, 'query')]
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of codesOf(row))
    byStatus.set(errors[code].status, [...(byStatus.get(errors[code].status) ?? []), code])
  return {
    operationId: row.name,
    tags: [row.tag],
    summary: row.summary,
    description: row.scope ? `${row.description}\n\nNeeds the scope \`${row.scope}\`.` : row.description,
    security: securityOf(row),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(row.body ? { requestBody: { required: true, content: { 'application/json': { schema: row.body } } } } : {}),
    responses: {
      200: { description: row.summary, content: { 'application/json': { schema: row.response } } },
      ...Object.fromEntries(
        [...byStatus].map(([status, codes]) => [
          status,
          {
            description: codes.join(', '),
            content: {
              'application/json': {
                schema: { allOf: [{ $ref: '#/components/schemas/Error' }, { properties: { error: { enum: codes } } }] }
              }
            }
          }
        ])
      )
    }
  }
}

function securityOf({ auth, actor }: Operation): Record<string, []>[] {
  if (auth === 'session') return [{ session: [] }]
  if (auth === 'trader') return [{ key: [], trader: [] }]
  return actor ? [{ key: [] }, { key: [], trader: [] }] : [{ key: [] }]
}

function parametersOf(schema: Schema | undefined, place: 'path' | 'query'): object[] {
  const properties = (schema?.properties ?? {}) as Record<string, Schema>
  const required = (schema?.required ?? []) as string[]
  return Object.entries(properties).map(([name, field]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    description: field.description,
    schema: field
  }))
}

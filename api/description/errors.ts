// Errors in the description: the envelope, the codes an operation can return, and one shared response for each set of
// codes, with an example for every code.

import { MAX_DETAILS } from '../../schemas/checks/validator.ts'
import { catalogue } from '../../schemas/errors/catalogue.ts'
import { type ErrorCode, errors } from '../../schemas/errors/errors.ts'
import { haltScopes } from '../../schemas/halts.ts'
import type { Operation } from '../operation.ts'
import { takesKey } from '../request/idempotency.ts'
import { docsOf } from '../request/respond.ts'
import { headersOf } from './headers.ts'

const REQUEST_ID = '5f0c6a8e-0d3b-4a55-9b7a-3d1b8a6f2f10'

/** The schema of the error envelope; extras appear with the codes that carry them. */
export const ErrorEnvelope = {
  type: 'object',
  additionalProperties: false,
  description: 'Every response above 299 has this shape. Decide by `error`; `message` is for people.',
  required: ['error', 'message', 'requestId'],
  properties: {
    error: {
      type: 'string',
      enum: Object.keys(errors),
      description: 'Code of the error.',
      examples: ['VALIDATION_FAILED']
    },
    message: {
      type: 'string',
      description: 'For people; may change.',
      examples: ['/body/stake must be at least 0.35']
    },
    requestId: { type: 'string', description: 'Repeats X-Request-Id.', examples: [REQUEST_ID] },
    docs: {
      type: 'string',
      description: "Address of the code's section in the reference.",
      examples: [docsOf('https://api.example.com', 'VALIDATION_FAILED')]
    },
    violations: {
      type: 'integer',
      minimum: 1,
      maximum: 1000,
      description: 'With `details`: how many violations there are; counting ends at 1,000.',
      examples: [1]
    },
    details: {
      type: 'array',
      maxItems: MAX_DETAILS,
      description:
        'With VALIDATION_FAILED: the first violations, at most 20. With INVALID_CONTRACT: the field that the broker refused, where it names one.',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['path', 'message'],
        properties: {
          path: { type: 'string', description: 'Where, as a JSON pointer.', examples: ['/body/stake'] },
          message: { type: 'string', description: 'What is wrong there.', examples: ['must be at least 0.35'] }
        }
      }
    },
    requiredScope: {
      type: 'string',
      description: 'With INSUFFICIENT_SCOPE: what the key lacks.',
      examples: ['trading:write']
    },
    secondsUntilOpen: {
      type: ['integer', 'null'],
      minimum: 0,
      description: 'With MARKET_CLOSED; null when the broker does not state it.',
      examples: [3600]
    },
    orderId: {
      type: 'string',
      description: 'With CLIENT_ORDER_ID_REUSED, BROKER_UPSTREAM and TRADING_HALTED: the order it is about.',
      examples: ['ord_01k3hv9c7bf5tvxkz1qd3rn8ma']
    },
    status: {
      type: 'string',
      enum: ['PENDING', 'OPEN', 'FAILED'],
      description:
        'With BROKER_UPSTREAM and TRADING_HALTED: FAILED means certainly no contract, PENDING that it is not known yet, OPEN that the settlement is under review.',
      examples: ['PENDING']
    },
    requiredUsd: { type: 'number', description: 'With WALLET_INSUFFICIENT: the price.', examples: [19.9] },
    balanceUsd: { type: 'number', description: 'With WALLET_INSUFFICIENT: what the wallet holds.', examples: [4.25] },
    saasStatus: { type: 'string', description: 'With SUBSCRIPTION_INACTIVE: the standing.', examples: ['INACTIVE'] },
    topUpUsd: { type: 'number', description: 'With SUBSCRIPTION_INACTIVE: what the wallet lacks.', examples: [148.5] },
    priceUsd: { type: 'number', minimum: 0, description: 'With PRICE_CHANGED: the price now.', examples: [24.9] },
    limit: { type: 'integer', minimum: 0, description: 'With LIMIT_REACHED: the bound.', examples: [1000] },
    scope: {
      type: 'string',
      enum: [...haltScopes],
      description: 'With TRADING_HALTED: what is halted; the widest where it is several.',
      examples: ['asset']
    },
    reason: {
      type: 'string',
      description: "With TRADING_HALTED: why, in the operator's words.",
      examples: ['the broker is being maintained']
    },
    oldest: {
      type: 'string',
      description: 'With CURSOR_EXPIRED: the cursor before the oldest event that is kept.',
      examples: ['Zk3vT1nq0aWcJxUe8rYbHg']
    },
    latest: {
      type: 'string',
      description: 'With CURSOR_EXPIRED: the cursor of the newest event.',
      examples: ['p0Qm4bJxL7sVd2RkYt9wEA']
    }
  },
  examples: [exampleOfCode('VALIDATION_FAILED')]
} as const

/** The envelope as it comes with a code. */
export function exampleOfCode(code: ErrorCode): object {
  const { message = errors[code].message, extras = {} } = catalogue[code]
  return { error: code, message, requestId: REQUEST_ID, docs: docsOf('https://api.example.com', code), ...extras }
}

// What an Idempotency-Key can bring.
const KEY_CODES = ['VALIDATION_FAILED', 'IDEMPOTENCY_IN_PROGRESS', 'IDEMPOTENCY_KEY_REUSED', 'LIMIT_REACHED'] as const

/** Every code an operation can return: its own, and those of its checks. */
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
  // An unexpected body is also refused by its length, whatever the method.
  codes.add('PAYLOAD_TOO_LARGE')
  if (takesKey(row)) for (const code of KEY_CODES) codes.add(code)
  if (row.body) for (const code of ['MALFORMED_JSON', 'UNSUPPORTED_MEDIA_TYPE'] as const) codes.add(code)
  for (const code of row.errors) codes.add(code)
  return [...codes].sort((a, b) => errors[a].status - errors[b].status || a.localeCompare(b))
}

// A broker's decision is stored with the order, and returned again to a repeat.
const REPLAYED = new Set<ErrorCode>([
  'BROKER_DISCONNECTED',
  'MARKET_CLOSED',
  'INVALID_CONTRACT',
  'INSUFFICIENT_BALANCE',
  'BROKER_UPSTREAM'
])

/** Collects the error responses a description comes to use. */
export class ErrorResponses {
  readonly responses: Record<string, object> = {}

  /** The responses of an operation by status, each a reference. */
  of(row: Operation): Record<string, object> {
    const byStatus = Map.groupBy(codesOf(row), code => errors[code].status)
    return Object.fromEntries([...byStatus].map(([status, codes]) => [status, this.#refer(row, status, codes)]))
  }

  #refer(row: Operation, status: number, codes: ErrorCode[]): object {
    const replayed = row.headers?.includes('Idempotent-Replayed') && codes.some(code => REPLAYED.has(code))
    const name = (replayed ? 'Order' : '') + codes.map(pascal).join('Or')
    const retry = codes.includes('IDEMPOTENCY_IN_PROGRESS') ? (['Retry-After'] as const) : []
    this.responses[name] ??= {
      description: codes.map(code => `\`${code}\`: ${catalogue[code].cause}`).join('\n\n'),
      headers: headersOf(status, replayed ? ['Idempotent-Replayed'] : retry),
      content: {
        'application/json': {
          schema: {
            allOf: [
              { $ref: '#/components/schemas/Error' },
              {
                type: 'object',
                required: ['error'],
                properties: { error: { enum: codes, description: 'What can go wrong here.', examples: [codes[0]] } }
              }
            ]
          },
          examples: Object.fromEntries(
            codes.map(code => [code, { summary: errors[code].message, value: exampleOfCode(code) }])
          )
        }
      }
    }
    return { $ref: `#/components/responses/${name}` }
  }
}

function pascal(code: ErrorCode): string {
  return code
    .toLowerCase()
    .split('_')
    .map(word => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
}

/** All errors as Markdown: a section for each code, which `docs` of the envelope names, with cause and remedy. */
export function errorSections(): string {
  return Object.entries(errors)
    .map(([code, { status }]) => {
      const { cause, remedy } = catalogue[code as ErrorCode]
      return `## ${code}\n\n\`${status}\` ${cause} **${remedy}**`
    })
    .join('\n\n')
}

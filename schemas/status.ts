// The state of the service's parts, which anybody may read: counts, times and words, nothing of any partner.
import type { FromSchema, JSONSchema } from 'json-schema-to-ts'
import { timestamp } from './fields/fields.ts'

const state = {
  type: 'string',
  enum: ['OK', 'DEGRADED', 'DOWN'],
  description: 'OK; DEGRADED: it works for some or slowly; DOWN: it does not work.',
  examples: ['OK']
} as const
const count = (description: string, example: number) =>
  ({ type: 'integer', minimum: 0, description, examples: [example] }) as const
const seconds = (description: string) =>
  ({ type: ['number', 'null'], minimum: 0, description, examples: [0.4] }) as const
const milliseconds = (description: string, example: number) =>
  ({ type: ['number', 'null'], minimum: 0, description, examples: [example] }) as const

const part = <const Properties extends Record<string, JSONSchema>>(description: string, properties: Properties) =>
  ({
    type: 'object',
    description,
    additionalProperties: false,
    required: ['state', ...Object.keys(properties)] as ('state' | (keyof Properties & string))[],
    properties: { state, ...properties }
  }) as const

export const Status = {
  type: 'object',
  additionalProperties: false,
  required: ['state', 'at', 'api', 'workers', 'queue', 'broker', 'trading', 'markets', 'latency'],
  properties: {
    state: { ...state, description: 'The worst of the parts that placing an order needs.' },
    at: { ...timestamp, description: 'When this was read; it is at most some seconds old.' },
    api: part('The processes that serve this API.', { processes: count('How many run.', 2) }),
    workers: part('The processes that place and settle orders.', { processes: count('How many run.', 3) }),
    queue: part('Work on its way from the api to the workers.', {
      waiting: count('How much waits to be taken.', 0),
      oldestSeconds: seconds('How long the oldest has waited; null when nothing waits.')
    }),
    broker: part('Whether the workers reach the broker, as they report it.', {
      reachedBy: count('Workers that reached it when they last tried.', 3),
      unreachedBy: count('Workers that do not reach it now.', 0)
    }),
    trading: part('Whether the operator has halted placing for everybody (code `TRADING_HALTED`).', {
      halted: { type: 'boolean', description: 'true: no order is placed; closing goes on.', examples: [false] }
    }),
    markets: {
      ...part('What can be traded, as a worker last saw it.', {
        open: count('Assets whose market is open.', 14),
        closed: count('Assets whose market is closed or suspended.', 6),
        seconds: count('How long ago that was seen.', 12)
      }),
      type: ['object', 'null'],
      description: 'What can be traded, as a worker last read it; null when none has read it within an hour.'
    },
    latency: {
      type: 'object',
      description: "From the request to the broker's confirmation, over the orders of the last minutes.",
      additionalProperties: false,
      required: ['minutes', 'orders', 'p50Ms', 'p99Ms'],
      properties: {
        minutes: count('Minutes looked back.', 5),
        orders: count('Orders that were counted, at most 5,000.', 1840),
        p50Ms: milliseconds('Half of them took at most this long; null without orders.', 84),
        p99Ms: milliseconds('99 of 100 took at most this long; null without orders.', 412)
      }
    }
  },
  examples: [
    {
      state: 'OK',
      at: '2026-11-21T08:00:00.000Z',
      api: { state: 'OK', processes: 2 },
      workers: { state: 'OK', processes: 3 },
      queue: { state: 'OK', waiting: 0, oldestSeconds: null },
      broker: { state: 'OK', reachedBy: 3, unreachedBy: 0 },
      trading: { state: 'OK', halted: false },
      markets: { state: 'OK', open: 14, closed: 6, seconds: 12 },
      latency: { minutes: 5, orders: 1840, p50Ms: 84, p99Ms: 412 }
    }
  ]
} as const
export type Status = FromSchema<typeof Status>

// What a partner used in its billing period.
import { timestamp } from './fields/fields.ts'
import { plan, saasStatus } from './partners.ts'

const count = (description: string, example: number) =>
  ({ type: 'integer', minimum: 0, description, examples: [example] }) as const
const usd = (description: string, example: number) => ({ type: 'number', description, examples: [example] }) as const

export const Usage = {
  type: 'object',
  additionalProperties: false,
  required: ['periodStart', 'periodEnd', 'plan', 'saasStatus', 'requests', 'orders', 'traders', 'rateLimit', 'wallet'],
  properties: {
    periodStart: { ...timestamp, description: 'When the billing period began; ISO 8601, UTC.' },
    periodEnd: { ...timestamp, description: 'When it ends and the next fee falls due; ISO 8601, UTC.' },
    plan,
    saasStatus,
    requests: {
      type: 'object',
      additionalProperties: false,
      required: ['total', 'errors', 'byDay'],
      description: 'Requests with a key or session of the partner since the hour in which the period began.',
      properties: {
        total: count('All requests.', 1204),
        errors: count('Those whose response has a status of 400 or above.', 17),
        byDay: {
          type: 'array',
          description: 'The days with requests, oldest first.',
          items: {
            type: 'object',
            additionalProperties: false,
            required: ['date', 'requests', 'errors'],
            properties: {
              date: { type: 'string', format: 'date', description: 'Day in UTC.', examples: ['2026-11-21'] },
              requests: count('Requests of the day.', 402),
              errors: count('Errors of the day.', 5)
            }
          }
        }
      }
    },
    orders: {
      type: 'object',
      additionalProperties: false,
      required: ['placed', 'closed', 'failed'],
      description: 'Orders accepted in the period, as they are now.',
      properties: {
        placed: count('All of them.', 310),
        closed: count('Those that are CLOSED.', 298),
        failed: count('Those that FAILED.', 4)
      }
    },
    traders: count('Traders known for the partner.', 12),
    rateLimit: {
      type: 'object',
      additionalProperties: false,
      required: ['perKeyPerMinute', 'perTraderPerMinute'],
      description: 'Limits that apply.',
      properties: {
        perKeyPerMinute: count('Calls a minute of one key.', 3000),
        perTraderPerMinute: count('Calls a minute that name one trader.', 120)
      }
    },
    wallet: {
      type: 'object',
      additionalProperties: false,
      required: ['balanceUsd', 'feeUsd', 'nextFeeAt'],
      description: "The partner's wallet and its next fee.",
      properties: {
        balanceUsd: usd('Balance of the wallet in USD.', 301),
        feeUsd: usd('What the next fee will be in USD.', 199),
        nextFeeAt: { ...timestamp, description: 'When it falls due; ISO 8601, UTC.' }
      }
    }
  }
} as const

// Trade records: trades made elsewhere, reported by the partner. The one place with names in snake_case, as the
// specification writes them.
import type { FromSchema } from 'json-schema-to-ts'
import { ApiError } from '../errors/errors.ts'
import { idField, nullable, pageSize, timestamp } from '../fields/fields.ts'
import { freeformLimits } from '../fields/freeform.ts'

// Beyond this no amount is one; it also keeps every sum exact enough to be a number.
const MAX_AMOUNT = 1e12
const text = (maxLength: number, description: string, example: string, minLength = 1) =>
  ({
    type: 'string',
    minLength,
    maxLength,
    pattern: '^[^\\u0000-\\u001f\\u007f]*$',
    description,
    examples: [example]
  }) as const
const amount = (description: string, example: number) =>
  ({ type: 'number', minimum: -MAX_AMOUNT, maximum: MAX_AMOUNT, description, examples: [example] }) as const

// An ISO 8601 date, with or without a time, or seconds or milliseconds since 1970.
const TIMESTAMP =
  '^(\\d{10,13}|\\d{4}-\\d{2}-\\d{2}([T ]\\d{2}:\\d{2}(:\\d{2}([.,]\\d+)?)?( ?(Z|UTC|[+-]\\d{2}(:?\\d{2})?))?)?)$'

const fields = {
  stake_amount: {
    type: 'number',
    exclusiveMinimum: 0,
    maximum: MAX_AMOUNT,
    description: 'What was staked, in the account currency.',
    examples: [10]
  },
  contract_type: text(32, 'Kind of contract, in the words of the broker.', 'CALL'),
  broker_contract_id: text(64, "The broker's contract id; a contract is recorded once.", '290769704688'),
  client_broker_loginid: text(32, "The broker's account the contract belongs to.", 'CR1234567'),
  profit_loss: amount('What was won (above zero) or lost.', 9.53),
  trade_timestamp: {
    type: 'string',
    minLength: 10,
    maxLength: 40,
    pattern: TIMESTAMP,
    description:
      'When it was traded: an ISO 8601 date or date and time (UTC where no zone is given), or an epoch in seconds or milliseconds; from 2000 to a day from now. Kept as given.',
    examples: ['2026-11-21T08:00:00Z']
  },
  payout_amount: amount('What was paid out.', 19.53),
  currency: text(8, 'Account currency.', 'USD', 0),
  trader_external_id: text(128, "The partner's own id of the trader.", 'user-42'),
  symbol: text(32, 'Broker symbol.', 'R_100'),
  metadata: {
    type: 'object',
    additionalProperties: true,
    description: `Whatever else is to be kept with the record. ${freeformLimits}`,
    examples: [{ strategy: 'trend', tags: ['a', 'b'] }]
  }
} as const

export const TradeRecord = {
  type: 'object',
  required: [
    'stake_amount',
    'contract_type',
    'broker_contract_id',
    'client_broker_loginid',
    'profit_loss',
    'trade_timestamp'
  ],
  properties: fields
} as const
export type TradeRecord = FromSchema<typeof TradeRecord>

// No broker traded before; and a clock ahead, or a zone left out, is not more than a day.
const EARLIEST = Date.UTC(2000, 0, 1)
const AHEAD_MS = 86_400_000

/**
 * The moment a trade_timestamp means, as of `now` (ms). Throws VALIDATION_FAILED when there is no such moment, or when no trade
 * can be of it: digits read as an epoch may be anything, such as a date without its dashes.
 */
export function readTradeTimestamp(given: string, now = Date.now()): Date {
  const at = new Date(toMilliseconds(given))
  if (Number.isNaN(at.getTime())) throw implausible('is not a date there is')
  if (at.getTime() < EARLIEST || at.getTime() > now + AHEAD_MS)
    throw implausible(`means ${at.toISOString()}, which is not a plausible time of a trade`)
  return at
}

function implausible(message: string): ApiError {
  const details = [{ path: '/body/trade_timestamp', message }]
  return new ApiError('VALIDATION_FAILED', `/body/trade_timestamp ${message}`, { extras: { details } })
}

function toMilliseconds(given: string): number {
  if (/^\d+$/.test(given)) return given.length > 11 ? Number(given) : Number(given) * 1000
  const [, date, time = '00:00', zone = 'Z'] =
    /^(\S{10})(?:[T ]([\d:.,]+))?(?: ?(Z|UTC|[+-][\d:]+))?$/.exec(given) ?? []
  const offset = zone === 'UTC' ? 'Z' : zone.replace(/^([+-]\d{2}):?(\d{2})?$/, (_, h, m = '00') => `${h}:${m}`)
  const whole = time.replace(/[.,](\d{1,3})\d*$/, '.$1')
  const at = Date.parse(`${date}T${whole}${offset}`)
  // Date.parse takes 30 February for 2 March; a date must come out as it went in.
  return date !== undefined && new Date(`${date}T00:00:00Z`).toJSON()?.startsWith(date) ? at : Number.NaN
}

const tradeId = idField('rec', 'Identifier of the record.')
const collectedAt = { ...timestamp, description: 'When the record was first collected; ISO 8601, UTC.' } as const

export const CollectedTrade = {
  type: 'object',
  additionalProperties: false,
  required: ['tradeId', 'duplicate', 'collectedAt'],
  properties: {
    tradeId,
    duplicate: {
      type: 'boolean',
      description: 'Whether the contract had been recorded before; then nothing changed.',
      examples: [false]
    },
    collectedAt
  }
} as const
export type CollectedTrade = FromSchema<typeof CollectedTrade>

const listed = {
  tradeId,
  ...fields,
  payout_amount: nullable(fields.payout_amount),
  currency: nullable(fields.currency),
  trader_external_id: nullable(fields.trader_external_id),
  symbol: nullable(fields.symbol),
  metadata: nullable(fields.metadata),
  collectedAt
} as const

export const TradeEntry = {
  type: 'object',
  additionalProperties: false,
  required: Object.keys(listed) as (keyof typeof listed)[],
  properties: listed
} as const

export const TradeList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', description: 'The newest trade first.', items: TradeEntry } }
} as const

export const TradesQuery = { type: 'object', properties: { limit: pageSize } } as const
export type TradesQuery = FromSchema<typeof TradesQuery>

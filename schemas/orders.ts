// Orders: what a partner may request, what it receives, and the rules that tie barrier, contract type and duration
// together (422 INVALID_CONTRACT, decided before the broker gets a request). Lists and lookups show order-entries.ts.
import type { FromSchema } from 'json-schema-to-ts'
import { ApiError } from './errors/errors.ts'
import {
  accountMode,
  asset,
  clientOrderId,
  converted,
  idField,
  money,
  price,
  stakeUsd,
  timestamp,
  traderExternalId
} from './fields/fields.ts'

export const contractTypes = [
  'CALL',
  'PUT',
  'DIGITMATCH',
  'DIGITDIFF',
  'DIGITOVER',
  'DIGITUNDER',
  'DIGITEVEN',
  'DIGITODD'
] as const

export const orderStatus = {
  type: 'string',
  enum: ['PENDING', 'OPEN', 'CLOSED', 'FAILED'],
  description:
    "PENDING: accepted, the broker's response not yet known. OPEN: bought. CLOSED: settled, sold or stopped out. FAILED: certainly no contract.",
  examples: ['CLOSED']
} as const
export type OrderStatus = (typeof orderStatus.enum)[number]

const stake = {
  type: 'number',
  minimum: 0.35,
  maximum: 1_000_000,
  description:
    "Stake in USD, at least 0.35. On an account in another currency it is converted at the broker's own rate right before the purchase and rounded down to the currency's decimals.",
  examples: [10]
} as const
export const duration = {
  type: 'integer',
  minimum: 1,
  maximum: 31_536_000,
  description: 'Length in durationUnit.',
  examples: [5]
} as const
export const durationUnit = {
  type: 'string',
  enum: ['t', 's', 'm', 'h', 'd'],
  description: 'Ticks, seconds, minutes, hours or days.',
  examples: ['t']
} as const
export type DurationUnit = (typeof durationUnit.enum)[number]
export const contractType = {
  type: 'string',
  enum: contractTypes,
  description: 'Kind of binary contract.',
  examples: ['CALL']
} as const
export const direction = {
  type: 'string',
  enum: ['up', 'down'],
  description: 'Direction in which the market is expected to move.',
  examples: ['up']
} as const
export type MultiplierDirection = (typeof direction.enum)[number]
export const barrier = {
  type: 'string',
  pattern: '^[0-9]$',
  maxLength: 1,
  description: 'The digit; required for DIGITMATCH, DIGITDIFF, DIGITOVER and DIGITUNDER, refused for the others.',
  examples: ['5']
} as const

/** Not a term of the purchase: a repeat of the order may name another mode. */
export const expectedAccountMode = {
  ...accountMode,
  description:
    "Place the order only on an account of this mode: 409 CONFLICT, and nothing is bought, while the trader's active account is of the other one.",
  examples: ['DEMO']
} as const

export const BinaryOrder = {
  type: 'object',
  required: ['traderExternalId', 'clientOrderId', 'asset', 'contractType', 'stake', 'duration', 'durationUnit'],
  properties: {
    traderExternalId,
    clientOrderId,
    asset,
    contractType,
    stake,
    duration,
    durationUnit,
    barrier,
    expectedAccountMode,
    waitForSettle: {
      type: 'boolean',
      description:
        'Wait for the settlement of a contract that is not a tick contract as well. The request waits for 120 seconds (SETTLE_WAIT_MS of the installation): a contract of up to about 110 seconds returns its result, a longer one OPEN.',
      examples: [false]
    }
  },
  examples: [
    {
      traderExternalId: 'user-42',
      clientOrderId: '0b9f5e6e-6f0f-4b4e-9a35-0c9d3f0f8a11',
      asset: 'R_100',
      contractType: 'CALL',
      stake: 10,
      duration: 5,
      durationUnit: 't'
    }
  ]
} as const
export type BinaryOrder = FromSchema<typeof BinaryOrder>

const needsDigit = ['DIGITMATCH', 'DIGITDIFF', 'DIGITOVER', 'DIGITUNDER']

/** Throws INVALID_CONTRACT when the parts of a well-formed order do not go together. */
export function checkContract({ contractType, barrier, duration, durationUnit, stake }: BinaryOrder): void {
  const refuse = (field: keyof BinaryOrder, message: string): never => {
    throw new ApiError('INVALID_CONTRACT', message, {
      extras: { violations: 1, details: [{ path: `/body/${field}`, message }] }
    })
  }
  if (needsDigit.includes(contractType)) {
    if (barrier === undefined) refuse('barrier', `${contractType} needs a barrier: one digit from '0' to '9'.`)
    if (contractType === 'DIGITOVER' && barrier === '9')
      refuse('barrier', 'DIGITOVER 9 cannot win: no digit is over 9.')
    if (contractType === 'DIGITUNDER' && barrier === '0')
      refuse('barrier', 'DIGITUNDER 0 cannot win: no digit is under 0.')
  } else if (barrier !== undefined) {
    refuse('barrier', `${contractType} takes no barrier.`)
  }
  if (contractType.startsWith('DIGIT') && durationUnit !== 't')
    refuse('durationUnit', `${contractType} is offered in ticks only (durationUnit 't').`)
  if (durationUnit === 't' && duration > 10) refuse('duration', 'A tick contract lasts at most 10 ticks.')
  if (!Number.isInteger(Math.round(stake * 1e8)) || Math.abs(stake * 1e8 - Math.round(stake * 1e8)) > 1e-2) {
    refuse('stake', 'stake has more decimals than any currency.')
  }
}

/** Whether the request itself waits for settlement. */
export function settlesInline(order: BinaryOrder): boolean {
  return order.durationUnit === 't' || order.waitForSettle === true
}

export const orderId = idField('ord', 'Identifier of the order.')
export const brokerOrderId = {
  type: 'string',
  description: "The broker's contract id.",
  examples: ['290769704688']
} as const
const buyPrice = {
  ...money,
  description:
    'What the contract cost in the account currency: the stake, and the markup where the broker charges it on top.'
} as const
export const opened = {
  orderId,
  brokerOrderId,
  status: orderStatus,
  stake: stakeUsd,
  potentialPayout: {
    ...money,
    description: 'What the contract pays if it wins, in the account currency.',
    examples: [19.53]
  },
  buyPrice,
  openedAt: timestamp
} as const
export const closed = {
  pnl: { ...money, description: 'Profit or loss in the account currency.', examples: [9.53] },
  entryPrice: price,
  exitPrice: price,
  closedAt: timestamp
} as const

const openedFields = Object.keys(opened) as (keyof typeof opened)[]

export const OpenOrder = {
  type: 'object',
  additionalProperties: false,
  required: openedFields,
  properties: { ...opened, ...converted, status: { const: 'OPEN', description: 'Bought.', examples: ['OPEN'] } },
  description: 'An order whose contract runs; it settles by itself.'
} as const

export const ClosedOrder = {
  type: 'object',
  additionalProperties: false,
  required: [...openedFields, 'pnl', 'entryPrice', 'exitPrice', 'closedAt'],
  properties: {
    ...opened,
    ...converted,
    status: { const: 'CLOSED', description: 'Settled or sold.', examples: ['CLOSED'] },
    ...closed,
    entryPrice: {
      ...price,
      type: ['number', 'null'],
      description: 'Price at the start; null when it was sold before its first tick.'
    },
    exitPrice: {
      ...price,
      type: ['number', 'null'],
      description: 'Price that decided the result; null when the broker gave none.',
      examples: [1219.84]
    }
  },
  description: 'An order with its result.'
} as const

/** An order in the responses of placing and closing. */
export const Order = {
  type: 'object',
  oneOf: [ClosedOrder, OpenOrder],
  description: '`status` distinguishes them: CLOSED with the result, OPEN without.',
  examples: [
    {
      orderId: 'ord_01k3hv9c7bf5tvxkz1qd3rn8ma',
      brokerOrderId: '290769704688',
      status: 'CLOSED',
      stake: 10,
      potentialPayout: 19.53,
      buyPrice: 10,
      openedAt: '2026-11-21T08:00:00.000Z',
      pnl: 9.53,
      entryPrice: 1219.5,
      exitPrice: 1219.84,
      closedAt: '2026-11-21T08:00:10.000Z'
    },
    {
      orderId: 'ord_01k3hv9c7bf5tvxkz1qd3rn8ma',
      brokerOrderId: '290769704688',
      status: 'OPEN',
      stake: 10,
      potentialPayout: 19.53,
      buyPrice: 10,
      openedAt: '2026-11-21T08:00:00.000Z'
    }
  ]
} as const

export interface Order {
  orderId: string
  brokerOrderId: string
  status: OrderStatus
  stake: number
  potentialPayout: number
  buyPrice: number
  stakeInAccount?: number
  exchangeRate?: number
  openedAt: string
  pnl?: number
  entryPrice?: number | null
  exitPrice?: number | null
  closedAt?: string
}

// Events: what happened to a partner, in the order in which it happened; one shape for the list, the stream and webhooks.
import type { FromSchema } from 'json-schema-to-ts'
import { Follow } from './copy.ts'
import {
  cursor as cursorField,
  idField,
  nullable,
  pathId,
  type Schema,
  timestamp,
  traderExternalId
} from './fields/fields.ts'
import { KeyEntry } from './keys.ts'
import { Payout } from './marketplace/creator.ts'
import { Purchase, Subscription } from './marketplace/sales.ts'
import { OrderEntry } from './order-entries.ts'
import { plan, saasStatus } from './partners.ts'
import { Deployment } from './templates.ts'
import { Account } from './traders/accounts.ts'
import { Webhook } from './webhook-endpoint.ts'

export const eventId = idField('evt', 'Identifier of the event, the same wherever it is read.')

/** A bot that was sold or paid back, as its creator sees it: nothing of the buyer. */
export const BotSale = {
  type: 'object',
  additionalProperties: false,
  required: ['purchaseId', 'botId', 'priceUsd', 'netUsd', 'status'],
  properties: {
    purchaseId: Purchase.properties.purchaseId,
    botId: Purchase.properties.botId,
    priceUsd: Purchase.properties.priceUsd,
    netUsd: {
      type: 'number',
      minimum: 0,
      description: "What of the price is the creator's, in USD.",
      examples: [15.92]
    },
    status: Purchase.properties.status
  },
  description: 'To the creator of the bot.'
} as const

export const PlanState = {
  type: 'object',
  additionalProperties: false,
  required: ['plan', 'saasStatus', 'periodEnd', 'topUpUsd'],
  properties: {
    plan,
    saasStatus,
    periodEnd: { ...timestamp, description: 'End of the period that is paid; the fee after it fell due then.' },
    topUpUsd: {
      type: 'number',
      minimum: 0,
      description: 'What the wallet lacked of the fee; 0 while the plan is active.',
      examples: [148.5]
    }
  }
} as const

export const FailedOrder = {
  ...OrderEntry,
  required: [...OrderEntry.required, 'retryable'],
  properties: {
    ...OrderEntry.properties,
    retryable: {
      type: 'boolean',
      description:
        'Whether the same clientOrderId may try again; order.opened may follow then. false for a copy, which has none.',
      examples: [false]
    }
  },
  examples: [{ ...OrderEntry.examples[0], retryable: false }]
} as const

interface EventDescription {
  summary: string
  data: Schema
}

/** Every type of event: when it is written, and the shape of its data. */
export const eventTypes = {
  'order.opened': {
    summary: 'The contract was bought. Without result, also where that is known by now.',
    data: OrderEntry
  },
  'order.closed': { summary: 'The contract was settled, sold or stopped out.', data: OrderEntry },
  'order.failed': {
    summary: 'Certainly no contract. Each attempt that fails is an event.',
    data: FailedOrder
  },
  'order.review': {
    summary: 'What the broker shows about the order is not clear; the operator decides it, or it becomes clear later.',
    data: OrderEntry
  },
  'account.connected': { summary: 'A token of the account was exchanged.', data: Account },
  'account.rejected': { summary: 'The broker refused the account or its token.', data: Account },
  'follow.paused': { summary: 'A follow copies nothing for now; `status` has the reason.', data: Follow },
  'payout.approved': { summary: 'The operator agreed to a payout.', data: Payout },
  'payout.paid': { summary: 'A payout was paid.', data: Payout },
  'payout.rejected': { summary: 'The operator declined a payout; the amount is available again.', data: Payout },
  'plan.inactive': {
    summary: 'The plan fee could not be paid; read it when the plan is active again.',
    data: PlanState
  },
  'plan.active': { summary: 'The plan fee was paid and the plan is active again.', data: PlanState },
  'bot.purchased': {
    summary: 'A bot was bought: to the buyer its purchase, to the creator its sale.',
    data: { oneOf: [Purchase, BotSale], description: "To the buyer the purchase, to the bot's creator the sale." }
  },
  'bot.refunded': {
    summary: 'A purchase was paid back; to the buyer and to the creator.',
    data: { oneOf: [Purchase, BotSale], description: "To the buyer the purchase, to the bot's creator the sale." }
  },
  'subscription.past_due': { summary: 'The next month of a bot could not be paid.', data: Subscription },
  'key.created': { summary: 'An API key was created.', data: KeyEntry },
  'key.revoked': { summary: 'An API key was revoked.', data: KeyEntry },
  'deployment.live': { summary: 'A site is served.', data: Deployment },
  'deployment.failed': { summary: 'A site could not be rendered.', data: Deployment },
  'webhook.disabled': {
    summary: 'A webhook endpoint was disabled because it returned 410, or only failed for five days.',
    data: Webhook
  }
} as const satisfies Record<string, EventDescription>

export type EventType = keyof typeof eventTypes
export const eventTypeNames = Object.keys(eventTypes) as EventType[]

export const isEventType = (text: string): text is EventType => Object.hasOwn(eventTypes, text)

const position = {
  type: 'integer',
  minimum: 1,
  description: "Place in the partner's log: 1, 2, 3 … without gaps.",
  examples: [4711]
} as const

const shared = {
  id: eventId,
  createdAt: { ...timestamp, description: 'When the change was made.' },
  traderExternalId: {
    ...nullable(traderExternalId),
    description: "The trader whose record it is; null for the partner's own."
  }
} as const

/** The shape of an event of one type, with its position or without. */
function shapeOf(type: EventType, placed: boolean): Schema {
  const { summary, data } = eventTypes[type]
  const properties = {
    id: shared.id,
    type: { const: type, description: summary, examples: [type] },
    createdAt: shared.createdAt,
    ...(placed ? { position } : {}),
    traderExternalId: shared.traderExternalId,
    data
  }
  return {
    type: 'object',
    title: type,
    additionalProperties: false,
    required: Object.keys(properties),
    properties,
    description: summary
  }
}

const example = {
  id: 'evt_01k3hv9c7bf5tvxkz1qd3rn8ma',
  type: 'order.closed',
  createdAt: '2026-11-21T08:00:10.000Z',
  position: 4711,
  traderExternalId: 'user-42',
  data: OrderEntry.examples[0]
} as const

/** An event as it is read everywhere. */
export const Event = {
  type: 'object',
  oneOf: eventTypeNames.map(type => shapeOf(type, true)),
  description: '`type` distinguishes them; `data` is the record as its own endpoint showed it at that moment.',
  examples: [example]
} as const

const { position: _, ...unplaced } = example

/** An event as the holder of a stream ticket reads it: without position. */
export const TicketEvent = {
  type: 'object',
  oneOf: eventTypeNames.map(type => shapeOf(type, false)),
  description: 'An event for a trader: without its position.',
  examples: [unplaced]
} as const

export interface EventRecord {
  id: string
  type: EventType
  createdAt: string
  position: number
  traderExternalId: string | null
  data: object
}

export const eventCursor = {
  ...cursorField,
  description:
    "A point in the partner's log; opaque, for this partner alone, good in the list, the stream and webhooks.",
  examples: ['Zk3vT1nq0aWcJxUe8rYbHg']
} as const

export const EventsQuery = {
  type: 'object',
  properties: {
    after: {
      ...eventCursor,
      description:
        'Events after this cursor; without it from the oldest that is kept; `now`: none, and the newest cursor, at once.'
    },
    types: {
      type: 'string',
      minLength: 1,
      maxLength: 1000,
      pattern: `^(${eventTypeNames.join('|')})(,(${eventTypeNames.join('|')}))*$`.replaceAll('.', '\\.'),
      description: 'Only these types, separated by commas.',
      examples: ['order.opened,order.closed']
    },
    traderExternalId,
    limit: {
      type: 'integer',
      minimum: 1,
      maximum: 200,
      default: 50,
      description: 'How many events at most.',
      examples: [50]
    },
    wait: {
      type: 'integer',
      minimum: 0,
      maximum: 30,
      default: 0,
      description: 'For how many seconds an empty response waits for an event.',
      examples: [20]
    }
  }
} as const
export type EventsQuery = FromSchema<typeof EventsQuery>

export const EventPage = {
  type: 'object',
  additionalProperties: false,
  required: ['data', 'cursor', 'caughtUp'],
  properties: {
    data: { type: 'array', description: 'The oldest first.', items: Event },
    cursor: { ...eventCursor, description: 'Pass as `after` to go on.' },
    caughtUp: {
      type: 'boolean',
      description:
        'Whether nothing more was there at the moment of reading; with a filter, an empty page may have false.',
      examples: [true]
    }
  }
} as const

export const EventPath = {
  type: 'object',
  required: ['id'],
  properties: { id: pathId('evt', 'id of the event.') }
} as const
export type EventPath = FromSchema<typeof EventPath>

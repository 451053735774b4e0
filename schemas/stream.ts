// The stream's messages, both ways, and the tickets that let a browser open one.
import type { FromSchema } from 'json-schema-to-ts'
import { Event, eventCursor, eventTypeNames, TicketEvent } from './events.ts'
import { asset, type Schema, timestamp, traderExternalId } from './fields/fields.ts'
import type { Scope } from './fields/scopes.ts'

/** The WebSocket subprotocol. */
export const SUBPROTOCOL = 'service.v1'

/** Bounds of one socket, and how many sockets a key may have open by its partner's plan. */
export const streamLimits = {
  subscriptions: 20,
  assets: 100,
  traders: 500,
  messagesPerSecond: 20,
  messageBytes: 65_536
} as const
export const socketsPerKey = { LAUNCH: 5, PRO: 25, SCALE: 200 } as const
export const HEARTBEAT_SECONDS = 10

export const closeCodes = {
  4400: 'A message was not JSON, or not of the grammar.',
  4402: 'The plan is inactive.',
  4403: 'The key was revoked, the partner suspended, or the trader of the ticket disabled or erased.',
  4408: 'No subscription within 10 seconds, or nothing was read for 60 seconds.',
  4429: 'A limit: the key has as many sockets open as its plan allows (the reason names how many), or more than 20 messages came in a second.',
  1012: 'The service stops; reconnect with the last cursor.'
} as const

export const channels = ['events', 'ticks'] as const
export type Channel = (typeof channels)[number]
export const isChannel = (text: unknown): text is Channel => channels.includes(text as Channel)

/** The scope that a key needs for a channel. */
export const channelScopes = { events: 'events:read', ticks: 'trading:read' } as const satisfies Record<Channel, Scope>

const id = {
  type: 'string',
  minLength: 1,
  maxLength: 64,
  pattern: '^[\\u0021-\\u007e]+$',
  description: "The client's own name for the subscription or the ping.",
  examples: ['orders']
} as const
const channel = {
  type: 'string',
  enum: channels,
  description: 'events: what happens to the partner. ticks: live prices of assets.',
  examples: ['events']
} as const
const assets = {
  type: 'array',
  minItems: 1,
  maxItems: streamLimits.assets,
  items: asset,
  description: 'Broker symbols.',
  examples: [['R_100', 'frxEURUSD']]
} as const
const cursor = { ...eventCursor, examples: ['p0Qm4bJxL7sVd2RkYt9wEA'] } as const
const types = {
  type: 'array',
  minItems: 1,
  maxItems: eventTypeNames.length,
  items: { type: 'string', enum: eventTypeNames, description: 'A type of event.', examples: ['order.closed'] },
  description: 'Only these types; all without it.'
} as const
const traderExternalIds = {
  type: 'array',
  minItems: 1,
  maxItems: streamLimits.traders,
  items: traderExternalId,
  description: "Only events of these traders; without it of all, and the partner's own."
} as const

const message = <Type extends string, Properties extends object>(
  type: Type,
  description: string,
  properties: Properties,
  optional: readonly (keyof Properties)[] = []
) =>
  ({
    type: 'object',
    title: type,
    additionalProperties: false,
    required: ['type', ...Object.keys(properties).filter(name => !optional.includes(name as keyof Properties))],
    properties: { type: { const: type, description, examples: [type] }, ...properties },
    description
  }) as const

/** What a client sends. */
export const Subscribe = {
  type: 'object',
  title: 'subscribe',
  additionalProperties: false,
  required: ['type', 'id', 'channel'],
  properties: {
    type: { const: 'subscribe', description: 'Begins a subscription.', examples: ['subscribe'] },
    id,
    channel: { const: 'events', description: 'What happens to the partner.', examples: ['events'] },
    after: { ...cursor, description: 'Replays the events after this cursor first; without it from now on.' },
    types,
    traderExternalIds
  },
  description: 'Begins a subscription to events; the response is subscribed or error.',
  examples: [{ type: 'subscribe', id: 'orders', channel: 'events', types: ['order.opened', 'order.closed'] }]
} as const
export type Subscribe = FromSchema<typeof Subscribe>
export const SubscribeTicks = {
  type: 'object',
  title: 'subscribeTicks',
  additionalProperties: false,
  required: ['type', 'id', 'channel', 'assets'],
  properties: {
    type: { const: 'subscribe', description: 'Begins a subscription.', examples: ['subscribe'] },
    id,
    channel: { const: 'ticks', description: 'Live prices of assets.', examples: ['ticks'] },
    assets
  },
  description:
    'Begins a subscription to live prices; the response is subscribed or error. An asset that the broker does not have is named by an error later on.',
  examples: [{ type: 'subscribe', id: 'prices', channel: 'ticks', assets: ['R_100'] }]
} as const
export type SubscribeTicks = FromSchema<typeof SubscribeTicks>
export const Unsubscribe = message('unsubscribe', 'Ends a subscription.', { id })
export const Ping = message('ping', 'Requests a pong.', { id })

/** Messages of the client, by name. */
export const fromClient: Record<string, Schema> = {
  subscribe: Subscribe,
  subscribeTicks: SubscribeTicks,
  unsubscribe: Unsubscribe,
  ping: Ping
}

/** The schema of a message of the client that is of the grammar; undefined for a channel that does not exist. */
export function schemaOf({ type, channel }: { type: string; channel?: unknown }): Schema | undefined {
  if (type !== 'subscribe') return fromClient[type]
  return isChannel(channel) ? { events: Subscribe, ticks: SubscribeTicks }[channel] : undefined
}

/** The grammar: what is not of it ends the socket. */
export const Grammar = {
  type: 'object',
  required: ['type', 'id'],
  properties: { type: { type: 'string', enum: ['subscribe', 'unsubscribe', 'ping'] }, id }
} as const

const count = (description: string, example: number) =>
  ({ type: 'integer', minimum: 0, description, examples: [example] }) as const

export const Hello = message('hello', 'The first message of a socket.', {
  connectionId: { type: 'string', description: 'Quote it when something is wrong.', examples: ['c1f0a9d2'] },
  heartbeatSeconds: count('A heartbeat comes about so often: a socket that is silent for twice as long is broken.', 10),
  limits: {
    type: 'object',
    additionalProperties: false,
    required: ['subscriptions', 'assets', 'traders', 'messagesPerSecond', 'messageBytes'],
    properties: {
      subscriptions: count('Subscriptions of a socket.', streamLimits.subscriptions),
      assets: count('Different assets that the subscriptions of a socket may name.', streamLimits.assets),
      traders: count('Different traders that the subscriptions of a socket may name.', streamLimits.traders),
      messagesPerSecond: count('Messages a client may send in a second.', streamLimits.messagesPerSecond),
      messageBytes: count('Bytes of a message of the client.', streamLimits.messageBytes)
    },
    description: 'The bounds of this socket.'
  }
})
export const Subscribed = message(
  'subscribed',
  'The subscription runs: nothing after `cursor` will be missed. With `after` that cursor.',
  { id, channel, cursor: { ...cursor, description: 'Of events: nothing after it will be missed. Ticks have none.' } },
  ['cursor']
)
const sent = {
  id,
  cursor: { ...cursor, description: 'After this event.' },
  previous: {
    ...cursor,
    description:
      'Cursor of the event before on this subscription; of the first: that of `subscribed`. Another one than expected is a gap.'
  }
} as const
export const EventMessage = message('event', 'An event.', { ...sent, event: Event })
export const TicketEventMessage = message('event', 'An event, on the socket of a ticket.', {
  ...sent,
  event: TicketEvent
})
export const Ticks = message(
  'ticks',
  'Live prices of the assets of this socket, each tick once, however many subscriptions name its asset. Where the socket reads slowly only the newest of each asset is sent.',
  {
    data: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['asset', 'epoch', 'price'],
        properties: {
          asset,
          epoch: { type: 'integer', description: "The broker's time of the tick, in seconds.", examples: [1794000000] },
          price: { type: 'number', description: 'The price.', examples: [1219.5] }
        },
        description: 'A tick.'
      },
      description: 'Oldest first.'
    }
  }
)
export const CaughtUp = message('caughtUp', 'A replay is over; events come as they happen from here on.', {
  id,
  cursor
})
export const Heartbeat = message(
  'heartbeat',
  'Every ten seconds.',
  {
    at: { ...timestamp, description: "The service's time." },
    subscriptions: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['id', 'cursor'],
        properties: {
          id,
          cursor: { ...cursor, description: 'Of the last event sent: safe to resume from.' },
          resume: {
            ...cursor,
            description:
              'Where nothing was sent for a day or longer and other events came meanwhile: a later cursor to resume from, which expires later. The next event still names `cursor` as its `previous`.'
          }
        },
        description: 'A subscription.'
      },
      description: 'Each subscription to events and how far it is.'
    },
    latest: count("The partner's newest position; not on the socket of a ticket.", 4711)
  },
  ['latest']
)
export const Pong = message('pong', 'The response to a ping.', { id })
export const Closing = message('closing', 'The service stops; the socket closes with 1012 right after.', {
  reason: { type: 'string', description: 'Why.', examples: ['the service restarts'] },
  reconnectAfterMs: count('When to reconnect, so that not all do at once.', 1200)
})
export const StreamError = message(
  'error',
  'A well-formed message that cannot be done; the socket stays. CURSOR_EXPIRED also ends a subscription whose log was restored.',
  {
    id,
    error: {
      type: 'string',
      enum: ['VALIDATION_FAILED', 'CURSOR_EXPIRED', 'CONFLICT', 'INSUFFICIENT_SCOPE', 'LIMIT_REACHED', 'UNAVAILABLE'],
      description: 'The code, as in responses over HTTP.',
      examples: ['CURSOR_EXPIRED']
    },
    message: { type: 'string', description: 'In words.', examples: ['The id orders is in use on this socket.'] },
    oldest: { ...cursor, description: 'With CURSOR_EXPIRED: before the oldest event that is kept.' },
    latest: { ...cursor, description: 'With CURSOR_EXPIRED: after the newest.' }
  },
  ['oldest', 'latest']
)

/** Messages of the service on the socket of a key, by type. */
export const fromService: Record<string, Schema> = {
  hello: Hello,
  subscribed: Subscribed,
  event: EventMessage,
  ticks: Ticks,
  caughtUp: CaughtUp,
  heartbeat: Heartbeat,
  pong: Pong,
  closing: Closing,
  error: StreamError
}

/** What the description shows of them: all, and what the socket of a ticket receives in place of one. */
export const describedFromService: Record<string, Schema> = { ...fromService, ticketEvent: TicketEventMessage }

export const NewTicket = {
  type: 'object',
  required: ['traderExternalId'],
  properties: {
    traderExternalId,
    channels: {
      type: 'array',
      minItems: 1,
      maxItems: channels.length,
      items: channel,
      description: 'What the socket may subscribe to; all channels without it.'
    },
    assets: {
      ...assets,
      description: 'The only assets whose ticks it may subscribe to; any without it. Not without the channel ticks.'
    },
    ttlSeconds: {
      type: 'integer',
      minimum: 1,
      maximum: 60,
      default: 60,
      description: 'Within how many seconds the socket must be opened.',
      examples: [60]
    }
  },
  examples: [{ traderExternalId: 'user-42' }]
} as const
export type NewTicket = FromSchema<typeof NewTicket>

export const StreamTicket = {
  type: 'object',
  additionalProperties: false,
  required: ['ticket', 'expiresAt'],
  properties: {
    ticket: {
      type: 'string',
      description: 'Opens one socket, once: Sec-WebSocket-Protocol: service.v1, ticket.<ticket>',
      examples: ['c3RyZWFtLXRpY2tldC1mb3ItYS1icm93c2VyLW9ubHk']
    },
    expiresAt: timestamp
  }
} as const

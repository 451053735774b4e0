// The community of one partner: profiles, leaderboard, messages, shared bots.
import type { FromSchema } from 'json-schema-to-ts'
import { accountMode, currency, idField, nullable, timestamp } from './fields/fields.ts'
import { freeformLimits } from './fields/freeform.ts'

const line = '^[^\\u0000-\\u001f\\u007f]*$'
const prose = '^[^\\u0000]*$'

const displayName = {
  type: 'string',
  maxLength: 60,
  pattern: line,
  description: 'Name shown to others.',
  examples: ['Ada']
} as const
const bio = {
  type: 'string',
  maxLength: 500,
  pattern: prose,
  description: 'A few words about oneself.',
  examples: ['Volatility indices, mostly.']
} as const
const avatarUrl = {
  type: ['string', 'null'],
  maxLength: 1024,
  format: 'uri',
  pattern: '^[Hh][Tt][Tt][Pp][Ss]?://[^/]',
  description: 'Address of a picture (http or https), or null.',
  examples: ['https://cdn.example.com/ada.png']
} as const
const isPublic = {
  type: 'boolean',
  description: "Whether the profile is on the leaderboard; of the partner's own, whether its leaders are global.",
  examples: [true]
} as const

export const ProfileUpdate = {
  type: 'object',
  additionalProperties: false,
  properties: {
    displayName: { ...displayName, description: 'Name shown to others; an empty one brings the default back.' },
    bio,
    avatarUrl,
    isPublic
  },
  examples: [{ displayName: 'Ada', isPublic: true }]
} as const
export type ProfileUpdate = FromSchema<typeof ProfileUpdate>

export const Profile = {
  type: 'object',
  additionalProperties: false,
  required: ['displayName', 'bio', 'avatarUrl', 'isPublic', 'updatedAt'],
  properties: {
    displayName: {
      type: 'string',
      description:
        "Name shown to others; a default one until it is set: the partner's name, or Trader and four characters.",
      examples: ['Ada']
    },
    bio: { ...nullable(bio), description: 'null until it is set.' },
    avatarUrl,
    isPublic,
    updatedAt: { ...nullable(timestamp), description: 'null before the first change.' }
  }
} as const
export type Profile = FromSchema<typeof Profile>

/** The author, as others see it. */
export const Author = {
  type: 'object',
  additionalProperties: false,
  required: ['displayName', 'avatarUrl'],
  description: 'Who wrote it.',
  properties: { displayName: Profile.properties.displayName, avatarUrl }
} as const

export const LeaderboardEntry = {
  type: 'object',
  additionalProperties: false,
  required: ['rank', 'accountMode', 'currency', 'displayName', 'avatarUrl', 'trades', 'winRatePct', 'pnl'],
  properties: {
    rank: { type: 'integer', minimum: 1, description: 'Place by pnl, within one mode and currency.', examples: [1] },
    accountMode,
    currency: { ...nullable(currency), description: 'null where it is not known.' },
    displayName: Profile.properties.displayName,
    avatarUrl,
    trades: { type: 'integer', minimum: 1, description: 'Closed orders and collected trades.', examples: [120] },
    winRatePct: {
      type: 'number',
      minimum: 0,
      maximum: 100,
      description: 'Share of trades with a profit, to two decimals.',
      examples: [54.17]
    },
    pnl: { type: 'number', description: 'Sum of profit and loss, in that currency.', examples: [312.4] }
  }
} as const

export const Leaderboard = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: {
    data: {
      type: 'array',
      maxItems: 100,
      description: 'REAL before DEMO, then by currency, the best first.',
      items: LeaderboardEntry
    }
  }
} as const

export const LeaderboardQuery = { type: 'object', properties: { accountMode, currency } } as const
export type LeaderboardQuery = FromSchema<typeof LeaderboardQuery>

const messageId = idField('msg', 'Identifier of the message.')
const content = {
  type: 'string',
  minLength: 1,
  maxLength: 1000,
  pattern: prose,
  description: 'Text of the message.',
  examples: ['R_100 is lively today.']
} as const

export const NewMessage = { type: 'object', required: ['content'], properties: { content } } as const
export type NewMessage = FromSchema<typeof NewMessage>

export const Message = {
  type: 'object',
  additionalProperties: false,
  required: ['messageId', 'author', 'content', 'createdAt', 'mine'],
  properties: {
    messageId,
    author: Author,
    content,
    createdAt: timestamp,
    mine: { type: 'boolean', description: 'Whether the acting party wrote it.', examples: [true] }
  }
} as const

export const MessageList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', maxItems: 100, description: 'The newest first.', items: Message } }
} as const

const deleted = { type: 'boolean', const: true, description: 'Always true.', examples: [true] } as const

export const DeletedMessage = {
  type: 'object',
  additionalProperties: false,
  required: ['messageId', 'deleted'],
  properties: { messageId, deleted }
} as const

const botId = idField('cbt', 'Identifier of the community bot.')
const botFields = {
  name: {
    type: 'string',
    minLength: 3,
    maxLength: 80,
    pattern: line,
    description: 'Name of the bot.',
    examples: ['Calm rider']
  },
  description: {
    type: 'string',
    maxLength: 1000,
    pattern: prose,
    description: 'What it does.',
    examples: ['Buys rises after three falls.']
  },
  symbol: {
    type: 'string',
    maxLength: 32,
    pattern: line,
    description: 'Broker symbol it is made for.',
    examples: ['R_100']
  },
  config: {
    type: 'object',
    additionalProperties: true,
    description: `Its settings, free-form. ${freeformLimits}`,
    examples: [{ stake: 1, after: 3 }]
  }
} as const

export const NewCommunityBot = { type: 'object', required: ['name'], properties: botFields } as const
export type NewCommunityBot = FromSchema<typeof NewCommunityBot>

const liked = { type: 'boolean', description: 'Whether the acting party likes it.', examples: [false] } as const
const likes = { type: 'integer', minimum: 0, description: 'How many parties like it.', examples: [3] } as const

export const CommunityBot = {
  type: 'object',
  additionalProperties: false,
  required: ['botId', 'name', 'description', 'symbol', 'config', 'author', 'likes', 'liked', 'createdAt'],
  properties: {
    botId,
    name: botFields.name,
    description: { ...nullable(botFields.description), description: 'What it does; null when not given.' },
    symbol: { ...nullable(botFields.symbol), description: 'Broker symbol it is made for; null when not given.' },
    config: { ...botFields.config, description: 'Its settings, as given; empty when none were.' },
    author: Author,
    likes,
    liked,
    createdAt: timestamp
  }
} as const

export const CommunityBotList = {
  type: 'object',
  additionalProperties: false,
  required: ['data'],
  properties: { data: { type: 'array', maxItems: 200, description: 'The newest first.', items: CommunityBot } }
} as const

export const DeletedCommunityBot = {
  type: 'object',
  additionalProperties: false,
  required: ['botId', 'deleted'],
  properties: { botId, deleted }
} as const

export const Like = {
  type: 'object',
  additionalProperties: false,
  required: ['botId', 'liked', 'likes'],
  properties: { botId, liked, likes }
} as const

// The marketplace as its visitors see it: the list, a bot's detail, reviews. The creator's side and what is
// sold are in creator.ts and sales.ts.
import type { FromSchema } from 'json-schema-to-ts'
import { idField, timestamp } from '../fields/fields.ts'
import { type PageQuery, page, pageLimit, pageOf } from '../fields/pages.ts'

export const categories = ['trend', 'scalp', 'grid', 'ai', 'arbitrage', 'custom'] as const
export const riskLevels = ['low', 'medium', 'high'] as const

// Text of people: line breaks are welcome, a NUL is no text to PostgreSQL.
export const lines = '^[^\\u0000]*$'
export const line = '^[^\\u0000-\\u001f\\u007f]+$'

export const webUrl = {
  type: 'string',
  maxLength: 2048,
  format: 'uri',
  pattern: '^https?://[^\\s/]',
  description: 'Address of something on the web, http or https.',
  examples: ['https://cdn.example.com/equity.png']
} as const

export const name = {
  type: 'string',
  minLength: 3,
  maxLength: 120,
  pattern: line,
  description: 'Name of the bot.',
  examples: ['Night Range']
} as const

export const description = {
  type: 'string',
  maxLength: 500,
  pattern: lines,
  description: 'What it does, in a sentence or two.',
  examples: ['Sells the edges of quiet ranges on synthetic indices.']
} as const

export const longDescription = {
  type: 'string',
  maxLength: 5000,
  pattern: lines,
  description: 'Everything a buyer should know.',
  examples: ['Waits for a narrow band of twenty candles, then …']
} as const

export const category = {
  type: 'string',
  enum: categories,
  description: 'Kind of strategy.',
  examples: ['scalp']
} as const

export const riskLevel = {
  type: 'string',
  enum: riskLevels,
  description: 'How much may be lost, in the creator’s judgement.',
  examples: ['medium']
} as const

export const strategyType = {
  type: 'string',
  minLength: 1,
  maxLength: 120,
  pattern: line,
  description: "The strategy in the creator's words.",
  examples: ['mean-reversion']
} as const

export const supportedAssets = {
  type: 'array',
  maxItems: 100,
  items: { type: 'string', minLength: 1, maxLength: 64, pattern: line },
  description: 'Broker symbols the bot is made for.',
  examples: [['R_50', 'R_100']]
} as const

export const screenshots = {
  type: 'array',
  maxItems: 20,
  items: webUrl,
  description: 'Addresses of pictures.',
  examples: [['https://cdn.example.com/equity.png']]
} as const

export const demoVideoUrl = {
  ...webUrl,
  description: 'Address of a video.',
  examples: ['https://video.example.com/night-range']
} as const

export const version = {
  type: 'string',
  minLength: 1,
  maxLength: 32,
  pattern: line,
  description: 'Version of the code.',
  examples: ['1.0.0']
} as const

export const code = {
  type: 'string',
  minLength: 1,
  maxLength: 500_000,
  pattern: lines,
  description: 'The bot itself.',
  examples: ['on candle: if range(20) < 1.2 sell']
} as const

export const botId = idField('bot', 'Identifier of the bot.')

const priceUsd = (what: string) =>
  ({
    type: ['number', 'null'],
    minimum: 0,
    description: `${what} in USD; 0 is free, null is not offered.`,
    examples: [19.9]
  }) as const

export const sorts = ['newest', 'top-rated', 'top-downloads'] as const

export const BotsQuery = {
  type: 'object',
  properties: {
    page,
    limit: pageLimit(100),
    category: {
      type: 'string',
      maxLength: 64,
      pattern: lines,
      description: `Only this category: ${categories.join(', ')}.`,
      examples: ['scalp']
    },
    riskLevel: {
      type: 'string',
      maxLength: 64,
      pattern: lines,
      description: `Only this risk level: ${riskLevels.join(', ')}.`,
      examples: ['low']
    },
    search: {
      type: 'string',
      maxLength: 200,
      pattern: lines,
      description:
        'Words; each must begin a word of the name, description, category, strategyType or supportedAssets. Case and accents do not matter, nor do words after the tenth.',
      examples: ['night range']
    },
    sort: {
      type: 'string',
      enum: sorts,
      default: 'newest',
      description: 'Order: newest publication, best average rating (then most reviews), or most downloads.',
      examples: ['top-rated']
    }
  }
} as const
export interface BotsQuery extends PageQuery {
  category?: string
  riskLevel?: string
  search?: string
  sort: (typeof sorts)[number]
}

export const displayName = {
  type: 'string',
  description: 'Name shown to others.',
  examples: ['Acme Markets']
} as const

const person = (whose: string) =>
  ({
    type: 'object',
    additionalProperties: false,
    required: ['displayName'],
    properties: { displayName },
    description: whose
  }) as const

/** The facts of a bot in every response about it. */
export const facts = {
  botId,
  name,
  description,
  category,
  riskLevel,
  strategyType,
  supportedAssets,
  screenshots,
  oneTimePriceUsd: priceUsd('Price of a purchase'),
  monthlyPriceUsd: priceUsd('Price of a month'),
  version,
  rating: {
    type: ['number', 'null'],
    minimum: 1,
    maximum: 5,
    description: 'Average of the reviews with two decimals; null while there are none.',
    examples: [4.62]
  },
  reviews: { type: 'integer', minimum: 0, description: 'How many reviews.', examples: [48] },
  downloads: {
    type: 'integer',
    minimum: 0,
    description: 'Purchases and subscriptions, less those paid back.',
    examples: [310]
  },
  creator: person('Who made it.'),
  publishedAt: { ...timestamp, type: ['string', 'null'], description: 'First publication; null for a draft.' }
} as const
const factNames = Object.keys(facts) as (keyof typeof facts)[]

export const Bot = {
  type: 'object',
  additionalProperties: false,
  required: factNames,
  properties: facts
} as const

export const BotPage = pageOf(Bot)

/** A field of a request, or null in a response. */
export const orNull = <Field extends { readonly type: 'string' }>(field: Field) =>
  ({ ...field, type: ['string', 'null'] }) as Omit<Field, 'type'> & { readonly type: readonly ['string', 'null'] }

export const detailFacts = {
  ...facts,
  longDescription: orNull(longDescription),
  demoVideoUrl: orNull(demoVideoUrl)
} as const
export const detailFactNames = Object.keys(detailFacts) as (keyof typeof detailFacts)[]

export const BotDetail = {
  type: 'object',
  additionalProperties: false,
  required: [...detailFactNames, 'owned'],
  properties: {
    ...detailFacts,
    owned: { type: 'boolean', description: 'Whether the caller bought it or subscribes to it.', examples: [false] },
    code: { ...code, description: 'The bot itself; only for its creator, buyers and subscribers.' }
  }
} as const

export const NewReview = {
  type: 'object',
  required: ['rating'],
  properties: {
    rating: { type: 'integer', minimum: 1, maximum: 5, description: 'From 1 to 5.', examples: [5] },
    comment: { type: 'string', maxLength: 2000, pattern: lines, description: 'Words with it.', examples: ['Calm.'] }
  }
} as const
export type NewReview = FromSchema<typeof NewReview>

export const Review = {
  type: 'object',
  additionalProperties: false,
  required: ['reviewId', 'botId', 'rating', 'comment', 'author', 'mine', 'createdAt'],
  properties: {
    reviewId: idField('rev', 'Identifier of the review.'),
    botId,
    rating: { type: 'integer', minimum: 1, maximum: 5, description: 'From 1 to 5.', examples: [5] },
    comment: { type: ['string', 'null'], description: 'Words with it.', examples: ['Calm.'] },
    author: person('Who wrote it.'),
    mine: { type: 'boolean', description: "Whether it is the caller's own.", examples: [false] },
    createdAt: { ...timestamp, description: 'When it was written, or last replaced.' }
  }
} as const

export const ReviewPage = pageOf(Review)

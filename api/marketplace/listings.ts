// The marketplace for its visitors: the list, a bot's detail, its reviews. Sales are in sales.ts,
// the creator's side is in creator.ts.

import type { ListedBot } from '../../db/marketplace/bot-rows.ts'
import { listBots } from '../../db/marketplace/listing.ts'
import { getBotDetail } from '../../db/marketplace/listings.ts'
import { listReviews, type ReviewRow, saveReview } from '../../db/marketplace/reviews.ts'
import { pathId } from '../../schemas/fields/fields.ts'
import { shown } from '../../schemas/fields/money.ts'
import { type PageQuery, pageQuery } from '../../schemas/fields/pages.ts'
import { BotDetail, BotPage, BotsQuery, NewReview, Review, ReviewPage } from '../../schemas/marketplace/marketplace.ts'
import type { Operation } from '../operation.ts'
import { partyOf } from '../party.ts'

/** Path parameters of everything about one record. */
export const idParams = (prefix: string, description: string) =>
  ({ type: 'object', required: ['id'], properties: { id: pathId(prefix, description) } }) as const
export interface IdParams {
  id: string
}

const time = (value: Date | null): string | null => value?.toISOString() ?? null
const price = (value: string | null): number | null => (value === null ? null : shown(value))

/** A bot as lists show it. */
export function presentBot(bot: ListedBot) {
  return {
    botId: bot.id,
    name: bot.name,
    description: bot.description,
    category: bot.category,
    riskLevel: bot.risk_level,
    strategyType: bot.strategy_type,
    supportedAssets: bot.supported_assets,
    screenshots: bot.screenshots,
    oneTimePriceUsd: price(bot.one_time_price),
    monthlyPriceUsd: price(bot.monthly_price),
    version: bot.version,
    rating: bot.rating_count === 0 ? null : Number(bot.rating),
    reviews: bot.rating_count,
    downloads: bot.downloads,
    creator: { displayName: bot.creator_name },
    publishedAt: time(bot.published_at)
  }
}

function presentReview(review: ReviewRow, partyId: string) {
  return {
    reviewId: review.id,
    botId: review.bot_id,
    rating: review.rating,
    comment: review.comment,
    // Reviews are read across partners: the author is shown only where its profile is public.
    author: { displayName: review.author_name ?? 'Verified buyer' },
    mine: review.party_id === partyId,
    createdAt: review.created_at.toISOString()
  }
}

export const listMarketplaceBots: Operation<{ query: BotsQuery }> = {
  name: 'listMarketplaceBots',
  weight: 2,
  method: 'GET',
  path: '/v1/marketplace/bots',
  tag: 'Marketplace',
  summary: 'Published bots',
  description: 'Bots of every creator, by category, risk level and words, in the order requested. Total is exact.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:read',
  query: BotsQuery,
  response: BotPage,
  errors: [],
  replica: true,
  async handle(request, { db, reads }) {
    const { query } = request
    const { test } = partyOf(request)
    const { bots, total } = await listBots(db, query, { test, memory: reads })
    return { data: bots.map(presentBot), page: query.page, limit: query.limit, total }
  }
}

export const getMarketplaceBot: Operation<{ params: IdParams }> = {
  name: 'getMarketplaceBot',
  method: 'GET',
  path: '/v1/marketplace/bots/{id}',
  tag: 'Marketplace',
  summary: 'One bot',
  description:
    'Everything about a bot; its code only for its creator, its buyers and its subscribers. A bot that is not PUBLISHED is a 404 to everybody else.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:read',
  params: idParams('bot', 'botId of the bot.'),
  response: BotDetail,
  errors: ['NOT_FOUND'],
  async handle(request, { db }) {
    const { bot, owned, code } = await getBotDetail(db, request.params.id, partyOf(request))
    return {
      ...presentBot(bot),
      longDescription: bot.long_description,
      demoVideoUrl: bot.demo_video_url,
      owned,
      ...(code === undefined ? {} : { code })
    }
  }
}

export const listBotReviews: Operation<{ params: IdParams; query: PageQuery }> = {
  name: 'listBotReviews',
  method: 'GET',
  path: '/v1/marketplace/bots/{id}/reviews',
  tag: 'Marketplace',
  summary: 'Reviews of a bot',
  description:
    "Newest first. The author's name is that of its public community profile, if it has one; `mine` marks the acting party’s own one.",
  auth: 'key',
  actor: true,
  scope: 'marketplace:read',
  params: idParams('bot', 'botId of the bot.'),
  query: pageQuery(50),
  response: ReviewPage,
  errors: ['NOT_FOUND'],
  replica: true,
  async handle(request, { db }) {
    const party = partyOf(request)
    const { page, limit } = request.query
    const { reviews, total } = await listReviews(db, { botId: request.params.id, party, page, limit })
    return { data: reviews.map(review => presentReview(review, party.partyId)), page, limit, total }
  }
}

export const reviewBot: Operation<{ params: IdParams; body: NewReview }> = {
  name: 'reviewBot',
  method: 'POST',
  path: '/v1/marketplace/bots/{id}/reviews',
  tag: 'Marketplace',
  summary: 'Review a bot',
  description:
    'Needs a purchase or a subscription (409 otherwise). One review per party and bot: a new one replaces it.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  params: idParams('bot', 'botId of the bot.'),
  body: NewReview,
  response: Review,
  atomic: true,
  errors: ['NOT_FOUND', 'CONFLICT'],
  async handle(request, { db }) {
    const party = partyOf(request)
    const { rating, comment = null } = request.body
    const wanted = { botId: request.params.id, rating, comment }
    return presentReview(await db.transaction(trx => saveReview(trx, party, wanted)), party.partyId)
  }
}

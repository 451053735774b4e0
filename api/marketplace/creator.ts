// The creator's side of the marketplace: writing, publishing and retiring bots. What they earn is in
// earnings.ts.

import type { BotRow } from '../../db/marketplace/bot-rows.ts'
import {
  type BotFacts,
  insertBot,
  listOwnBots,
  publishBot as publish,
  retireBot as retire,
  updateBot
} from '../../db/marketplace/listings.ts'
import { requireRoom, requireWithin } from '../../db/platform/bounds.ts'
import { usdOf } from '../../schemas/fields/money.ts'
import { BotChanges, CreatorBot, CreatorBots, NewBot } from '../../schemas/marketplace/creator.ts'
import type { Operation } from '../operation.ts'
import { partyOf } from '../party.ts'
import { type IdParams, idParams, presentBot } from './listings.ts'

const LIST_AT_MOST = 1000

function presentOwnBot(bot: BotRow) {
  return {
    ...presentBot(bot),
    longDescription: bot.long_description,
    demoVideoUrl: bot.demo_video_url,
    status: bot.status,
    createdAt: bot.created_at.toISOString(),
    updatedAt: bot.updated_at.toISOString()
  }
}

export const listCreatorBots: Operation<object> = {
  name: 'listCreatorBots',
  method: 'GET',
  path: '/v1/marketplace/creator/bots',
  tag: 'Marketplace',
  summary: "The creator's own bots",
  description: `In every state, newest first, at most ${LIST_AT_MOST}. The code is in the detail.`,
  auth: 'key',
  actor: true,
  scope: 'marketplace:read',
  response: CreatorBots,
  errors: [],
  async handle(request, { db }) {
    return { data: (await listOwnBots(db, partyOf(request).partyId, LIST_AT_MOST)).map(presentOwnBot) }
  }
}

export const createCreatorBot: Operation<{ body: NewBot }> = {
  name: 'createCreatorBot',
  method: 'POST',
  path: '/v1/marketplace/creator/bots',
  tag: 'Marketplace',
  summary: 'Write a bot',
  description: 'The bot is a DRAFT, seen by its creator only, until it is published.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  body: NewBot,
  response: CreatorBot,
  atomic: true,
  errors: [],
  async handle(request, { db }) {
    const { body } = request
    const party = partyOf(request)
    const facts = {
      name: body.name,
      description: body.description,
      longDescription: body.longDescription ?? null,
      category: body.category,
      riskLevel: body.riskLevel,
      strategyType: body.strategyType,
      supportedAssets: body.supportedAssets ?? [],
      screenshots: body.screenshots ?? [],
      demoVideoUrl: body.demoVideoUrl ?? null,
      oneTimePriceUsd: usdOrNull(body.oneTimePriceUsd, '/body/oneTimePriceUsd') ?? null,
      monthlyPriceUsd: usdOrNull(body.monthlyPriceUsd, '/body/monthlyPriceUsd') ?? null,
      code: body.code,
      version: body.version ?? '1.0.0'
    }
    // Counted twice: before the code is written, which costs the most, and behind others that were written at the same time.
    await requireRoom(db, 'creatorBots', party.partnerId, Buffer.byteLength(body.code))
    return db.transaction(async trx => {
      const bot = await insertBot(trx, party, facts)
      await requireWithin(trx, 'creatorBots', party.partnerId)
      return presentOwnBot(bot)
    })
  }
}

/** An amount with at most two decimals; null takes a price away, undefined leaves it. */
function usdOrNull(value: number | null | undefined, path: string): string | null | undefined {
  return typeof value === 'number' ? usdOf(value, path) : value
}

export const updateCreatorBot: Operation<{ params: IdParams; body: BotChanges }> = {
  name: 'updateCreatorBot',
  method: 'PATCH',
  path: '/v1/marketplace/creator/bots/{id}',
  tag: 'Marketplace',
  summary: 'Change a bot',
  description:
    'Fields left out stay as they are. What is published changes at once; new prices are for new buyers and subscribers.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  params: idParams('bot', 'botId of the bot.'),
  body: BotChanges,
  response: CreatorBot,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle(request, { db }) {
    const { body } = request
    const facts: Partial<BotFacts> = {
      name: body.name,
      description: body.description,
      longDescription: body.longDescription,
      category: body.category,
      riskLevel: body.riskLevel,
      strategyType: body.strategyType,
      supportedAssets: body.supportedAssets,
      screenshots: body.screenshots,
      demoVideoUrl: body.demoVideoUrl,
      oneTimePriceUsd: usdOrNull(body.oneTimePriceUsd, '/body/oneTimePriceUsd'),
      monthlyPriceUsd: usdOrNull(body.monthlyPriceUsd, '/body/monthlyPriceUsd'),
      code: body.code
    }
    const party = partyOf(request)
    return db.transaction(async trx => {
      const bot = await updateBot(trx, request.params.id, party, facts)
      if (body.code !== undefined) await requireWithin(trx, 'creatorBots', party.partnerId)
      return presentOwnBot(bot)
    })
  }
}

export const publishBot: Operation<{ params: IdParams }> = {
  name: 'publishBot',
  method: 'POST',
  path: '/v1/marketplace/creator/bots/{id}/publish',
  tag: 'Marketplace',
  summary: 'Publish a bot',
  description: 'A DRAFT, or a RETIRED bot, is listed and sold from now on.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  params: idParams('bot', 'botId of the bot.'),
  response: CreatorBot,
  atomic: true,
  errors: ['NOT_FOUND', 'CONFLICT'],
  async handle(request, { db }) {
    const party = partyOf(request)
    return presentOwnBot(await db.transaction(trx => publish(trx, request.params.id, party)))
  }
}

export const retireBot: Operation<{ params: IdParams }> = {
  name: 'retireBot',
  method: 'POST',
  path: '/v1/marketplace/creator/bots/{id}/retire',
  tag: 'Marketplace',
  summary: 'Retire a bot',
  description: 'It is neither listed nor sold any more; buyers and subscribers keep theirs. It may be published again.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  params: idParams('bot', 'botId of the bot.'),
  response: CreatorBot,
  atomic: true,
  errors: ['NOT_FOUND', 'CONFLICT'],
  async handle(request, { db }) {
    const { partyId } = partyOf(request)
    return presentOwnBot(await db.transaction(trx => retire(trx, request.params.id, partyId)))
  }
}

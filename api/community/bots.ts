// Bots that the parties of a partner's community share and like.
import {
  type CommunityBotRecord,
  insertCommunityBot,
  listCommunityBots as list,
  deleteCommunityBot as remove,
  toggleLike
} from '../../db/community/bots.ts'
import { CommunityBot, CommunityBotList, DeletedCommunityBot, Like, NewCommunityBot } from '../../schemas/community.ts'
import { pathId } from '../../schemas/fields/fields.ts'
import { checkFreeform } from '../../schemas/fields/freeform.ts'
import type { Caller, Operation } from '../operation.ts'
import { partyOf } from '../party.ts'
import { presentAuthor } from './community.ts'

const common = { tag: 'Community', auth: 'key', actor: true } as const
const botParams = {
  type: 'object',
  required: ['id'],
  properties: { id: pathId('cbt', 'botId of the shared bot.') }
} as const

export const listCommunityBots: Operation<object> = {
  ...common,
  name: 'listCommunityBots',
  method: 'GET',
  path: '/v1/community/bots',
  summary: 'Shared bots',
  description: "All bots of the partner's community, newest first.",
  scope: 'community:read',
  response: CommunityBotList,
  errors: [],
  async handle(request, { db }) {
    const bots = await list(db, partyOf(request))
    return { data: bots.map(bot => presentBot(bot, request.partner)) }
  }
}

export const createCommunityBot: Operation<{ body: NewCommunityBot }> = {
  ...common,
  name: 'createCommunityBot',
  method: 'POST',
  path: '/v1/community/bots',
  summary: 'Share a bot',
  description: 'In the name of the acting party. A community holds at most 200 bots.',
  scope: 'community:write',
  body: NewCommunityBot,
  response: CommunityBot,
  atomic: true,
  errors: ['LIMIT_REACHED'],
  async handle(request, { db }) {
    const { name, description, symbol, config } = request.body
    if (config) checkFreeform(config, '/body/config')
    const bot = await insertCommunityBot(db, partyOf(request), {
      name,
      description: description ?? null,
      symbol: symbol ?? null,
      config: config ?? {}
    })
    return presentBot(bot, request.partner)
  }
}

function presentBot(bot: CommunityBotRecord, partner: Caller) {
  return {
    botId: bot.botId,
    name: bot.name,
    description: bot.description,
    symbol: bot.symbol,
    config: bot.config,
    author: presentAuthor(bot.author, { partner }),
    likes: bot.likes,
    liked: bot.liked,
    createdAt: bot.createdAt.toISOString()
  }
}

export const deleteCommunityBot: Operation<{ params: { id: string } }> = {
  ...common,
  name: 'deleteCommunityBot',
  method: 'DELETE',
  path: '/v1/community/bots/{id}',
  summary: 'Delete a shared bot',
  description: "One's own, with its likes; the partner itself may delete any bot of its community.",
  scope: 'community:write',
  params: botParams,
  response: DeletedCommunityBot,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle(request, { db }) {
    await remove(db, partyOf(request), request.params.id)
    return { botId: request.params.id, deleted: true }
  }
}

export const likeCommunityBot: Operation<{ params: { id: string } }> = {
  ...common,
  name: 'likeCommunityBot',
  method: 'POST',
  path: '/v1/community/bots/{id}/like',
  summary: 'Like a bot, or take the like back',
  description: 'Each call turns the like of the acting party on or off.',
  scope: 'community:write',
  params: botParams,
  response: Like,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle(request, { db }) {
    const { liked, likes } = await toggleLike(db, partyOf(request), request.params.id)
    return { botId: request.params.id, liked, likes }
  }
}

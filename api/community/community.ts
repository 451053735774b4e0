// The community of a partner: profiles, leaderboard, messages. The acting party is the trader whose session
// accompanies the key, else the partner itself.

import {
  type Author,
  getProfile as get,
  insertMessage,
  listMessages as list,
  type MessageRecord,
  type ProfileRecord,
  deleteMessage as remove,
  updateProfile as update
} from '../../db/community/community.ts'
import {
  DeletedMessage,
  Leaderboard,
  LeaderboardQuery,
  Message,
  MessageList,
  NewMessage,
  Profile,
  ProfileUpdate
} from '../../schemas/community.ts'
import { pathId } from '../../schemas/fields/fields.ts'
import type { Operation, OperationRequest } from '../operation.ts'
import { partyOf, unnamedTrader } from '../party.ts'

type Acting = Pick<OperationRequest<object>, 'partner' | 'trader'>

/** A party as others see it. A trader without a display name is not shown under the name it signed up with. */
export function presentAuthor({ partyId, displayName, avatarUrl }: Author, { partner }: Pick<Acting, 'partner'>) {
  const unnamed = partyId === partner.partnerId ? partner.partnerName : unnamedTrader(partyId)
  return { displayName: displayName || unnamed, avatarUrl }
}

const common = { tag: 'Community', auth: 'key', actor: true } as const

export const getCommunityProfile: Operation<object> = {
  ...common,
  name: 'getCommunityProfile',
  method: 'GET',
  path: '/v1/community/profile',
  summary: 'The profile of the acting party',
  description: 'Of the trader whose session comes with the key, else of the partner.',
  scope: 'community:read',
  response: Profile,
  errors: [],
  async handle(request, { db }): Promise<Profile> {
    return presentProfile(await get(db, partyOf(request)), request)
  }
}

export const updateCommunityProfile: Operation<{ body: ProfileUpdate }> = {
  ...common,
  name: 'updateCommunityProfile',
  method: 'POST',
  path: '/v1/community/profile',
  summary: 'Change the profile of the acting party',
  description: 'What is left out stays as it is. A property it does not know is refused.',
  scope: 'community:write',
  body: ProfileUpdate,
  response: Profile,
  atomic: true,
  errors: [],
  async handle(request, { db }): Promise<Profile> {
    const { displayName, bio, avatarUrl, isPublic } = request.body
    return presentProfile(await update(db, partyOf(request), { displayName, bio, avatarUrl, isPublic }), request)
  }
}

function presentProfile(profile: ProfileRecord, request: Acting): Profile {
  const { displayName, avatarUrl } = presentAuthor({ ...profile, partyId: partyOf(request).partyId }, request)
  const { bio, isPublic, updatedAt } = profile
  return { displayName, bio, avatarUrl, isPublic, updatedAt: updatedAt?.toISOString() ?? null }
}

export const getLeaderboard: Operation<{ query: LeaderboardQuery }> = {
  ...common,
  name: 'getLeaderboard',
  weight: 5,
  method: 'GET',
  path: '/v1/community/leaderboard',
  summary: 'The best traders of 30 days',
  description:
    'Traders with a public profile, by the sum of profit and loss of their closed orders and collected trades of the last 30 days. A collected trade counts in the mode of its account where the trader has that here, else of the active one, in its own currency, else in that of the account. Ranked within one mode and currency, REAL before DEMO; at most 100.',
  scope: 'community:read',
  query: LeaderboardQuery,
  response: Leaderboard,
  errors: [],
  async handle({ partner, query }, { batched }) {
    const { accountMode = null, currency = null } = query
    const leaders = await batched.leaderboard({ partnerId: partner.partnerId, accountMode, currency })
    return {
      data: leaders.map(leader => ({
        rank: leader.rank,
        accountMode: leader.accountMode,
        currency: leader.currency,
        ...presentAuthor(leader, { partner }),
        trades: leader.trades,
        winRatePct: Math.round((leader.wins / leader.trades) * 10_000) / 100,
        pnl: Number(leader.pnl)
      }))
    }
  }
}

export const listMessages: Operation<object> = {
  ...common,
  name: 'listMessages',
  method: 'GET',
  path: '/v1/community/messages',
  summary: 'The newest 100 messages',
  description: 'Newest first.',
  scope: 'community:read',
  response: MessageList,
  errors: [],
  async handle(request, { db }) {
    const messages = await list(db, request.partner.partnerId)
    return { data: messages.map(message => presentMessage(message, request)) }
  }
}

export const postMessage: Operation<{ body: NewMessage }> = {
  ...common,
  name: 'postMessage',
  method: 'POST',
  path: '/v1/community/messages',
  summary: 'Write a message',
  description: "In the name of the acting party, for everybody in the partner's community.",
  scope: 'community:write',
  body: NewMessage,
  response: Message,
  atomic: true,
  errors: [],
  async handle(request, { db }) {
    return presentMessage(await insertMessage(db, partyOf(request), request.body.content), request)
  }
}

function presentMessage({ messageId, author, content, createdAt }: MessageRecord, request: Acting) {
  return {
    messageId,
    author: presentAuthor(author, request),
    content,
    createdAt: createdAt.toISOString(),
    mine: author.partyId === partyOf(request).partyId
  }
}

export const deleteMessage: Operation<{ params: { id: string } }> = {
  ...common,
  name: 'deleteMessage',
  method: 'DELETE',
  path: '/v1/community/messages/{id}',
  summary: 'Delete a message',
  description: "One's own; the partner itself may delete any message of its community.",
  scope: 'community:write',
  params: { type: 'object', required: ['id'], properties: { id: pathId('msg', 'messageId of the message.') } },
  response: DeletedMessage,
  atomic: true,
  errors: ['NOT_FOUND'],
  async handle(request, { db }) {
    await remove(db, partyOf(request), request.params.id)
    return { messageId: request.params.id, deleted: true }
  }
}

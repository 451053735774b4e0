// Copy trading: leaders, following, and the states of a trader's follows. The copying itself is worker/copy/fanout.ts.

import {
  follow as begin,
  findBetween,
  findFollowedLeader,
  type LeaderRecord,
  listLeaders as list,
  listFollows,
  presentFollow,
  unfollow as stop
} from '../db/copy/follows.ts'
import { requireRoom, requireWithin } from '../db/platform/bounds.ts'
import type { Db } from '../db/postgres/connection.ts'
import type { AccountRecord } from '../db/traders/accounts.ts'
import { requireConnected } from '../db/traders/accounts.ts'
import { getTrader } from '../db/traders/traders.ts'
import {
  CopyQuery,
  Follow,
  FollowList,
  FollowRequest,
  LeaderList,
  LeadersQuery,
  UnfollowRequest
} from '../schemas/copy.ts'
import { ApiError } from '../schemas/errors/errors.ts'
import type { Operation } from './operation.ts'
import { unnamedTrader } from './party.ts'
import { requestFromBroker } from './request/broker-requests.ts'

export const listLeaders: Operation<{ query: LeadersQuery }> = {
  name: 'listLeaders',
  weight: 5,
  method: 'GET',
  path: '/v1/copy/leaders',
  tag: 'Copy trading',
  summary: 'Traders one can follow',
  description:
    'Traders with at least ten orders closed in the last 30 days, in mode and currency of their active account; REAL before DEMO, then by currency, the best first, at most 100. Other partners are never named, nor traders of theirs without a public profile.',
  auth: 'key',
  scope: 'copy:read',
  query: LeadersQuery,
  response: LeaderList,
  errors: [],
  replica: true,
  async handle({ partner, query }, { db }) {
    const scope = query.scope ?? 'tenant'
    const leaders = await list(db, {
      partnerId: partner.partnerId,
      everywhere: scope === 'global',
      accountMode: query.accountMode ?? null,
      currency: query.currency ?? null
    })
    return {
      data: leaders.map(leader => ({
        leaderId: leader.leaderId,
        displayName: leader.displayName ?? unnamedTrader(leader.leaderId),
        scope,
        accountMode: leader.accountMode,
        currency: leader.currency,
        followers: leader.followers,
        trades: leader.trades,
        winRatePct: leader.winRatePct,
        pnl: Number(leader.pnl),
        maxDrawdownPct: leader.maxDrawdownPct,
        maxDrawdown: Number(leader.maxDrawdown)
      }))
    }
  }
}

export const followLeader: Operation<{ body: FollowRequest }> = {
  name: 'followLeader',
  method: 'POST',
  path: '/v1/copy/follow',
  tag: 'Copy trading',
  summary: 'Follow a leader',
  description:
    'From now on each order the leader places is copied to the account that is active now, stake × riskPct / 100, whatever account is active later. Both accounts must have the same mode and currency, and be different accounts (409 otherwise). Orders of a leader of another partner are copied while the profile of that partner is public. Following again starts from the active account and its present balance, updates the terms (what is left out takes its default, not its value until then), and resumes a follow that was paused or stopped; the terms of one that was not stopped can be changed whatever record its leader has by now.',
  auth: 'key',
  scope: 'copy:write',
  body: FollowRequest,
  response: Follow,
  errors: [
    'TRADER_NOT_FOUND',
    'LEADER_NOT_FOUND',
    'BROKER_DISCONNECTED',
    'FOLLOW_MISMATCH',
    'CONFLICT',
    'BROKER_UPSTREAM'
  ],
  async handle(request, services) {
    const { partner, body } = request
    const { db, batched } = services
    const { leaderId, traderExternalId } = body
    const trading = await batched.trading({ partnerId: partner.partnerId, externalId: traderExternalId })
    if (!trading) throw new ApiError('TRADER_NOT_FOUND')
    if (trading.traderId === leaderId) throw new ApiError('CONFLICT', 'A trader cannot follow itself.')
    const leader = await findLeader(db, { partnerId: partner.partnerId, traderId: trading.traderId, leaderId })
    if (!leader) throw new ApiError('LEADER_NOT_FOUND')
    requireConnected(trading.account)
    const { id: accountRowId, accountId, accountMode } = trading.account
    const { followed, sameAccount } = await findBetween(db, { traderId: trading.traderId, leaderId, accountId })
    // Changing or resuming a follow needs no room.
    if (!followed) {
      await requireRoom(db, 'follows', trading.traderId)
      await requireRoom(db, 'partnerFollows', partner.partnerId)
    }
    if (sameAccount) throw new ApiError('CONFLICT', `The leader trades on account ${accountId} itself.`)
    checkAgreement(leader, trading.account)
    const { balance, currency } = await requestFromBroker<{ balance: string; currency: string }>(services, {
      partnerId: partner.partnerId,
      kind: 'balance',
      key: accountRowId,
      data: { accountRowId },
      signal: request.signal
    })
    checkAgreement(leader, { ...trading.account, currency })
    const { riskPct = 100, maxDrawdownPct = 20, mirrorCloses = true } = body
    const { traderId } = trading
    return db.transaction(async trx => {
      const begun = await begin(trx, {
        partnerId: partner.partnerId,
        traderId,
        traderExternalId,
        leaderId,
        riskPct,
        maxDrawdownPct,
        mirrorCloses,
        accountRowId,
        accountId,
        accountMode,
        currency,
        balance
      })
      // Others may have begun while the broker responded: a list shows as many as the bound allows, and no more.
      if (!followed) await requireWithin(trx, 'follows', traderId)
      return presentFollow(begun)
    })
  }
}

/** A leader of the partner's own or of all partners, or one whom the trader follows already. */
async function findLeader(db: Db, pair: { partnerId: string; traderId: string; leaderId: string }) {
  const { partnerId, leaderId } = pair
  const [own] = await list(db, { partnerId, everywhere: false, leaderId })
  const [found] = own ? [own] : await list(db, { partnerId, everywhere: true, leaderId })
  return found ?? findFollowedLeader(db, pair)
}

/** Throws FOLLOW_MISMATCH unless both accounts have one mode and, as far as they are known, one currency. */
function checkAgreement(
  leader: Pick<LeaderRecord, 'accountMode' | 'currency'>,
  { accountId, accountMode, currency }: Pick<AccountRecord, 'accountId' | 'accountMode' | 'currency'>
): void {
  const known = leader.currency !== null && currency !== null
  if (leader.accountMode === accountMode && (!known || leader.currency === currency)) return
  const named = (mode: string, code: string | null) => `a ${mode} account in ${code ?? 'an unknown currency'}`
  throw new ApiError(
    'FOLLOW_MISMATCH',
    `The leader trades ${named(leader.accountMode, leader.currency)}, account ${accountId} is ${named(accountMode, currency)}.`
  )
}

export const unfollowLeader: Operation<{ body: UnfollowRequest }> = {
  name: 'unfollowLeader',
  method: 'POST',
  path: '/v1/copy/unfollow',
  tag: 'Copy trading',
  summary: 'Stop following a leader',
  description:
    "Copies that are open stay open and settle by themselves: the leader's closes and limits do not apply to them any more, except for closes from before. Copies that wait to be bought fail; one that is at the broker at that moment may still open.",
  auth: 'key',
  scope: 'copy:write',
  body: UnfollowRequest,
  response: Follow,
  atomic: true,
  errors: ['TRADER_NOT_FOUND', 'LEADER_NOT_FOUND'],
  async handle({ partner, body }, { db }) {
    const { traderId } = await getTrader(db, partner.partnerId, body.traderExternalId)
    const stopped = await db.transaction(trx => stop(trx, { traderId, leaderId: body.leaderId }))
    if (!stopped) throw new ApiError('LEADER_NOT_FOUND', 'This trader never followed that leader.')
    return presentFollow(stopped)
  }
}

export const listMyFollows: Operation<{ query: CopyQuery }> = {
  name: 'listMyFollows',
  method: 'GET',
  path: '/v1/copy/me',
  tag: 'Copy trading',
  summary: "A trader's follows with their states",
  description: 'Newest first, stopped ones included.',
  auth: 'key',
  scope: 'copy:read',
  query: CopyQuery,
  response: FollowList,
  errors: ['TRADER_NOT_FOUND'],
  async handle({ partner, query }, { db }) {
    const { traderId } = await getTrader(db, partner.partnerId, query.traderExternalId)
    const follows = await listFollows(db, traderId)
    return {
      data: follows.map(record => ({
        ...presentFollow(record),
        copiedOrders: record.copiedOrders,
        pnl: Number(record.pnl),
        drawdownPct: record.drawdownPct === null ? null : Number(record.drawdownPct)
      }))
    }
  }
}

// A creator's earnings, and requests for payouts.

import { readEarnings } from '../../db/money/earnings.ts'
import { listPayouts as list, presentPayout, requestPayout as request } from '../../db/money/payouts.ts'
import { requireWithin } from '../../db/platform/bounds.ts'
import { shown, usdOf } from '../../schemas/fields/money.ts'
import { type PageQuery, pageQuery } from '../../schemas/fields/pages.ts'
import { Earnings, NewPayout, Payout, PayoutPage } from '../../schemas/marketplace/creator.ts'
import type { Operation } from '../operation.ts'
import { partyOf } from '../party.ts'

const BOTS_AT_MOST = 1000

export const getCreatorEarnings: Operation<object> = {
  name: 'getCreatorEarnings',
  method: 'GET',
  path: '/v1/marketplace/creator/earnings',
  tag: 'Marketplace',
  summary: 'What the bots earned',
  description:
    'availableUsd, heldUsd and paidOutUsd add up to lifetimeUsd. The partner sees all it earned, its traders’ bots included; a trader sees its own part.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:read',
  response: Earnings,
  errors: [],
  async handle(request, { db, config }) {
    const { earnings: earned, bots } = await readEarnings(db, partyOf(request), BOTS_AT_MOST)
    return {
      availableUsd: shown(earned.availableUsd),
      heldUsd: shown(earned.heldUsd),
      lifetimeUsd: shown(earned.lifetimeUsd),
      paidOutUsd: shown(earned.paidOutUsd),
      feePct: Number(config.marketplaceFeePct),
      bots: bots.map(bot => ({
        botId: bot.botId,
        name: bot.name,
        sales: bot.sales,
        subscribers: bot.subscribers,
        grossUsd: shown(bot.grossUsd),
        netUsd: shown(bot.netUsd)
      }))
    }
  }
}

export const requestPayout: Operation<{ body: NewPayout }> = {
  name: 'requestPayout',
  method: 'POST',
  path: '/v1/marketplace/creator/payouts',
  tag: 'Marketplace',
  summary: 'Request a payout',
  description:
    'The amount is held from now on; the operator approves and pays it, or rejects it, which makes it available again. More than is available is a 409.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  body: NewPayout,
  response: Payout,
  atomic: true,
  errors: ['CONFLICT'],
  async handle(requested, { db }) {
    const wanted = {
      ...partyOf(requested),
      amountUsd: usdOf(requested.body.amountUsd, '/body/amountUsd'),
      destinationAddress: requested.body.destinationAddress
    }
    return db.transaction(async trx => {
      const payout = await request(trx, wanted)
      // Only now, with the earnings locked: of two requests at once the second counts the first.
      await requireWithin(trx, 'payouts', wanted.partnerId)
      return presentPayout(payout)
    })
  }
}

export const listPayouts: Operation<{ query: PageQuery }> = {
  name: 'listPayouts',
  method: 'GET',
  path: '/v1/marketplace/creator/payouts',
  tag: 'Marketplace',
  summary: 'Payouts requested',
  description: 'Newest first. The partner sees its traders’ payouts too, a trader its own.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:read',
  query: pageQuery(100),
  response: PayoutPage,
  errors: [],
  async handle(request, { db }) {
    const { partnerId, partyId } = partyOf(request)
    const { page, limit } = request.query
    const whose = partyId === partnerId ? { partnerId } : { partnerId, partyId }
    const { payouts, total } = await list(db, { ...whose, page, limit })
    return { data: payouts.map(presentPayout), page, limit, total }
  }
}

// Buying in the marketplace: purchases for ever, subscriptions by the month, and what one has.

import {
  cancelSubscription as cancel,
  findPurchase,
  hasSubscription,
  pageOfPurchases,
  pageOfSubscriptions,
  presentPurchase,
  presentSubscription,
  purchaseBot as purchase,
  subscribeToBot as subscribe
} from '../../db/marketplace/sales.ts'
import { requireRoomUnless } from '../../db/platform/bounds.ts'
import { usdOf } from '../../schemas/fields/money.ts'
import {
  OWNED_PAGE,
  OwnedQuery,
  Purchase,
  PurchaseList,
  Sale,
  Subscription,
  SubscriptionList
} from '../../schemas/marketplace/sales.ts'
import type { Operation } from '../operation.ts'
import { partyOf } from '../party.ts'
import { type IdParams, idParams } from './listings.ts'

function saleOf({ params, body }: { params: IdParams; body: Sale }) {
  const { expectedPriceUsd: expected } = body
  return {
    botId: params.id,
    expectedUsd: expected === undefined ? undefined : usdOf(expected, '/body/expectedPriceUsd')
  }
}

export const purchaseBot: Operation<{ params: IdParams; body: Sale }> = {
  name: 'purchaseBot',
  method: 'POST',
  path: '/v1/marketplace/bots/{id}/purchase',
  tag: 'Marketplace',
  summary: 'Buy a bot',
  description:
    "The one-time price leaves the partner's wallet. Safe to repeat: a party that has the bot gets its first purchase again, and no money moves. One's own bot, one without a one-time price, and one that is not for sale at present are a 409; a price of 0 is free. With expectedPriceUsd it is bought at that price or not at all.",
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  params: idParams('bot', 'botId of the bot.'),
  body: Sale,
  response: Purchase,
  atomic: true,
  errors: ['WALLET_INSUFFICIENT', 'NOT_FOUND', 'CONFLICT', 'PRICE_CHANGED'],
  async handle(request, { db, config }) {
    const sale = { ...saleOf(request), feePct: config.marketplaceFeePct }
    const party = partyOf(request)
    const { partnerId, partyId } = party
    await requireRoomUnless(db, 'purchases', partnerId, () => findPurchase(db, partyId, sale.botId))
    return presentPurchase(await db.transaction(trx => purchase(trx, party, sale)))
  }
}

export const subscribeToBot: Operation<{ params: IdParams; body: Sale }> = {
  name: 'subscribeToBot',
  method: 'POST',
  path: '/v1/marketplace/bots/{id}/subscribe',
  tag: 'Marketplace',
  summary: 'Subscribe to a bot',
  description:
    "The first month leaves the partner's wallet at once, the others as they begin; the price stays what it was. A party that subscribes already gets its subscription, with a cancellation withdrawn, and no money moves. One's own bot, one without a monthly price, and one that is not for sale at present are a 409. With expectedPriceUsd it is subscribed to at that price or not at all.",
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  params: idParams('bot', 'botId of the bot.'),
  body: Sale,
  response: Subscription,
  atomic: true,
  errors: ['WALLET_INSUFFICIENT', 'NOT_FOUND', 'CONFLICT', 'PRICE_CHANGED'],
  async handle(request, { db, config }) {
    const sale = { ...saleOf(request), feePct: config.marketplaceFeePct }
    const party = partyOf(request)
    const { partnerId, partyId } = party
    await requireRoomUnless(db, 'partnerSubscriptions', partnerId, () => hasSubscription(db, partyId, sale.botId))
    return presentSubscription(await db.transaction(trx => subscribe(trx, party, sale)))
  }
}

export const cancelSubscription: Operation<{ params: IdParams }> = {
  name: 'cancelSubscription',
  method: 'POST',
  path: '/v1/marketplace/subscriptions/{id}/cancel',
  tag: 'Marketplace',
  summary: 'Cancel a subscription',
  description:
    'It stays usable until the end of the month that is paid, then it is CANCELED; one that is PAST_DUE is CANCELED at once. Canceling a CANCELED one is a 409.',
  auth: 'key',
  actor: true,
  scope: 'marketplace:write',
  params: idParams('sub', 'subscriptionId of the subscription.'),
  response: Subscription,
  atomic: true,
  errors: ['NOT_FOUND', 'CONFLICT'],
  async handle(request, { db }) {
    const { partyId } = partyOf(request)
    return presentSubscription(await db.transaction(trx => cancel(trx, request.params.id, partyId)))
  }
}

export const listMyPurchases: Operation<{ query: OwnedQuery }> = {
  name: 'listMyPurchases',
  method: 'GET',
  path: '/v1/marketplace/my/purchases',
  tag: 'Marketplace',
  summary: 'Purchases of the acting party',
  description: `Refunded purchases too, newest first, ${OWNED_PAGE} a page.`,
  auth: 'key',
  actor: true,
  scope: 'marketplace:read',
  query: OwnedQuery,
  response: PurchaseList,
  errors: [],
  async handle(request, { db }) {
    const { limit = OWNED_PAGE, cursor } = request.query
    const { purchases, nextCursor } = await pageOfPurchases(db, partyOf(request), { limit, cursor })
    return { data: purchases.map(presentPurchase), nextCursor }
  }
}

export const listMySubscriptions: Operation<{ query: OwnedQuery }> = {
  name: 'listMySubscriptions',
  method: 'GET',
  path: '/v1/marketplace/my/subscriptions',
  tag: 'Marketplace',
  summary: 'Subscriptions of the acting party',
  description: `Canceled subscriptions too, newest first, ${OWNED_PAGE} a page; of more, those that run are on the pages before canceled ones.`,
  auth: 'key',
  actor: true,
  scope: 'marketplace:read',
  query: OwnedQuery,
  response: SubscriptionList,
  errors: [],
  async handle(request, { db }) {
    const { limit = OWNED_PAGE, cursor } = request.query
    const { subscriptions, nextCursor } = await pageOfSubscriptions(db, partyOf(request), { limit, cursor })
    return { data: subscriptions.map(presentSubscription), nextCursor }
  }
}

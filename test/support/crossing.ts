// For every operation that takes an identifier: how another partner would request what is not its own, and what
// it must be listed here. One world is made with one record of each kind; a row without an entry here fails the test.

import { randomUUID } from 'node:crypto'
import { createCommunityBot } from '../../api/community/bots.ts'
import { postMessage } from '../../api/community/community.ts'
import { listEvents } from '../../api/events/events.ts'
import { purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { createWebhook } from '../../api/webhooks/endpoints.ts'
import { sequenceEvents } from '../../db/events/sequence.ts'
import type { ErrorCode } from '../../schemas/errors/errors.ts'
import type { CallInput, Harness, TestPartner, TestTrader } from './harness.ts'
import { fund, makeBot, makeDraft } from './marketplace-makers.ts'
import { insertOrderRows } from './order-rows.ts'

export interface Crossing {
  input: CallInput
  /** The refusal; or why there is none, with what the response's data must be. */
  expected: ErrorCode | { fine: string; data?: [] }
}

/** What belongs to `owner`, and the trader of the requesting partner. The creator sells to the owner. */
export async function makeCrossings(
  harness: Harness,
  owner: TestPartner,
  stranger: TestPartner,
  { creator }: { creator?: TestPartner } = {}
): Promise<Record<string, Crossing>> {
  const { db } = harness.services
  const requestId = randomUUID()
  const trader = await owner.makeTrader()
  const [twin, own] = [await owner.makeTrader(), await stranger.makeTrader()]
  // A leader of its own partner's.
  await insertOrderRows(db, trader, { count: 10 })
  const orderOf = async (kind: 'BINARY' | 'MULTIPLIER') => {
    await insertOrderRows(db, trader, { kind, phase: 'open' })
    const terms = kind === 'BINARY' ? { contract_type: 'CALL' } : { direction: 'up', multiplier: 10 }
    await db('orders').where({ trader_id: trader.traderId, kind, phase: 'open' }).update(terms)
    return (await db('orders').where({ trader_id: trader.traderId, kind, phase: 'open' }).first('id')).id as string
  }
  const [binary, multiplier] = [await orderOf('BINARY'), await orderOf('MULTIPLIER')]
  const made = async (row: Parameters<TestPartner['call']>[0], input: CallInput) => {
    const { status, body } = await owner.call(row, input)
    if (status !== 200) throw new Error(`${row.name} returned ${status} ${JSON.stringify(body)}`)
    return body
  }
  await made(listEvents, { headers: { 'x-request-id': requestId } })
  const { messageId } = await made(postMessage, { body: { content: 'hello' } })
  const { botId: communityBot } = await made(createCommunityBot, { body: { name: 'bot' } })
  const draft = await makeDraft(owner)
  const published = await makeBot(owner)
  // A test side begins with play money.
  if (!creator) await fund(harness, owner, '100')
  const sold = await makeBot(creator ?? (await harness.makePartner()), { oneTimePriceUsd: 5, monthlyPriceUsd: 5 })
  const { purchaseId } = await made(purchaseBot, { params: { id: sold } })
  const { subscriptionId } = await made(subscribeToBot, { params: { id: sold } })
  await sequenceEvents(db)
  const { id: eventId } = (await made(listEvents, {})).data[0]
  const { webhookId } = await made(createWebhook, { body: { url: 'https://hooks.example.com/all' } })
  const webhook = { params: { id: webhookId } }

  return {
    ...tradingCrossings(trader, { binary, multiplier, own, twin, requestId }),
    endSessions: { input: { body: { traderId: trader.traderId } }, expected: 'NOT_FOUND' },
    disableTrader: { input: { params: { traderId: trader.traderId } }, expected: 'NOT_FOUND' },
    enableTrader: { input: { params: { traderId: trader.traderId } }, expected: 'NOT_FOUND' },
    revokeKey: { input: { params: { id: owner.keyId } }, expected: 'NOT_FOUND' },
    createStreamTicket: {
      input: { body: { traderExternalId: trader.traderExternalId } },
      expected: 'TRADER_NOT_FOUND'
    },
    getEvent: { input: { params: { id: eventId } }, expected: 'NOT_FOUND' },
    listEvents: {
      input: { query: { traderExternalId: trader.traderExternalId } },
      expected: { fine: 'a filter that fits nothing', data: [] }
    },
    getWebhook: { input: webhook, expected: 'NOT_FOUND' },
    updateWebhook: { input: { ...webhook, body: { status: 'DISABLED' } }, expected: 'NOT_FOUND' },
    deleteWebhook: { input: webhook, expected: 'NOT_FOUND' },
    rotateWebhookSecret: { input: webhook, expected: 'NOT_FOUND' },
    testWebhook: { input: webhook, expected: 'NOT_FOUND' },
    listWebhookDeliveries: { input: webhook, expected: 'NOT_FOUND' },
    retryWebhookDelivery: {
      input: { params: { id: webhookId, deliveryId: 'dlv_01k3hv9c7bf5tvxkz1qd3rn8ma' } },
      expected: 'NOT_FOUND'
    },
    replayWebhook: { input: { ...webhook, body: { since: '2020-01-01T00:00:00Z' } }, expected: 'NOT_FOUND' },
    deleteMessage: { input: { params: { id: messageId } }, expected: 'NOT_FOUND' },
    deleteCommunityBot: { input: { params: { id: communityBot } }, expected: 'NOT_FOUND' },
    likeCommunityBot: { input: { params: { id: communityBot } }, expected: 'NOT_FOUND' },
    getMarketplaceBot: { input: { params: { id: draft } }, expected: 'NOT_FOUND' },
    listBotReviews: { input: { params: { id: draft } }, expected: 'NOT_FOUND' },
    reviewBot: { input: { params: { id: draft }, body: { rating: 5 } }, expected: 'NOT_FOUND' },
    purchaseBot: { input: { params: { id: draft } }, expected: 'NOT_FOUND' },
    subscribeToBot: { input: { params: { id: draft } }, expected: 'NOT_FOUND' },
    updateCreatorBot: { input: { params: { id: published }, body: { name: 'Mine now' } }, expected: 'NOT_FOUND' },
    publishBot: { input: { params: { id: draft } }, expected: 'NOT_FOUND' },
    retireBot: { input: { params: { id: published } }, expected: 'NOT_FOUND' },
    cancelSubscription: { input: { params: { id: subscriptionId } }, expected: 'NOT_FOUND' },
    // With an admin key this is the platform's own doing, for any partner: only a key without admin is refused.
    refundPurchase: { input: { params: { id: purchaseId }, body: { reason: 'mine' } }, expected: 'INSUFFICIENT_SCOPE' },
    refundSubscription: {
      input: { params: { id: subscriptionId }, body: { reason: 'mine' } },
      expected: 'INSUFFICIENT_SCOPE'
    },
    deployTemplate: {
      input: { params: { slug: 'nothing' }, body: { tenantSlug: 'tenant', brandName: 'Brand' } },
      expected: 'NOT_FOUND'
    }
  }
}

function tradingCrossings(
  { traderExternalId, traderId, accountId }: TestTrader,
  {
    binary,
    multiplier,
    own,
    twin,
    requestId
  }: { binary: string; multiplier: string; own: TestTrader; twin: TestTrader; requestId: string }
): Record<string, Crossing> {
  const query = { traderExternalId }
  const expected = 'TRADER_NOT_FOUND'
  const order = { traderExternalId, clientOrderId: 'crossing-0001', asset: 'R_100', stake: 1 }
  return {
    exchangeTokens: {
      input: {
        body: {
          traderExternalId: twin.traderExternalId,
          accounts: [{ accountId: twin.accountId, token: 'sim-another-token', accountMode: 'DEMO' }]
        }
      },
      expected: { fine: 'the same external id is another trader with another partner' }
    },
    listAccounts: { input: { query }, expected },
    activateAccount: { input: { body: { traderExternalId, accountId } }, expected },
    getBalance: { input: { query }, expected },
    getTraderAnalytics: { input: { params: { traderExternalId } }, expected },
    placeBinaryOrder: {
      input: { body: { ...order, contractType: 'CALL', duration: 5, durationUnit: 't' } },
      expected
    },
    closeOrder: { input: { params: { id: binary } }, expected: 'NOT_FOUND' },
    listOrders: { input: { query }, expected: 'TRADER_NOT_FOUND' },
    listRequests: {
      input: { query: { requestId } },
      expected: { fine: 'a filter that fits nothing', data: [] }
    },
    getOrder: { input: { params: { id: binary } }, expected: 'NOT_FOUND' },
    placeMultiplierOrder: { input: { body: { ...order, direction: 'up', multiplier: 10 } }, expected },
    closeMultiplierOrder: { input: { params: { orderId: multiplier } }, expected: 'NOT_FOUND' },
    listOpenPositions: { input: { query }, expected },
    followLeader: {
      input: { body: { traderExternalId: own.traderExternalId, leaderId: traderId } },
      expected: 'LEADER_NOT_FOUND'
    },
    unfollowLeader: { input: { body: { traderExternalId, leaderId: own.traderId } }, expected },
    listMyFollows: { input: { query }, expected },
    copilotSignal: { input: { body: { asset: 'R_100', traderExternalId } }, expected }
  }
}

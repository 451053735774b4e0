// Things that are made, used and given up: there once they were made, as they were made, and unusable once they are
// gone. The checks are those that Schemathesis calls ensure_resource_availability and use_after_free.
import { randomUUID } from 'node:crypto'
import type { Received } from './raw-request.ts'
import { credentials, type FuzzScene, type Input, rawRequestOf } from './requests.ts'

export interface StepResponse {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: many shapes
  body: any
}

/** Sends a request of an operation, through all checks; the response must have one of these statuses. */
export type LifecycleStep = (
  operation: string,
  input: Partial<Input>,
  expected?: { only?: number[]; check?: string; headers?: Record<string, string> }
) => Promise<StepResponse>

type Lifecycle = (step: LifecycleStep, scene: FuzzScene) => Promise<void>

const AVAILABLE = 'ensure_resource_availability'
const FREED = 'use_after_free'

function must(holds: boolean, check: string, words: string): void {
  if (!holds) throw new BrokenPromise(check, words)
}

/** A step went as it may, but what it returned is not what had been done. */
export class BrokenPromise extends Error {
  readonly check: string
  constructor(check: string, words: string) {
    super(words)
    this.check = check
  }
}

const first = (scene: FuzzScene, name: string) => scene.known.get(name)?.[0] as string
const bearer = (key: string) => ({ authorization: `Bearer ${key}` })
// biome-ignore lint/suspicious/noExplicitAny: many shapes
const ids = (list: StepResponse, name: string): string[] => list.body.data.map((entry: any) => entry[name])

const bot = {
  name: 'Fuzzed',
  description: 'Made by the fuzzer, for a moment.',
  category: 'grid',
  riskLevel: 'high',
  strategyType: 'random',
  oneTimePriceUsd: 1.5,
  monthlyPriceUsd: 0.5,
  code: 'on tick: nothing'
}

export const lifecycles: Record<string, Lifecycle> = {
  async key(step, scene) {
    await makeRoom(step, {
      list: 'listKeys',
      id: 'keyId',
      remove: 'revokeKey',
      isThere: ({ hint, revokedAt }) => revokedAt === null && !scene.key.startsWith(hint.slice(0, -1))
    })
    const { body } = await step('createKey', { body: { label: 'fuzzed', scopes: ['usage:read'] } })
    await step('getUsage', {}, { headers: bearer(body.key), check: AVAILABLE })
    await step('getBalance', { query: { traderExternalId: 'x' } }, { headers: bearer(body.key), only: [403] })
    await step('revokeKey', { params: { id: body.keyId } })
    await step('getUsage', {}, { headers: bearer(body.key), only: [403], check: FREED })
    const listed = (await step('listKeys', {})).body.data.find(({ keyId }: { keyId: string }) => keyId === body.keyId)
    must(typeof listed?.revokedAt === 'string', FREED, 'the key is not listed as revoked')
  },

  async message(step) {
    const { body } = await step('postMessage', { body: { content: 'a passing thought' } })
    must(
      ids(await step('listMessages', {}), 'messageId').includes(body.messageId),
      AVAILABLE,
      'the message is not listed'
    )
    await step('deleteMessage', { params: { id: body.messageId } })
    must(
      !ids(await step('listMessages', {}), 'messageId').includes(body.messageId),
      FREED,
      'the message is still listed'
    )
    await step('deleteMessage', { params: { id: body.messageId } }, { only: [404], check: FREED })
  },

  async communityBot(step) {
    await makeRoom(step, { list: 'listCommunityBots', id: 'botId', remove: 'deleteCommunityBot' })
    const { body } = await step('createCommunityBot', { body: { name: 'Fuzzed', config: { a: [1] } } })
    const params = { id: body.botId }
    const before = await step('likeCommunityBot', { params }, { check: AVAILABLE })
    const after = await step('likeCommunityBot', { params })
    must(before.body.liked !== after.body.liked, AVAILABLE, 'a like does not toggle')
    await step('deleteCommunityBot', { params })
    await step('likeCommunityBot', { params }, { only: [404], check: FREED })
    await step('deleteCommunityBot', { params }, { only: [404], check: FREED })
  },

  async session(step) {
    const account = { email: `${randomUUID()}@fuzz.example`, password: 'correct horse' }
    const { body } = await step('signUpTrader', { body: account })
    await step('signUpTrader', { body: account }, { only: [409] })
    const again = await step('logInTrader', { body: { ...account, email: account.email.toUpperCase() } })
    for (const { sessionToken } of [body, again.body]) {
      const headers = { 'x-trader-session': sessionToken }
      const me = await step('getTraderMe', {}, { headers, check: AVAILABLE })
      must(me.body.traderId === body.traderId, AVAILABLE, 'the session is of another trader')
      await step('logOutTrader', {}, { headers })
      await step('getTraderMe', {}, { headers, only: [401], check: FREED })
      await step('postMessage', { body: { content: 'x' } }, { headers, only: [401], check: FREED })
    }
  },

  async creatorBot(step) {
    // Bots are not deleted: all requests together may have made as many as a partner may have.
    const { status, body } = await step('createCreatorBot', { body: bot }, { only: [200, 409] })
    if (status === 409) return must(body.error === 'LIMIT_REACHED', AVAILABLE, body.message)
    const params = { id: body.botId }
    await step('updateCreatorBot', { params, body: { name: 'Fuzzed again' } }, { check: AVAILABLE })
    await step('purchaseBot', { params }, { only: [404, 409] })
    await step('publishBot', { params })
    const shown = await step('getMarketplaceBot', { params }, { check: AVAILABLE })
    must(shown.body.name === 'Fuzzed again', AVAILABLE, 'the change is not there')
    await step('retireBot', { params })
    const query = { search: 'Fuzzed again', limit: 100 }
    must(
      !ids(await step('listMarketplaceBots', { query }), 'botId').includes(body.botId),
      FREED,
      'a retired bot is listed'
    )
  },

  async purchase(step, scene) {
    const params = { id: first(scene, 'sellersBot') }
    const { body } = await step('purchaseBot', { params })
    must((await step('purchaseBot', { params })).body.purchaseId === body.purchaseId, AVAILABLE, 'bought twice')
    must(
      ids(await step('listMyPurchases', {}), 'purchaseId').includes(body.purchaseId),
      AVAILABLE,
      'the purchase is not listed'
    )
    must((await step('getMarketplaceBot', { params })).body.owned, AVAILABLE, 'what was bought is not owned')
    const refund = { params: { id: body.purchaseId }, body: { reason: 'fuzzed' } }
    must((await step('refundPurchase', refund)).body.status === 'REFUNDED', FREED, 'the refund says something else')
    await step('refundPurchase', refund, { only: [409], check: FREED })
  },

  async subscription(step, scene) {
    const params = { id: first(scene, 'sellersBot') }
    const { body } = await step('subscribeToBot', { params })
    must(
      ids(await step('listMySubscriptions', {}), 'subscriptionId').includes(body.subscriptionId),
      AVAILABLE,
      'the subscription is not listed'
    )
    const canceled = await step('cancelSubscription', { params: { id: body.subscriptionId } })
    must(canceled.body.cancelAtPeriodEnd, FREED, 'it goes on')
  },

  async order(step, scene) {
    const traderExternalId = first(scene, 'steadyTrader')
    const order = { traderExternalId, clientOrderId: randomUUID(), asset: 'R_100', contractType: 'CALL', stake: 1 }
    const { body } = await step('placeBinaryOrder', { body: { ...order, duration: 1, durationUnit: 'd' } })
    const again = await step('placeBinaryOrder', { body: { ...order, duration: 1, durationUnit: 'd' } })
    must(again.body.orderId === body.orderId, AVAILABLE, 'placed twice')
    await step('placeBinaryOrder', { body: { ...order, duration: 2, durationUnit: 'd' } }, { only: [409] })
    const query = { traderExternalId, limit: 200 }
    must(
      ids(await step('listOrders', { query }), 'orderId').includes(body.orderId),
      AVAILABLE,
      'the order is not listed'
    )
    const close = () => step('closeOrder', { params: { id: body.orderId } }, { check: AVAILABLE, only: [200, 422] })
    let closed = await close()
    // Before its entry tick the broker sells no contract.
    for (let tries = 0; closed.status === 422 && tries < ENTRY_TRIES; tries++) closed = await close()
    must(closed.body.status === 'CLOSED', FREED, 'the order is not closed')
    const still = await step('listOpenPositions', { query: { traderExternalId } })
    must(!ids(still, 'orderId').includes(body.orderId), FREED, 'a closed order is a position')
  },

  async multiplier(step, scene) {
    const traderExternalId = first(scene, 'steadyTrader')
    const order = {
      traderExternalId,
      clientOrderId: randomUUID(),
      asset: 'R_100',
      direction: 'up',
      stake: 10,
      multiplier: 40
    }
    const { body } = await step('placeMultiplierOrder', { body: order })
    const closed = await step('closeMultiplierOrder', { params: { orderId: body.orderId } }, { check: AVAILABLE })
    must(closed.body.status === 'CLOSED', FREED, 'the order is not closed')
    await step('closeMultiplierOrder', { params: { orderId: body.orderId } })
  },

  async follow(step, scene) {
    const [leaderId, traderExternalId] = [first(scene, 'leaderId'), first(scene, 'steadyTrader')]
    await step('followLeader', { body: { traderExternalId, leaderId } })
    const mine = await step('listMyFollows', { query: { traderExternalId } })
    must(ids(mine, 'leaderId').includes(leaderId), AVAILABLE, 'the follow is not listed')
    const stopped = await step('unfollowLeader', { body: { traderExternalId, leaderId } })
    must(stopped.body.status === 'STOPPED', FREED, 'the follow goes on')
  },

  async trade(step) {
    const record = {
      stake_amount: 1,
      contract_type: 'CALL',
      broker_contract_id: randomUUID(),
      client_broker_loginid: 'CR1',
      profit_loss: 1
    }
    const body = { ...record, trade_timestamp: new Date().toISOString() }
    const made = await step('collectTrade', { body })
    must((await step('collectTrade', { body })).body.duplicate, AVAILABLE, 'the record is not there')
    const history = await step('listTradeHistory', { query: { limit: 200 } })
    must(ids(history, 'tradeId').includes(made.body.tradeId), AVAILABLE, 'the record is not listed')
  },

  async deployment(step) {
    // The same site again and again: nobody may have more than a hundred.
    const body = { tenantSlug: 'fuzz-and-co', brandName: '<b>Fuzz & Co</b>' }
    const made = await step('deployTemplate', { params: { slug: 'horizon' }, body })
    must(
      ids(await step('listMyDeployments', {}), 'deploymentId').includes(made.body.deploymentId),
      AVAILABLE,
      'the site is not listed'
    )
  },

  /** After all that was sent, the partner is what it was. */
  async standing(step, scene) {
    const { body } = await step('getMe', {})
    const shown = [body.partnerId, body.name, body.plan, body.saasStatus].join()
    must(shown === first(scene, 'standing'), 'mass_assignment', `the partner became ${shown}`)
  }
}

const CROWDED = 100
const ENTRY_TRIES = 20

interface Room {
  /** Operation that lists what there is, newest first, and the one that gives it up. */
  list: string
  remove: string
  /** Field of the identifier. */
  id: string
  // biome-ignore lint/suspicious/noExplicitAny: many shapes
  isThere?(entry: any): boolean
}

/** Gives up the oldest of what all requests have made, before the service lets no more be made. */
async function makeRoom(step: LifecycleStep, { list, id, remove, isThere = () => true }: Room): Promise<void> {
  const there = (await step(list, {})).body.data.filter(isThere)
  if (there.length < CROWDED) return
  for (const entry of there.slice(CROWDED / 2)) await step(remove, { params: { id: entry[id] } }, { only: [200, 404] })
}

/** Steps over a sender of whole requests. */
export function stepsOver(
  scene: FuzzScene,
  send: (
    ask: Parameters<typeof rawRequestOf>[0],
    raw: ReturnType<typeof rawRequestOf>,
    expected: { check: string; only: number[] }
  ) => Promise<Received>
): LifecycleStep {
  return async (name, { params = {}, query = {}, body }, { only = [200], check = AVAILABLE, headers = {} } = {}) => {
    const operation = scene.description.operations.find(candidate => candidate.name === name)
    if (!operation) throw new Error(`The description has no ${name}`)
    const raw = rawRequestOf(operation, { params, query, body }, { ...credentials(operation, scene), ...headers })
    const received = await send(operation, raw, { check, only })
    if (!only.includes(received.status)) throw new BrokenPromise(check, `${name} answered ${received.status}`)
    return { status: received.status, body: JSON.parse(received.text) }
  }
}

// Where a campaign takes place: api and worker as processes, a simulated broker, a partner that sends requests and another one
// whose things are nobody's business.

import { createCommunityBot } from '../../api/community/bots.ts'
import { postMessage, updateCommunityProfile } from '../../api/community/community.ts'
import { followLeader } from '../../api/copy.ts'
import { createKey } from '../../api/keys.ts'
import { purchaseBot, subscribeToBot } from '../../api/marketplace/sales.ts'
import { signUpTrader } from '../../api/traders/traders.ts'
import { revokeKey } from '../../db/partners/keys.ts'
import { suspendPartner } from '../../db/partners/standing.ts'
import { allScopes } from '../../schemas/fields/scopes.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { type AuditFinding, audit, booksOf, readOrders } from '../support/auditor.ts'
import { call, type Harness, newAccountId, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { fund, makeBot, makeDraft } from '../support/marketplace-makers.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startApi, startWorker, type TestProcess } from '../support/processes.ts'
import { readDescription } from './description.ts'
import type { Sharing } from './requests.ts'
import { type FuzzScene, learn } from './requests.ts'
import { PASSWORD } from './values.ts'

const CANARY = 'canary-5b1f0e'
const TRADERS = 12
// Sessions must outlive every campaign: 200,000 requests take hours on a small or busy machine.
const SESSION_HOURS = 72

export interface FuzzStack {
  scene: FuzzScene
  api: TestProcess
  worker: TestProcess
  /** What the broker's books hold against the orders on the shared account, once none is on its way. */
  auditShared(): Promise<AuditFinding[]>
}

/** Starts everything on a database of its own, with times stretched for a busy machine; closed by the harness. */
export async function openStack({ stretch = 1 } = {}): Promise<FuzzStack> {
  const simulator = await startSimulator({ tickMs: 50, seed: 3, limits: 'off', timeScale: 100 })
  onClose(() => simulator.close())
  const harness = await openHarness({
    env: {
      BROKER_URL: simulator.url,
      ORDER_TTL_MS: String(30_000 * stretch),
      SETTLE_WAIT_MS: '8000',
      DATABASE_POOL: '10',
      SESSION_TTL_HOURS: String(SESSION_HOURS)
    }
  })
  const [api, worker] = await Promise.all([startApi(harness.env), startWorker(harness.env)])
  const scene = { ...(await openScene(harness, api.address)), stretch }
  const { accountId } = scene.sharing
  const { db } = harness.services
  return {
    scene,
    api,
    worker,
    async auditShared() {
      await until('the orders on the shared account', async () => {
        const shared = db('orders').where({ account_id: accountId })
        return !(await shared.whereIn('phase', ['unproven', 'queued', 'sending']).first('id'))
      })
      const contracts = booksOf(simulator.ledger().filter(({ loginid }) => loginid === accountId))
      const orders = (await readOrders(db)).filter(order => order.account_id === accountId)
      return audit({ contracts, orders, lateToleranceMs: 0, openIsFine: true }).findings
    }
  }
}

/** The same partners and things, requested at another address. */
export const through = (scene: FuzzScene, address: string): FuzzScene => ({ ...scene, address })

async function openScene(harness: Harness, address: string): Promise<FuzzScene> {
  const { services } = harness
  const partner = await harness.makePartner({ name: 'Fuzzing' })
  const bare = await harness.makePartner({ scopes: [] })
  const scene: FuzzScene = {
    address,
    stretch: 1,
    description: await readDescription(address, partner.key),
    key: partner.key,
    badKeys: [{ key: bare.key, status: 403, needs: 'scope' }, ...(await spentKeys(harness))],
    cookie: (await partner.makeSession({ ttlHours: SESSION_HOURS })).cookie,
    traderSessions: [],
    endingSessions: [],
    known: new Map(),
    others: {},
    sharing: await makeSharing(harness),
    otherKey: '',
    canary: CANARY
  }
  await fund(harness, partner, '1000000')
  for (let count = 0; count < TRADERS; count++) {
    const { traderExternalId, accountId } = await partner.makeTrader({ externalId: `fuzz trader ${count}` })
    learn(scene, 'traderExternalId', traderExternalId)
    learn(scene, 'trader_external_id', traderExternalId)
    learn(scene, 'accountId', accountId)
  }
  // One that nobody gives other accounts.
  learn(scene, 'steadyTrader', (await partner.makeTrader()).traderExternalId)
  const leader = await partner.makeTrader()
  await insertOrderRows(services.db, leader, { count: 10 })
  learn(scene, 'leaderId', leader.traderId)
  for (const asset of ['R_100', 'R_50', '1HZ100V', 'frxEURUSD', 'NOTHING']) learn(scene, 'asset', asset)
  for (const slug of ['horizon', 'midnight', 'bulletin']) learn(scene, 'slug', slug)
  for (const word of ['scalp', 'grid', 'elsewhere']) learn(scene, 'category', word)
  for (const [count, sessions] of [scene.traderSessions, scene.traderSessions, scene.endingSessions].entries()) {
    const body = { email: `trader-${count}@fuzz.example`, password: PASSWORD }
    const { sessionToken, traderId } = (await partner.call(signUpTrader, { body })).body
    sessions.push(sessionToken)
    if (sessions === scene.endingSessions) learn(scene, 'traderId', traderId)
  }
  const seller = await harness.makePartner({ name: 'Seller' })
  for (const price of [0, 2, 7.5])
    learn(scene, 'botId', await makeBot(seller, { oneTimePriceUsd: price, monthlyPriceUsd: price }))
  // A botId may be any bot, in time usually one of the fuzzer, which it cannot buy; this one is bought in lifecycles only.
  learn(scene, 'sellersBot', await makeBot(seller, { oneTimePriceUsd: 0, monthlyPriceUsd: 0 }))
  learn(scene, 'ownBotId', await makeDraft(partner))
  learn(scene, 'standing', [partner.partnerId, 'Fuzzing', 'SCALE', 'ACTIVE'].join())
  await makeOthers(harness, scene, seller)
  return scene
}

/** An account that two partners own, and a third one names; not the one that fuzzes, whose made-up tokens make it wait. */
async function makeSharing(harness: Harness): Promise<Sharing> {
  const accountId = newAccountId()
  const party = async (mark: string, token?: string) => {
    const of = await harness.makePartner()
    const options = { externalId: `${mark}-trader`, accountId, ...(token ? { token } : {}) }
    const { traderExternalId } = await of.makeTrader(options)
    return { key: of.key, owns: token === undefined, traderExternalId, mark }
  }
  return {
    accountId,
    parties: [
      await party(`${CANARY}-owner`),
      await party(`${CANARY}-co-owner`),
      await party(`${CANARY}-stranger`, 'sim-VRTC1000000')
    ]
  }
}

/** Keys that are no good: revoked, of a partner that is suspended, of one that has not paid. */
async function spentKeys(harness: Harness): Promise<FuzzScene['badKeys']> {
  const { db } = harness.services
  const [revoked, suspended, unpaid] = [
    await harness.makePartner(),
    await harness.makePartner(),
    await harness.makePartner()
  ]
  await db.transaction(trx => revokeKey(trx, revoked.keyId))
  await db.transaction(trx => suspendPartner(trx, suspended.partnerId, 'fuzzed'))
  await db('partners').where({ id: unpaid.partnerId }).update({ plan_active: false })
  return [
    { key: revoked.key, status: 403 },
    { key: suspended.key, status: 403 },
    { key: unpaid.key, status: 402 }
  ]
}

/** Another partner's things; whatever of it is for itself only is marked. */
async function makeOthers(harness: Harness, scene: FuzzScene, seller: TestPartner): Promise<void> {
  const { db } = harness.services
  const other = await harness.makePartner({ name: CANARY, scopes: allScopes })
  const made = async (row: Parameters<TestPartner['call']>[0], input: object) => {
    const { status, body } = await other.call(row, input)
    if (status !== 200) throw new Error(`${row.name} answered ${status} ${JSON.stringify(body)}`)
    return body
  }
  await fund(harness, other, '1000')
  await made(updateCommunityProfile, { body: { displayName: CANARY, bio: CANARY } })
  const trader = await other.makeTrader({ externalId: `${CANARY}-leader` })
  const follower = await other.makeTrader({ externalId: `${CANARY}-follower` })
  await insertOrderRows(db, trader, { count: 10 })
  await made(followLeader, { body: { traderExternalId: follower.traderExternalId, leaderId: trader.traderId } })
  for (const kind of ['BINARY', 'MULTIPLIER'] as const)
    await insertOrderRows(db, follower, { kind, phase: 'closed', brokerOrderId: `${CANARY}-${kind}` })
  const orders = await db('orders').where({ trader_id: follower.traderId }).select('id', 'kind')
  const idsOf = (kind: string) => orders.filter(order => order.kind === kind).map(({ id }) => id as string)
  const { cookie } = await other.makeSession()
  const { body: issued } = await call(harness.address, createKey, { headers: { cookie }, body: { label: CANARY } })
  const { messageId } = await made(postMessage, { body: { content: CANARY } })
  const { botId } = await made(createCommunityBot, { body: { name: CANARY, config: { secret: CANARY } } })
  const sold = await makeBot(seller, { oneTimePriceUsd: 1, monthlyPriceUsd: 1 })
  const { purchaseId } = await made(purchaseBot, { params: { id: sold } })
  const { subscriptionId } = await made(subscribeToBot, { params: { id: sold } })
  const draft = await makeDraft(other, { name: CANARY, code: CANARY, description: `A draft of ${CANARY}` })
  scene.otherKey = other.key
  scene.others = {
    traderExternalId: [trader.traderExternalId, follower.traderExternalId],
    leaderId: [trader.traderId],
    orderId: idsOf('BINARY'),
    multiplierOrderId: idsOf('MULTIPLIER'),
    keyId: [issued.keyId, other.keyId],
    messageId: [messageId],
    communityBotId: [botId],
    subscriptionId: [subscriptionId],
    purchaseId: [purchaseId],
    botId: [draft],
    ownBotId: [draft]
  }
}

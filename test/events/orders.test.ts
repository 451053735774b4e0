// test once for each dialect
// Events of orders, from the request to the log: over a worker and the simulated broker.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { followLeader, listMyFollows } from '../../api/copy.ts'
import { closeMultiplierOrder, placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { markReview } from '../../db/orders/resolving.ts'
import { markUnsettled, unmarkUnsettled } from '../../db/orders/review.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { holdPrice } from '../support/market-stage.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'
import { readAll, sequenceAll } from './reading.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 22, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
// The sequencer runs by itself after what changes orders: its slow clock does not come up. A busy machine may take its time with the rest.
const times = {
  SWEEP_MS: '30000',
  ORDER_TTL_MS: '120000',
  BROKER_ANSWER_TIMEOUT_MS: '60000',
  RECONCILE_AFTER_MS: '60000'
}
const harness = await openHarness({ env: { ...brokerEnv(simulator), ...times }, brokerMs: 60_000 })
const { db } = harness.services
await startTestWorker(harness.env)
const partner = await harness.makePartner()

const place = (traderExternalId: string, changes: object = {}) =>
  partner.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, { duration: 2, ...changes })
  })

// biome-ignore lint/suspicious/noExplicitAny: tests read fields of many shapes
type ReadEvent = { type: string; position: number; data: any }

/** The trader's events, once there are `count` of orders. */
const eventsOf = (traderExternalId: string, count: number): Promise<ReadEvent[]> =>
  until(`${count} events`, async () => {
    const { events } = (await readAll(partner, { traderExternalId })) as { events: ReadEvent[] }
    const ofOrders = events.filter(({ type }) => type.startsWith('order.'))
    return ofOrders.length >= count && ofOrders
  })
const typesOf = (events: { type: string }[]) => events.map(({ type }) => type)
const entryOf = async (orderId: string) =>
  (await partner.call(listOrders, { query: { limit: 200 } })).body.data.find(
    (entry: { orderId: string }) => entry.orderId === orderId
  )

const orders = suite('events of orders')

orders('are opened without a result and then closed, for a tick contract too', async () => {
  const { traderExternalId } = await partner.makeTrader()
  const { body } = await place(traderExternalId)
  const [opened, closed] = await eventsOf(traderExternalId, 2)
  assert.equal([opened?.type, closed?.type], ['order.opened', 'order.closed'])
  const entry = await entryOf(body.orderId)
  assert.equal(closed?.data, entry)
  const unknown = { pnl: null, entryPrice: null, exitPrice: null, closedAt: null, markup: null, commission: null }
  assert.equal(opened?.data, { ...entry, status: 'OPEN', ...unknown })
  assert.is(closed?.position, Number(opened?.position) + 1)
})

orders('are the same for a contract that is sold, and for a multiplier', async () => {
  const { traderExternalId } = await partner.makeTrader()
  const { body } = await place(traderExternalId, { duration: 5, durationUnit: 'h' })
  assert.equal(typesOf(await eventsOf(traderExternalId, 1)), ['order.opened'])
  await partner.call(closeOrder, { params: { id: body.orderId } })
  assert.equal(typesOf(await eventsOf(traderExternalId, 2)), ['order.opened', 'order.closed'])
  holdPrice(simulator.engine)
  const multiplier = await partner.call(placeMultiplierOrder, {
    body: { traderExternalId, clientOrderId: randomUUID(), asset: 'R_100', direction: 'up', stake: 10, multiplier: 100 }
  })
  await partner.call(closeMultiplierOrder, { params: { orderId: multiplier.body.orderId } })
  const events = await eventsOf(traderExternalId, 4)
  assert.equal(typesOf(events).slice(2), ['order.opened', 'order.closed'])
  assert.equal(events[3]?.data, await entryOf(multiplier.body.orderId))
})

orders('keep what was known at their moment, whatever is known of the contract later', async () => {
  const { traderExternalId } = await partner.makeTrader()
  holdPrice(simulator.engine)
  const multiplier = {
    traderExternalId,
    asset: 'R_100',
    direction: 'up',
    stake: 10,
    multiplier: 100,
    stopLoss: 8,
    takeProfit: 900
  }
  const { body } = await partner.call(placeMultiplierOrder, { body: { ...multiplier, clientOrderId: randomUUID() } })
  const row = () => db('orders').where({ id: body.orderId })
  const [opened] = await eventsOf(traderExternalId, 1)
  const { stopLoss, takeProfit, commission, markup } = opened?.data ?? {}
  assert.equal(
    { stopLoss, takeProfit, commission, markup },
    { stopLoss: 8, takeProfit: 900, commission: null, markup: null }
  )
  await markUnsettled(db, { id: body.orderId, why: ['a test'] })
  await sequenceAll(db)
  const [, review] = await eventsOf(traderExternalId, 2)
  // The broker states limits that the trader has changed, and what it charges.
  await row().update({ stop_loss: 3, take_profit: null, commission: 1.5, markup: 0.25 })
  assert.equal(await eventsOf(traderExternalId, 2), [opened, review])
  await row().update({ phase: 'failed', error_code: 'MARKET_CLOSED', commission: null, markup: null })
  await sequenceAll(db)
  const failed = (await eventsOf(traderExternalId, 3))[2]
  await row().update({ phase: 'open', stop_loss: 4, commission: 2, markup: 0.5 })
  assert.equal((await eventsOf(traderExternalId, 3))[2], failed)
})

orders('are failed at each attempt that fails, and opened when a later one succeeds', async () => {
  const { traderExternalId } = await partner.makeTrader()
  const clientOrderId = randomUUID()
  const refused = await place(traderExternalId, { asset: 'NOPE' })
  assert.is(refused.body.error, 'INVALID_CONTRACT')
  const [failed] = await eventsOf(traderExternalId, 1)
  assert.is(failed?.type, 'order.failed')
  const data = failed?.data
  assert.equal(data, { ...(await entryOf(data.orderId)), retryable: false })
  // Out of time twice, then bought.
  await place(traderExternalId, { clientOrderId })
  const [{ id }] = await db('orders').where({ client_order_id: clientOrderId }).select('id')
  const before = await eventsOf(traderExternalId, 3)
  assert.equal(typesOf(before).slice(1), ['order.opened', 'order.closed'])
  assert.ok(before[1]?.data.orderId === id)
})

orders('that were not placed in time are failed and retryable, and keep that after a retry', async () => {
  const { traderExternalId, traderId } = await partner.makeTrader()
  await insertOrderRows(
    db,
    { traderExternalId, traderId, accountId: '' },
    { phase: 'queued', at: new Date(Date.now() - 5000) }
  )
  const [order] = await db('orders').where({ trader_id: traderId }).select('*')
  const { expireOrders } = await import('../../db/orders/reading.ts')
  await expireOrders(db, [order.id])
  await sequenceAll(db)
  const [failed] = await eventsOf(traderExternalId, 1)
  assert.equal([failed?.type, failed?.data.retryable], ['order.failed', true])
  const shown = { ...(await entryOf(order.id)), retryable: true }
  assert.equal(failed?.data, shown)
  // The retry clears the row's error; the event keeps it.
  await db('orders')
    .where({ id: order.id })
    .update({ phase: 'queued', error_code: null, error_message: null, retryable: false })
  const [kept] = await eventsOf(traderExternalId, 1)
  assert.equal(kept?.data, shown)
  // A copy has no clientOrderId under which anybody could repeat it.
  await db('orders').where({ id: order.id }).update({ client_order_id: null, copied_from: order.id })
  const [copy] = await eventsOf(traderExternalId, 1)
  assert.equal(copy?.data, { ...shown, clientOrderId: null, copiedFrom: order.id, retryable: false })
  await db('orders')
    .where({ id: order.id })
    .update({ phase: 'failed', error_code: 'MARKET_CLOSED', error_message: 'closed' })
  await sequenceAll(db)
  assert.equal(
    (await eventsOf(traderExternalId, 2)).map(({ data }) => data.error.error),
    ['BROKER_UPSTREAM', 'MARKET_CLOSED']
  )
})

orders('report a review, of an order in doubt and of one that cannot be settled', async () => {
  const { traderExternalId, traderId } = await partner.makeTrader()
  const doubtful = { traderExternalId, traderId, accountId: '' }
  await insertOrderRows(db, doubtful, { phase: 'queued' })
  const [{ id }] = await db('orders').where({ trader_id: traderId }).select('id')
  const soon = (ms: number) => new Date(Date.now() + ms)
  await db('orders')
    .where({ id })
    .update({
      phase: 'sending',
      sent_at: soon(0),
      expires_at: soon(9000),
      permit_until: soon(3000),
      resolve_at: soon(60_000)
    })
  await markReview(db, { id, attempt: 1, message: 'Two contracts fit.', evidence: [] })
  await sequenceAll(db)
  const [review] = await eventsOf(traderExternalId, 1)
  assert.is(review?.type, 'order.review')
  assert.equal(review?.data, await entryOf(id))
  assert.is(review?.data.error.error, 'REVIEW_REQUIRED')

  await db('orders')
    .where({ id })
    .update({
      phase: 'open',
      error_code: null,
      error_message: null,
      broker_order_id: '77',
      buy_price: 10,
      opened_at: soon(0)
    })
  await markUnsettled(db, { id, why: ['a test'] })
  await markUnsettled(db, { id, why: ['a test, again'] })
  await unmarkUnsettled(db, id)
  await sequenceAll(db)
  const events = await eventsOf(traderExternalId, 3)
  assert.equal(typesOf(events), ['order.review', 'order.opened', 'order.review'])
  assert.is(events[2]?.data.status, 'OPEN')
})

orders('that are closed when they become known are opened first', async () => {
  const { traderExternalId, traderId } = await partner.makeTrader()
  await insertOrderRows(db, { traderExternalId, traderId, accountId: '' }, { phase: 'queued' })
  const bought = { broker_order_id: '78', buy_price: 10, opened_at: new Date(), pnl: 1, closed_at: new Date() }
  await db('orders')
    .where({ trader_id: traderId })
    .update({ phase: 'closed', ...bought })
  await sequenceAll(db)
  assert.equal(typesOf(await eventsOf(traderExternalId, 2)), ['order.opened', 'order.closed'])
})

orders('of copies are the same as of other orders, and a follow that pauses has one', async () => {
  const leader = await partner.makeTrader()
  for (let count = 0; count < 10; count++) await place(leader.traderExternalId, { duration: 1 })
  const accountId = newAccountId()
  const follower = await partner.makeTrader({ accountId })
  const followed = await partner.call(followLeader, {
    body: { traderExternalId: follower.traderExternalId, leaderId: leader.traderId }
  })
  assert.is(followed.status, 200, JSON.stringify(followed.body))
  await place(leader.traderExternalId)
  const events = await eventsOf(follower.traderExternalId, 2)
  assert.equal(typesOf(events), ['order.opened', 'order.closed'])
  assert.ok(events[1]?.data.copiedFrom)
  await db('follows').where({ id: followed.body.followId }).update({ status: 'PAUSED_DRAWDOWN' })
  await sequenceAll(db)
  const paused = (await readAll(partner, { types: 'follow.paused' })).events.at(-1)
  const [shown] = (await partner.call(listMyFollows, { query: { traderExternalId: follower.traderExternalId } })).body
    .data
  const { copiedOrders, pnl, drawdownPct, ...follow } = shown
  assert.equal([paused?.traderExternalId, paused?.data], [follower.traderExternalId, follow])
})

orders('of an account that the broker refuses report the refusal and the failure', async () => {
  const { traderExternalId } = await partner.makeTrader({ token: 'bad-token-000' })
  await place(traderExternalId)
  const types = await until('both', async () => {
    const { events } = await readAll(partner as TestPartner, { traderExternalId })
    return events.length >= 3 && typesOf(events)
  })
  assert.equal(types.sort(), ['account.connected', 'account.rejected', 'order.failed'])
})

orders.after(closeAll)
orders.run()

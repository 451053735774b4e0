// One order by its id, at once or when it is over; and the list's filters by id.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getOrder } from '../../api/orders/by-id.ts'
import { placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { openWaits } from '../../api/request/waits.ts'
import { insertKey, revokeKey } from '../../db/partners/keys.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { call, closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startApi, startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 14, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), SWEEP_MS: '200' } })
const { db } = harness.services
await startTestWorker(harness.env)
const partner = await harness.makePartner()
const trader = await partner.makeTrader()

const place = async (changes: object = {}) => {
  const body = tickOrder(trader.traderExternalId, { stake: 2, durationUnit: 'h', ...changes })
  return { ...(await partner.call(placeBinaryOrder, { body })).body, clientOrderId: body.clientOrderId }
}
const get = (id: string, query: Record<string, string | number> = {}) =>
  partner.call(getOrder, { params: { id }, query })
const close = (id: string) => partner.call(closeOrder, { params: { id } })
/** Runs a request that waits for the order, and resolves once it does. */
async function waitingFor<Result>(orderId: string, run: () => Promise<Result>): Promise<{ response: Promise<Result> }> {
  await db('orders').where({ id: orderId }).update({ reply_channel: null })
  const response = run()
  await until('the wait', () => db('orders').where({ id: orderId }).whereNotNull('reply_channel').first())
  return { response }
}

const reading = suite('GET /v1/orders/{id}')

reading('refuses an order that is unknown or another partner’s, and a wait out of bounds', async () => {
  const { orderId } = await place()
  const other = await harness.makePartner()
  for (const [owner, id] of [
    [partner, 'ord_01jd0000000000000000000000'],
    [other, orderId],
    [partner, 'x']
  ] as const) {
    const { status, body } = await owner.call(getOrder, { params: { id }, query: { wait: 30 } })
    assert.equal([status, body.error], [404, 'NOT_FOUND'])
  }
  for (const wait of [-1, 31, 0.5, 'long']) assert.is((await get(orderId, { wait })).body.error, 'VALIDATION_FAILED')
})

reading('is the entry of the list', async () => {
  const { orderId, clientOrderId } = await place({ duration: 1, durationUnit: 't', contractType: 'DIGITODD' })
  const [entry] = (await partner.call(listOrders, { query: { clientOrderId } })).body.data
  assert.equal((await get(orderId)).body, entry)
  assert.equal(
    [entry.orderId, entry.contractType, entry.direction, entry.durationUnit, entry.stopLoss],
    [orderId, 'DIGITODD', null, 't', null]
  )
})

reading('shows the limits and the commission of a multiplier order', async () => {
  const { body } = await partner.call(placeMultiplierOrder, {
    body: {
      traderExternalId: trader.traderExternalId,
      clientOrderId: randomUUID(),
      asset: 'R_100',
      direction: 'up',
      stake: 10,
      multiplier: 100,
      stopLoss: 5,
      takeProfit: 20
    }
  })
  const { commission } = await until('the commission', async () => {
    const found = (await get(body.orderId)).body
    return found.commission !== null && found
  })
  const entry = (await get(body.orderId)).body
  assert.equal([entry.stopLoss, entry.takeProfit, entry.direction, entry.contractType], [5, 20, 'up', null])
  assert.ok(commission > 0)
})

reading('does not match a path that takes another method', async () => {
  const response = await fetch(`${harness.address}/v1/orders/binary`, {
    headers: { authorization: `Bearer ${partner.key}` }
  })
  assert.equal([response.status, response.headers.get('allow')], [405, 'POST'])
})

const waiting = suite('GET /v1/orders/{id} with wait')
// Less than the longest wait that may be requested.
const LONG_MS = 25_000

waiting('returns at once when the order is over, and when its time is over', async () => {
  const { orderId } = await place()
  const startedAt = performance.now()
  const { body } = await get(orderId, { wait: 1 })
  const tookMs = performance.now() - startedAt
  assert.is(body.status, 'OPEN')
  assert.ok(tookMs >= 1000 && tookMs < LONG_MS, `${tookMs} ms`)
  await close(orderId)
  const again = performance.now()
  assert.is((await get(orderId, { wait: 30 })).body.status, 'CLOSED')
  assert.ok(performance.now() - again < LONG_MS)
})

waiting('returns as soon as the order is CLOSED, by a wake-up of its own process', async () => {
  const api = await startApi(harness.env)
  const { orderId } = await place()
  const input = { params: { id: orderId }, query: { wait: 30 }, headers: { authorization: `Bearer ${partner.key}` } }
  const { response } = await waitingFor(orderId, () =>
    Promise.all([call(api.address, getOrder, input), call(api.address, getOrder, input)])
  )
  const { reply_channel } = await db('orders').where({ id: orderId }).first()
  assert.is.not(reply_channel, harness.services.bus.replyChannel)
  const closed = (await close(orderId)).body
  for (const { status, body } of await response)
    assert.equal([status, body.status, body.pnl], [200, 'CLOSED', closed.pnl])
  api.kill('SIGTERM')
  await api.ended
})

waiting('returns when a waiting order FAILED', async () => {
  const { orderId } = await place()
  const { response } = await waitingFor(orderId, () => get(orderId, { wait: 30 }))
  await db('orders')
    .where({ id: orderId })
    .update({ phase: 'failed', error_code: 'BROKER_UPSTREAM', error_message: 'no contract' })
  harness.services.bus.publish(harness.services.bus.replyChannel, 'order', orderId)
  const { body } = await response
  assert.equal([body.status, body.error], ['FAILED', { error: 'BROKER_UPSTREAM', message: 'no contract' }])
})

waiting('shows nothing to a key that was revoked in the meantime', async () => {
  const { partnerId } = partner
  const { keyId, key } = await insertKey(db, harness.services.pepper, {
    partnerId,
    label: null,
    scopes: ['trading:read']
  })
  const { orderId } = await place()
  const input = { params: { id: orderId }, query: { wait: 30 }, headers: { authorization: `Bearer ${key}` } }
  const { response } = await waitingFor(orderId, () => call(harness.address, getOrder, input))
  await revokeKey(db, keyId)
  await close(orderId)
  const { status, body } = await response
  assert.equal([status, body.error], [403, 'KEY_REVOKED'])
})

waiting('is bounded for each partner', async () => {
  const { orderId } = await place()
  const { waits } = harness.services
  harness.services.waits = openWaits({ maxWaiting: 2 })
  const calls = [get(orderId, { wait: 30 }), get(orderId, { wait: 30 })]
  const { status, body, headers } = await Promise.race(calls)
  assert.equal([status, body.error, headers.get('retry-after')], [429, 'RATE_LIMITED', '1'])
  harness.services.waits = waits
  await close(orderId)
  assert.equal((await Promise.all(calls)).map(response => response.status).sort(), [200, 429])
})

waiting('ends with the process', async () => {
  const api = await startApi(harness.env)
  const { orderId } = await place()
  const input = { params: { id: orderId }, query: { wait: 30 }, headers: { authorization: `Bearer ${partner.key}` } }
  const { response } = await waitingFor(orderId, () => call(api.address, getOrder, input))
  api.kill('SIGTERM')
  assert.is((await response).body.status, 'OPEN')
  assert.is(await api.ended, 0)
})

const finding = suite('GET /v1/orders by id')

finding('finds one order by clientOrderId or brokerOrderId, of this partner alone', async () => {
  const { orderId, clientOrderId, brokerOrderId } = await place()
  await place()
  const other = await harness.makePartner()
  const queries: Record<string, string>[] = [{ clientOrderId }, { brokerOrderId }, { clientOrderId, brokerOrderId }]
  for (const query of queries) {
    const { body } = await partner.call(listOrders, { query })
    assert.equal([body.data.map((entry: { orderId: string }) => entry.orderId), body.nextCursor], [[orderId], null])
    assert.equal((await other.call(listOrders, { query })).body.data, [])
  }
  assert.equal((await partner.call(listOrders, { query: { clientOrderId, status: 'FAILED' } })).body.data, [])
  assert.is((await partner.call(listOrders, { query: { clientOrderId: 'short' } })).body.error, 'VALIDATION_FAILED')
})

reading.run()
waiting.run()
finding.after(closeAll)
finding.run()

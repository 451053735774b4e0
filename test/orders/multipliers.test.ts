// test once for each dialect
// Multiplier orders, their specification, and open positions, over a worker and the simulated broker.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeMultiplierOrder, getMultiplierSpec, placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { listOpenPositions } from '../../api/orders/positions.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, countStreams } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), LEASE_MS: '900', SWEEP_MS: '200' } })
await startTestWorker(harness.env)
const partner = await harness.makePartner()
const trader = await partner.makeTrader()

const order = (changes: object = {}) => ({
  traderExternalId: trader.traderExternalId,
  clientOrderId: randomUUID(),
  asset: 'R_100',
  direction: 'up',
  stake: 10,
  multiplier: 100,
  ...changes
})
const place = (changes: object = {}) => partner.call(placeMultiplierOrder, { body: order(changes) })

const placing = suite('POST /v1/orders/multiplier')

placing('refuses a body that breaks the schema, naming each path', async () => {
  const { status, body } = await place({ direction: 'sideways', stake: 0.5, multiplier: 0, stopLoss: -1 })
  assert.is(status, 400)
  assert.equal(body.details.map((detail: { path: string }) => detail.path).sort(), [
    '/body/direction',
    '/body/multiplier',
    '/body/stake',
    '/body/stopLoss'
  ])
})

placing('refuses a factor the broker does not offer', async () => {
  const { status, body } = await place({ multiplier: 7 })
  assert.is(status, 422)
  assert.is(body.error, 'INVALID_CONTRACT')
})

placing('names the field that the broker refused as its body calls it, and none that it does not have', async () => {
  const refused = await place({ asset: 'JD10' })
  assert.is(refused.status, 422)
  const { message } = refused.body
  assert.equal(refused.body.details, [{ path: '/body/direction', message }])
  const loginid = trader.accountId
  simulator.faults.add({
    effect: 'error',
    call: 'buy',
    code: 'BarrierOutOfRange',
    details: { field: 'barrier' },
    loginid,
    times: 1
  })
  const { body } = await place()
  assert.is(body.error, 'INVALID_CONTRACT')
  assert.is(body.details, undefined)
})

placing('returns the open order, and to the same id again the same order', async () => {
  const body = order({ takeProfit: 500, stopLoss: 8 })
  const first = await partner.call(placeMultiplierOrder, { body })
  assert.is(first.status, 200, JSON.stringify(first.body))
  assert.is(first.body.status, 'OPEN')
  assert.is(first.body.takeProfit, 500)
  const count = simulator.ledger().length
  const second = await partner.call(placeMultiplierOrder, { body })
  assert.is(second.headers.get('idempotent-replayed'), 'true')
  assert.is(second.body.orderId, first.body.orderId)
  assert.is(simulator.ledger().length, count)
})

placing('shares the clientOrderId with binary orders: used there, it is a conflict here', async () => {
  const clientOrderId = randomUUID()
  await partner.call(placeBinaryOrder, {
    body: {
      traderExternalId: trader.traderExternalId,
      clientOrderId,
      asset: 'R_100',
      contractType: 'CALL',
      stake: 1,
      duration: 1,
      durationUnit: 't'
    }
  })
  assert.is((await place({ clientOrderId })).body.error, 'CLIENT_ORDER_ID_REUSED')
})

placing('is stopped out, or takes its profit, by itself', async () => {
  const { body } = await place({ multiplier: 400, takeProfit: 0.2, stopLoss: 2.5 })
  assert.ok(body.orderId, JSON.stringify(body))
  const closed = await until('the end of the contract', async () => {
    const { body: page } = await partner.call(listOrders, { query: { status: 'CLOSED' } })
    return page.data.find((entry: { orderId: string }) => entry.orderId === body.orderId)
  })
  const contract = simulator.ledger().find(({ contractId }) => String(contractId) === body.brokerOrderId)
  assert.is(closed.pnl, Number(contract?.profit))
  assert.is(closed.kind, 'MULTIPLIER')
  assert.is(closed.direction, 'up')
})

const closing = suite('POST /v1/orders/multiplier/{orderId}/close')

closing("refuses an unknown id, another partner's and a binary order's", async () => {
  const { body } = await place()
  const other = await harness.makePartner()
  assert.is((await other.call(closeMultiplierOrder, { params: { orderId: body.orderId } })).status, 404)
  assert.is(
    (await partner.call(closeMultiplierOrder, { params: { orderId: 'ord_00000000000000000000000000' } })).status,
    404
  )
  assert.is((await partner.call(closeOrder, { params: { id: body.orderId } })).status, 404)
})

closing('sells the contract and returns it closed, to a repeat as well', async () => {
  const { body } = await place()
  const first = await partner.call(closeMultiplierOrder, { params: { orderId: body.orderId } })
  assert.is(first.status, 200, JSON.stringify(first.body))
  assert.is(first.body.status, 'CLOSED')
  const contract = simulator.ledger().find(({ contractId }) => String(contractId) === body.brokerOrderId)
  assert.is(first.body.pnl, Number(contract?.profit))
  assert.equal((await partner.call(closeMultiplierOrder, { params: { orderId: body.orderId } })).body, first.body)
})

const specifying = suite('GET /v1/multipliers/spec/{asset}')

specifying('returns 404 for an asset the broker does not know', async () => {
  assert.is((await partner.call(getMultiplierSpec, { params: { asset: 'NOPE' } })).status, 404)
})

specifying('returns the factors and limits of an asset', async () => {
  const { status, body } = await partner.call(getMultiplierSpec, { params: { asset: 'R_100' } })
  assert.is(status, 200)
  assert.equal(body.multipliers, [40, 100, 200, 300, 400])
  assert.is(body.marketOpen, true)
  assert.equal([body.minStake, body.maxStake], [1, 2000])
})

const positions = suite('GET /v1/positions')

positions('refuses a trader that was never exchanged', async () => {
  assert.is(
    (await partner.call(listOpenPositions, { query: { traderExternalId: 'nobody' } })).body.error,
    'TRADER_NOT_FOUND'
  )
})

positions("reads one trader's values live, shows a partner all of its own, and no other's", async () => {
  const { traderExternalId } = await partner.makeTrader()
  const { body } = await place({ traderExternalId, multiplier: 40 })
  const { body: live } = await partner.call(listOpenPositions, { query: { traderExternalId } })
  assert.is(live.data.length, 1)
  assert.is(live.data[0].orderId, body.orderId)
  assert.type(live.data[0].currentValue, 'number')
  assert.ok(Math.abs(live.data[0].currentValue - live.data[0].buyPrice - live.data[0].unrealizedPnl) < 1e-9)
  const { body: all } = await partner.call(listOpenPositions)
  assert.ok(all.data.some((entry: { orderId: string }) => entry.orderId === body.orderId))
  const { body: none } = await (await harness.makePartner()).call(listOpenPositions)
  assert.equal(none, { data: [] })
})

positions('has a missing value read, once all positions are requested', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const placeHour = async () => {
    const { body } = await partner.call(placeBinaryOrder, {
      body: tickOrder(traderExternalId, { stake: 10, durationUnit: 'h' })
    })
    return body.orderId as string
  }
  const streamed = () => countStreams(simulator, accountId, 'proposal_open_contract') > 0
  const seen = async (orderId: string) => {
    const { body } = await partner.call(listOpenPositions)
    return body.data.find((entry: { orderId: string }) => entry.orderId === orderId)
  }
  await placeHour()
  await until('the contract needs no stream any more', () => !streamed())
  const orderId = await placeHour()
  const parked = await seen(orderId)
  assert.is(parked.currentValue, null)
  assert.ok(parked.expiresAt > parked.openedAt)
  await until('its value', async () => typeof (await seen(orderId)).currentValue === 'number')
  assert.not.ok(streamed())
})

positions('show no end of a multiplier, whose contract the broker lets end in a century', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  // Neither dialect requires the time of the purchase in a state.
  simulator.faults.set({ states: [{ drop: ['purchase_time'], when: 'always', loginid: accountId }] })
  await place({ traderExternalId, multiplier: 40 })
  const { body } = await partner.call(listOpenPositions, { query: { traderExternalId } })
  simulator.faults.set({ states: [] })
  assert.type(body.data[0].currentValue, 'number')
  assert.is(body.data[0].expiresAt, null)
})

positions.after(closeAll)
for (const tests of [placing, closing, specifying, positions]) tests.run()

// test once for each dialect
// The partner's own markup, as the broker charges it: beside the stake, or from what a win pays and a multiplier's
// commission. The stake is what was requested, buyPrice what was paid, and neither refuses nor loses a purchase.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listEvents } from '../../api/events/events.ts'
import { closeMultiplierOrder, placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import type { StateRule } from '../../worker/simulator/faults.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestPartner, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 3, limits: 'off', markup: { pct: 3, onTop: true } })
onClose(() => simulator.close())
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator),
    ORDER_TTL_MS: '30000',
    PERMIT_MS: '1000',
    RECONCILE_AFTER_MS: '1000',
    SWEEP_MS: '250',
    SETTLE_WAIT_MS: '15000'
  }
})
await startTestWorker(harness.env)
const partner = await harness.makePartner()

const order = ({ traderExternalId }: TestTrader, changes: object = {}) =>
  tickOrder(traderExternalId, { stake: 10, duration: 2, ...changes })
const contractsOf = ({ accountId }: TestTrader) => simulator.ledger().filter(({ loginid }) => loginid === accountId)

const onTop = suite('a markup paid beside the stake')
onTop.before(() => {
  simulator.engine.markup = { pct: 3, onTop: true }
})

for (const [contractType, barrier, paid] of [
  ['CALL', undefined, 10.59],
  ['DIGITMATCH', '3', 12.68],
  ['DIGITDIFF', '3', 10.33],
  ['DIGITOVER', '8', 12.68],
  ['DIGITUNDER', '9', 10.33],
  ['DIGITEVEN', undefined, 10.59]
] as const) {
  onTop(
    `does not have ${contractType} ${barrier ?? ''} refused: the stake is as requested, buyPrice what was paid`,
    async () => {
      const trader = await partner.makeTrader()
      const body = order(trader, { contractType, ...(barrier === undefined ? {} : { barrier }) })
      const response = await partner.call(placeBinaryOrder, { body })
      assert.is(response.status, 200, JSON.stringify(response.body))
      assert.equal([response.body.stake, response.body.buyPrice], [10, paid])
      const [contract] = contractsOf(trader)
      assert.is(response.body.buyPrice, Number(contract?.buyPrice))
      assert.is(response.body.pnl, Number(contract?.profit), 'less what was paid, not less the stake')
      const { data } = (await partner.call(listOrders, { query: { traderExternalId: trader.traderExternalId } })).body
      assert.equal([data[0].stake, data[0].buyPrice], [10, paid])
    }
  )
}

onTop('does not have a multiplier order refused', async () => {
  const trader = await partner.makeTrader()
  const { traderExternalId } = trader
  const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 100, stopLoss: 5 }
  const body = { traderExternalId, clientOrderId: randomUUID(), ...terms }
  const response = await partner.call(placeMultiplierOrder, { body })
  assert.is(response.status, 200, JSON.stringify(response.body))
  assert.equal([response.body.stake, response.body.buyPrice], [10, 10.3])
})

const doubtful = suite('an order in doubt with a markup paid beside the stake')

/** Places an order whose response is lost; returns the order as it ends up. */
async function placeMuted(of: TestPartner) {
  const trader = await of.makeTrader()
  simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: trader.accountId, times: 1 })
  const { body } = await of.call(placeBinaryOrder, { body: order(trader) })
  assert.is(contractsOf(trader).length, 1)
  return { body, trader }
}

doubtful('is found by what it cost, where earlier orders of the application were charged so', async () => {
  const { body, trader } = await placeMuted(partner)
  assert.is(body.status, 'CLOSED', JSON.stringify(body))
  assert.equal([body.stake, body.buyPrice], [10, 10.59])
  assert.is(body.brokerOrderId, String(contractsOf(trader)[0]?.contractId))
})

doubtful('is left to the operator where the price may also be that of a higher stake', async () => {
  const other = await harness.makePartner()
  await insertOrderRows(harness.services.db, await other.makeTrader(), { count: 3 })
  const { body, trader } = await placeMuted(other)
  assert.is(body.status, 'PENDING', JSON.stringify(body))
  const query = { traderExternalId: trader.traderExternalId }
  const [entry] = (await other.call(listOrders, { query })).body.data
  assert.is(entry.error.error, 'REVIEW_REQUIRED')
})

const within = suite('a markup taken from what a win pays')
within.before(() => {
  simulator.engine.markup = { pct: 3, onTop: false }
})

within('leaves buyPrice at the stake and lowers the payout', async () => {
  const trader = await partner.makeTrader()
  const { body } = await partner.call(placeBinaryOrder, { body: order(trader) })
  assert.equal([body.stake, body.buyPrice, body.potentialPayout], [10, 10, 18.45])
})

within('is found when the response is lost', async () => {
  const { body } = await placeMuted(partner)
  assert.is(body.status, 'CLOSED', JSON.stringify(body))
  assert.is(body.buyPrice, 10)
})

within('of a multiplier is part of its commission', async () => {
  const { traderExternalId } = await partner.makeTrader()
  const body = {
    traderExternalId,
    clientOrderId: randomUUID(),
    asset: 'R_100',
    direction: 'up',
    stake: 100,
    multiplier: 40
  }
  const { body: opened } = await partner.call(placeMultiplierOrder, { body })
  assert.is(opened.buyPrice, 100)
  const commission = await until('the commission', async () => {
    const [entry] = simulator.ledger().filter(({ contractId }) => String(contractId) === opened.brokerOrderId)
    return entry && Number(entry.commission)
  })
  assert.ok(commission > 3)
  assert.is((await partner.call(closeOrder, { params: { id: opened.orderId } })).status, 404)
})

const shown = suite('what the application earns by a contract')
shown.before(() => {
  simulator.engine.markup = { pct: 3, onTop: true }
})
const entryOf = async ({ traderExternalId }: TestTrader) =>
  (await partner.call(listOrders, { query: { traderExternalId } })).body.data[0]

shown("is shown on the order by the broker's own state of the contract, and in the event of its end", async () => {
  const trader = await partner.makeTrader()
  const { body } = await partner.call(placeBinaryOrder, { body: order(trader) })
  assert.is(body.status, 'CLOSED', JSON.stringify(body))
  const [contract] = contractsOf(trader)
  assert.ok(Number(contract?.markup) > 0)
  assert.is((await entryOf(trader)).markup, Number(contract?.markup))
  const event = await until('the event', async () => {
    const query = { traderExternalId: trader.traderExternalId, types: 'order.closed' }
    return (await partner.call(listEvents, { query })).body.data[0]
  })
  assert.is(event.data.markup, Number(contract?.markup))
})

shown('of an open multiplier is shown before its end', async () => {
  const trader = await partner.makeTrader()
  const { traderExternalId } = trader
  // The least one: a higher one is stopped out while a busy machine gets here.
  const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 40 }
  await partner.call(placeMultiplierOrder, { body: { traderExternalId, clientOrderId: randomUUID(), ...terms } })
  const entry = await until('the markup', async () => {
    const found = await entryOf(trader)
    return found.markup !== null && found
  })
  assert.equal([entry.status, entry.markup], ['OPEN', Number(contractsOf(trader)[0]?.markup)])
})

for (const [what, rule] of [
  ['that the state does not say', { drop: ['app_markup_amount'] }],
  ['that cannot be read', { set: { app_markup_amount: 'some' } }],
  ['above the price of the contract', { set: { app_markup_amount: '10.60' } }]
] as const)
  shown(`${what} is null, never 0`, async () => {
    const trader = await partner.makeTrader()
    const rules = { ...rule, when: 'always', loginid: trader.accountId } as StateRule
    simulator.faults.set({ states: [rules] })
    const { body } = await partner.call(placeBinaryOrder, { body: order(trader) })
    assert.is(body.status, 'CLOSED', JSON.stringify(body))
    assert.is((await entryOf(trader)).markup, null)
    simulator.faults.set({ states: [] })
  })

shown('leaves a commission above the price of the contract null', async () => {
  const trader = await partner.makeTrader()
  const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 40 }
  const set = { commission: 10.6, commision: 10.6 }
  simulator.faults.set({ states: [{ set, when: 'always', loginid: trader.accountId }] })
  const { traderExternalId } = trader
  const { body } = await partner.call(placeMultiplierOrder, {
    body: { traderExternalId, clientOrderId: randomUUID(), ...terms }
  })
  const closed = await partner.call(closeMultiplierOrder, { params: { orderId: body.orderId } })
  simulator.faults.set({ states: [] })
  assert.equal([closed.body.status, closed.body.commission], ['CLOSED', null], JSON.stringify(closed.body))
})

for (const [how, half] of [
  ['', []],
  [', after a state that is half settled too', [{ set: { sell_price: '' }, times: 1 }]]
] as [string, StateRule[]][])
  shown(
    `and an entry price that only states before the last one have are kept, and their end waits for none${how}`,
    async () => {
      const trader = await partner.makeTrader()
      const entry = ['entry_spot', 'entry_tick', 'entry_spot_display_value', 'entry_tick_display_value']
      const rules: StateRule[] = [...half, { drop: ['app_markup_amount', ...entry] }]
      simulator.faults.set({ states: rules.map(rule => ({ ...rule, when: 'over', loginid: trader.accountId })) })
      const { body } = await partner.call(placeBinaryOrder, { body: order(trader) })
      simulator.faults.set({ states: [] })
      assert.is(body.status, 'CLOSED', JSON.stringify(body))
      const [contract] = contractsOf(trader)
      assert.equal([body.entryPrice, body.exitPrice], [Number(contract?.entry), Number(contract?.exit)])
      assert.is((await entryOf(trader)).markup, Number(contract?.markup))
    }
  )

shown('and an entry price and a commission are kept as well where the order is closed by request', async () => {
  const trader = await partner.makeTrader()
  const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 40 }
  const { body: opened } = await partner.call(placeMultiplierOrder, {
    body: { traderExternalId: trader.traderExternalId, clientOrderId: randomUUID(), ...terms }
  })
  // Stored from the stream, whose states have the rest as well.
  await until('the markup', async () => (await entryOf(trader)).markup !== null)
  const lacked = ['app_markup_amount', 'commission', 'entry_spot', 'entry_tick']
  const drop = [...lacked, 'entry_spot_display_value', 'entry_tick_display_value']
  const over = { when: 'over', loginid: trader.accountId } as const
  // What the stream shows of the end is half of it, so that the state that is read decides.
  simulator.faults.set({
    states: [
      { set: { sell_price: '' }, times: 1, ...over },
      { drop, ...over }
    ]
  })
  const { body } = await partner.call(closeMultiplierOrder, { params: { orderId: opened.orderId } })
  simulator.faults.set({ states: [] })
  assert.is(body.status, 'CLOSED', JSON.stringify(body))
  const [contract] = contractsOf(trader)
  assert.equal([body.entryPrice, body.commission], [Number(contract?.entry), Number(contract?.commission)])
  assert.is((await entryOf(trader)).markup, Number(contract?.markup))
})

shown('is 0 where the broker reports that there is none', async () => {
  simulator.engine.markup = { pct: 0, onTop: false }
  const trader = await partner.makeTrader()
  const { body } = await partner.call(placeBinaryOrder, { body: order(trader) })
  assert.is(body.status, 'CLOSED', JSON.stringify(body))
  assert.is((await entryOf(trader)).markup, 0)
})

shown.after(closeAll)
onTop.run()
doubtful.run()
within.run()
shown.run()

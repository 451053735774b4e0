// test in the full run only
// test once for each dialect
// A stop loss or take profit that a leader changes at the broker is set on its open copies, scaled like the copy.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { followLeader, listMyFollows, unfollowLeader } from '../../api/copy.ts'
import { getOrder } from '../../api/orders/by-id.ts'
import { placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { markLimitsSet, takeLimitsToSet } from '../../db/copy/limits.ts'
import { endLease, renewLease } from '../../db/orders/leases.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { SimulatedRefusal } from '../../worker/simulator/engine/refusal.ts'
import { type SimulatedSymbol, symbols } from '../../worker/simulator/engine/symbols.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, dialect } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startWorker, type TestProcess } from '../support/processes.ts'

// Contracts stay open for minutes, and each of them sends an update with each tick.
const TICK_MS = 500
const simulator = await startSimulator({ tickMs: TICK_MS, seed: 12, limits: 'off' })
onClose(() => simulator.close())
// The price moves by half of one per cent within 400 such ticks, which closes a contract at its stop loss: on a busy machine
// before a test has changed it.
simulator.engine.market.script(symbols.get('R_100') as SimulatedSymbol, Array((8 * 60_000) / TICK_MS).fill(1219.6))
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator),
    ...{ SWEEP_MS: '200', LEASE_MS: '2000', BROKER_ANSWER_TIMEOUT_MS: '2000', RECONCILE_CRASHED_MS: '6000' }
  }
})
const { db } = harness.services
const workers: TestProcess[] = [await startWorker(harness.env)]
const partner = await harness.makePartner()

const follow = ({ traderExternalId }: TestTrader, { traderId: leaderId }: TestTrader, terms: object = {}) =>
  partner.call(followLeader, { body: { traderExternalId, leaderId, maxDrawdownPct: 90, ...terms } })
const standing = async ({ traderExternalId }: TestTrader) =>
  (await partner.call(listMyFollows, { query: { traderExternalId } })).body.data[0]
const setBase = (follower: TestTrader, columns: object) =>
  db('follows').where({ trader_id: follower.traderId }).update(columns)
const common = ({ traderExternalId }: TestTrader) => ({ traderExternalId, clientOrderId: randomUUID(), asset: 'R_100' })
const placeBinary = (trader: TestTrader, stake: number) =>
  partner.call(placeBinaryOrder, {
    body: { ...common(trader), contractType: 'CALL', stake, duration: 5, durationUnit: 'm' }
  })
const copyOf = ({ traderExternalId }: TestTrader, { orderId }: { orderId: string }) =>
  until(
    'the open copy',
    async () => {
      const { data } = (await partner.call(listOrders, { query: { traderExternalId } })).body
      const copy = data.find((each: { copiedFrom: string | null }) => each.copiedFrom === orderId)
      return copy?.status === 'OPEN' && copy
    },
    20_000
  )

const limits = suite('limits that a leader changes')
/** A test of what is decided before the broker is spoken with: in one dialect. */
function decided(name: string, test: () => Promise<void>): void {
  if (dialect === 'v3') limits(name, test)
}

/** Changes the limits of a contract as its owner does with the broker's own software; the broker takes one change a second. */
const changeAtBroker = ({ accountId }: TestTrader, contractId: string, changes: object) =>
  until('the broker to take limits', async () => {
    const account = simulator.engine.accounts.all.get(accountId)
    assert.ok(account)
    try {
      return simulator.engine.update(account, Number(contractId), changes)
    } catch (error) {
      assert.instance(error, SimulatedRefusal)
      return false
    }
  })
const contractOf = ({ accountId }: TestTrader) => simulator.ledger().find(({ loginid }) => loginid === accountId)
const limitsOf = (follower: TestTrader) => {
  const { stopLoss = null, takeProfit = null } = contractOf(follower) ?? {}
  return [stopLoss === null ? null : Number(stopLoss), takeProfit === null ? null : Number(takeProfit)].join(' ')
}
/** Waits until the copy has these limits at the broker, and until its row shows them. */
async function copyHas(follower: TestTrader, orderId: string, expected: [number | null, number | null]) {
  await until(`${expected} at the broker`, () => limitsOf(follower) === expected.join(' '), 20_000)
  await until('the row', async () => {
    const row = await db('orders').where({ id: orderId }).first()
    const shown = [row.stop_loss, row.take_profit].map(amount => (amount === null ? null : Number(amount)))
    return row.limits_at === null && shown.join(' ') === expected.join(' ')
  })
}
/** A leader with an open multiplier of 100 USD, and a follower with half of its risk. */
async function copied(terms: object = {}, follows: object = {}) {
  const [leader, follower] = [await partner.makeTrader(), await partner.makeTrader()]
  await insertOrderRows(db, leader, { count: 10 })
  await follow(follower, leader, { riskPct: 50, ...follows })
  const body = { ...common(leader), direction: 'up', stake: 100, multiplier: 40, ...terms }
  const order = (await partner.call(placeMultiplierOrder, { body })).body
  const copy = await copyOf(follower, order)
  return { leader, follower, order, copy }
}

limits('are set on its copies at the broker, scaled, and shown for both', async () => {
  const { leader, follower, order, copy } = await copied({ stopLoss: 60 })
  await changeAtBroker(leader, order.brokerOrderId, { stopLoss: 40, takeProfit: 90 })
  await copyHas(follower, copy.orderId, [20, 45])
  const shown = await partner.call(getOrder, { params: { id: order.orderId } })
  assert.equal([shown.body.stopLoss, shown.body.takeProfit], [40, 90])
  await changeAtBroker(leader, order.brokerOrderId, { stopLoss: null, takeProfit: null })
  await copyHas(follower, copy.orderId, [null, null])
  // Its copies have what they require: nothing is left to do, however often it is checked.
  const { limits_version: version } = await db('orders').where({ id: order.orderId }).first()
  assert.is(version, 2)
})

limits('are not set on the copies of a follow that was stopped', async () => {
  const [leader, follower, stopped] = [
    await partner.makeTrader(),
    await partner.makeTrader(),
    await partner.makeTrader()
  ]
  await insertOrderRows(db, leader, { count: 10 })
  for (const each of [follower, stopped]) await follow(each, leader, { riskPct: 50 })
  const terms = { ...common(leader), direction: 'up', stake: 100, multiplier: 40, stopLoss: 60 }
  const order = (await partner.call(placeMultiplierOrder, { body: terms })).body
  const [copy] = [await copyOf(follower, order), await copyOf(stopped, order)]
  const body = { traderExternalId: stopped.traderExternalId, leaderId: leader.traderId }
  assert.is((await partner.call(unfollowLeader, { body })).status, 200)
  await changeAtBroker(leader, order.brokerOrderId, { stopLoss: 40, takeProfit: 90 })
  await copyHas(follower, copy.orderId, [20, 45])
  const row = await db('orders').where({ trader_id: stopped.traderId }).first()
  assert.equal([row.limits_version, row.limits_at, limitsOf(stopped)], [0, null, '30 '])
})

decided('are set once the purchase of a copy is no longer in doubt, the last ones alone', async () => {
  const { leader, follower, order, copy } = await copied()
  await db.raw(
    `update orders set phase = 'sending', sent_at = now(), permit_until = now(), expires_at = now() + interval '1 minute',
        resolve_at = now() + interval '1 hour' where id = ?`,
    [copy.orderId]
  )
  for (const [version, takeProfit] of [300, 200].entries()) {
    await changeAtBroker(leader, order.brokerOrderId, { takeProfit })
    await until('the wish', async () => {
      const row = await db('orders').where({ id: copy.orderId }).first()
      return row.limits_version === version + 1 && Number(row.new_take_profit) === takeProfit / 2
    })
  }
  await db.raw(`update orders set phase = 'open', lease_holder = null, lease_until = null where id = ?`, [copy.orderId])
  await copyHas(follower, copy.orderId, [null, 100])
})

decided('never let a copy lose more than its follow may', async () => {
  const { leader, follower, order, copy } = await copied({ stopLoss: 20 }, { maxDrawdownPct: 50 })
  assert.is(limitsOf(follower).split(' ')[0], '10')
  await setBase(follower, { base_balance: '60' })
  await changeAtBroker(leader, order.brokerOrderId, { stopLoss: null, takeProfit: 150 })
  // 30 may be lost, and nothing else is open; without a stop loss it would be 50.
  await copyHas(follower, copy.orderId, [30, 75])
  await setBase(follower, { base_balance: '10' })
  await changeAtBroker(leader, order.brokerOrderId, { stopLoss: 80 })
  await until('the second change to be decided', async () => {
    const row = await db('orders').where({ id: copy.orderId }).first()
    return row.limits_version >= 2
  })
  await copyHas(follower, copy.orderId, [30, 75])
})

decided('count with what is wider while they are being changed', async () => {
  const { follower, copy, leader } = await copied({ stopLoss: 20 }, { maxDrawdownPct: 50 })
  await setBase(follower, { base_balance: '100' })
  const before = await db('orders').where({ id: copy.orderId }).first()
  assert.is(Number(before.stop_loss), 10)
  const later = new Date(Date.now() + 3_600_000)
  await db('orders').where({ id: copy.orderId }).update({ new_stop_loss: '45', limits_at: later })
  // 45 of 50 are at risk: 10 more do not fit.
  await placeBinary(leader, 20)
  await until('the skipped copy', async () => (await standing(follower)).lastSkipped?.reason === 'DRAWDOWN')
  await db('orders').where({ id: copy.orderId }).update({ new_stop_loss: '30' })
  await copyOf(follower, (await placeBinary(leader, 20)).body)
})

limits('are tried again after a refusal, a lost response and a call that never arrived', async () => {
  for (const effect of ['error', 'drop-after', 'drop-before'] as const) {
    const { leader, follower, order, copy } = await copied()
    simulator.faults.add({
      effect,
      call: 'contract_update',
      loginid: follower.accountId,
      times: 1,
      ...(effect === 'error' ? { code: 'ContractUpdateFailure' } : {})
    })
    await changeAtBroker(leader, order.brokerOrderId, { takeProfit: 150 })
    await copyHas(follower, copy.orderId, [null, 75])
  }
})

decided('are set by the worker that serves the account', async () => {
  const { copy } = await copied()
  const later = `clock_timestamp() + interval '1 hour'`
  await db.raw(`update orders set new_take_profit = 70, limits_at = ${later} where id = ?`, [copy.orderId])
  await renewLease(db, 'other', 60_000)
  await db('account_leases').where({ account_id: copy.accountId }).delete()
  await serveAccounts(db, 'other', [copy.accountId])
  const due = () => db.raw('update orders set limits_at = clock_timestamp() where id = ?', [copy.orderId])
  await db.transaction(async trx => {
    await trx.raw('update orders set limits_at = clock_timestamp() where id = ?', [copy.orderId])
    assert.equal(await takeLimitsToSet(trx, { worker: 'third', limit: 10 }), [])
    const [taken] = await takeLimitsToSet(trx, { worker: 'other', limit: 10 })
    assert.is(taken?.id, copy.orderId)
    assert.equal(await takeLimitsToSet(trx, { worker: 'other', limit: 10 }), [])
    // A change that came meanwhile is still to be set.
    await trx('orders').where({ id: copy.orderId }).update({ limits_version: 7 })
    await markLimitsSet(trx, { id: copy.orderId, limits_version: 6 })
    assert.ok((await trx('orders').where({ id: copy.orderId }).first()).limits_at)
    await trx.raw(`update orders set limits_at = ${later} where id = ?`, [copy.orderId])
  })
  await endLease(db, 'other')
  await due()
})

limits('end as they were changed last, although what was sent before is executed afterwards', async () => {
  const { leader, follower, order, copy } = await copied()
  const late = { effect: 'timeout-late', call: 'contract_update', loginid: follower.accountId, times: 1 } as const
  simulator.faults.add({ ...late, delayMs: 3000 })
  await changeAtBroker(leader, order.brokerOrderId, { takeProfit: 300 })
  const row = () => db('orders').where({ id: copy.orderId }).first()
  await until('a try', async () => (await row()).limits_tries > 0)
  await changeAtBroker(leader, order.brokerOrderId, { takeProfit: 200 })
  await until('the last change', async () => (await row()).limits_version === 2)
  await until('the one before it to be executed', () => limitsOf(follower) === ' 150', 20_000)
  await copyHas(follower, copy.orderId, [null, 100])
})

decided('are set by the next worker when the one that sets them is killed, for every copy', async () => {
  const { leader, follower, order, copy } = await copied()
  const [killed] = workers.splice(0) as [TestProcess]
  workers.push(await startWorker(harness.env))
  simulator.faults.add({ effect: 'ignore', call: 'contract_update' })
  await changeAtBroker(leader, order.brokerOrderId, { takeProfit: 150 })
  await until('a try', async () => (await db('orders').where({ id: copy.orderId }).first()).limits_tries > 0)
  killed.kill('SIGKILL')
  await killed.ended
  simulator.faults.reset()
  await copyHas(follower, copy.orderId, [null, 75])
})

limits.after(closeAll)
limits.run()

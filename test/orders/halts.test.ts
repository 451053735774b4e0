// Halts of trading: what is refused, what goes on, and that no waiting order of the scope is bought.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { followLeader, listMyFollows } from '../../api/copy.ts'
import { placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { claimOrders } from '../../db/orders/claiming.ts'
import {
  announceHalts,
  failHalted,
  type HaltedScope,
  haltTrading,
  listHalts,
  resumeTrading
} from '../../db/platform/halts.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, brokerEnv, dialect } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestPartner, type TestTrader, until } from '../support/harness.ts'
import { HELD_MS, openHeldClock } from '../support/held-clock.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const { clock, letGo } = openHeldClock()
const simulator = await startSimulator({ tickMs: 10, seed: 12, limits: 'off', clock })
onClose(() => simulator.close())
// A permit lasts for longer than an account is held here on any machine: what keeps its order back is the halt.
const env = { ...brokerEnv(simulator), SWEEP_MS: '200', PERMIT_MS: '30000', BROKER_ANSWER_TIMEOUT_MS: '60000' }
const harness = await openHarness({ env })
const { db, bus } = harness.services
const partner = await harness.makePartner()
const other = await harness.makePartner()
let worker = await startTestWorker(harness.env)

const everything: HaltedScope = { scope: 'all', subject: null }
const halt = async (on: HaltedScope, reason = 'the broker is being maintained') => {
  await haltTrading(db, { ...on, reason, actor: 'cli:test' })
  announceHalts(bus)
}
const resume = async (on: HaltedScope) => {
  await resumeTrading(db, on)
  announceHalts(bus)
}
/** Runs with a halt, which is over afterwards. */
async function halted<Result>(on: HaltedScope, run: () => Promise<Result>): Promise<Result> {
  await halt(on)
  try {
    return await run()
  } finally {
    await resume(on)
  }
}

const orderOf = ({ traderExternalId }: TestTrader, changes: object = {}) =>
  tickOrder(traderExternalId, { stake: 2, ...changes })
/** Places an order of a scope that is halted no longer, of which a worker may know a moment later, and refuse the order until then. */
const place = (of: TestPartner, body: object) =>
  until('the order to be placed', async () => {
    const response = await of.call(placeBinaryOrder, { body })
    return response.body.error !== 'TRADING_HALTED' && response
  })
const contractsOf = ({ accountId }: TestTrader) => simulator.ledger().filter(({ loginid }) => loginid === accountId)

const placing = suite('placing while trading is halted')

placing('is refused as 503 with scope, reason and Retry-After, and nothing is stored', async () => {
  const trader = await partner.makeTrader()
  const { status, body, headers } = await halted(everything, () =>
    partner.call(placeBinaryOrder, { body: orderOf(trader) })
  )
  assert.is(status, 503)
  assert.equal(
    { error: body.error, scope: body.scope, reason: body.reason },
    { error: 'TRADING_HALTED', scope: 'all', reason: 'the broker is being maintained' }
  )
  assert.match(body.message, /nothing was bought: the broker is being maintained/)
  assert.ok(Number(headers.get('retry-after')) > 0)
  assert.equal((await partner.call(listOrders, { query: { traderExternalId: trader.traderExternalId } })).body.data, [])
})

placing('is refused for the scope alone', async () => {
  const mine = await partner.makeTrader()
  const theirs = await other.makeTrader()
  const statuses = async (on: HaltedScope, expected: number[]) =>
    halted(on, async () => {
      const up = { asset: 'R_100', direction: 'up', stake: 2, multiplier: 100 }
      const { traderExternalId } = mine
      const orders = [orderOf(mine), orderOf(mine, { asset: 'R_50' }), orderOf(theirs)] as const
      const multiplier = { traderExternalId, clientOrderId: randomUUID(), ...up }
      let last: number[] = []
      // The same orders again where a worker still knows of the halt before this one; what was bought once stays so.
      await until('these statuses', async () => {
        const responses = await Promise.all([
          partner.call(placeBinaryOrder, { body: orders[0] }),
          partner.call(placeBinaryOrder, { body: orders[1] }),
          partner.call(placeMultiplierOrder, { body: multiplier }),
          other.call(placeBinaryOrder, { body: orders[2] })
        ])
        last = responses.map(({ status }) => status)
        return last.join() === expected.join()
      }).catch(() => assert.equal(last, expected))
    })
  await statuses({ scope: 'asset', subject: 'R_100' }, [503, 200, 503, 503])
  await statuses({ scope: 'partner', subject: partner.partnerId }, [503, 503, 503, 200])
  const application = appIds[harness.services.config.brokerDialect]
  await statuses({ scope: 'application', subject: application }, [503, 503, 503, 503])
  await statuses({ scope: 'application', subject: 'another' }, [200, 200, 200, 200])
})

placing('names the widest halt, and is refused until the last one that applies is over', async () => {
  const trader = await partner.makeTrader()
  const body = orderOf(trader)
  const asset: HaltedScope = { scope: 'asset', subject: 'R_100' }
  await halt(asset, 'its feed is wrong')
  await halt(everything, 'all of it')
  assert.equal(
    (await listHalts(db)).map(({ scope, subject, reason }) => [scope, subject, reason]),
    [
      ['all', null, 'all of it'],
      ['asset', 'R_100', 'its feed is wrong']
    ]
  )
  assert.is((await partner.call(placeBinaryOrder, { body })).body.scope, 'all')
  await resume(everything)
  assert.is((await partner.call(placeBinaryOrder, { body })).body.scope, 'asset')
  await resume(asset)
  assert.is((await place(partner, body)).body.status, 'CLOSED')
  assert.is(contractsOf(trader).length, 1)
})

placing('leaves replays and closes as they are', async () => {
  const trader = await partner.makeTrader()
  const body = orderOf(trader, { duration: 1, durationUnit: 'h' })
  const { orderId } = (await place(partner, body)).body
  await halted(everything, async () => {
    const replay = await partner.call(placeBinaryOrder, { body })
    assert.equal([replay.status, replay.body.orderId], [200, orderId])
    assert.is(replay.headers.get('idempotent-replayed'), 'true')
    const reused = await partner.call(placeBinaryOrder, { body: { ...body, stake: 3 } })
    assert.is(reused.body.error, 'CLIENT_ORDER_ID_REUSED')
    const closed = await partner.call(closeOrder, { params: { id: orderId } })
    assert.equal([closed.status, closed.body.status], [200, 'CLOSED'])
  })
})

const waiting = suite('an order that waits when trading is halted')

waiting('ends as TRADING_HALTED within a second, and is bought once when it is repeated', async () => {
  const trader = await partner.makeTrader()
  await place(partner, orderOf(trader))
  await worker.stop()
  const body = orderOf(trader)
  const call = partner.call(placeBinaryOrder, { body })
  await until('the order', () => db('orders').where({ client_order_id: body.clientOrderId }).first())
  await halt(everything)
  worker = await startTestWorker(harness.env)
  const { status, body: refused, headers } = await call
  assert.equal([status, refused.error, refused.scope, refused.status], [503, 'TRADING_HALTED', 'all', 'FAILED'])
  assert.ok(headers.get('retry-after'))
  const [entry] = (await partner.call(listOrders, { query: { traderExternalId: trader.traderExternalId, limit: 1 } }))
    .body.data
  assert.equal([entry.orderId, entry.status, entry.error.error], [refused.orderId, 'FAILED', 'TRADING_HALTED'])
  assert.is((await partner.call(placeBinaryOrder, { body })).body.orderId, refused.orderId, 'requested again too early')
  await resume(everything)
  const again = await place(partner, body)
  assert.equal([again.status, again.body.orderId], [200, refused.orderId])
  assert.is(contractsOf(trader).length, 2)
})

waiting('is not claimed, whatever the worker remembers', async () => {
  const trader = await partner.makeTrader()
  await worker.stop()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  const claim = () =>
    claimOrders(db, {
      accountIds: [trader.accountId],
      sender: 'worker',
      claimNo: 1,
      permitMs: 1000,
      reconcileAfterMs: 1000
    })
  const { claimed, expired } = await halted({ scope: 'asset', subject: 'R_100' }, claim)
  assert.equal([claimed.length, expired.map(({ error_code }) => error_code)], [0, ['TRADING_HALTED']])
  await db('orders').where({ account_id: trader.accountId }).update({ phase: 'queued' })
  assert.is((await claim()).claimed.length, 1)
  worker = await startTestWorker(harness.env)
})

waiting('is not sent when it was claimed before the halt', async () => {
  const trader = await partner.makeTrader()
  await place(partner, orderOf(trader))
  await worker.stop()
  worker = await startTestWorker(harness.env)
  // No worker opens the account of this one: it shows when the worker knows of the halt.
  const another = await partner.makeTrader()
  await db('broker_accounts').where({ account_id: another.accountId }).update({ prove_at: 'infinity' })
  await insertOrderRows(db, another, { phase: 'unproven', at: new Date(Date.now() + 60_000) })
  const waits = () => db('orders').where({ account_id: another.accountId, phase: 'unproven' }).first()
  // A worker of its own that has no connection for the account yet, and gets one once it knows of the halt.
  simulator.faults.add({ effect: 'slow', call: dialect === 'v3' ? 'authorize' : 'otp', delayMs: HELD_MS })
  const body = orderOf(trader)
  const call = partner.call(placeBinaryOrder, { body })
  await until('the claim', () => db('orders').where({ client_order_id: body.clientOrderId, phase: 'sending' }).first())
  const { status, body: refused } = await halted(everything, async () => {
    await until('the worker to know of the halt', async () => !(await waits()))
    simulator.faults.reset()
    letGo()
    return call
  })
  assert.equal([status, refused.error], [503, 'TRADING_HALTED'])
  assert.is(contractsOf(trader).length, 1)
})

waiting('is refused whether or not its account was opened before', async () => {
  const trader = await partner.makeTrader()
  // A worker would open the account and buy the order while it is being stopped.
  await worker.stop()
  await insertOrderRows(db, trader, { phase: 'queued', at: new Date(Date.now() + 60_000) })
  await db('orders').where({ account_id: trader.accountId }).update({ phase: 'unproven' })
  const failed = await halted({ scope: 'partner', subject: partner.partnerId }, () => failHalted(db, 10))
  assert.is(failed.length, 1)
  worker = await startTestWorker(harness.env)
})

const copying = suite('copies while trading is halted')

copying('are skipped, as the follow shows', async () => {
  const leader = await other.makeTrader()
  for (let count = 0; count < 10; count++) await place(other, orderOf(leader))
  await db('community_profiles').insert({ partner_id: other.partnerId, party_id: other.partnerId, is_public: true })
  const follower = await partner.makeTrader()
  const { traderExternalId } = follower
  const followed = await partner.call(followLeader, { body: { traderExternalId, leaderId: leader.traderId } })
  assert.is(followed.status, 200)
  await halted({ scope: 'partner', subject: partner.partnerId }, async () => {
    assert.is((await other.call(placeBinaryOrder, { body: orderOf(leader) })).status, 200)
    const follow = await until('the decision', async () => {
      const [found] = (await partner.call(listMyFollows, { query: { traderExternalId } })).body.data
      return found.skippedCopies > 0 && found
    })
    assert.equal([follow.skippedCopies, follow.lastSkipped.reason, follow.status], [1, 'TRADING_HALTED', 'ACTIVE'])
  })
  assert.is(contractsOf(follower).length, 0)
})

const resuming = suite('resuming')

resuming('names a halt that there is', async () => {
  await halt({ scope: 'asset', subject: 'R_100' })
  for (const on of [everything, { scope: 'asset', subject: 'R_50' }] as HaltedScope[])
    await resumeTrading(db, on).then(
      () => assert.unreachable('it was resumed'),
      error => assert.match(error.message, /is not halted for .*; halted: asset R_100\./)
    )
  await resume({ scope: 'asset', subject: 'R_100' })
  assert.equal(await listHalts(db), [])
  const nobody: HaltedScope = { scope: 'partner', subject: 'ptn_nobody' }
  await halt(nobody).then(
    () => assert.unreachable('a partner that does not exist was halted'),
    error => assert.is(error.code, 'NOT_FOUND')
  )
})

placing.run()
waiting.run()
copying.run()
resuming.after(closeAll)
resuming.run()

// The rules of a follow: the account it belongs to, what it may lose, and what a leader's close does to its copies. They are
// the service's own: in one dialect; copy.test.ts speaks both.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { followLeader, listLeaders, listMyFollows } from '../../api/copy.ts'
import { closeMultiplierOrder, placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { activateAccount, exchangeTokens } from '../../api/traders/accounts.ts'
import { settleByHand } from '../../db/orders/past-end.ts'
import { openOrders } from '../../db/orders/placing.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { rows } from '../../db/postgres/connection.ts'
import { scale } from '../../worker/copy/terms.ts'
import { SimulatedRefusal } from '../../worker/simulator/engine/refusal.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, frontOf } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { holdPrice } from '../support/market-stage.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 20, seed: 12, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), SWEEP_MS: '200' } })
const { db } = harness.services
const worker = await startTestWorker(harness.env)
const partner = await harness.makePartner()

/** A trader with a record long enough to lead. */
async function makeLeader(): Promise<TestTrader> {
  const leader = await partner.makeTrader()
  await insertOrderRows(db, leader, { count: 10 })
  return leader
}

/** Adds an account to a trader and makes it the active one. */
async function switchAccount(trader: TestTrader, { accountMode = 'DEMO', currency = 'USD' } = {}): Promise<string> {
  const accountId = accountMode === 'DEMO' ? newAccountId() : newAccountId().replace('VRTC', 'CR')
  const token = `sim-${accountId}-${currency}`
  const { traderExternalId } = trader
  const exchanged = await partner.call(exchangeTokens, {
    body: { traderExternalId, accounts: [{ accountId, token, accountMode, currency }] }
  })
  assert.is(exchanged.status, 200, JSON.stringify(exchanged.body))
  assert.is((await partner.call(activateAccount, { body: { traderExternalId, accountId } })).status, 200)
  return accountId
}

const activate = ({ traderExternalId }: TestTrader, accountId: string) =>
  partner.call(activateAccount, { body: { traderExternalId, accountId } })
const follow = ({ traderExternalId }: TestTrader, { traderId: leaderId }: TestTrader, terms: object = {}) =>
  partner.call(followLeader, { body: { traderExternalId, leaderId, maxDrawdownPct: 90, ...terms } })
const standing = async ({ traderExternalId }: TestTrader) =>
  (await partner.call(listMyFollows, { query: { traderExternalId } })).body.data[0]
const copiesOf = async ({ traderExternalId }: TestTrader) =>
  (await partner.call(listOrders, { query: { traderExternalId } })).body.data.filter(
    (entry: { copiedFrom: string | null }) => entry.copiedFrom
  )

const placeBinary = ({ traderExternalId }: TestTrader, terms: object = {}) =>
  partner.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, { stake: 10, duration: 5, durationUnit: 'm', ...terms })
  })
const placeMultiplier = ({ traderExternalId }: TestTrader, terms: object = {}) =>
  partner.call(placeMultiplierOrder, {
    body: {
      traderExternalId,
      clientOrderId: randomUUID(),
      asset: 'R_100',
      direction: 'up',
      stake: 10,
      multiplier: 40,
      ...terms
    }
  })

/** Waits until what was bought has been copied to whom it is to be copied. */
const fannedOut = () =>
  until('the fan-outs', async () => {
    const [left] = await rows(db, `select 1 from pgboss.job where name = 'copy.fanout' and state <= 'active'`)
    return !left
  })

const copyOf = (follower: TestTrader, { orderId, status = 'OPEN' }: { orderId: string; status?: string }) =>
  until(
    `the ${status} copy`,
    async () => {
      const copy = (await copiesOf(follower)).find((each: { copiedFrom: string }) => each.copiedFrom === orderId)
      return copy?.status === status && copy
    },
    20_000
  )

const pinned = suite('a follow and its account')

pinned('belongs to the account it began with, whatever is active later', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  const { body } = await follow(follower, leader)
  assert.equal([body.accountId, body.accountMode, body.currency], [follower.accountId, 'DEMO', 'USD'])
  const real = await switchAccount(follower, { accountMode: 'REAL' })
  const { orderId } = (await placeBinary(leader)).body
  const copy = await copyOf(follower, { orderId })
  assert.equal([copy.accountId, copy.accountMode], [follower.accountId, 'DEMO'])
  assert.is((await standing(follower)).accountId, follower.accountId)
  assert.is(simulator.ledger().filter(({ loginid }) => loginid === real).length, 0)
})

pinned('takes the active account and its present balance when following again', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  const first = await follow(follower, leader)
  await db('follows').where({ id: first.body.followId }).update({ base_balance: '5', since_pnl: '-1' })
  const accountId = await switchAccount(follower)
  const again = await follow(follower, leader)
  assert.equal([again.body.followId, again.body.accountId], [first.body.followId, accountId])
  const row = await db('follows').where({ id: first.body.followId }).first()
  assert.equal([Number(row.base_balance), Number(row.since_pnl)], [10_000, 0])
})

pinned('is refused where mode or currency differ, and both are named', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  const real = await switchAccount(follower, { accountMode: 'REAL' })
  const mode = await follow(follower, leader)
  assert.equal([mode.status, mode.body.error], [409, 'FOLLOW_MISMATCH'])
  assert.is(mode.body.message, `The leader trades a DEMO account in USD, account ${real} is a REAL account in USD.`)
  const euro = await switchAccount(follower, { currency: 'EUR' })
  const currency = await follow(follower, leader)
  assert.equal([currency.status, currency.body.error], [409, 'FOLLOW_MISMATCH'])
  assert.is(currency.body.message, `The leader trades a DEMO account in USD, account ${euro} is a DEMO account in EUR.`)
  assert.is(await standing(follower), undefined)
})

pinned('pauses visibly when the leader switches to another mode, and resumes when they agree again', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  await switchAccount(leader, { accountMode: 'REAL' })
  assert.is((await standing(follower)).status, 'PAUSED_MISMATCH')
  const { orderId } = (await placeBinary(leader)).body
  await fannedOut()
  const paused = await standing(follower)
  assert.equal([paused.status, paused.skippedCopies, paused.copiedOrders], ['PAUSED_MISMATCH', 1, 0])
  assert.equal([paused.lastSkipped.orderId, paused.lastSkipped.reason], [orderId, 'MISMATCH'])
  await activate(leader, leader.accountId)
  assert.is((await standing(follower)).status, 'ACTIVE')
  const next = (await placeBinary(leader)).body
  await copyOf(follower, next)
})

pinned("is judged by the order itself, whatever the accounts' states are now", async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const real = await switchAccount(leader, { accountMode: 'REAL' })
  // As if the order had been placed between two switches.
  await db('follows').where({ leader_id: leader.traderId }).update({ status: 'ACTIVE' })
  await placeBinary(leader)
  await fannedOut()
  assert.is((await standing(follower)).status, 'PAUSED_MISMATCH')
  assert.equal(await copiesOf(follower), [])
  assert.is(simulator.ledger().filter(({ loginid }) => loginid === real).length, 1)
  // Paused, it resumes with an order that agrees.
  await db('traders')
    .where({ id: leader.traderId })
    .update({ active_account_id: db('broker_accounts').where({ account_id: leader.accountId }).select('id') })
  await copyOf(follower, (await placeBinary(leader)).body)
  assert.is((await standing(follower)).status, 'ACTIVE')
})

pinned('reports when the token of its account was refused', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  await db('broker_accounts').where({ account_id: follower.accountId }).update({ status: 'REJECTED' })
  const { orderId } = (await placeBinary(leader)).body
  await fannedOut()
  const { status, skippedCopies, lastSkipped } = await standing(follower)
  assert.equal([status, skippedCopies, lastSkipped.reason, lastSkipped.orderId], ['ACTIVE', 1, 'DISCONNECTED', orderId])
})

const drawdown = suite('the drawdown limit of a follow')

const setBase = (follower: TestTrader, columns: object) =>
  db('follows').where({ trader_id: follower.traderId }).update(columns)

drawdown('keeps a copy from being placed that could lose more than the limit', async () => {
  const [leader, follower, bold] = [await makeLeader(), await partner.makeTrader(), await partner.makeTrader()]
  await follow(follower, leader, { maxDrawdownPct: 5 })
  await follow(bold, leader, { maxDrawdownPct: 6 })
  for (const each of [follower, bold]) await setBase(each, { base_balance: '190' })
  const { orderId } = (await placeBinary(leader, { stake: 10 })).body
  await copyOf(bold, { orderId })
  const { status, skippedCopies, lastSkipped } = await standing(follower)
  assert.equal([status, skippedCopies, lastSkipped.reason], ['ACTIVE', 1, 'DRAWDOWN'])
  assert.equal(await copiesOf(follower), [])
})

drawdown('counts what is open and what is lost already', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader, { maxDrawdownPct: 50 })
  await setBase(follower, { base_balance: '70', since_pnl: '-10' })
  const placed: string[] = []
  for (let count = 0; count < 4; count++) {
    placed.push((await placeBinary(leader, { stake: 10 })).body.orderId)
    await fannedOut()
  }
  // 10 lost, 25 left: two copies of 10.
  await copyOf(follower, { orderId: placed[1] as string })
  const { copiedOrders, openCopies, skippedCopies, status } = await standing(follower)
  assert.equal([copiedOrders, openCopies, skippedCopies, status], [2, 2, 2, 'ACTIVE'])
})

drawdown('counts the stop loss of a multiplier that has one, else its stake', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader, { maxDrawdownPct: 50 })
  await setBase(follower, { base_balance: '16' })
  const limited = (await placeMultiplier(leader, { stopLoss: 5 })).body
  await copyOf(follower, limited)
  await placeMultiplier(leader)
  await fannedOut()
  const { copiedOrders, skippedCopies, lastSkipped } = await standing(follower)
  assert.equal([copiedOrders, skippedCopies, lastSkipped.reason], [1, 1, 'DRAWDOWN'])
})

drawdown('pauses the follow when nothing fits any more', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader, { maxDrawdownPct: 50 })
  await setBase(follower, { base_balance: '20', since_pnl: '-9.66' })
  await placeBinary(leader, { stake: 0.35 })
  await fannedOut()
  const { status, lastSkipped, copiedOrders } = await standing(follower)
  assert.equal([status, lastSkipped.reason, copiedOrders], ['PAUSED_DRAWDOWN', 'DRAWDOWN', 0])
})

drawdown('holds when orders of the leader are copied at once', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await startTestWorker(harness.env)
  await follow(follower, leader, { maxDrawdownPct: 50 })
  await setBase(follower, { base_balance: '70' })
  const extra = []
  for (let count = 0; count < 5; count++) extra.push(await switchAccount(leader))
  // Orders of one account are bought one after the other, those of several at once.
  await Promise.all(
    extra.map(async accountId => {
      await db.raw(
        `update traders set active_account_id = (select id from broker_accounts where account_id = ?) where id = ?`,
        [accountId, leader.traderId]
      )
      await placeBinary(leader, { stake: 10 })
    })
  )
  await fannedOut()
  const { copiedOrders, skippedCopies } = await standing(follower)
  assert.equal([copiedOrders, skippedCopies], [3, 2])
})

const scaling = suite('the terms of a copy')

scaling('scale limits with the stake that the copy really has', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader, { riskPct: 1 })
  const { orderId } = (await placeMultiplier(leader, { stake: 10, stopLoss: 5, takeProfit: 20 })).body
  const copy = await copyOf(follower, { orderId })
  assert.equal([copy.stake, copy.raisedToMinimum], [1, true])
  const [row] = await rows<{ stop_loss: string; take_profit: string }>(
    db,
    'select stop_loss, take_profit from orders where id = :id',
    { id: copy.orderId }
  )
  assert.equal([Number(row?.stop_loss), Number(row?.take_profit)], [0.5, 2])
})

scaling('show whether the stake was raised', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader, { riskPct: 50 })
  const { orderId } = (await placeBinary(leader, { stake: 10 })).body
  const copy = await copyOf(follower, { orderId })
  assert.equal([copy.stake, copy.raisedToMinimum], [5, false])
  const [own] = (await partner.call(listOrders, { query: { traderExternalId: leader.traderExternalId } })).body.data
  assert.is(own.raisedToMinimum, null)
})

scaling('are at least what the broker states in its quote for this asset', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader, { riskPct: 1 })
  const terms = { asset: '1HZ25V', multiplier: 160, stake: 100, stopLoss: 10, takeProfit: 10 }
  // Its end would be that of its copies.
  holdPrice(simulator.engine, terms.asset)
  const { orderId } = (await placeMultiplier(leader, terms)).body
  const copy = await copyOf(follower, { orderId })
  assert.equal([copy.stake, copy.raisedToMinimum], [2.5, true])
  const row = await db('orders').where({ id: copy.orderId }).first()
  assert.equal([Number(row.stop_loss), Number(row.take_profit)], [0.5, 0.5])
})

scaling('leave out a limit that rounds to nothing, and raise one below the least of the broker', () => {
  const leading = {
    kind: 'MULTIPLIER',
    buy_price: '1000',
    stake: '1000',
    stake_in_account: null,
    exchange_rate: null,
    commission: '20'
  } as const
  const least = { stake: '1.00', stopLoss: '0.10', takeProfit: '0.10' }
  const limits = (stop_loss: string | null, take_profit: string | null, riskPct: string, bounds = least) => {
    const { stopLoss, takeProfit, worstCase } = scale({ ...leading, stop_loss, take_profit }, riskPct, bounds)
    return [stopLoss, takeProfit, worstCase.toFixed()]
  }
  assert.equal(limits('500', '0.4', '10'), ['50', '0.1', '50'])
  assert.equal(limits('500', '0.4', '1'), ['5', null, '5'])
  assert.equal(limits('0.4', null, '1'), [null, null, '10'])
  // The least stop loss covers the commission, which is 2 for a stake of 100.
  assert.equal(limits('21', null, '10'), ['2.1', null, '2.1'])
  assert.equal(limits('15', null, '10'), ['2.01', null, '2.01'])
  assert.equal(limits(null, null, '10'), [null, null, '100'])
  assert.equal(limits('500', '60', '1', { stake: '10', stopLoss: '5.50', takeProfit: '0.75' }), ['5.5', '0.75', '5.5'])
})

scaling('are in the currency of the account where the leader paid in it', () => {
  const none = { stop_loss: null, take_profit: null, commission: null } as const
  const unstated = { stake: null, stopLoss: null, takeProfit: null }
  const yen = scale(
    { kind: 'BINARY', ...none, stake: '10', stake_in_account: '1500', exchange_rate: '150', buy_price: '1500' },
    '50',
    unstated
  )
  assert.equal([yen.stake, yen.worstCase.toFixed()], ['5', '750'])
  const bitcoin = {
    stake: '100',
    stake_in_account: '0.00100000',
    exchange_rate: '0.00001',
    buy_price: '0.001',
    commission: null
  } as const
  const copy = scale({ kind: 'MULTIPLIER', ...bitcoin, stop_loss: '0.0005', take_profit: '0.000001' }, '10', unstated)
  assert.equal(
    [copy.stake, copy.stopLoss, copy.takeProfit, copy.worstCase.toFixed()],
    ['10', '0.00005', '0.000001', '0.00005']
  )
  // The least stake is stated in the account's currency: 1.50 of it are 1.67 USD, and a cent for a rate that moves.
  const euro = {
    stake: '10',
    stake_in_account: '9.00',
    exchange_rate: '0.9',
    buy_price: '9',
    commission: null
  } as const
  const small = scale({ kind: 'MULTIPLIER', ...euro, stop_loss: null, take_profit: null }, '1', {
    ...unstated,
    stake: '1.50'
  })
  assert.equal([small.stake, small.raisedToMinimum], ['1.68', true])
})

/** Sets limits at the broker that end a multiplier within moments; it takes some a second after the purchase. */
async function endSoon({ accountId }: TestTrader, brokerOrderId: string): Promise<void> {
  const account = simulator.engine.accounts.all.get(accountId)
  assert.ok(account)
  await until('the broker to take limits again', async () => {
    try {
      return simulator.engine.update(account, Number(brokerOrderId), { takeProfit: 0.1, stopLoss: 2.5 })
    } catch (error) {
      assert.instance(error, SimulatedRefusal)
      return false
    }
  })
}

const mirroring = suite('a leader that closes')

mirroring('closes the copies of a multiplier at once, but not where the follow excludes it', async () => {
  const [leader, follower, stubborn] = [await makeLeader(), await partner.makeTrader(), await partner.makeTrader()]
  assert.is((await follow(follower, leader)).body.mirrorCloses, true)
  assert.is((await follow(stubborn, leader, { mirrorCloses: false })).body.mirrorCloses, false)
  const { orderId } = (await placeMultiplier(leader)).body
  for (const each of [follower, stubborn]) await copyOf(each, { orderId })
  const { status, body } = await partner.call(closeMultiplierOrder, { params: { orderId } })
  assert.equal([status, body.status], [200, 'CLOSED'])
  const copy = await copyOf(follower, { orderId, status: 'CLOSED' })
  const [contract] = simulator.ledger().filter(({ loginid }) => loginid === follower.accountId)
  assert.is(contract?.status, 'sold')
  assert.is((await standing(follower)).pnl, copy.pnl)
  assert.is((await copyOf(stubborn, { orderId })).status, 'OPEN')
})

mirroring('closes the copies of a timed contract', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const { orderId } = (await placeBinary(leader)).body
  await copyOf(follower, { orderId })
  assert.is((await partner.call(closeOrder, { params: { id: orderId } })).status, 200)
  await copyOf(follower, { orderId, status: 'CLOSED' })
})

mirroring('does not touch copies when its contract ends by itself', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const { orderId } = (await placeBinary(leader, { duration: 1, durationUnit: 't' })).body
  await copyOf(follower, { orderId, status: 'CLOSED' })
  const [contract] = simulator.ledger().filter(({ loginid }) => loginid === follower.accountId)
  assert.ok(['won', 'lost'].includes(contract?.status as string))
})

mirroring('closes the copies when limits that it changed at the broker end its contract', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const { orderId, brokerOrderId } = (await placeMultiplier(leader, { stake: 100 })).body
  await copyOf(follower, { orderId })
  // The copy keeps its own limits, so that nothing but the sale can end it.
  const { accountId: loginid } = follower
  simulator.faults.add({ effect: 'error', code: 'ContractUpdateFailure', call: 'contract_update', loginid })
  await endSoon(leader, brokerOrderId)
  await copyOf(follower, { orderId, status: 'CLOSED' })
  simulator.faults.reset()
  const [contract] = simulator.ledger().filter(entry => entry.loginid === loginid)
  assert.is(contract?.status, 'sold')
})

mirroring('closes the copies while the price is awaited at which limits ended its contract', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const names = ['exit_tick', 'exit_spot', 'sell_spot', 'current_spot']
  const drop = names.flatMap(name => [name, `${name}_display_value`])
  simulator.faults.set({ states: [{ drop, loginid: leader.accountId }] })
  const { accountId: loginid } = follower
  simulator.faults.add({ effect: 'error', code: 'ContractUpdateFailure', call: 'contract_update', loginid })
  const { orderId, brokerOrderId } = (await placeMultiplier(leader, { stake: 100 })).body
  await copyOf(follower, { orderId })
  await endSoon(leader, brokerOrderId)
  await copyOf(follower, { orderId, status: 'CLOSED' })
  assert.is(simulator.ledger().find(entry => entry.loginid === loginid)?.status, 'sold')
  const [before] = (await findOrders(db, [orderId])) as [OrderRow]
  assert.equal([before.phase, before.closed_early], ['open', true], 'its own end waits for the price')
  simulator.faults.reset()
  const closed = await until(
    "the leader's end",
    async () => {
      const [order] = (await findOrders(db, [orderId])) as [OrderRow]
      return order.phase === 'closed' && order
    },
    60_000
  )
  assert.ok(Number(closed.exit_price) > 0, String(closed.exit_price))
})

mirroring('is not copied any more, and a copy in doubt is sold once it is known', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const { orderId } = (await placeMultiplier(leader)).body
  const copy = await copyOf(follower, { orderId })
  // As if the worker that bought the copy had no response yet.
  await db.raw(
    `update orders set phase = 'sending', sent_at = now(), permit_until = now(), expires_at = now() + interval '1 minute',
        resolve_at = now() + interval '1 hour' where id = ?`,
    [copy.orderId]
  )
  await partner.call(closeMultiplierOrder, { params: { orderId } })
  await until('the wish', async () => (await db('orders').where({ id: copy.orderId }).first()).close_at)
  await db.raw(`update orders set phase = 'open', lease_holder = null, lease_until = null where id = ?`, [copy.orderId])
  await copyOf(follower, { orderId, status: 'CLOSED' })
  // A fan-out that comes late copies nothing.
  const late = await partner.makeTrader()
  await follow(late, leader)
  // As if it had followed when the order was placed.
  await db('follows').where({ trader_id: late.traderId }).update({ active_since: null })
  await db.transaction(trx => worker.services.queue.enqueue(trx, 'copy.fanout', [{ orderId }]))
  await until('the fan-out', async () => (await standing(late)).lastSkipped?.reason === 'LEADER_CLOSED')
  assert.equal(await copiesOf(late), [])
})

mirroring(
  'closes a copy, too, whose purchase was refused and whose receipt comes after the leader closed',
  async () => {
    const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
    await follow(follower, leader)
    const { orderId } = (await placeMultiplier(leader)).body
    const copy = await copyOf(follower, { orderId })
    const [bought] = (await findOrders(db, [copy.orderId])) as [OrderRow]
    // As if the broker had refused the purchase.
    const nothing = { broker_order_id: null, buy_price: null, opened_at: null, answered_at: null, lease_holder: null }
    const refusal = { phase: 'failed', error_code: 'BROKER_UPSTREAM', error_message: 'No.', retryable: true }
    await db('orders')
      .where({ id: copy.orderId })
      .update({ ...nothing, ...refusal })
    await partner.call(closeMultiplierOrder, { params: { orderId } })
    await until('the jobs that close copies', async () => {
      const [left] = await rows(db, `select 1 from pgboss.job where name = 'copy.close' and state <= 'active'`)
      return !left
    })
    assert.is((await copyOf(follower, { orderId, status: 'FAILED' })).orderId, copy.orderId)
    const receipt = {
      id: bought.id,
      attempt: bought.attempt,
      brokerOrderId: bought.broker_order_id as string,
      transactionId: bought.transaction_id,
      buyPrice: bought.buy_price as string,
      payout: '0',
      currency: bought.currency,
      openedAt: (bought.opened_at as Date).getTime() / 1000,
      expiryAt: null,
      hasFollowers: false
    }
    assert.is((await openOrders(db, worker.services.queue, [{ ...receipt, isLate: true }], null)).orders.length, 1)
    await copyOf(follower, { orderId, status: 'CLOSED' })
  }
)

mirroring('fails a copy that still waits to be bought', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  // The account is busy with an order in doubt.
  await insertOrderRows(db, follower, { phase: 'open' })
  await db.raw(
    `update orders set phase = 'sending', sent_at = now(), permit_until = now(), expires_at = now() + interval '1 minute',
        resolve_at = now() + interval '1 hour' where trader_id = ?`,
    [follower.traderId]
  )
  const { orderId } = (await placeMultiplier(leader)).body
  await copyOf(follower, { orderId, status: 'PENDING' })
  await partner.call(closeMultiplierOrder, { params: { orderId } })
  const copy = await copyOf(follower, { orderId, status: 'FAILED' })
  assert.equal(copy.error, {
    error: 'CONFLICT',
    message: 'The leader closed the order before this copy was bought.'
  })
})

mirroring('closes a copy whose token was refused as soon as there is another', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  const { traderExternalId, accountId } = follower
  await follow(follower, leader)
  const { orderId } = (await placeMultiplier(leader)).body
  const copy = await copyOf(follower, { orderId })
  // The broker itself refuses it: a connection that is open already would sell without reading the stored token.
  simulator.engine.accounts.revoke(`sim-${accountId}`)
  frontOf(simulator).cutAll(accountId)
  const account = () => db('broker_accounts').where({ account_id: accountId }).first()
  await until('the refusal', async () => (await account()).status === 'REJECTED')
  await partner.call(closeMultiplierOrder, { params: { orderId } })
  const waiting = () => db('orders').where({ id: copy.orderId }).first()
  await until('a try', async () => (await waiting()).close_tries > 0)
  // The next try is far away, so that only another token can bring it nearer.
  const far = `update orders set close_at = now() + interval '1 hour' where id = ? and close_at > now()`
  await until('the next try', async () => (await db.raw(far, [copy.orderId])).rowCount === 1)
  assert.is((await copyOf(follower, { orderId })).status, 'OPEN')
  const accounts = [{ accountId, token: `sim-${accountId}-USD`, accountMode: 'DEMO' as const }]
  assert.is((await partner.call(exchangeTokens, { body: { traderExternalId, accounts } })).status, 200)
  await copyOf(follower, { orderId, status: 'CLOSED' })
})

mirroring('closes the copies when the operator settles its order as sold, but not as won or lost', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const placed = [await placeMultiplier(leader), await placeBinary(leader), await placeBinary(leader)]
  const [multiplier, sold, lost] = placed.map(({ body }) => body.orderId) as [string, string, string]
  for (const orderId of [multiplier, sold, lost]) await copyOf(follower, { orderId })
  const settle = async (orderId: string, soldFor: string) => {
    const [order] = (await findOrders(db, [orderId])) as [OrderRow]
    await db.transaction(trx => settleByHand(trx, worker.services.queue, order, { soldFor, closedAt: new Date() }))
  }
  await settle(lost, '0')
  await settle(multiplier, '9.5')
  await settle(sold, '4.2')
  for (const orderId of [multiplier, sold]) await copyOf(follower, { orderId, status: 'CLOSED' })
  assert.is((await copyOf(follower, { orderId: lost })).status, 'OPEN')
})

mirroring('is copied once, however often it is fanned out', async () => {
  const [leader, follower] = [await makeLeader(), await partner.makeTrader()]
  await follow(follower, leader)
  const { orderId } = (await placeBinary(leader)).body
  await copyOf(follower, { orderId })
  const again = Array.from({ length: 5 }, () => ({ orderId }))
  await db.transaction(trx => worker.services.queue.enqueue(trx, 'copy.fanout', again))
  await fannedOut()
  assert.is((await copiesOf(follower)).length, 1)
  const { copiedOrders, openCopies, skippedCopies } = await standing(follower)
  assert.equal([copiedOrders, openCopies, skippedCopies], [1, 1, 0])
})

const naming = suite('GET /v1/copy/leaders')

naming('shows mode and currency, and in the global list no name that is not public', async () => {
  const other = await harness.makePartner()
  const leader = await makeLeader()
  await db('community_profiles').insert([
    { partner_id: partner.partnerId, party_id: partner.partnerId, is_public: true },
    { partner_id: partner.partnerId, party_id: leader.traderId, display_name: 'Secret Ada', is_public: false }
  ])
  const find = async (caller: typeof partner, scope: string) =>
    (await caller.call(listLeaders, { query: { scope } })).body.data.find(
      ({ leaderId }: { leaderId: string }) => leaderId === leader.traderId
    )
  const own = await find(partner, 'tenant')
  assert.equal([own.displayName, own.accountMode, own.currency], ['Secret Ada', 'DEMO', 'USD'])
  const unnamed = await find(other, 'global')
  assert.is(unnamed.displayName, `Trader ${leader.traderId.slice(-4).toUpperCase()}`)
  await db('community_profiles').where({ party_id: leader.traderId }).update({ is_public: true })
  assert.is((await find(other, 'global')).displayName, 'Secret Ada')
  // An empty name is none, in either place.
  await db('community_profiles').where({ party_id: leader.traderId }).update({ display_name: '' })
  await db('traders').where({ id: leader.traderId }).update({ name: '' })
  for (const [caller, scope] of [
    [partner, 'tenant'],
    [other, 'global']
  ] as const)
    assert.is((await find(caller, scope)).displayName, unnamed.displayName)
})

naming('counts the mode and currency of the active account alone, REAL first, and filters', async () => {
  const mine = await harness.makePartner()
  const [ada, bob] = [await mine.makeTrader(), await mine.makeTrader()]
  for (const trader of [ada, bob]) await insertOrderRows(db, trader, { count: 10, pnl: '2' })
  await insertOrderRows(db, ada, { count: 3, pnl: '1000' })
  await db('orders').where({ trader_id: ada.traderId, pnl: '1000' }).update({ account_mode: 'REAL' })
  await insertOrderRows(db, bob, { pnl: '-5', at: new Date(Date.now() - 60_000) })
  await db('broker_accounts').where({ trader_id: bob.traderId }).update({ account_mode: 'REAL', currency: 'EUR' })
  await db('orders').where({ trader_id: bob.traderId }).update({
    account_mode: 'REAL',
    currency: 'EUR',
    stake_in_account: '5',
    exchange_rate: '0.5'
  })
  const list = async (query: Record<string, string> = {}) =>
    (await mine.call(listLeaders, { query })).body.data.map(
      ({ leaderId, accountMode, currency, trades, pnl, maxDrawdown, maxDrawdownPct }: Record<string, unknown>) =>
        [
          leaderId === ada.traderId ? 'ada' : 'bob',
          accountMode,
          currency,
          trades,
          pnl,
          maxDrawdown,
          maxDrawdownPct
        ].join(' ')
    )
  const all = await list()
  // Of stakes of 55 EUR, which are 110 USD.
  assert.equal(all, ['bob REAL EUR 11 15 5 9.09', 'ada DEMO USD 10 20 0 0'])
  assert.equal(await list({ accountMode: 'DEMO' }), [all[1]])
  assert.equal(await list({ currency: 'EUR' }), [all[0]])
  assert.equal(await list({ accountMode: 'DEMO', currency: 'EUR' }), [])
})

naming.after(closeAll)
for (const tests of [pinned, drawdown, scaling, mirroring, naming]) tests.run()

// test time-out: 300 s
// What the operator does about contracts that nobody follows: settling an order by hand, selling an orphan, and deciding
// findings. Real processes against a real database, a worker and the simulated broker.
import { randomUUID } from 'node:crypto'
import { userInfo } from 'node:os'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listOrders } from '../../api/orders/orders.ts'
import { decideBreak, insertBreak, listBreaks } from '../../db/orders/reconciliation.ts'
import { recordAudit } from '../../db/platform/audit.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { untilLockWaits } from '../support/lock-waits.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const { services, env, makePartner } = await openHarness({ env: { BROKER_URL: simulator.url } })
const { db } = services
const partner = await makePartner()
const actor = `cli:${userInfo().username}`

const run = (...args: string[]) => operator(env, ...args, '--json')
async function document(...args: string[]) {
  const ran = await run(...args)
  assert.is(ran.exitCode, 0, ran.stderr)
  return ran.json
}
async function refusal(...args: string[]): Promise<string> {
  const ran = await run(...args)
  assert.ok(ran.exitCode === 1 || ran.exitCode === 2, `exit code ${ran.exitCode}`)
  assert.is(ran.stdout, '')
  return ran.stderr
}
const audited = async (target: string) =>
  (await document('audit', 'list', '--target', target)).data.map((entry: { action: string; actor: string }) => [
    entry.action,
    entry.actor
  ])

const settling = suite('operator orders settle')

/** An order whose contract ended 20 minutes ago. */
async function makeStuck(changes: object = {}) {
  const trader = await partner.makeTrader()
  const at = new Date(Date.now() - 1_800_000)
  await insertOrderRows(db, trader, { phase: 'open', at, brokerOrderId: String(Math.floor(Math.random() * 1e12)) })
  const expiry_at = new Date(Date.now() - 1_200_000)
  const [order] = await db('orders')
    .where({ account_id: trader.accountId })
    .update({ payout: '19.53', expiry_at, ...changes })
    .returning('*')
  const found = { accountId: order.account_id, contractId: order.broker_order_id, partnerId: order.partner_id }
  await insertBreak(db, { kind: 'UNSETTLED', ...found, orderId: order.id, details: {} })
  return { trader, order }
}
const closedAt = new Date(Date.now() - 1_190_000).toISOString()
const settle = (name: string, soldFor: string, ...more: string[]) => [
  'orders',
  'settle',
  name,
  '--sold-for',
  soldFor,
  '--closed-at',
  closedAt,
  '--reason',
  'statement of the broker',
  ...more
]

settling(
  'closes an order by its orderId, clientOrderId or contract id, resolves its finding and is audited',
  async () => {
    for (const name of ['id', 'client_order_id', 'broker_order_id']) {
      const { trader, order } = await makeStuck({ error_code: 'REVIEW_REQUIRED', error_message: 'under review' })
      const settled = await document(...settle(order[name], '19.53', '--yes'))
      assert.equal(
        [settled.orderId, settled.status, settled.pnl, settled.closedAt, settled.error],
        [order.id, 'CLOSED', 9.53, closedAt, null]
      )
      const { body } = await partner.call(listOrders, { query: { traderExternalId: trader.traderExternalId } })
      assert.equal([body.data[0].status, body.data[0].pnl], ['CLOSED', 9.53])
      assert.equal(await audited(order.id), [['orders.settle', actor]])
      assert.equal(
        (await listBreaks(db, 1000)).filter(({ orderId }) => orderId === order.id),
        []
      )
      assert.match(await refusal(...settle(order.id, '0', '--yes')), /CLOSED/)
    }
  }
)

settling('requires confirmation before it changes anything', async () => {
  const { order } = await makeStuck()
  assert.match(await refusal(...settle(order.id, '0')), /repeat with --yes/)
  assert.is((await db('orders').where({ id: order.id }).first()).phase, 'open')
})

settling('refuses what cannot be true, and an order that the service can settle by itself', async () => {
  const { order } = await makeStuck()
  const refused = async (sold: string, at: string) =>
    refusal('orders', 'settle', order.id, '--sold-for', sold, '--closed-at', at, '--reason', 'because', '--yes')
  assert.match(await refused('20', closedAt), /19\.53 at most/)
  assert.match(await refused('-5', closedAt), /sold-for/)
  assert.match(await refused('1e3', closedAt), /sold-for/)
  assert.match(await refused('0', '2020-01-01T00:00:00Z'), /before the purchase/)
  assert.match(await refused('0', new Date(Date.now() + 3_600_000).toISOString()), /future/)
  assert.match(await refused('0', 'yesterday'), /closed-at/)
  assert.match(await refused('0', '2026-02-31T08:00:00Z'), /closed-at names no day/)
  assert.match(await refusal(...settle('ord_unknown', '0', '--yes')), /There is no order/)
  const running = await makeStuck({ expiry_at: new Date(Date.now() + 3_600_000) })
  await db('contract_breaks').where({ order_id: running.order.id }).delete()
  assert.match(await refusal(...settle(running.order.id, '0', '--yes')), /nothing to settle by hand/)
  await db('broker_accounts').where({ id: running.order.broker_account_id }).update({ status: 'REJECTED' })
  assert.is((await document(...settle(running.order.id, '0', '--yes'))).pnl, -10)
})

settling('takes no contract for sold early whose payout is unknown, and bounds what it can have paid', async () => {
  const { order } = await makeStuck({ payout: '0' })
  assert.match(await refusal(...settle(order.id, '19530', '--yes')), /10000 at most/)
  assert.is((await document(...settle(order.id, '19.53', '--yes'))).pnl, 9.53)
  assert.is((await db('orders').where({ id: order.id }).first()).closed_early, false)
  // Its price is 10: 40 times a move of ten times the price, and what it cost.
  const multiplier = await makeStuck({ kind: 'MULTIPLIER', multiplier: 40, payout: null })
  assert.match(await refusal(...settle(multiplier.order.id, '4020.01', '--yes')), /4020 at most/)
})

settling('counts the loss of a copy for its follow, and closes the copies of a contract that was sold', async () => {
  const leader = await partner.makeTrader()
  const { trader, order } = await makeStuck()
  const follow = { id: `fol_${order.id.slice(4)}`, partner_id: partner.partnerId, leader_id: leader.traderId }
  const follower = { trader_id: trader.traderId, trader_external_id: trader.traderExternalId }
  const terms = { risk_pct: '100', max_drawdown_pct: '50', status: 'ACTIVE', base_balance: '1000' }
  await db('follows').insert({ ...follow, ...follower, ...terms, since: order.created_at })
  await db('orders').where({ id: order.id }).update({ follow_id: follow.id })
  await document(...settle(order.id, '0', '--yes'))
  assert.is(Number((await db('follows').where({ id: follow.id }).first()).since_pnl), -10)
  for (const [paid, jobs] of [
    ['19.53', 0],
    ['12', 1]
  ] as const) {
    const { order: led } = await makeStuck({ has_followers: true })
    await document(...settle(led.id, paid, '--yes'))
    const closing = await db('pgboss.job').where({ name: 'copy.close' }).whereRaw(`data->>'orderId' = ?`, [led.id])
    assert.is(closing.length, jobs)
  }
})

settling('refuses a name that several orders go by, and names them', async () => {
  const [one, two] = [await makeStuck(), await makeStuck()]
  const shared = `shared-${randomUUID()}`
  const other = await makePartner()
  await db('orders').where({ id: one.order.id }).update({ client_order_id: shared })
  await db('orders').where({ id: two.order.id }).update({ client_order_id: shared, partner_id: other.partnerId })
  const { exitCode, json } = await run(...settle(shared, '0', '--yes'))
  assert.is(exitCode, 1)
  assert.equal(
    json.candidates.map(({ orderId }: { orderId: string }) => orderId).sort(),
    [one, two].map(({ order }) => order.id).sort()
  )
})

settling('and a decision on the finding of its order at the same time wait for each other', async () => {
  const { order } = await makeStuck()
  const finding = (await listBreaks(db, 1000)).find(({ orderId }) => orderId === order.id)
  const findingId = finding?.findingId as number
  const deciding = await db.transaction()
  await decideBreak(deciding, { findingId, resolution: 'known' })
  const settled = document(...settle(order.id, '0', '--yes'))
  await untilLockWaits(db)
  // Both would wait for each other if the command wrote the log first.
  await recordAudit(deciding, { actor, action: 'findings.resolve', target: String(findingId) })
  await deciding.commit()
  assert.is((await settled).status, 'CLOSED')
  assert.equal(
    [await audited(order.id), await audited(String(findingId))],
    [[['orders.settle', actor]], [['findings.resolve', actor]]]
  )
})

const selling = suite('operator contracts sell')

/** A contract that was bought outside of any order. */
async function makeOrphan(trader: TestTrader): Promise<string> {
  const { accountId } = trader
  const session = await worker.services.brokers
    .of('v3')
    .session({ accountId, appId: '7', credentialId: accountId, token: async () => `sim-${accountId}` })
  const terms = { asset: 'R_100', stake: '10', currency: 'USD', duration: 1, durationUnit: 'h', barrier: null } as const
  const { contractId } = await session.buy(
    { kind: 'BINARY', contractType: 'CALL', ...terms },
    { beforeSend() {}, maxPrice: '10' }
  )
  await until('it can be sold', async () => (await session.contract(contractId)).sellable)
  return contractId
}
const report = (trader: TestTrader, contractId: string) =>
  insertBreak(db, {
    kind: 'ORPHAN',
    accountId: trader.accountId,
    contractId,
    partnerId: partner.partnerId,
    orderId: null,
    details: {}
  })
const sell = (trader: TestTrader, contractId: string, ...more: string[]) => [
  'contracts',
  'sell',
  '--account',
  trader.accountId,
  '--contract',
  contractId,
  '--reason',
  'bought twice',
  ...more
]

let worker: Awaited<ReturnType<typeof startTestWorker>>

selling('sells an orphan once, resolves its finding and is audited before and after', async () => {
  worker = await startTestWorker(env)
  const trader = await partner.makeTrader()
  const contractId = await makeOrphan(trader)
  await report(trader, contractId)
  assert.match(await refusal(...sell(trader, contractId)), /repeat with --yes/)
  const sold = await document(...sell(trader, contractId, '--yes'))
  const [booked] = simulator.ledger().filter(({ loginid }) => loginid === trader.accountId)
  assert.equal([sold.contractId, sold.status, Number(sold.soldFor)], [contractId, 'sold', Number(booked?.sellPrice)])
  assert.equal(await audited(`${trader.accountId}/${contractId}`), [
    ['contracts.sold', actor],
    ['contracts.sell', actor]
  ])
  assert.match(await refusal(...sell(trader, contractId, '--yes')), /No unresolved finding/)
})

selling('and a decision on its finding at the same time wait for each other', async () => {
  const trader = await partner.makeTrader()
  const contractId = await makeOrphan(trader)
  await report(trader, contractId)
  const finding = (await listBreaks(db, 1000)).find(({ accountId }) => accountId === trader.accountId)
  const target = String(finding?.findingId)
  const deciding = await db.transaction()
  await decideBreak(deciding, { findingId: Number(target), resolution: 'known' })
  const sold = document(...sell(trader, contractId, '--yes'))
  await untilLockWaits(db)
  await recordAudit(deciding, { actor, action: 'findings.resolve', target })
  await deciding.commit()
  assert.is((await sold).status, 'sold')
  assert.equal(await audited(`${trader.accountId}/${contractId}`), [
    ['contracts.sold', actor],
    ['contracts.sell', actor]
  ])
})

selling("refuses a contract that is an order's, that no finding names, and while an order is in doubt", async () => {
  const trader = await partner.makeTrader()
  const contractId = await makeOrphan(trader)
  assert.match(await refusal(...sell(trader, contractId, '--yes')), /No unresolved finding/)
  await report(trader, contractId)
  await insertOrderRows(db, trader, { phase: 'queued' })
  const doubt = { phase: 'review', sent_at: new Date(), permit_until: new Date(), resolve_at: new Date() }
  await db('orders').where({ account_id: trader.accountId }).update(doubt)
  assert.match(await refusal(...sell(trader, contractId, '--yes')), /in doubt/)
  await db('orders').where({ account_id: trader.accountId }).delete()
  await insertOrderRows(db, trader, { phase: 'open', brokerOrderId: contractId })
  assert.match(await refusal(...sell(trader, contractId, '--yes')), /close that order instead/)
  await db('broker_accounts').where({ account_id: trader.accountId }).update({ status: 'REJECTED' })
  await db('orders').where({ account_id: trader.accountId }).delete()
  assert.match(await refusal(...sell(trader, contractId, '--yes')), /No usable token/)
  const [booked] = simulator.ledger().filter(({ loginid }) => loginid === trader.accountId)
  assert.is(booked?.status, 'open')
})

const findings = suite('operator findings')

findings('lists, resolves and reopens them, requires confirmation, and is audited', async () => {
  const trader = await partner.makeTrader()
  const contractId = '4711'
  await report(trader, contractId)
  const listed = async (...more: string[]) =>
    (await document('findings', 'list', ...more)).data.find(
      (each: { accountId: string }) => each.accountId === trader.accountId
    )
  const { findingId, kind, resolution } = await listed()
  assert.equal([kind, resolution], ['ORPHAN', null])
  const decide = (verb: string, ...more: string[]) => [
    'findings',
    verb,
    String(findingId),
    '--reason',
    'known to the trader',
    ...more
  ]
  assert.match(await refusal(...decide('resolve')), /repeat with --yes/)
  assert.is((await document(...decide('resolve', '--yes'))).resolution, 'known to the trader')
  assert.is(await listed(), undefined)
  assert.is((await listed('--all')).resolution, 'known to the trader')
  assert.match(await refusal(...decide('resolve', '--yes')), /resolved already/)
  assert.is((await document(...decide('reopen', '--yes'))).resolvedAt, null)
  assert.is((await listed()).findingId, findingId)
  assert.equal(await audited(String(findingId)), [
    ['findings.reopen', actor],
    ['findings.resolve', actor]
  ])
  // Another operator decides between the question and the step.
  const other = await db.transaction()
  await decideBreak(other, { findingId, resolution: 'by another' })
  const second = refusal(...decide('resolve', '--yes'))
  await untilLockWaits(db)
  await other.commit()
  assert.match(await second, /was decided meanwhile/)
  assert.is((await audited(String(findingId))).length, 2)
  assert.match(await refusal('findings', 'resolve', '999999', '--reason', 'because', '--yes'), /There is no finding/)
})

findings('and orders past their end are named by the doctor', async () => {
  const { order } = await makeStuck()
  const { checks } = (await run('doctor')).json
  const found = (name: string) => checks.find(({ check }: { check: string }) => check === name)
  assert.equal([found('settlements').status, found('findings').status], ['warn', 'warn'])
  assert.match(found('settlements').advice, /orders settle/)
  assert.ok(order)
})

findings.after(closeAll)
for (const tests of [settling, selling, findings]) tests.run()

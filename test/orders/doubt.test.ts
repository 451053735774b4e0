// test in a process of its own
// test once for each dialect
// Orders in doubt: the buy was sent, perhaps executed, and no response came. What the account shows decides,
// and nothing is ever sent twice.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { type DueAccount, listBreaks, markCompared, takeDueAccounts } from '../../db/orders/reconciliation.ts'
import { reconcileAccounts } from '../../worker/accounts/reconciliation.ts'
import type { Effect } from '../../worker/simulator/effects.ts'
import type { FaultRule } from '../../worker/simulator/faults.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { appIds, brokerEnv, dialect } from '../support/dialects.ts'
import { soonInDoubt } from '../support/doubt-settings.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { operator as runOperator } from '../support/operator.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 3, limits: 'off' })
onClose(() => simulator.close())
const env = { ...brokerEnv(simulator), ...soonInDoubt }
const harness = await openHarness({ env })
const worker = await startTestWorker(harness.env)
const partner = await harness.makePartner()

const order = (traderExternalId: string) => tickOrder(traderExternalId, { duration: 2 })
/** An application of somebody else, in each dialect's form. */
const otherApp = dialect === 'v3' ? '99' : 'app-9Q9'

const contractsOf = (accountId: string) => simulator.ledger().filter(({ loginid }) => loginid === accountId)

const spoil = (accountId: string, effect: Effect, changes: Partial<FaultRule> = {}) =>
  simulator.faults.add({ effect, call: 'buy', loginid: accountId, times: 1, ...changes })

const doubt = suite('an order in doubt')

for (const effect of ['mute', 'drop-after', 'timeout-late'] as const) {
  doubt(
    `whose purchase was executed without a response (${effect}) is found at the broker, adopted and settled`,
    async () => {
      const { traderExternalId, accountId } = await partner.makeTrader()
      spoil(accountId, effect, { delayMs: 300 })
      const { status, body } = await partner.call(placeBinaryOrder, { body: order(traderExternalId) })
      assert.is(status, 200, JSON.stringify(body))
      assert.is(body.status, 'CLOSED')
      const contracts = contractsOf(accountId)
      assert.is(contracts.length, 1)
      assert.is(body.brokerOrderId, String(contracts[0]?.contractId))
      assert.is(body.pnl, Number(contracts[0]?.profit))
    }
  )
}

for (const effect of ['ignore', 'drop-before', 'timeout'] as const) {
  doubt(`whose buy never ran (${effect}) is proven absent, and the same id buys once afterwards`, async () => {
    const { traderExternalId, accountId } = await partner.makeTrader()
    spoil(accountId, effect)
    const body = order(traderExternalId)
    const first = await partner.call(placeBinaryOrder, { body })
    assert.is(first.status, 502)
    assert.is(first.body.error, 'BROKER_UPSTREAM')
    assert.is(first.body.status, 'FAILED')
    assert.is(contractsOf(accountId).length, 0)
    const second = await partner.call(placeBinaryOrder, { body })
    assert.is(second.status, 200)
    assert.is(second.body.orderId, first.body.orderId)
    assert.is(contractsOf(accountId).length, 1)
  })
}

/** The spoiled buy has reached the broker. */
const swallowed = (accountId: string) =>
  until('the buy', () => simulator.faults.settings.rules.every(({ loginid }) => loginid !== accountId))

/** Places an order whose purchase is spoiled; no check of it is due before `meanwhile` is over, however long a busy machine takes. */
async function placeInDoubt(
  { traderExternalId, accountId }: TestTrader,
  effect: Effect,
  { body = order(traderExternalId), meanwhile }: { body?: object; meanwhile: () => Promise<unknown> }
) {
  const { config, db } = worker.services
  const { reconcileAfterMs } = config
  config.reconcileAfterMs = 600_000
  spoil(accountId, effect)
  const response = partner.call(placeBinaryOrder, { body })
  try {
    await swallowed(accountId)
    await meanwhile()
  } finally {
    config.reconcileAfterMs = reconcileAfterMs
    const due = { resolve_at: db.raw("permit_until + interval '1 millisecond'") }
    await db('orders').where({ account_id: accountId, phase: 'sending' }).update(due)
  }
  return response
}

doubt('holds back the other orders of its account, which go on in order of arrival', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  spoil(accountId, 'mute')
  const bodies = [order(traderExternalId), order(traderExternalId), order(traderExternalId)]
  const responses = []
  const { permitMs } = worker.services.config
  for (const body of bodies) {
    responses.push(partner.call(placeBinaryOrder, { body }))
    await until('the order', async () => {
      const { body: page } = await partner.call(listOrders, { query: { traderExternalId } })
      return page.data.some((entry: { clientOrderId: string }) => entry.clientOrderId === body.clientOrderId)
    })
    // Where a permit ends before the purchase could be sent, as on a busy machine, the order goes behind the others.
    if (body === bodies[0]) await swallowed(accountId)
    worker.services.config.permitMs = 30_000
  }
  const ended = await Promise.all(responses)
  worker.services.config.permitMs = permitMs
  assert.equal(
    ended.map(({ body }) => body.status),
    ['CLOSED', 'CLOSED', 'CLOSED'],
    JSON.stringify(ended.map(({ body }) => body))
  )
  const contracts = contractsOf(accountId)
  assert.is(contracts.length, 3)
  assert.equal(
    ended.map(({ body }) => body.brokerOrderId),
    contracts.map(({ contractId }) => String(contractId))
  )
})

/** What buys beside our orders, as a trader does with other software. */
async function openBeside(accountId: string, appId: string) {
  const session = await worker.services.brokers
    .of(dialect)
    .session({ accountId, appId, credentialId: 'beside', token: async () => `sim-${accountId}` })
  return async (changes: object = {}): Promise<string> => {
    const terms = { contractType: 'CALL', asset: 'R_100', stake: '1', duration: 2, ...changes } as const
    const contract = { kind: 'BINARY', currency: 'USD', durationUnit: 't', barrier: null, ...terms } as const
    return (await session.buy(contract, { beforeSend: () => {}, maxPrice: terms.stake })).contractId
  }
}

const statusOf = async (traderExternalId: string) => {
  const { body: page } = await partner.call(listOrders, { query: { traderExternalId } })
  return [page.data[0].status, page.data[0].error?.error]
}

doubt('with two contracts that could be its own adopts neither: it is in review', async () => {
  const trader = await partner.makeTrader()
  const { traderExternalId, accountId } = trader
  const buyBeside = await openBeside(accountId, appIds[dialect])
  // The trader buys the same with another program under the same application.
  const { status, body } = await placeInDoubt(trader, 'drop-after', { meanwhile: buyBeside })
  assert.is(status, 502)
  assert.is(body.status, 'PENDING')
  assert.equal(await statusOf(traderExternalId), ['PENDING', 'REVIEW_REQUIRED'])
  assert.is(contractsOf(accountId).length, 2)
})

const fate = dialect === 'v3' ? 'is distinguished by its application' : 'is left to the operator'
const expected = dialect === 'v3' ? ['FAILED', 'BROKER_UPSTREAM'] : ['PENDING', 'REVIEW_REQUIRED']

doubt(`whose buy never ran, beside an equal one the trader repeats by hand: that ${fate}`, async () => {
  const trader = await partner.makeTrader()
  const { traderExternalId, accountId } = trader
  const buyBeside = await openBeside(accountId, otherApp)
  const usual = worker.services.config.reconcileAfterMs
  worker.services.config.reconcileAfterMs = 10_000
  const meanwhile = async () => {
    const sentAt = Date.now()
    // Past the permit and what the broker's whole seconds hide, but while our own purchase might still have come.
    await until('that moment', () => Date.now() > sentAt + 500 + 4700)
    await buyBeside()
  }
  await placeInDoubt(trader, 'drop-before', { meanwhile })
  await until('a decision', async () => (await statusOf(traderExternalId))[1], 20_000)
  worker.services.config.reconcileAfterMs = usual
  assert.equal(await statusOf(traderExternalId), expected)
})

doubt(`whose buy never ran, of a trader who trades by other means too: an equal purchase ${fate}`, async () => {
  const trader = await partner.makeTrader()
  const { traderExternalId, accountId } = trader
  const buyBeside = await openBeside(accountId, otherApp)
  await buyBeside({ contractType: 'PUT', asset: 'R_50' })
  await placeInDoubt(trader, 'drop-before', { meanwhile: buyBeside })
  await until('a decision', async () => (await statusOf(traderExternalId))[1], 20_000)
  assert.equal(await statusOf(traderExternalId), expected)
  assert.is(contractsOf(accountId).length, 2)
})

doubt(
  'whose buy never ran, beside a purchase of its terms that cost more than it may: that is not adopted',
  async () => {
    const trader = await partner.makeTrader()
    const { traderExternalId, accountId } = trader
    const buyBeside = await openBeside(accountId, appIds[dialect])
    const { body } = await placeInDoubt(trader, 'drop-before', { meanwhile: () => buyBeside({ stake: '2' }) })
    assert.is(body.status, 'PENDING', JSON.stringify(body))
    assert.equal(await statusOf(traderExternalId), ['PENDING', 'REVIEW_REQUIRED'])
  }
)

doubt(
  'whose buy never ran, beside a purchase of its terms that cost less than its stake: that is not adopted',
  async () => {
    const trader = await partner.makeTrader()
    const { traderExternalId, accountId } = trader
    const buyBeside = await openBeside(accountId, appIds[dialect])
    const { body } = await placeInDoubt(trader, 'drop-before', { meanwhile: () => buyBeside({ stake: '0.5' }) })
    assert.is(body.status, 'PENDING', JSON.stringify(body))
    assert.equal(await statusOf(traderExternalId), ['PENDING', 'REVIEW_REQUIRED'])
  }
)

doubt('finds its contract beside one of the same terms that cost less than its stake', async () => {
  const trader = await partner.makeTrader()
  const { traderExternalId, accountId } = trader
  const buyBeside = await openBeside(accountId, appIds[dialect])
  const { body } = await placeInDoubt(trader, 'drop-after', { meanwhile: () => buyBeside({ stake: '0.5' }) })
  const [own] = contractsOf(accountId)
  // Without an application id the other purchase shows that the trader buys by other means as well.
  if (dialect === 'next') assert.equal(await statusOf(traderExternalId), ['PENDING', 'REVIEW_REQUIRED'])
  else assert.is(body.brokerOrderId, String(own?.contractId), JSON.stringify(body))
})

doubt('whose buy never ran, after an equal purchase that no order owns: that is no proof of absence', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const buyBeside = await openBeside(accountId, appIds[dialect])
  await buyBeside()
  const boughtAt = Date.now()
  // Before the order was sent by whole seconds: were the clocks wrong, it could be its own.
  await until('that moment', () => Date.now() > boughtAt + 4500)
  spoil(accountId, 'drop-before')
  const { body } = await partner.call(placeBinaryOrder, { body: order(traderExternalId) })
  assert.is(body.status, 'PENDING', JSON.stringify(body))
  assert.equal(await statusOf(traderExternalId), ['PENDING', 'REVIEW_REQUIRED'])
  assert.is(contractsOf(accountId).length, 1)
})

const deciding = suite('operator orders reconcile')

/** An order in review: bought without a response, and the trader bought the same by hand. */
async function makeReview() {
  const trader = await partner.makeTrader()
  const { traderExternalId, accountId } = trader
  const body = order(traderExternalId)
  const buyBeside = await openBeside(accountId, appIds[dialect])
  const { body: refused } = await placeInDoubt(trader, 'drop-after', { body, meanwhile: buyBeside })
  return { body, orderId: refused.orderId as string, accountId }
}
const operator = async (...args: string[]) => {
  const { exitCode, stdout, stderr } = await runOperator(harness.env, ...args, '--json')
  return { code: exitCode, text: stdout + stderr }
}

deciding('shows the evidence, adopts the contract named, and a worker follows it to its end', async () => {
  const { orderId, accountId, body } = await makeReview()
  const shown = await operator('orders', 'reconcile', orderId)
  assert.is(shown.code, 0, shown.text)
  const ids = JSON.parse(shown.text)
    .data.map(({ contractId }: { contractId: string }) => contractId)
    .sort()
  assert.equal(
    ids,
    contractsOf(accountId)
      .map(({ contractId }) => String(contractId))
      .sort()
  )
  assert.is((await operator('orders', 'reconcile', orderId, '--adopt', '12345', '--yes')).code, 1)
  assert.is(
    (await operator('orders', 'reconcile', orderId, '--adopt', ids[0])).code,
    1,
    'without --yes nobody was prompted'
  )
  const adopted = await operator('orders', 'reconcile', orderId, '--adopt', ids[0], '--yes')
  assert.is(adopted.code, 0, adopted.text)
  const again = await partner.call(placeBinaryOrder, { body })
  assert.is(again.body.status, 'CLOSED')
  assert.is(again.body.brokerOrderId, ids[0])
  const [line] = await harness.services.db('audit_log').where({ target: orderId })
  assert.is(line.action, 'orders.reconcile')
  assert.is((await operator('orders', 'reconcile', orderId, '--absent', '--yes')).code, 1, 'decided once')
})

deciding('declares an order absent, which may then be tried again', async () => {
  const { orderId, body, accountId } = await makeReview()
  const absent = await operator('orders', 'reconcile', orderId, '--absent', '--yes')
  assert.is(absent.code, 0, absent.text)
  assert.is(JSON.parse(absent.text).status, 'FAILED')
  assert.is((await partner.call(placeBinaryOrder, { body })).body.status, 'CLOSED')
  assert.is(contractsOf(accountId).length, 3)
})

deciding('names no clientOrderId where a copy was not bought, which has none', async () => {
  const { orderId } = await makeReview()
  await harness.services.db('orders').where({ id: orderId }).update({ client_order_id: null, copied_from: orderId })
  const absent = await operator('orders', 'reconcile', orderId, '--absent', '--yes')
  assert.is(absent.code, 0, absent.text)
  assert.is(JSON.parse(absent.text).error.message, 'The broker did not buy this order.')
})

deciding('audits by command as well', async () => {
  const audited = await operator('orders', 'audit')
  assert.is(audited.code, 0, audited.text)
  assert.ok(Array.isArray(JSON.parse(audited.text).data))
})

const audit = suite('the audit')

const reported =
  dialect === 'v3'
    ? 'reports a contract of ours that no order claims, once, and nothing else'
    : "leaves alone a contract that may be the trader's own: this dialect does not report it"

audit(reported, async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  await partner.call(placeBinaryOrder, { body: order(traderExternalId) })
  const buyBeside = await openBeside(accountId, appIds[dialect])
  const contractId = await buyBeside({
    contractType: 'PUT',
    asset: 'R_50',
    stake: '2',
    duration: 5
  })
  await reconcileAccounts(worker.services, { everyMinutes: 0 })
  await reconcileAccounts(worker.services, { everyMinutes: 0 })
  const mine = (await listBreaks(harness.services.db, 100)).filter(finding => finding.accountId === accountId)
  assert.equal(
    mine.map(finding => [finding.kind, finding.contractId]),
    dialect === 'v3' ? [['ORPHAN', contractId]] : []
  )
})

audit('covers the same time again when the worker that took the turn died', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  await partner.call(placeBinaryOrder, { body: order(traderExternalId) })
  const { db } = harness.services
  const take = async () => {
    const due = await takeDueAccounts(db, { everyMinutes: 0, limit: 200 })
    return due.find(account => account.accountId === accountId) as DueAccount
  }
  const compared = new Date(Date.now() - 7_200_000)
  await db('broker_accounts').where({ account_id: accountId }).update({ audited_at: compared, compared_at: compared })
  const died = await take()
  assert.is(died.since.getTime(), compared.getTime() - 120_000)
  const next = await take()
  assert.equal(next.since, died.since)
  await markCompared(db, next, null)
  assert.is((await take()).since.getTime(), next.takenAt.getTime() - 120_000)
})

audit("reports an order whose figures differ from the broker's books", async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const { body } = await partner.call(placeBinaryOrder, { body: order(traderExternalId) })
  await harness.services.db('orders').where({ id: body.orderId }).update({ pnl: '123.45' })
  await reconcileAccounts(worker.services, { everyMinutes: 0 })
  const [finding] = (await listBreaks(harness.services.db, 100)).filter(entry => entry.accountId === accountId)
  assert.is(finding?.kind, 'MISMATCH')
  assert.is(finding?.orderId, body.orderId)
})

audit.after(closeAll)
doubt.run()
deciding.run()
audit.run()

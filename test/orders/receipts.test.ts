// test in a process of its own
// test once for each dialect
// Receipts of purchases that are not what the order requested, and receipts that come although the purchase was refused: the money
// is spent, so the contract is the order's, and the operator sees what is odd about it.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { listBreaks } from '../../db/orders/reconciliation.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, dialect } from '../support/dialects.ts'
import { soonInDoubt } from '../support/doubt-settings.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { HELD_MS, openHeldClock } from '../support/held-clock.ts'
import { holdPrice } from '../support/market-stage.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const { clock, letGo } = openHeldClock()
const simulator = await startSimulator({ tickMs: 10, seed: 3, limits: 'off', clock })
onClose(() => simulator.close())
// A response that does not come ends the connection, and with it the late receipt that a test still holds.
const harness = await openHarness({
  env: { ...brokerEnv(simulator), ...soonInDoubt, BROKER_ANSWER_TIMEOUT_MS: '5000' }
})
const worker = await startTestWorker(harness.env)
const partner = await harness.makePartner()

const contractsOf = (accountId: string) => simulator.ledger().filter(({ loginid }) => loginid === accountId)
const findingsOf = async (accountId: string) =>
  (await listBreaks(worker.services.db, 1000)).filter(each => each.accountId === accountId)

const differing = suite('a receipt that differs from its order')

for (const [what, set, differs] of [
  ['price', { price: 100, parameters: { amount: 5 } }, { buyPrice: ['1.07 at most', '5'] }],
  ['price, below its stake', { parameters: { amount: 0.5 } }, { buyPrice: ['1 at least', '0.5'] }],
  ['type', { parameters: { contract_type: 'PUT' } }, { terms: ['CALL R_100 1t', /^PUT_R_100_/] }],
  ['asset', { parameters: { symbol: 'R_50' } }, { terms: ['CALL R_100 1t', /^CALL_R_50_/] }],
  ['length', { parameters: { duration: 2 } }, { terms: ['CALL R_100 1t', /_2T_/] }]
] as const)
  differing(`in its ${what} is of the order's contract, which settles, and is reported`, async () => {
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'altered', call: 'buy', loginid: accountId, times: 1, set })
    const { status, body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    const [contract, ...others] = contractsOf(accountId)
    assert.is(others.length, 0)
    assert.equal(
      [status, body.status, body.brokerOrderId, body.buyPrice, body.pnl],
      [200, 'CLOSED', String(contract?.contractId), Number(contract?.stake), Number(contract?.profit)]
    )
    const [finding] = await findingsOf(accountId)
    assert.equal([finding?.kind, finding?.orderId, finding?.contractId], ['MISMATCH', body.orderId, body.brokerOrderId])
    const details = finding?.details as Record<string, [string, string]>
    assert.equal(Object.keys(details), Object.keys(differs))
    for (const [field, [ours, theirs]] of Object.entries(differs)) {
      assert.is(details[field]?.[0], ours)
      if (theirs instanceof RegExp) assert.match(details[field]?.[1] ?? '', theirs)
      else assert.is(details[field]?.[1], theirs)
    }
  })

differing('is reported for a multiplier, too', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const set = { parameters: { multiplier: 200 } }
  simulator.faults.add({ effect: 'altered', call: 'buy', loginid: accountId, times: 1, set })
  const { clientOrderId } = tickOrder(traderExternalId)
  const terms = {
    traderExternalId,
    clientOrderId,
    asset: 'R_100',
    direction: 'up',
    stake: 10,
    multiplier: 100
  } as const
  const { status, body } = await partner.call(placeMultiplierOrder, { body: terms })
  assert.equal([status, body.status], [200, 'OPEN'])
  const [finding] = await findingsOf(accountId)
  assert.ok(finding)
  const { terms: differ } = finding.details as Record<string, [string, string]>
  assert.match(String(differ), /^up R_100 10 x100,MULTUP_R_100_10\.00_200_/)
})

for (const [what, requested, limits, differs] of [
  [
    'another stop loss',
    { stopLoss: 5, takeProfit: 900 },
    { stop_loss: { order_amount: -9 } },
    ['5', '900', '9', 'none']
  ],
  ['no limits', { stopLoss: 5 }, {}, ['5', 'none', 'none', 'none']],
  ['a limit that was not requested', {}, { take_profit: { order_amount: 7 } }, ['none', 'none', 'none', '7']]
] as const)
  differing(`is reported for a multiplier that was bought with ${what}`, async () => {
    holdPrice(simulator.engine)
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.set({ states: [{ set: { limit_order: limits }, when: 'open', loginid: accountId }] })
    const { clientOrderId } = tickOrder(traderExternalId)
    const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 100, ...requested } as const
    await partner.call(placeMultiplierOrder, { body: { traderExternalId, clientOrderId, ...terms } })
    const { details } = await until('the finding', async () => (await findingsOf(accountId))[0])
    const [stopLoss, takeProfit, stopsAt, takesAt] = differs
    assert.equal(details, {
      limits: [`stop loss ${stopLoss}, take profit ${takeProfit}`, `stop loss ${stopsAt}, take profit ${takesAt}`]
    })
    simulator.faults.set({ states: [] })
  })

differing('is reported for a multiplier with all that differs, its limits too', async () => {
  holdPrice(simulator.engine)
  const { traderExternalId, accountId } = await partner.makeTrader()
  simulator.faults.add({
    effect: 'altered',
    call: 'buy',
    loginid: accountId,
    times: 1,
    set: { parameters: { multiplier: 200 } }
  })
  simulator.faults.set({ states: [{ set: { limit_order: {} }, when: 'open', loginid: accountId }] })
  const { clientOrderId } = tickOrder(traderExternalId)
  const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 100, stopLoss: 5 } as const
  await partner.call(placeMultiplierOrder, { body: { traderExternalId, clientOrderId, ...terms } })
  const found = await until('the limits', async () => {
    const [finding] = await findingsOf(accountId)
    return finding && 'limits' in finding.details && finding
  })
  assert.equal(Object.keys(found.details).sort(), ['limits', 'terms'])
  simulator.faults.set({ states: [] })
})

differing('is none where the states of a multiplier do not show the amounts of its limits', async () => {
  holdPrice(simulator.engine)
  const { traderExternalId, accountId } = await partner.makeTrader()
  const limit_order = { stop_loss: { value: '8000.00' }, take_profit: { order_amount: null, value: '9000.00' } }
  simulator.faults.set({ states: [{ set: { limit_order }, when: 'open', loginid: accountId }] })
  const { clientOrderId } = tickOrder(traderExternalId)
  const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 100, stopLoss: 5, takeProfit: 900 } as const
  const { body } = await partner.call(placeMultiplierOrder, { body: { traderExternalId, clientOrderId, ...terms } })
  const order = worker.services.db('orders').where({ id: body.orderId }).first()
  await until('a state of the contract', async () => (await order.clone()).marked_at !== null)
  const { stop_loss: stopLoss, take_profit: takeProfit } = await order.clone()
  assert.equal([stopLoss, takeProfit].map(Number), [5, 900])
  assert.equal(await findingsOf(accountId), [])
  simulator.faults.set({ states: [] })
})

differing(
  'is none where a multiplier has the limits that were requested, and they are changed afterwards',
  async () => {
    holdPrice(simulator.engine)
    const { traderExternalId, accountId } = await partner.makeTrader()
    const { clientOrderId } = tickOrder(traderExternalId)
    const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 100, stopLoss: 5 } as const
    const { body } = await partner.call(placeMultiplierOrder, { body: { traderExternalId, clientOrderId, ...terms } })
    const order = worker.services.db('orders').where({ id: body.orderId }).first()
    await until('a state of the contract', async () => (await order.clone()).marked_at !== null)
    const account = simulator.engine.accounts.all.get(accountId)
    assert.ok(account)
    // The broker refuses a change within a second of the purchase.
    await until('the change', () => {
      try {
        return simulator.engine.update(account, Number(body.brokerOrderId), { stopLoss: 8 })
      } catch {
        return undefined
      }
    })
    await until('the changed limit', async () => Number((await order.clone()).stop_loss) === 8)
    assert.equal(await findingsOf(accountId), [])
  }
)

differing('is none where the price is the stake, or has a markup on top', async () => {
  for (const markup of [
    { pct: 0, onTop: false },
    { pct: 3, onTop: true }
  ]) {
    simulator.engine.markup = markup
    const { traderExternalId, accountId } = await partner.makeTrader()
    const { status } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    assert.is(status, 200)
    assert.equal(await findingsOf(accountId), [])
  }
  simulator.engine.markup = { pct: 0, onTop: false }
})

differing.run()

const late = suite('a receipt that comes after its purchase was refused')

/** An order that the broker refuses with the code; `release` has it bought, and its receipt sent. */
async function placeRefused(code: string) {
  const { traderExternalId, accountId } = await partner.makeTrader()
  simulator.faults.add({ effect: 'error-late', code, call: 'buy', loginid: accountId, times: 1, delayMs: HELD_MS })
  const body = tickOrder(traderExternalId)
  await partner.call(placeBinaryOrder, { body })
  const row = () => worker.services.db('orders').where({ client_order_id: body.clientOrderId }).first()
  assert.is((await row()).phase, 'failed')
  const release = () => {
    letGo()
  }
  return { traderExternalId, accountId, body, row, release }
}

late('opens the order that may be repeated, and the same id buys no other contract', async () => {
  const { accountId, body, row, release } = await placeRefused('PriceMoved')
  release()
  await until('the end of the contract', async () => (await row()).phase === 'closed')
  const repeated = await partner.call(placeBinaryOrder, { body })
  const [contract, ...others] = contractsOf(accountId)
  assert.is(others.length, 0)
  assert.equal(
    [repeated.status, repeated.body.status, repeated.body.brokerOrderId, repeated.body.pnl],
    [200, 'CLOSED', String(contract?.contractId), Number(contract?.profit)]
  )
  assert.equal(await findingsOf(accountId), [])
})

late('is reported at once where the refusal was final, and the order stays FAILED', async () => {
  const { accountId, body, row, release } = await placeRefused('OfferingsValidationError')
  release()
  await until('the finding', async () => (await findingsOf(accountId)).length > 0)
  const [finding] = await findingsOf(accountId)
  const [contract, ...others] = contractsOf(accountId)
  assert.equal([finding?.kind, finding?.contractId], ['ORPHAN', String(contract?.contractId)])
  assert.is((await partner.call(placeBinaryOrder, { body })).status, 422)
  assert.equal([(await row()).phase, others.length], ['failed', 0])
})

late('opens the order that is queued again, before it is sent', async () => {
  const { traderExternalId, accountId, body, row, release } = await placeRefused('PriceMoved')
  // Another order of the account is in doubt meanwhile, so that the repeated one waits.
  const { config } = worker.services
  const { reconcileAfterMs } = config
  config.reconcileAfterMs = 600_000
  simulator.faults.add({ effect: 'ignore', call: 'buy', loginid: accountId, times: 1 })
  const doubtful = tickOrder(traderExternalId)
  const responses = [partner.call(placeBinaryOrder, { body: doubtful })]
  responses[0]?.catch(() => {})
  const doubt = worker.services.db('orders').where({ client_order_id: doubtful.clientOrderId })
  await until('the order before it', async () => (await doubt.clone().first())?.phase === 'sending')
  // The repeat is for another application; the contract was bought under the one before.
  const { app_id: before } = await row()
  const switched = dialect === 'v3' ? '8' : 'app-8Q2'
  const owner = worker.services.db('partners').where({ id: partner.partnerId })
  await owner.clone().update({ broker_app_id: switched })
  responses.push(partner.call(placeBinaryOrder, { body }))
  await until('the repeat', async () => (await row()).phase === 'queued')
  assert.is((await row()).app_id, switched)
  release()
  const repeated = await responses[1]
  assert.is((await row()).app_id, before)
  await owner.clone().update({ broker_app_id: before })
  config.reconcileAfterMs = reconcileAfterMs
  await doubt.update({ resolve_at: worker.services.db.raw("permit_until + interval '1 millisecond'") })
  await responses[0]
  const [contract, ...others] = contractsOf(accountId)
  assert.is(others.length, 0)
  assert.equal([repeated?.body.status, repeated?.body.brokerOrderId], ['CLOSED', String(contract?.contractId)])
})

late('is reported at once where the same id has bought another contract already', async () => {
  const { accountId, body, row, release } = await placeRefused('PriceMoved')
  const repeated = await partner.call(placeBinaryOrder, { body })
  assert.is(repeated.body.status, 'CLOSED')
  release()
  await until('the finding', async () => (await findingsOf(accountId)).length > 0)
  const [finding] = await findingsOf(accountId)
  const unowned = contractsOf(accountId).find(({ contractId }) => String(contractId) !== repeated.body.brokerOrderId)
  assert.equal(
    [finding?.kind, finding?.contractId, finding?.orderId],
    ['ORPHAN', String(unowned?.contractId), repeated.body.orderId]
  )
  assert.is((await row()).broker_order_id, repeated.body.brokerOrderId)
})

late('is reported at once where the connection was refused and the purchase made over another one', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const code = 'AuthorizationRequired'
  simulator.faults.add({ effect: 'error-late', code, call: 'buy', loginid: accountId, times: 1, delayMs: HELD_MS })
  const { body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  assert.is(body.status, 'CLOSED', JSON.stringify(body))
  letGo()
  await until('the finding', async () => (await findingsOf(accountId)).length > 0)
  const [finding] = await findingsOf(accountId)
  const unowned = contractsOf(accountId).find(({ contractId }) => String(contractId) !== body.brokerOrderId)
  assert.equal(
    [finding?.kind, finding?.contractId, finding?.orderId],
    ['ORPHAN', String(unowned?.contractId), body.orderId]
  )
})

late('is reported at once where the broker buys one request twice; the order has the other contract', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  simulator.faults.add({ effect: 'twice', call: 'buy', loginid: accountId, times: 1 })
  const { body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  await until('the finding', async () => (await findingsOf(accountId)).length > 0)
  const found = await findingsOf(accountId)
  const contracts = contractsOf(accountId).map(({ contractId }) => String(contractId))
  assert.is(body.status, 'CLOSED')
  assert.equal([body.brokerOrderId, ...found.map(({ contractId }) => contractId)].sort(), contracts.sort())
  assert.equal(
    found.map(({ kind, orderId }) => [kind, orderId]),
    [['ORPHAN', body.orderId]]
  )
})

late(
  'is of the contract that is known, where it comes twice: nothing is reported, and its stream goes on',
  async () => {
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'duplicate', call: 'buy', loginid: accountId, times: 1 })
    const { body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId, { duration: 10 }) })
    assert.is(body.status, 'CLOSED')
    assert.equal(await findingsOf(accountId), [])
  }
)

late.after(closeAll)
late.run()

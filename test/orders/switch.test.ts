// A partner that changes the dialect in which it is connected to the broker, with orders under way: each ends in the dialect it was
// bought with, whatever becomes of the tokens.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeMultiplierOrder, placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { listOpenPositions } from '../../api/orders/positions.ts'
import { activateAccount, exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { type HaltedScope, haltTrading, resumeTrading } from '../../db/platform/halts.ts'
import { SimulatedRefusal } from '../../worker/simulator/engine/refusal.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv, dialects } from '../support/dialects.ts'
import {
  closeAll,
  newAccountId,
  onClose,
  openHarness,
  type TestPartner,
  type TestTrader,
  until
} from '../support/harness.ts'
import { holdPrice } from '../support/market-stage.ts'
import { operator } from '../support/operator.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 20, seed: 17, limits: 'off', timeScale: 10 })
onClose(() => simulator.close())
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator, 'v3'),
    PERMIT_MS: '1000',
    RECONCILE_AFTER_MS: '2000',
    BROKER_ANSWER_TIMEOUT_MS: '1500',
    LEASE_MS: '1500',
    SWEEP_MS: '200'
  }
})
await startTestWorker(harness.env)

const order = ({ traderExternalId }: TestTrader, changes: object = {}) =>
  tickOrder(traderExternalId, { asset: 'R_50', duration: 2, ...changes })
const contractsOf = ({ accountId }: TestTrader) => simulator.ledger().filter(({ loginid }) => loginid === accountId)

// Ends when the test lets it: a busy machine may take long to switch.
const long = { duration: 10, durationUnit: 'm' }

/** Ends the open contracts of a trader's, as the trader does with other software. */
async function sellElsewhere({ accountId }: TestTrader): Promise<void> {
  const { engine } = simulator
  const open = [...engine.contracts.values()].filter(
    ({ account, status }) => account.loginid === accountId && status === 'open'
  )
  for (const { account, id } of open)
    await until('its sale', () => {
      try {
        return engine.sell(account, { appId: 2, contractId: id, floorCents: 0 })
      } catch (error) {
        assert.instance(error, SimulatedRefusal)
        return undefined
      }
    })
}

/** Switches with the operator's command and returns its output. */
async function setBroker(partnerId: string, dialect: string, appId: string) {
  const ran = await operator(
    harness.env,
    ...['partners', 'set-broker', partnerId, '--dialect', dialect, '--broker-app-id', appId, '--json']
  )
  assert.is(ran.exitCode, 0, ran.stderr)
  return ran.json
}

async function closed(partner: TestPartner, orderIds: string[]): Promise<{ orderId: string; brokerOrderId: string }[]> {
  return until(
    'every order to be closed',
    async () => {
      const { body } = await partner.call(listOrders, { query: { status: 'CLOSED', limit: 200 } })
      const found = body.data.filter(({ orderId }: { orderId: string }) => orderIds.includes(orderId))
      return found.length === orderIds.length && found
    },
    30_000
  )
}

const appIds = { v3: '1', next: 'app-7Q2' }
const switching = suite('a partner that switches')

switching('is refused an application id that v3 cannot carry', async () => {
  const { partnerId } = await harness.makePartner()
  const ran = await operator(
    harness.env,
    'partners',
    'set-broker',
    partnerId,
    '--dialect',
    'v3',
    '--broker-app-id',
    'x'
  )
  assert.is(ran.exitCode, 1)
  assert.match(ran.stderr, '--broker-app-id must be a number in v3')
})

for (const from of dialects) {
  const to = from === 'v3' ? 'next' : 'v3'
  switching(`from ${from} to ${to} loses no order: open, in doubt, or to be closed by hand`, async () => {
    const partner = await harness.makePartner()
    await setBroker(partner.partnerId, from, appIds[from])
    const [timed, doubted, held] = await Promise.all([partner.makeTrader(), partner.makeTrader(), partner.makeTrader()])
    holdPrice(simulator.engine)
    const { body: open } = await partner.call(placeBinaryOrder, { body: order(timed, long) })
    assert.is(open.status, 'OPEN', JSON.stringify(open))
    const { body: multiplier } = await partner.call(placeMultiplierOrder, {
      body: { ...order(held), direction: 'up', stake: 10, multiplier: 100, asset: 'R_100' }
    })
    assert.is(multiplier.status, 'OPEN', JSON.stringify(multiplier))
    simulator.faults.add({ effect: 'mute', call: 'buy', loginid: doubted.accountId, times: 1 })
    const response = partner.call(placeBinaryOrder, { body: order(doubted, long) })
    await until('the contract in doubt', () => contractsOf(doubted)[0])

    const { unfinishedElsewhere, brokerDialect } = await setBroker(partner.partnerId, to, appIds[to])
    assert.equal([unfinishedElsewhere, brokerDialect], [3, to])
    // What is bought from now on goes the new way, beside the old order of the same account.
    const { body: fresh } = await partner.call(placeBinaryOrder, { body: order(timed) })
    assert.is(fresh.status, 'CLOSED', JSON.stringify(fresh))
    assert.equal(
      contractsOf(timed).map(({ appId }) => String(appId)),
      [appIds[from], appIds[to]]
    )

    // The worker loses its connections of the old dialect, and finds its way back to what it follows there.
    simulator.v3.cutAll()
    simulator.next.front.cutAll()
    const sold = await partner.call(closeMultiplierOrder, { params: { orderId: multiplier.orderId } })
    assert.is(sold.body.status, 'CLOSED', JSON.stringify(sold.body))
    const { body: adopted } = await response
    for (const trader of [timed, doubted]) await sellElsewhere(trader)
    const ended = await closed(partner, [open.orderId, adopted.orderId, multiplier.orderId])
    assert.is(
      ended.find(({ orderId }) => orderId === adopted.orderId)?.brokerOrderId,
      String(contractsOf(doubted)[0]?.contractId)
    )
    assert.is(contractsOf(doubted).length, 1)
    assert.is((await setBroker(partner.partnerId, to, appIds[to])).unfinishedElsewhere, 0)
  })
}

switching(
  'whose tokens the new dialect refuses keeps following what they bought, and trades on with new ones',
  async () => {
    const partner = await harness.makePartner()
    const trader = await partner.makeTrader()
    const { traderExternalId, accountId } = trader
    const { body: open } = await partner.call(placeBinaryOrder, {
      body: order(trader, long)
    })
    await setBroker(partner.partnerId, 'next', appIds.next)

    simulator.faults.add({ effect: 'error', call: 'otp', code: 'Unauthorized', loginid: accountId })
    const refused = await partner.call(placeBinaryOrder, { body: order(trader) })
    assert.equal([refused.status, refused.body.error], [404, 'BROKER_DISCONNECTED'])
    const statusOf = async (id: string) => {
      const { body } = await partner.call(listAccounts, { query: { traderExternalId } })
      return body.data.find((account: { accountId: string }) => account.accountId === id).status
    }
    assert.is(await statusOf(accountId), 'REJECTED')

    const fresh = `DOT${newAccountId().slice(4)}`
    const accounts = [{ accountId: fresh, token: `sim-${fresh}`, accountMode: 'DEMO', currency: 'USD' }]
    await partner.call(exchangeTokens, { body: { traderExternalId, accounts } })
    await partner.call(activateAccount, { body: { traderExternalId, accountId: fresh } })
    const { body: again } = await partner.call(placeBinaryOrder, { body: order(trader) })
    assert.is(again.status, 'CLOSED', JSON.stringify(again))

    // The old order's stream is gone, and its account needs its old token once more.
    simulator.v3.cutAll(accountId)
    await sellElsewhere(trader)
    await closed(partner, [open.orderId])
    assert.equal([await statusOf(accountId), await statusOf(fresh)], ['REJECTED', 'CONNECTED'])
    // Back where the token is good, it counts again.
    await setBroker(partner.partnerId, 'v3', appIds.v3)
    assert.is(await statusOf(accountId), 'CONNECTED')
  }
)

for (const from of dialects) {
  const to = from === 'v3' ? 'next' : 'v3'
  switching(
    `from ${from} to ${to} places an order where its token is proven, and under the application of there`,
    async () => {
      const partner = await harness.makePartner()
      const left = { v3: '99', next: 'app-9' }[from]
      await setBroker(partner.partnerId, from, left)
      const trader = await partner.makeTrader()
      // The account is not proven until the partner has switched.
      const call = from === 'v3' ? 'authorize' : 'otp'
      simulator.faults.add({ effect: 'error', call, code: 'WrongResponse', appId: from === 'v3' ? Number(left) : left })
      const response = partner.call(placeBinaryOrder, { body: order(trader) })
      const stored = () => harness.services.db('orders').where({ account_id: trader.accountId }).first()
      await until('the order to be stored', stored)
      await setBroker(partner.partnerId, to, appIds[to])
      const { body } = await response
      assert.is(body.status, 'CLOSED', JSON.stringify(body))
      assert.equal(
        contractsOf(trader).map(({ appId }) => String(appId)),
        [appIds[to]]
      )
    }
  )
}

for (const dialect of dialects) {
  switching(
    `to another application of ${dialect} ends what it bought under the old one with the tokens of the new one`,
    async () => {
      const partner = await harness.makePartner()
      const { left, now } = { v3: { left: '98', now: '97' }, next: { left: 'app-8', now: 'app-7' } }[dialect]
      await setBroker(partner.partnerId, dialect, left)
      const [timed, held] = [await partner.makeTrader(), await partner.makeTrader()]
      const long = { duration: 2, durationUnit: 'm' }
      holdPrice(simulator.engine)
      const { body: open } = await partner.call(placeBinaryOrder, { body: order(timed, long) })
      const { body: multiplier } = await partner.call(placeMultiplierOrder, {
        body: { ...order(held), direction: 'up', stake: 10, multiplier: 100, asset: 'R_100' }
      })
      assert.equal([open.status, multiplier.status], ['OPEN', 'OPEN'], JSON.stringify([open, multiplier]))

      await setBroker(partner.partnerId, dialect, now)
      for (const { traderExternalId, accountId } of [timed, held]) {
        const accounts = [{ accountId, token: `sim-${accountId}`, accountMode: 'DEMO', currency: 'USD' }]
        await partner.call(exchangeTokens, { body: { traderExternalId, accounts } })
      }
      // These tokens are of the new application: the old one cannot use them.
      const refusal = { v3: ['authorize', 'InvalidToken'], next: ['otp', 'Unauthorized'] } as const
      const [call, code] = refusal[dialect]
      const appId = dialect === 'v3' ? Number(left) : left
      simulator.faults.add({ effect: 'error', call, code, appId, times: 1000 })
      for (const { accountId } of [timed, held])
        (dialect === 'v3' ? simulator.v3 : simulator.next.front).cutAll(accountId)
      const sold = await partner.call(closeMultiplierOrder, { params: { orderId: multiplier.orderId } })
      assert.is(sold.body.status, 'CLOSED', JSON.stringify(sold.body))
      const query = { traderExternalId: timed.traderExternalId }
      const refusals = () => 1000 - (simulator.faults.settings.rules.find(rule => rule.appId === appId)?.times ?? 1000)
      assert.is((await partner.call(listOpenPositions, { query })).body.data.length, 1)
      const before = refusals()
      for (let read = 0; read < 10; read++) assert.is((await partner.call(listOpenPositions, { query })).status, 200)
      // Once a minute it is, and the worker watches the contracts meanwhile.
      assert.ok(before > 0 && refusals() - before < 5, 'the old one is not tried for every read')
      const { body: fresh } = await partner.call(placeBinaryOrder, { body: order(held) })
      assert.is(fresh.status, 'CLOSED', JSON.stringify(fresh))
      await closed(partner, [open.orderId])
      for (const { traderExternalId } of [timed, held]) {
        const { body } = await partner.call(listAccounts, { query: { traderExternalId } })
        assert.equal(
          body.data.map(({ status }: { status: string }) => status),
          ['CONNECTED']
        )
      }
    }
  )
}

switching('repeats a failed order in the dialect and under the application that it has now', async () => {
  const partner = await harness.makePartner()
  await setBroker(partner.partnerId, 'v3', appIds.v3)
  const trader = await partner.makeTrader()
  const body = order(trader)
  simulator.faults.add({ effect: 'error', call: 'buy', code: 'SanityCheckFailed', loginid: trader.accountId, times: 1 })
  const failed = await partner.call(placeBinaryOrder, { body })
  assert.equal([failed.status, failed.body.status], [502, 'FAILED'], JSON.stringify(failed.body))
  await setBroker(partner.partnerId, 'next', appIds.next)
  const { db } = harness.services
  const of = (subject: string): HaltedScope => ({ scope: 'application', subject })
  await haltTrading(db, { ...of(appIds.next), reason: 'a test', actor: 'cli:test' })
  const halted = await partner.call(placeBinaryOrder, { body })
  assert.equal([halted.status, halted.body.error], [503, 'TRADING_HALTED'], JSON.stringify(halted.body))
  await resumeTrading(db, of(appIds.next))
  await haltTrading(db, { ...of(appIds.v3), reason: 'a test', actor: 'cli:test' })
  // The worker may know of the halt that is over for a moment.
  const bought = await until('the order to be placed', async () => {
    const response = await partner.call(placeBinaryOrder, { body })
    return response.body.error !== 'TRADING_HALTED' && response.body
  })
  await resumeTrading(db, of(appIds.v3))
  assert.equal([bought.orderId, bought.status], [failed.body.orderId, 'CLOSED'], JSON.stringify(bought))
  assert.equal(
    contractsOf(trader).map(({ appId }) => String(appId)),
    [appIds.next]
  )
  assert.is((await setBroker(partner.partnerId, 'next', appIds.next)).unfinishedElsewhere, 0)
})

switching.after(closeAll)
switching.run()

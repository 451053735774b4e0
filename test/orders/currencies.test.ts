// test once for each dialect
// Stakes are in USD; accounts may be in any currency. What is bought is the stake at the broker's own rate, rounded down
// to the currency's decimals. The newer dialect reports no rates: nothing is bought there on such an account.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { listOpenPositions } from '../../api/orders/positions.ts'
import { exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { ceilingOf, convertStake } from '../../worker/orders/stake.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { openRelay } from '../broker/broker-relay.ts'
import { brokerEnv, dialect } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { holdPrice } from '../support/market-stage.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 3, limits: 'off' })
/** Accounts that the broker shows without a currency, as the schemas let it. */
const unset = new Set<unknown>()
const relay = await openRelay(simulator, frame => {
  const name = ['authorize', 'balance'].find(each =>
    unset.has((frame[each] as { loginid?: string } | undefined)?.loginid)
  )
  return name === undefined ? frame : { ...frame, [name]: { ...(frame[name] as object), currency: '' } }
})
onClose(() => {
  relay.close()
  return simulator.close()
})
const env = {
  ...brokerEnv(relay),
  ORDER_TTL_MS: '30000',
  RECONCILE_AFTER_MS: '1000',
  SWEEP_MS: '250'
}
const harness = await openHarness({ env })
const worker = await startTestWorker(harness.env)
const partner = await harness.makePartner()

/** A trader with an account in the currency; the service receives the currency, or reads it from the broker. */
function makeTrader(currency: string, { given = true } = {}): Promise<TestTrader> {
  const accountId = newAccountId()
  return partner.makeTrader({ accountId, token: `sim-${accountId}-${currency}`, currency: given ? currency : null })
}
const order = ({ traderExternalId }: TestTrader, changes: object = {}) =>
  tickOrder(traderExternalId, { stake: 10, duration: 2, ...changes })
const contractsOf = ({ accountId }: TestTrader) => simulator.ledger().filter(({ loginid }) => loginid === accountId)
const entriesOf = async ({ traderExternalId }: TestTrader) =>
  (await partner.call(listOrders, { query: { traderExternalId } })).body.data
const v3 = dialect === 'v3'

const placing = suite('a stake in USD on an account in another currency')

if (v3) {
  for (const { currency, bought, rate } of [
    { currency: 'EUR', bought: '9.21', rate: 0.9214 },
    { currency: 'BTC', bought: '0.00010870', rate: 0.00001087 },
    { currency: 'JPY', bought: '1543', rate: 154.37 }
  ]) {
    placing(`is bought at the broker's rate, rounded down to the decimals of ${currency}`, async () => {
      const trader = await makeTrader(currency)
      const { status, body } = await partner.call(placeBinaryOrder, { body: order(trader) })
      assert.is(status, 200, JSON.stringify(body))
      const [contract] = contractsOf(trader)
      assert.is(contract?.buyPrice, bought)
      assert.equal([body.stake, body.stakeInAccount, body.exchangeRate], [10, Number(bought), rate])
      assert.is(body.buyPrice, Number(bought))
      assert.is(body.pnl, Number(contract?.profit), 'in the currency of the account')
      const [entry] = await entriesOf(trader)
      assert.equal([entry.stake, entry.stakeInAccount, entry.exchangeRate], [10, Number(bought), rate])
    })
  }

  placing('uses the rate of the moment, and takes an unknown currency from the broker', async () => {
    const trader = await makeTrader('GBP', { given: false })
    simulator.engine.rates.set('GBP', 0.5)
    const first = await until('the new rate', async () => {
      const { body } = await partner.call(placeBinaryOrder, { body: order(trader) })
      return body.exchangeRate === 0.5 ? body : undefined
    })
    assert.is(first.stakeInAccount, 5)
    const [entry] = await entriesOf(trader)
    assert.is(entry.currency, 'GBP')
  })

  placing('leaves the limits of a multiplier order in the currency of the account', async () => {
    const trader = await makeTrader('EUR')
    const { traderExternalId } = trader
    holdPrice(simulator.engine)
    const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 100, stopLoss: 4, takeProfit: 20 }
    const body = { traderExternalId, clientOrderId: randomUUID(), ...terms }
    const response = await partner.call(placeMultiplierOrder, { body })
    assert.is(response.status, 200, JSON.stringify(response.body))
    assert.equal([response.body.stakeInAccount, response.body.stopLoss, response.body.takeProfit], [9.21, 4, 20])
    const [contract] = contractsOf(trader)
    assert.equal([contract?.stake, contract?.stopLoss, contract?.takeProfit], ['9.21', '4.00', '20.00'])
    const positions = await partner.call(listOpenPositions, { query: { traderExternalId } })
    assert.is(positions.body.data[0].stakeInAccount, 9.21)
  })
}

// The newer dialect has no rates: there only the account that is in USD after all can buy.
for (const [first, then, stakeInAccount] of [
  ['EUR', 'USD', undefined],
  ['USD', 'EUR', 9.21]
] as const) {
  if (then !== 'USD' && !v3) continue
  placing(
    `is of the account as it is when the order is claimed: given as ${first} before, ${then} by then`,
    async () => {
      const unserved = await openHarness({ env })
      const owner = await unserved.makePartner()
      const accountId = newAccountId()
      const token = `sim-${accountId}-${then}`
      const trader = await owner.makeTrader({ accountId, token, currency: first })
      const { traderExternalId } = trader
      const response = owner.call(placeBinaryOrder, { body: order(trader) })
      await until('the order', async () => (await unserved.services.db('orders').select('id')).length === 1)
      const accounts = [{ accountId, token, accountMode: 'DEMO', currency: then }]
      await owner.call(exchangeTokens, { body: { traderExternalId, accounts } })
      await startTestWorker(unserved.env)
      const { status, body } = await response
      assert.is(status, 200, JSON.stringify(body))
      assert.equal([body.stakeInAccount, body.buyPrice], [stakeInAccount, stakeInAccount ?? 10])
      assert.is(contractsOf(trader).length, 1)
    }
  )
}

// The newer dialect lists its accounts over REST, with a currency each.
if (v3)
  placing('is refused while the account has no currency, which is read again afterwards', async () => {
    const trader = await makeTrader('USD', { given: false })
    const { accountId, traderExternalId } = trader
    const query = { traderExternalId }
    unset.add(accountId)
    const { status, body } = await partner.call(placeBinaryOrder, { body: order(trader) })
    assert.equal([status, body.error], [422, 'INVALID_CONTRACT'])
    assert.match(body.message, /no currency yet/)
    const balance = await partner.call(getBalance, { query })
    assert.equal([balance.status, balance.body.message], [502, body.message])
    const currency = async () => (await partner.call(listAccounts, { query })).body.data[0].currency
    assert.is(await currency(), null)
    unset.delete(accountId)
    assert.is((await partner.call(placeBinaryOrder, { body: order(trader) })).body.status, 'CLOSED')
    assert.is(await currency(), 'USD')
  })

placing('is refused without a rate, and nothing is bought', async () => {
  const trader = await makeTrader('AUD')
  simulator.engine.rates.set('AUD', null)
  let bought = 0
  // A rate read a moment ago still holds.
  const { body } = await until('a refusal for want of a rate', async () => {
    const response = await partner.call(placeBinaryOrder, { body: order(trader) })
    if (response.status === 200) bought += 1
    return response.status === 422 && response
  })
  assert.is(body.error, 'INVALID_CONTRACT')
  assert.match(body.message, /no exchange rate from USD to AUD/)
  assert.is(contractsOf(trader).length, bought)
  if (!v3) assert.is(bought, 0)
})

placing('is left as it is on an account in USD, which shows neither rate nor amount', async () => {
  const trader = await makeTrader('USD')
  const { body } = await partner.call(placeBinaryOrder, { body: order(trader) })
  assert.equal([body.stake, body.buyPrice], [10, 10])
  assert.not.ok('stakeInAccount' in body || 'exchangeRate' in body)
  const [entry] = await entriesOf(trader)
  assert.equal([entry.stakeInAccount, entry.exchangeRate], [null, null])
})

placing('is refused where less than the smallest amount is left of it', async () => {
  const market = { exchange: async () => ({ rate: '0.02', digits: 0 }) }
  const refused = await convertStake(market, '10', 'ABC').catch((error: Error) => error)
  assert.match((refused as Error).message, /less than the smallest amount of ABC/)
  assert.equal(await convertStake(market, '60', 'ABC'), { stakeInAccount: '1', exchangeRate: '0.02' })
})

const doubtful = suite('an order in doubt on an account in another currency')

if (v3) {
  doubtful('is found by what its stake came to there', async () => {
    for (const kind of ['BINARY', 'MULTIPLIER'] as const) {
      const trader = await makeTrader('JPY')
      simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: trader.accountId, times: 1 })
      const { traderExternalId } = trader
      const limits = { traderExternalId, clientOrderId: randomUUID(), asset: 'R_100', stake: 10 }
      const response =
        kind === 'BINARY'
          ? await partner.call(placeBinaryOrder, { body: order(trader) })
          : await partner.call(placeMultiplierOrder, { body: { ...limits, direction: 'up', multiplier: 40 } })
      assert.is(response.status, 200, JSON.stringify(response.body))
      assert.equal([response.body.stakeInAccount, response.body.buyPrice], [1543, 1543])
      assert.is(contractsOf(trader).length, 1)
    }
  })

  doubtful('has its amount committed before the purchase is sent', async () => {
    const trader = await makeTrader('EUR')
    simulator.faults.add({ effect: 'drop-before', call: 'buy', loginid: trader.accountId, times: 1 })
    // Decided once its row was seen.
    const { config, db } = worker.services
    const { reconcileAfterMs } = config
    config.reconcileAfterMs = 600_000
    const response = partner.call(placeBinaryOrder, { body: order(trader) })
    const sending = db('orders').where({ account_id: trader.accountId, phase: 'sending' })
    const row = await until('the amount on the row', () => sending.clone().whereNotNull('stake_in_account').first())
    config.reconcileAfterMs = reconcileAfterMs
    await sending.update({ resolve_at: db.raw("permit_until + interval '1 millisecond'") })
    assert.equal([row.stake_in_account, row.exchange_rate, row.buy_price], ['9.21', '0.9214', null])
    assert.is((await response).body.status, 'FAILED')
    assert.is(contractsOf(trader).length, 0)
  })
}

const ceiling = suite('the most a purchase may cost')

ceiling('is the stake, three percent of the highest payout, and one smallest amount', () => {
  const terms = {
    kind: 'BINARY',
    asset: 'R_100',
    stake: '10',
    currency: 'USD',
    duration: 5,
    durationUnit: 't'
  } as const
  assert.is(ceilingOf({ ...terms, contractType: 'CALL', barrier: null }), '10.61')
  assert.is(ceilingOf({ ...terms, contractType: 'DIGITMATCH', barrier: '3' }), '13.01')
  assert.is(ceilingOf({ ...terms, contractType: 'DIGITOVER', barrier: '8' }), '13.01')
  assert.is(ceilingOf({ ...terms, contractType: 'DIGITUNDER', barrier: '9' }), '10.35')
  assert.is(ceilingOf({ ...terms, currency: 'JPY', stake: '1543', contractType: 'PUT', barrier: null }), '1637')
  const multiplier = { multiplier: 100, direction: 'up', stopLoss: null, takeProfit: null } as const
  const leveraged = { ...multiplier, kind: 'MULTIPLIER', asset: 'R_100', currency: 'BTC', stake: '0.00010870' } as const
  assert.is(ceilingOf(leveraged), '0.00011198')
})

ceiling.after(closeAll)
placing.run()
doubtful.run()
ceiling.run()

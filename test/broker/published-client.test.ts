// The broker's own published client, unchanged, through its whole surface against the simulated broker, with every frame in
// both directions checked against the broker's schemas. What neither of us wrote finds what both of us assumed.
import { createRequire } from 'node:module'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { WebSocket } from 'ws'
import { startSimulator } from '../../worker/simulator/server.ts'
import { upTo } from '../support/turns.ts'
import { openRelay } from './broker-relay.ts'
import { within } from './broker-script.ts'

// biome-ignore lint/suspicious/noExplicitAny: the package has no types
type Any = any

const Client = createRequire(import.meta.url)('broker-api-client') as new (options: object) => Any
const simulator = await startSimulator({ tickMs: 200, limits: 'off' })
const relay = await openRelay(simulator)
const clients: Any[] = []

/** A client. It expects its promises to run between two frames, also between those that arrive in one piece. */
function connect(): Any {
  const connection = new WebSocket(`${relay.url}?app_id=1089&l=EN&brand=`, { allowSynchronousEvents: false })
  const client = new Client({ connection, lang: 'EN' })
  clients.push(client)
  return client
}

const token = 'sim-VRTC7700001'
const client = connect()
const { basic } = client
const runs = suite("the broker's published client")

/** The client throws plain objects, which the runner cannot print. */
function surface(name: string, run: () => Promise<void> | void): void {
  runs(name, async () => {
    try {
      await run()
    } catch (error) {
      throw error instanceof Error ? error : new Error(JSON.stringify(error))
    }
  })
}

surface('opens an account with its balance, its transactions and its siblings', async () => {
  const account = await client.account(token)
  assert.equal([account.loginid, account.currency], ['VRTC7700001', 'USD'])
  await upTo(() => account.balance.amount.value === 10_000)
  assert.is(account.siblings.length, 1)
  assert.is(account.risk, 'low')
  assert.is(account.show_authentication, false)
})

surface('reads an asset, its ticks and its candles, live and past', async () => {
  const underlying = await client.underlying('R_100')
  assert.equal([underlying.is_open, underlying.pip_size, underlying.name.short], [1, 2, 'R_100'])
  const ticks = await client.ticks('R_100')
  assert.ok(ticks.list.length > 100)
  await within('a tick', resolve => ticks.onUpdate(resolve))
  const before = new Date(Date.now() - 60_000)
  assert.ok((await ticks.history({ start: before, end: new Date(), count: 5 })).length > 0)
  const candles = await client.candles('R_100')
  assert.ok(candles.list.length > 100)
  await within('a candle', resolve => candles.onUpdate(resolve))
})

surface('reads what can be bought, in which currencies, and the status of the site', async () => {
  // The client cannot read the empty durations that multipliers have; this asset has none.
  const options = await client.contractOptions('JD10')
  assert.ok(options.currencies.includes('USD'))
  assert.ok(options.categories.risefall.expiry_types.ticks)
  assert.ok(options.categories.digits)
  const status = await client.websiteStatus()
  assert.is(status.is_website_up, true)
  await client.assets()
})

surface('prices, buys and follows a contract to its end', async () => {
  const contract = await client.contract({
    ...{ contract_type: 'CALL', currency: 'USD', symbol: 'R_100', amount: 10, basis: 'stake' },
    ...{ duration: 5, duration_unit: 't' }
  })
  assert.is(contract.ask_price.value, 10)
  const { contract_id: contractId } = await contract.buy()
  await upTo(() => contract.is_sold === true)
  assert.ok(['won', 'lost'].includes(contract.status), contract.status)
  assert.is(simulator.ledger().find(each => each.contractId === contractId)?.status, contract.status)
})

surface('sells a contract before its end', async () => {
  const terms = {
    contract_type: 'MULTUP',
    currency: 'USD',
    symbol: 'R_100',
    amount: 10,
    basis: 'stake',
    multiplier: 40
  }
  const contract = await client.contract(terms)
  await contract.buy({ max_price: 10 })
  await upTo(() => contract.is_valid_to_sell === true)
  const { price } = await contract.sell()
  assert.ok(price.value > 0)
})

const calls: Record<string, object> = {
  accountList: {},
  activeSymbols: { active_symbols: 'full' },
  assetIndex: {},
  balance: {},
  contractsFor: { contracts_for: 'R_50' },
  getAccountStatus: {},
  payoutCurrencies: {},
  ping: {},
  portfolio: {},
  profitTable: { description: 1, limit: 5 },
  proposal: {
    ...{ contract_type: 'DIGITEVEN', currency: 'USD', symbol: 'R_100', amount: 1, basis: 'stake' },
    ...{ duration: 5, duration_unit: 't' }
  },
  proposalOpenContract: {},
  sellExpired: {},
  statement: { description: 1, limit: 5 },
  ticks: { ticks: 'R_100' },
  ticksHistory: { ticks_history: 'R_100', end: 'latest', count: 3, style: 'ticks' },
  time: {},
  tradingDurations: {},
  tradingTimes: { trading_times: 'today' },
  websiteStatus: {}
}

for (const [name, args] of Object.entries(calls)) {
  surface(`calls ${name}`, async () => {
    const response = name === 'accountList' ? await basic.send({ account_list: 1 }) : await basic[name](args)
    assert.is(response.error, undefined)
    assert.ok(response[response.msg_type] !== undefined, JSON.stringify(response).slice(0, 200))
  })
}

surface('updates a contract, cannot cancel it, and forgets its streams', async () => {
  const parameters = {
    ...{ contract_type: 'MULTDOWN', currency: 'USD', symbol: 'R_50', amount: 10, basis: 'stake', multiplier: 80 }
  }
  const { buy } = await basic.buy({ buy: '1', price: 10, parameters })
  const refused = await basic.cancel({ cancel: buy.contract_id }).catch((error: Any) => error)
  assert.is(refused.error.code, 'ContractUpdateFailure')
  const limit_order = { take_profit: 5 }
  // Only one update a second is allowed, the purchase counted.
  let update: Any
  await upTo(async () => {
    const response = await basic
      .contractUpdate({ contract_id: buy.contract_id, limit_order })
      .catch((error: Any) => error)
    update = response.contract_update
    return update !== undefined
  })
  assert.is(update.take_profit.order_amount, 5)
  assert.ok((await basic.forgetAll('ticks', 'candles')).forget_all.length > 0)
  assert.is((await basic.forget('x'.repeat(32))).forget, 0)
})

surface('fills a demo account up once it is empty enough, and once only', async () => {
  const other = connect()
  await other.basic.authorize('sim-VRTC7700002-poor')
  const { topup_virtual: topup } = await other.basic.topupVirtual()
  assert.equal(topup, { amount: 10_000, currency: 'USD' })
  const { balance } = await other.basic.balance()
  assert.is(balance.balance, 10_001)
  const refused = await other.basic.topupVirtual().catch((error: Any) => error)
  assert.is(refused.error.code, 'DemoTopupBalance')
  assert.is((await other.basic.logout()).logout, 1)
})

surface('learns of a refused token', async () => {
  const refused = await connect()
    .basic.authorize('never-issued-to-anybody')
    .catch((error: Any) => error)
  assert.is(refused.error.code, 'InvalidToken')
})

surface('breaks no schema, in either direction', () => {
  // The folder of schemas has none of this call.
  assert.equal(
    relay.complaints.filter(each => !each.startsWith('get_account_status: no such call')),
    []
  )
  assert.ok(relay.calls.size > 20, [...relay.calls].join(' '))
})

runs.after(async () => {
  for (const each of clients) each.basic.disconnect()
  relay.close()
  await simulator.close()
})
runs.run()

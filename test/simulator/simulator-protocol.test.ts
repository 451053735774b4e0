// The simulated broker's first dialect over real sockets. Every response is checked with the broker's own
// schemas where the shared folder has them; without it those checks are skipped with a note.
import { once } from 'node:events'
import { connect } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { Engine } from '../../worker/simulator/engine/engine.ts'
import { type CallQuotas, Quota } from '../../worker/simulator/engine/quota.ts'
import { symbols } from '../../worker/simulator/engine/symbols.ts'
import { type FaultRule, type FaultSettings, Faults } from '../../worker/simulator/faults.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { ClientConnection } from '../../worker/simulator/v3/connection.ts'
import { V3 } from '../../worker/simulator/v3/v3.ts'
import { BrokerSocket, type SocketFrame, schemaDir } from '../broker/broker-socket.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

const simulator = await startSimulator({ tickMs: 20, limits: 'off', timeScale: 60, seed: 11 })
const { url } = simulator
let accounts = 0
const sockets: BrokerSocket[] = []

if (schemaDir === null) console.log("SKIPPED: responses against the broker's schemas (no ../shared, no SHARED_DIR)")

async function open(query?: string): Promise<BrokerSocket> {
  const socket = await BrokerSocket.open(url, query)
  sockets.push(socket)
  return socket
}

/** A socket authorised for a new demo account. */
async function trader(): Promise<BrokerSocket & { loginid: string }> {
  const loginid = `VRTC${2_000_000 + ++accounts}`
  const socket = await BrokerSocket.authorised(url, `sim-${loginid}`)
  sockets.push(socket)
  return Object.assign(socket, { loginid })
}

const terms = { contract_type: 'DIGITEVEN', symbol: 'R_100', currency: 'USD', basis: 'stake', amount: 10 }
const oneTick = { ...terms, duration: 1, duration_unit: 't' }
const oneMinute = { ...terms, contract_type: 'CALL', duration: 1, duration_unit: 'm' }
const multiplier = { ...terms, contract_type: 'MULTUP', multiplier: 100 }
const buying = (parameters: SocketFrame) => ({ buy: '1', price: 10, parameters })

const requests = suite('requests')

requests('that are no JSON object, no known call or no valid call are distinguished', async () => {
  const socket = await open()
  socket.send('[1')
  assert.is((await socket.until(frame => frame.error)).error.code, 'BadRequest')
  assert.is((await socket.call({ fetch: 1 })).error.code, 'UnrecognisedRequest')
  const { error, echo_req, msg_type } = await socket.call({ ticks_history: 'R_100', colour: 'red' })
  assert.equal([error.code, msg_type], ['InputValidationFailed', 'ticks_history'])
  assert.equal(Object.keys(error.details).sort(), ['colour', 'end'])
  assert.is(echo_req.colour, 'red')
})

requests('carry req_id and passthrough into the response, and tokens nowhere', async () => {
  const socket = await open()
  socket.send({ ping: 1, req_id: 99, passthrough: { from: 'test' } })
  const pong = await socket.until(frame => frame.req_id === 99)
  assert.equal([pong.ping, pong.passthrough, pong.echo_req.passthrough], ['pong', { from: 'test' }, { from: 'test' }])
  const { echo_req } = await socket.call({ authorize: 'MULTI', tokens: ['sim-CR8000001', 'sim-CR8000002'] })
  assert.equal([echo_req.authorize, echo_req.tokens], ['<not shown>', ['<not shown>', '<not shown>']])
  const bad = await socket.call({ ping: 1, passthrough: { 'a key': 1 } })
  assert.is(bad.error.code, 'SanityCheckFailed')
})

requests('under a wrong or revoked application id are refused', async () => {
  for (const query of ['', 'app_id=0', 'app_id=-5', 'app_id=abc']) {
    const socket = await open(query)
    const { error } = await socket.until(frame => frame.error)
    assert.is(error.code, 'InvalidAppID')
    await socket.eventually(() => socket.closed)
  }
  const strict = await startSimulator({ revokedAppIds: [66] })
  const socket = await BrokerSocket.open(strict.url, 'app_id=66')
  assert.is((await socket.until(frame => frame.error)).error.code, 'InvalidAppID')
  await strict.close()
})

requests('for what is no address are refused, and the broker goes on', async () => {
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n'
  for (const headers of ['Connection: close\r\n', upgrade]) {
    const socket = connect(simulator.port, '127.0.0.1')
    socket.end(`GET // HTTP/1.1\r\nHost: broker\r\n${headers}\r\n`)
    const [response] = (await once(socket, 'data')) as [Buffer]
    assert.match(String(response), /^HTTP\/1\.1 404 /)
    socket.destroy()
  }
  const deep = await open()
  deep.send(`{"ping":${'['.repeat(400_000)}${']'.repeat(400_000)}}`)
  await deep.eventually(() => deep.closed)
  assert.is((await (await open()).call({ ping: 1 })).ping, 'pong')
})

requests('of a lenient broker may mix numbers and strings', async () => {
  const lenient = await startSimulator({ mode: 'lenient', tickMs: 20 })
  const socket = await BrokerSocket.authorised(lenient.url, 'sim-VRTC55')
  const request = {
    buy: 1,
    price: '10',
    parameters: { ...oneTick, amount: '10', contract_type: 'DIGITOVER', barrier: 4 }
  }
  assert.is((await socket.call(request)).buy.payout, 19.53)
  const strict = await trader()
  assert.equal(Object.keys((await strict.call(request)).error.details).sort(), [
    'buy',
    'parameters/amount',
    'parameters/barrier',
    'price'
  ])
  socket.close()
  await lenient.close()
})

requests('are counted by class, account and application, and refused past the limit', async () => {
  const limited = await startSimulator({
    limits: { pricing: { minute: 3, hour: 100 }, outcome: { minute: 1, hour: 100 }, general: { minute: 50, hour: 60 } }
  })
  const one = await BrokerSocket.authorised(limited.url, 'sim-VRTC77')
  const other = await BrokerSocket.authorised(limited.url, 'sim-VRTC77')
  const elsewhere = await BrokerSocket.authorised(limited.url, 'sim-VRTC77', 'app_id=2')
  const { api_call_limits } = (await one.call({ website_status: 1 })).website_status
  assert.equal([api_call_limits.max_requests_pricing.minutely, api_call_limits.max_requestes_general.hourly], [3, 60])
  assert.ok((await one.call({ portfolio: 1 })).portfolio)
  const refused = await other.call({ statement: 1 })
  assert.equal([refused.error.code, refused.msg_type], ['RateLimit', 'statement'])
  assert.ok((await elsewhere.call({ portfolio: 1 })).portfolio)
  for (let i = 0; i < 3; i++) assert.ok((await one.call({ proposal_open_contract: 1 })).proposal_open_contract)
  assert.is((await one.call(buying(oneTick))).error.code, 'RateLimit')
  assert.is((await one.call({ ping: 1 })).ping, 'pong')
  assert.is(limited.ledger().length, 0)
  await limited.close()
})

requests('that never come end an idle connection', async () => {
  const impatient = await startSimulator({ idleMs: 100 })
  const socket = await BrokerSocket.open(impatient.url)
  await socket.call({ ping: 1 })
  await socket.eventually(() => socket.closed)
  assert.is(impatient.v3.connections.size, 0)
  await impatient.close()
})

const authorising = suite('authorize')

authorising('refuses bad, unknown, short and revoked tokens, and disabled accounts', async () => {
  const socket = await open()
  const code = async (token: string) => (await socket.call({ authorize: token })).error?.code
  for (const token of ['bad-token-1', 'something-else', 'sim-CR1', 'sim-1234567'])
    assert.is(await code(token), 'InvalidToken', token)
  assert.is(await code('sim-CR9000001-disabled'), 'AccountDisabled')
  assert.is((await socket.call({ portfolio: 1 })).error.code, 'AuthorizationRequired')
  simulator.engine.accounts.revoke('sim-CR9000002')
  assert.is(await code('sim-CR9000002'), 'InvalidToken')
  assert.is(await code('sim-CR9000002-other'), undefined)
  simulator.engine.accounts.revoke('CR9000002')
  assert.is((await socket.call({ balance: 1 })).error.code, 'InvalidToken')
})

authorising('opens demo and real accounts by the form of the token', async () => {
  const socket = await open()
  const demo = (await socket.call({ authorize: 'sim-VRTC9100001' })).authorize
  assert.equal([demo.loginid, demo.is_virtual, demo.balance, demo.currency], ['VRTC9100001', 1, 10_000, 'USD'])
  const real = (await socket.call({ authorize: 'sim-CR9100002-poor-EUR' })).authorize
  assert.equal([real.is_virtual, real.balance, real.currency], [0, 1, 'EUR'])
  assert.is((await socket.call({ balance: 1 })).balance.loginid, 'CR9100002')
  const other = (await socket.call({ authorize: 'sim-CR9100003-BTC' })).authorize
  assert.equal(other.local_currencies, { BTC: { fractional_digits: 8 } })
  assert.is(other.account_list[0].currency_type, 'crypto')
})

authorising('a read-only token reads and does not trade', async () => {
  const socket = await BrokerSocket.authorised(url, 'sim-CR9200001-readonly')
  sockets.push(socket)
  assert.ok((await socket.call({ portfolio: 1 })).portfolio)
  for (const request of [buying(oneTick), { sell: 1, price: 0 }, { cancel: 1 }, { sell_expired: 1 }]) {
    assert.is((await socket.call(request)).error.code, 'PermissionDenied')
  }
})

authorising('several accounts at once must be named in every call', async () => {
  const socket = await open()
  const { authorize } = await socket.call({ authorize: 'MULTI', tokens: ['sim-CR9300001', 'sim-VRTC9300002'] })
  assert.equal(
    authorize.account_list.map((each: SocketFrame) => each.loginid),
    ['CR9300001', 'VRTC9300002']
  )
  assert.is((await socket.call({ balance: 1 })).error.code, 'InputValidationFailed')
  assert.is((await socket.call({ balance: 1, loginid: 'VRTC9300002' })).balance.loginid, 'VRTC9300002')
  assert.is((await socket.call({ balance: 1, loginid: 'CR777' })).error.code, 'PermissionDenied')
  const { buy } = await socket.call({ ...buying(oneTick), loginid: 'CR9300001' })
  assert.is(simulator.ledger().find(entry => entry.contractId === buy.contract_id)?.loginid, 'CR9300001')
  assert.is((await socket.call({ time: 1, loginid: 'CR9300001' })).error.code, 'InputValidationFailed')
  const one = await socket.call({ authorize: 'MULTI', tokens: ['sim-CR9300001', 'bad-token-1'] })
  assert.is(one.error.code, 'InvalidToken')
})

authorising('ends with logout', async () => {
  const socket = await trader()
  assert.is((await socket.call({ logout: 1 })).logout, 1)
  assert.is((await socket.call({ balance: 1 })).error.code, 'AuthorizationRequired')
})

const trading = suite('buy')

trading('refuses what cannot be bought, under the codes of this dialect', async () => {
  const socket = await trader()
  const code = async (parameters: SocketFrame, price = 10) => (await socket.call({ buy: '1', price, parameters })).error
  const cases: [string, SocketFrame][] = [
    ['InvalidSymbol', { ...oneTick, symbol: 'R_99' }],
    ['OfferingsValidationError', { ...oneTick, symbol: 'BOOM1000' }],
    ['OfferingsValidationError', { ...oneTick, duration: 5, duration_unit: 'm' }],
    ['ContractBuyValidationError', { ...oneTick, contract_type: 'DIGITOVER', barrier: '9' }],
    ['ContractBuyValidationError', { ...oneTick, contract_type: 'DIGITMATCH' }],
    ['ContractBuyValidationError', { ...oneTick, amount: 0.2 }],
    ['ContractBuyValidationError', { ...multiplier, multiplier: 7 }],
    ['NotDefaultCurrency', { ...oneTick, currency: 'EUR' }],
    ['ContractCreationFailure', { ...oneTick, duration: undefined }]
  ]
  for (const [expected, parameters] of cases)
    assert.is((await code(parameters)).code, expected, JSON.stringify(parameters))
  assert.is((await code(oneTick, 9.99)).code, 'ContractCreationFailure')
  const tooMuch = await code({ ...oneTick, amount: 9_000 }, 9_000)
  assert.equal([tooMuch.code, tooMuch.details], ['ContractBuyValidationError', { field: 'amount' }])
  assert.match(
    tooMuch.message,
    /^Minimum stake of 0\.35 and maximum payout of 5000\.00\. Current payout is 17578\.13\.$/
  )
  const poor = await BrokerSocket.authorised(url, 'sim-VRTC9400001-poor')
  sockets.push(poor)
  assert.is((await poor.call(buying(oneTick))).error.code, 'InsufficientBalance')
  assert.is((await socket.call({ buy: '1', price: 10 })).error.code, 'InputValidationFailed')
})

trading('follows a tick contract through its phases until it is settled', async () => {
  const socket = await trader()
  const { buy, subscription } = await socket.call({ ...buying({ ...oneTick, duration: 3 }), subscribe: 1 })
  const states = () =>
    socket.frames.filter(frame => frame.subscription?.id === subscription.id && frame.proposal_open_contract)
  await socket.eventually(() => states().at(-1)?.proposal_open_contract.is_sold === 1)
  const all = states().map(frame => frame.proposal_open_contract)
  assert.equal([all[0].status, all[0].entry_tick, all[0].is_valid_to_sell], ['open', undefined, 0])
  assert.equal(
    all.map(state => state.tick_stream.length),
    [0, 1, 2, 3, 3]
  )
  const [ended, settled] = all.slice(-2)
  assert.equal([ended.status, ended.is_expired, ended.is_settleable, ended.is_sold], ['open', 1, 1, 0])
  assert.equal([settled.is_expired, settled.is_sold, settled.is_valid_to_sell], [1, 1, 0])
  const even = Number(settled.exit_tick_display_value.at(-1)) % 2 === 0
  assert.equal([settled.status, settled.sell_price], even ? ['won', 19.53] : ['lost', 0])
  assert.equal(settled.transaction_ids.buy, buy.transaction_id)
  // The stream stays open until it is forgotten.
  assert.is((await socket.call({ forget: subscription.id })).forget, 1)
  assert.is((await socket.call({ forget: subscription.id })).forget, 0)
  assert.match(buy.shortcode, /^DIGITEVEN_R_100_19\.53_\d+_3T$/)
  assert.is(buy.balance_after, 9_990)
})

trading('by a proposal, which belongs to its connection and is used up', async () => {
  const socket = await trader()
  const other = await BrokerSocket.authorised(url, `sim-${socket.loginid}`)
  sockets.push(other)
  const { proposal } = await socket.call({ proposal: 1, ...oneTick })
  assert.equal([proposal.ask_price, proposal.payout, proposal.display_value], [10, 19.53, '10.00'])
  assert.is((await other.call({ buy: proposal.id, price: 10 })).error.code, 'InvalidContractProposal')
  assert.is((await socket.call({ buy: proposal.id, price: 10 })).buy.buy_price, 10)
  assert.is((await socket.call({ buy: proposal.id, price: 10 })).error.code, 'InvalidContractProposal')
})

trading('streams proposals whose price moves, and no more than five', async () => {
  const socket = await trader()
  const { subscription, proposal } = await socket.call({ proposal: 1, ...multiplier, subscribe: 1 })
  assert.is(subscription.id, proposal.id)
  await socket.eventually(() => socket.frames.filter(frame => frame.proposal?.id === proposal.id).length > 3)
  assert.is((await socket.call({ proposal: 1, ...multiplier, subscribe: 1 })).error.code, 'AlreadySubscribed')
  for (let amount = 11; amount < 15; amount++) await socket.call({ proposal: 1, ...multiplier, amount, subscribe: 1 })
  assert.is((await socket.call({ proposal: 1, ...multiplier, amount: 20, subscribe: 1 })).error.code, 'RateLimit')
  assert.is((await socket.call({ forget_all: 'proposal' })).forget_all.length, 5)
  assert.is((await socket.call({ buy: proposal.id, price: 10 })).error.code, 'InvalidContractProposal')
})

trading('a subscription is opened once and ends with forget', async () => {
  const socket = await trader()
  const { buy } = await socket.call(buying(oneMinute))
  const request = { proposal_open_contract: 1, contract_id: buy.contract_id, subscribe: 1 }
  const { subscription } = await socket.call(request)
  assert.is((await socket.call(request)).error.code, 'AlreadySubscribed')
  await socket.eventually(() => socket.frames.some(frame => frame.proposal_open_contract?.entry_tick !== undefined))
  assert.is((await socket.call({ forget: subscription.id })).forget, 1)
  const received = socket.frames.length
  await socket.call({ ticks: 'R_100', subscribe: 1 })
  await socket.eventually(() => socket.frames.filter(frame => frame.tick).length > 3)
  assert.not.ok(socket.frames.slice(received).some(frame => frame.proposal_open_contract))
})

trading('all open contracts are followed with one subscription, new ones too', async () => {
  const socket = await trader()
  assert.equal((await socket.call({ proposal_open_contract: 1 })).proposal_open_contract, {})
  const first = (await socket.call(buying(oneMinute))).buy.contract_id
  const { subscription } = await socket.call({ proposal_open_contract: 1, subscribe: 1 })
  const second = (await socket.call(buying(oneTick))).buy.contract_id
  for (const id of [first, second]) {
    await socket.until(
      ({ subscription: from, proposal_open_contract: state }) =>
        from?.id === subscription.id && state?.contract_id === id && state.is_sold === 1
    )
  }
  assert.is((await socket.call({ forget_all: ['proposal_open_contract'] })).forget_all.length, 1)
})

trading('an early sale is reported everywhere alike', async () => {
  const socket = await trader()
  const { buy } = await socket.call({ ...buying({ ...oneMinute, duration: 10 }), subscribe: 1 })
  await socket.until(frame => frame.proposal_open_contract?.is_valid_to_sell === 1)
  const { sell } = await socket.call({ sell: buy.contract_id, price: 0 })
  const final = await socket.until(frame => frame.proposal_open_contract?.is_sold === 1)
  const { status, sell_price, is_expired, transaction_ids } = final.proposal_open_contract
  assert.equal([status, is_expired, sell_price, transaction_ids.sell], ['sold', 0, sell.sold_for, sell.transaction_id])
  assert.is(sell.reference_id, buy.transaction_id)
  assert.is((await socket.call({ sell: buy.contract_id, price: 0 })).error.code, 'InvalidSellContractProposal')
  assert.is((await socket.call({ sell: 12345, price: 0 })).error.code, 'InvalidSellContractProposal')
  const [row] = (await socket.call({ profit_table: 1, description: 1 })).profit_table.transactions
  assert.equal([row.contract_id, row.sell_price, row.shortcode], [buy.contract_id, sell.sold_for, buy.shortcode])
  const [sold, bought] = (await socket.call({ statement: 1, description: 1 })).statement.transactions
  assert.equal([sold.action_type, sold.amount, sold.app_id], ['sell', sell.sold_for, 1])
  assert.equal([bought.action_type, bought.amount, bought.shortcode], ['buy', -10, buy.shortcode])
  assert.equal([sold.balance_after, sold.reference_id], [sell.balance_after, buy.transaction_id])
})

trading('a multiplier is followed, changed and closed', async () => {
  const socket = await trader()
  const { buy } = await socket.call({ ...buying({ ...multiplier, limit_order: { take_profit: 500 } }), subscribe: 1 })
  const { proposal_open_contract: state } = await socket.until(frame => frame.proposal_open_contract)
  assert.equal([state.commission, state.multiplier, state.limit_order.take_profit.order_amount], [0.5, 100, 500])
  assert.equal([state.limit_order.stop_out.order_amount, state.is_valid_to_sell], [-10, 1])
  assert.match(buy.shortcode, /^MULTUP_R_100_10\.00_100_\d+_\d+_0_500\.00_N1$/)
  const update = { contract_update: 1, contract_id: buy.contract_id, limit_order: { take_profit: null, stop_loss: 9 } }
  // Where a busy machine takes a second to get here, this one is made, and the next one comes too soon.
  let tooSoon: { code: string } | undefined
  while (tooSoon === undefined) tooSoon = (await socket.call(update)).error
  assert.is(tooSoon.code, 'ContractUpdateTooFrequent')
  // One state comes with each tick of 20 ms, so this is more than the second that must pass.
  const before = socket.frames.length
  await socket.eventually(() => socket.frames.length > before + 60)
  const { contract_update } = await socket.call(update)
  assert.equal([contract_update.stop_loss.order_amount, contract_update.take_profit], [-9, {}])
  assert.is((await socket.call({ cancel: buy.contract_id })).error.code, 'ContractUpdateFailure')
  const { sell } = await socket.call({ sell: buy.contract_id, price: 0 })
  const { proposal_open_contract: sold } = await socket.until(frame => frame.proposal_open_contract?.is_sold === 1)
  assert.is(sold.profit, Math.round((sell.sold_for - 10) * 100) / 100)
})

const lists = suite('lists')

lists('portfolio, statement and profit table agree with the contracts', async () => {
  const socket = await trader()
  const t0 = Math.floor(Date.now() / 1000)
  const long = (await socket.call(buying({ ...oneMinute, duration: 5, duration_unit: 'h' }))).buy
  for (let i = 0; i < 5; i++)
    await socket.call({ ...buying(i % 2 ? oneTick : { ...oneTick, amount: 5 }), subscribe: 1 })
  const settled = () => socket.frames.filter(frame => frame.proposal_open_contract?.is_sold === 1)
  await socket.eventually(() => settled().length === 5)
  const { contracts } = (await socket.call({ portfolio: 1 })).portfolio
  assert.equal(
    contracts.map((each: SocketFrame) => [each.contract_id, each.app_id, each.buy_price]),
    [[long.contract_id, 1, 10]]
  )
  assert.equal((await socket.call({ portfolio: 1, contract_type: ['PUT'] })).portfolio.contracts, [])
  const rows: SocketFrame[] = (await socket.call({ statement: 1, date_from: t0 - 2, limit: 999 })).statement
    .transactions
  assert.is(rows.length, 12)
  rows.reverse().reduce((balance, row) => {
    assert.is(row.balance_after, Math.round((balance + row.amount) * 100) / 100)
    return row.balance_after
  }, 0)
  const sells = rows.filter(row => row.action_type === 'sell')
  assert.ok(sells.every(row => row.app_id === 2))
  const table = (await socket.call({ profit_table: 1, sort: 'ASC' })).profit_table
  assert.is(table.count, 5)
  for (const { proposal_open_contract: state } of settled()) {
    const row = table.transactions.find((each: SocketFrame) => each.contract_id === state.contract_id)
    const sale = sells.find(each => each.contract_id === state.contract_id)
    assert.equal([row.sell_price, sale?.amount, row.buy_price], [state.sell_price, state.sell_price, state.buy_price])
  }
  const page = (await socket.call({ statement: 1, action_type: 'buy', limit: 2, offset: 1 })).statement.transactions
  assert.equal(
    page.map((each: SocketFrame) => each.transaction_id),
    rows
      .filter(row => row.action_type === 'buy')
      .reverse()
      .slice(1, 3)
      .map(row => row.transaction_id)
  )
  assert.equal((await socket.call({ statement: 1, date_to: t0 - 100 })).statement.transactions, [])
})

const streams = suite('streams')

streams('balance and transaction show every movement', async () => {
  const socket = await trader()
  const balance = await socket.call({ balance: 1, subscribe: 1 })
  const moves = await socket.call({ transaction: 1, subscribe: 1 })
  await socket.call(buying(oneTick))
  const received = (field: string, id: string) =>
    socket.frames.filter(frame => frame[field] && frame.subscription?.id === id).slice(1)
  await socket.eventually(() => received('transaction', moves.subscription.id).length === 2)
  const [bought, sold] = received('transaction', moves.subscription.id).map(frame => frame.transaction)
  assert.equal([bought.action, bought.amount, bought.balance, bought.symbol], ['buy', -10, 9_990, 'R_100'])
  assert.equal([sold.action, sold.contract_id], ['sell', bought.contract_id])
  assert.equal(
    received('balance', balance.subscription.id).map(frame => frame.balance.balance),
    [9_990, sold.balance]
  )
  assert.is((await socket.call({ balance: 1, subscribe: 1 })).error.code, 'AlreadySubscribed')
})

streams('ticks come one after the other, and no more after forget_all', async () => {
  const socket = await open()
  const { subscription } = await socket.call({ ticks: 'R_10', subscribe: 1 })
  await socket.call({ ticks: ['R_25', 'R_75'], subscribe: 1 })
  assert.is((await socket.call({ ticks: 'R_10', subscribe: 1 })).error.code, 'AlreadySubscribed')
  const of = (symbol: string) => socket.frames.filter(frame => frame.tick?.symbol === symbol)
  await socket.eventually(() => ['R_10', 'R_25', 'R_75'].every(symbol => of(symbol).length > 4))
  assert.ok(of('R_10').every(frame => frame.subscription.id === subscription.id && frame.tick.pip_size === 3))
  assert.is((await socket.call({ forget_all: 'ticks' })).forget_all.length, 3)
  const received = socket.frames.length
  await socket.call({ ticks_history: 'R_50', end: 'latest', count: 3, subscribe: 1 })
  await socket.eventually(() => of('R_50').length > 3)
  assert.ok(socket.frames.slice(received).every(frame => frame.tick?.symbol !== 'R_10'))
  assert.is((await socket.call({ ticks: 'R_1' })).error.code, 'InvalidSymbol')
})

streams('candles go on as printed prices', async () => {
  const socket = await open()
  const request = { ticks_history: 'R_100', end: 'latest', style: 'candles', granularity: 120, count: 4, subscribe: 1 }
  const { candles, pip_size, msg_type } = await socket.call(request)
  assert.equal([candles.length, pip_size, msg_type, candles[1].epoch - candles[0].epoch], [4, 2, 'candles', 120])
  const { ohlc } = await socket.until(frame => frame.ohlc)
  assert.equal([ohlc.granularity, ohlc.open_time % 120, typeof ohlc.close], [120, 0, 'string'])
  assert.match(ohlc.close, /^\d+\.\d\d$/)
})

streams('end with their connection', async () => {
  const lone = await startSimulator({ tickMs: 10 })
  const socket = await BrokerSocket.authorised(lone.url, 'sim-VRTC123456')
  await socket.call({ ticks: 'R_10', subscribe: 1 })
  await socket.call({ ...buying(oneMinute), subscribe: 1 })
  await socket.call({ balance: 1, subscribe: 1 })
  socket.close()
  const other = await BrokerSocket.open(lone.url)
  for (let i = 0; lone.v3.connections.size > 1 && i < 1_000; i++) await other.call({ ping: 1 })
  assert.is(lone.v3.connections.size, 1)
  const [contract] = lone.engine.contracts.values()
  assert.equal([contract?.watchers.size, contract?.account.listeners.size], [0, 0])
  other.close()
  await lone.close()
})

const market = suite('the market')

market('lists its symbols, their contracts and their hours', async () => {
  const socket = await open()
  const { active_symbols } = await socket.call({ active_symbols: 'full' })
  assert.is(active_symbols.length, 14)
  assert.equal(
    active_symbols.filter((each: SocketFrame) => each.symbol.startsWith('R_')).map((each: SocketFrame) => each.pip),
    [0.001, 0.001, 0.0001, 0.0001, 0.01]
  )
  const { contracts_for } = await socket.call({ contracts_for: 'R_100', currency: 'USD' })
  const multipliers = contracts_for.available.find((each: SocketFrame) => each.contract_type === 'MULTUP')
  assert.equal(multipliers.multiplier_range, [40, 100, 200, 300, 400])
  const forex = (await socket.call({ contracts_for: 'frxEURUSD' })).contracts_for.available
  assert.ok(forex.every((each: SocketFrame) => each.expiry_type !== 'tick' && !each.contract_type.startsWith('DIGIT')))
  const times = async (day: string) => {
    const { markets } = (await socket.call({ trading_times: day })).trading_times
    const rows = markets
      .flatMap(({ submarkets }: SocketFrame) => submarkets)
      .flatMap(({ symbols }: SocketFrame) => symbols)
    return rows.find((each: SocketFrame) => each.symbol === 'frxEURUSD').times
  }
  assert.equal((await times('2026-03-04')).open, ['00:00:00'])
  assert.equal((await times('2026-03-06')).close, ['20:55:00'])
  assert.equal((await times('2026-03-07')).open, ['--'])
  assert.is((await socket.call({ trading_times: '2026-2-30' })).error.code, 'InputValidationFailed')
})

market('a closed one is refused under either code', async () => {
  const socket = await trader()
  const minutes = { ...oneMinute, symbol: 'frxEURUSD', duration: 20 }
  const symbol = symbols.get('frxEURUSD')!
  simulator.engine.market.sessions.force(symbol, false, Date.now() + 3_600_000)
  assert.is((await socket.call(buying(minutes))).error.code, 'MarketIsClosed')
  simulator.faults.set({ marketClosedCode: 'ContractBuyValidationError' })
  const { error } = await socket.call(buying(minutes))
  assert.equal([error.code, error.message], ['ContractBuyValidationError', 'This market is presently closed.'])
  assert.is((await socket.call({ ticks: 'frxEURUSD' })).error.code, 'MarketIsClosed')
  assert.is(
    (await socket.call({ ticks_history: 'frxEURUSD', end: 'latest', adjust_start_time: 1, count: 5 })).history.prices
      .length,
    5
  )
  const { active_symbols } = await socket.call({ active_symbols: 'brief' })
  assert.is(active_symbols.find((each: SocketFrame) => each.symbol === 'frxEURUSD').exchange_is_open, 0)
  simulator.faults.reset()
  simulator.engine.market.sessions.force(symbol, true)
  assert.ok((await socket.call(buying(minutes))).buy)
  simulator.engine.market.sessions.force(symbol, null)
})

market('returns the broker’s clock and status', async () => {
  const socket = await open()
  const before = Math.floor(Date.now() / 1000)
  const { time } = await socket.call({ time: 1 })
  assert.ok(time >= before && time <= Date.now() / 1000, `${time} after ${before}`)
  const { website_status } = await socket.call({ website_status: 1, subscribe: 1 })
  assert.is(website_status.site_status, 'up')
})

const virtual = suite('on a virtual clock, without a socket')

/** A conversation in this process, on a clock that is moved by hand. */
function converse(facts: { faults?: Partial<FaultSettings>; limits?: CallQuotas } = {}) {
  const clock = new VirtualClock('2026-03-04T10:00:00Z')
  const engine = new Engine({ clock })
  const quota = new Quota(clock, facts.limits ?? null)
  const v3 = new V3({ engine, faults: new Faults(1, facts.faults), quota })
  const frames: SocketFrame[] = []
  let ended = false
  const end = () => {
    ended = true
  }
  const connection = new ClientConnection(v3, 1, {
    send: text => frames.push(JSON.parse(text)) > 0,
    close: end,
    terminate: end
  })
  const say = (request: SocketFrame) => connection.receive(JSON.stringify(request))
  say({ authorize: 'sim-VRTC600001' })
  return { clock, v3, frames, say, ended: () => ended }
}

virtual('a contract of a day lives and settles', () => {
  const { clock, frames, say } = converse()
  say({ ...buying({ ...oneMinute, duration: 1, duration_unit: 'd' }), subscribe: 1 })
  say({ ping: 1 })
  for (let minute = 0; minute < 1_441; minute++) {
    clock.pass(60_000)
    say({ ping: 1 })
  }
  const states = frames.filter(frame => frame.proposal_open_contract).map(frame => frame.proposal_open_contract)
  assert.ok(states.length > 43_000)
  const [ended, settled] = states.slice(-2)
  assert.equal([ended.is_expired, ended.is_sold, settled.is_sold], [1, 0, 1])
  assert.is(settled.sell_time - settled.date_start, 86_400)
  assert.is(settled.exit_tick_time, settled.date_expiry)
})

virtual('silence of two minutes ends the connection, and its streams', () => {
  const { clock, say, ended, v3 } = converse()
  say({ ticks: 'R_100', subscribe: 1 })
  clock.pass(60_000)
  say({ ping: 1 })
  clock.pass(119_999)
  assert.is(ended(), false)
  clock.pass(1)
  assert.equal([ended(), v3.connections.size, clock.waiting], [true, 0, 0])
})

virtual('budgets open again with the minute, but not before the hour', () => {
  const none = { minute: 100, hour: 100 }
  const { clock, say, frames } = converse({ limits: { pricing: none, general: none, outcome: { minute: 2, hour: 3 } } })
  const allowed = () => {
    say({ portfolio: 1 })
    return frames.at(-1)!.error === undefined
  }
  assert.equal([allowed(), allowed(), allowed()], [true, true, false])
  clock.pass(60_000)
  assert.equal([allowed(), allowed()], [true, false])
  for (let minute = 1; minute < 59; minute++) {
    clock.pass(60_000)
    assert.is(allowed(), false)
  }
  clock.pass(60_000)
  assert.equal([allowed(), allowed(), allowed()], [true, true, false])
})

virtual('a late execution comes after its time, though the connection is gone', () => {
  const rules: FaultRule[] = [{ effect: 'timeout-late', call: 'buy', delayMs: 17_000 }]
  const { clock, say, frames, v3 } = converse({ faults: { rules } })
  say(buying(oneTick))
  assert.is(frames.at(-1)!.error.code, 'Timeout')
  v3.cutAll()
  clock.pass(16_999)
  assert.is(v3.engine.contracts.size, 0)
  clock.pass(1)
  assert.is(v3.engine.contracts.size, 1)
})

virtual('a closed broker executes nothing late', () => {
  const { clock, say, v3 } = converse({ faults: { rules: [{ effect: 'timeout-late', call: 'buy' }], latencyMs: 50 } })
  clock.pass(50)
  say(buying(oneTick))
  v3.close()
  clock.pass(60_000)
  assert.is(v3.engine.contracts.size, 0)
})

const responses = suite('responses')

responses('break none of the broker’s schemas', async () => {
  assert.ok(sockets.reduce((sum, socket) => sum + socket.frames.length, 0) > 200)
  assert.equal(
    sockets.flatMap(socket => socket.broken),
    []
  )
})
responses.after(() => simulator.close())

requests.run()
authorising.run()
trading.run()
lists.run()
streams.run()
market.run()
virtual.run()
responses.run()

// test in a process of its own
// What only the v3 dialect has, against the simulated broker, and what no simulated broker does, against a scripted one.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import type { WebSocket } from 'ws'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { ClientOptions } from '../../worker/broker/client.ts'
import { createV3Broker } from '../../worker/broker/dialects/v3.ts'
import type { Session } from '../../worker/broker/port.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { upTo } from '../support/turns.ts'
import {
  buyOptions,
  clientOf,
  closeClients,
  even,
  lines,
  log,
  newAccount,
  newRecorder,
  quick,
  relay,
  simulator,
  up
} from './broker-port.ts'
import { courteous, failure, reply, type Script, type SentFrame, scriptedBroker, within } from './broker-script.ts'

const opening = suite('opening a session')
const buying = suite('buying')
const care = suite('connections and budgets')

opening('is refused with a token that is revoked, disabled or malformed', async () => {
  const broker = clientOf()
  const disabled = await failure(broker.session(newAccount('-disabled')))
  const unknown = await failure(broker.session({ ...newAccount(), token: async () => 'never-issued-to-anybody' }))
  const malformed = await failure(broker.session({ ...newAccount(), token: async () => 'no token, "or": is it' }))
  for (const error of [disabled, unknown, malformed]) {
    assert.is(error.code, 'BROKER_DISCONNECTED')
    assert.ok(error.rejected)
    assert.is(error.ran, 'no')
  }
  assert.is(disabled.brokerCode, 'AccountDisabled')
})

opening("is refused with another account's token", async () => {
  const [mine, theirs] = [newAccount(), newAccount()]
  const error = await failure(clientOf().session({ ...mine, token: theirs.token }))
  assert.is(error.brokerCode, 'WrongAccount')
  assert.ok(error.rejected)
})

opening('is refused with a token that may trade and not read, before anything is bought', async () => {
  const account = newAccount()
  const token = `trade-only-${account.accountId}`
  simulator.engine.accounts.create({ loginid: account.accountId, token, scopes: ['trade'] })
  const error = await failure(clientOf().session({ ...account, token: async () => token }))
  assert.equal([error.code, error.rejected], ['BROKER_DISCONNECTED', true])
  for (const scopes of [
    ['trade', 'read'],
    ['trade', 'trading_information']
  ] as const) {
    simulator.engine.accounts.create({ loginid: account.accountId, token, scopes: [...scopes] })
    const session = await clientOf().session({ ...account, token: async () => token })
    assert.equal(await session.portfolio(), [])
  }
})

opening('does not call the token refused when it is the broker or the application that fails', async () => {
  const broker = clientOf(quick)
  const [account, another] = [newAccount(), newAccount()]
  simulator.faults.add({ effect: 'error', call: 'authorize', code: 'InternalServerError', times: 1 })
  const fault = await failure(broker.session(account))
  assert.is(fault.code, 'BROKER_UPSTREAM')
  assert.is(fault.ran, 'no')
  // For a while, and for this account alone, nothing else is sent to open it.
  const repeated = await failure(broker.session(account))
  assert.equal([repeated.brokerCode, repeated.retryMs! > 0], ['InternalServerError', true])
  simulator.faults.add({ effect: 'ignore', call: 'authorize', times: 1 })
  assert.is((await failure(broker.session(another))).brokerCode, 'NoAnswer')
  const unsealing = await failure(broker.session({ ...newAccount(), token: () => Promise.reject(new Error('no key')) }))
  assert.is(unsealing.brokerCode, 'TokenUnreadable')
  assert.is(unsealing.code, 'BROKER_UPSTREAM')
  const application = await failure(broker.session({ ...newAccount(), appId: 'x' }))
  assert.is(application.brokerCode, 'InvalidAppID')
  for (const error of [fault, repeated, unsealing, application]) assert.not(error.rejected)
  for (const each of [account, another])
    await upTo(() =>
      broker.session(each).then(
        () => true,
        () => false
      )
    )
})

opening('is made at once with a token that is stored after attempts without a usable one', async () => {
  const broker = clientOf()
  const none = new ApiError('BROKER_DISCONNECTED', 'There is no token.')
  for (const [cause, code] of [
    [none, 'BROKER_DISCONNECTED'],
    [new Error('no key'), 'BROKER_UPSTREAM']
  ] as const) {
    const account = newAccount()
    for (let time = 0; time < 6; time++)
      assert.is((await failure(broker.session({ ...account, token: () => Promise.reject(cause) }))).code, code)
    await broker.session(account, { anew: true })
  }
})

buying('is refused with a token that may only read, as a token refused', async () => {
  const account = newAccount('-readonly')
  const session = await clientOf().session(account)
  assert.is((await session.balance()).balance, '10000')
  const error = await failure(session.buy(even, buyOptions))
  assert.is(error.code, 'BROKER_DISCONNECTED')
  assert.ok(error.rejected)
})

// --- care

care('lets a contract rest once its sales are subscribed to, by a response that has none yet', async () => {
  const now = Math.floor(Date.now() / 1000)
  const bought = { contract_id: 5, transaction_id: 6, buy_price: 10, payout: 19.53, purchase_time: now }
  const shortcode = `CALL_R_100_19.53_${now}_${now + 3_600}_S0P_0`
  const [contract, sales] = ['c'.repeat(32), 's'.repeat(32)].map(id => ({ subscription: { id } }))
  let update = () => {}
  const broker = await scriptedBroker(
    courteous((frame, socket) => {
      const state = { contract_id: 5, is_sold: 0, status: 'open', shortcode }
      update =
        frame.buy === undefined ? update : () => reply(socket, frame, { proposal_open_contract: state, ...contract })
      if (frame.buy !== undefined) reply(socket, frame, { buy: { ...bought, shortcode }, ...contract })
      if (frame.forget !== undefined) reply(socket, frame, { forget: 1 })
      if (frame.transaction === undefined) return update()
      reply(socket, frame, { msg_type: 'transaction', ...sales })
      update()
    })
  )
  const client = createV3Broker({ url: broker.url, log })
  const session = await client.session({ accountId: 'CR1', appId: '7', token: async () => 'CR1' })
  const call = { ...even, contractType: 'CALL', duration: 60, durationUnit: 'm' } as const
  await within<number>('the rest', parked => {
    const listener = { update() {}, lost() {}, parked }
    void session.buy(call, { ...buyOptions, listener })
  })
  await client.close()
  await broker.close()
})

care('takes the limits from the broker and stays within them', async () => {
  const window = { minute: 20, hour: 1_000 }
  const own = await startSimulator({
    limits: { pricing: window, outcome: { minute: 4, hour: 100 }, general: window },
    tickMs: 20
  })
  const broker = clientOf({}, own)
  const account = newAccount()
  const session = await broker.session(account)
  const { contractId } = await session.buy(up, buyOptions)
  await upTo(() => broker.budget().pricing === 0.95)
  const outcomes = await Promise.allSettled(Array.from({ length: 25 }, () => session.contract(contractId)))
  const refused = outcomes.filter(each => each.status === 'rejected')
  assert.is(outcomes.length - refused.length, 17, 'the last tenth is kept for orders')
  for (const each of refused) assert.is(each.reason.brokerCode, 'QuotaExhausted')
  await session.sell(contractId)
  assert.ok(broker.budget().pricing! < 0.1)
  await own.close()
})

care('starts no purchase while the broker announces that it goes down, and goes on afterwards', async () => {
  const own = await startSimulator({ limits: 'off', tickMs: 20 })
  const account = newAccount()
  const session = await clientOf({}, own).session(account)
  const { contractId } = await session.buy(up, buyOptions)
  await upTo(() => own.v3.statusListeners.size > 0)
  own.v3.maintain(500)
  let error = null
  await upTo(async () => {
    error = await session.buy(even, buyOptions).then(
      () => null,
      each => each
    )
    return error !== null
  })
  assert.is(error!.brokerCode, 'SiteUpdating')
  assert.is(error!.ran, 'no')
  assert.is((await session.contract(contractId)).contractId, contractId)
  await upTo(() => own.v3.siteStatus === 'up')
  await upTo(async () => {
    const bought = await session.buy(even, buyOptions).catch(() => null)
    return bought !== null
  })
  await own.close()
})

/** A session with a scripted broker that authorises everybody. */
async function scripted(
  script: Script,
  options: Partial<ClientOptions> = {}
): Promise<{ session: Session; close: () => Promise<void> }> {
  const broker = await scriptedBroker(courteous(script))
  const session = await clientOf(options, { url: broker.url, nextUrl: '', appIdHeader: '' }).session({
    accountId: 'CR1',
    appId: '7',
    token: async () => 'CR1'
  })
  return { session, close: () => broker.close() }
}

care('takes a response it cannot read for none: a purchase is then in doubt', async () => {
  const bodies = [
    7,
    'x',
    [],
    {},
    { contract_id: 'x', transaction_id: 1 },
    { contract_id: 1.5, transaction_id: 1 },
    null
  ]
  for (const buy of bodies) {
    const { session, close } = await scripted((frame, socket) =>
      reply(socket, frame, { buy, balance: { loginid: 'CR2' } })
    )
    const error = await failure(session.buy(even, { ...buyOptions, listener: newRecorder().listener }))
    assert.is(error.brokerCode, 'BadFrame', JSON.stringify(buy))
    assert.is(error.ran, 'unknown')
    const balance = await failure(session.balance())
    assert.is(balance.brokerCode, 'WrongAccount')
    assert.is(balance.ran, 'no')
    await close()
  }
})

const receipt = {
  contract_id: 5,
  transaction_id: 6,
  buy_price: 10,
  payout: 19.53,
  purchase_time: 1_700_000_000,
  shortcode: 'X'
}
const poc = { contract_id: 5, is_sold: 0, buy_price: 10, purchase_time: 1_700_000_000 }

for (const code of ['RateLimit', 'InvalidToken', 'AuthorizationRequired']) {
  const error = { code, message: 'No.' }

  // The schema of a contract's updates requires no name.
  for (const name of [{ msg_type: 'proposal_open_contract' }, {}])
    care(
      `takes the refusal of a contract's stream for none of its purchase (${code} ${JSON.stringify(name)})`,
      async () => {
        let bought = 0
        let refused = false
        const { session, close } = await scripted((frame, socket) => {
          if (frame.buy !== undefined) {
            bought += 1
            reply(socket, frame, { ...name, error })
            reply(socket, frame, { msg_type: 'buy', buy: receipt })
          } else if (!refused) {
            refused = true
            reply(socket, frame, { ...name, error })
          } else {
            const end = { ...poc, is_sold: 1, status: 'lost', sell_price: 0 }
            reply(socket, frame, { proposal_open_contract: end, subscription: { id: 's' } })
          }
        })
        const recorder = newRecorder()
        const { contractId } = await session.buy(even, { ...buyOptions, listener: recorder.listener })
        assert.equal([contractId, bought], ['5', 1])
        // Two refusals of the stream: with the purchase, and of the first request of its own.
        if (code === 'RateLimit') assert.is((await recorder.settled()).status, 'lost')
        await close()
      }
    )

  for (const beside of [{ buy: receipt }, { subscription: { id: 's' } }])
    care(
      `has a purchase in doubt whose error comes with ${Object.keys(beside)[0]}, and sends it once (${code})`,
      async () => {
        let sent = 0
        const { session, close } = await scripted((frame, socket) => {
          sent += 1
          reply(socket, frame, { msg_type: 'buy', ...beside, error })
        })
        const failed = await failure(session.buy(even, { ...buyOptions, listener: newRecorder().listener }))
        assert.equal([failed.ran, failed.rejected, sent], ['unknown', false, 1])
        await close()
      }
    )
}

care('subscribes by itself when a purchase opened no stream', async () => {
  const { session, close } = await scripted((frame, socket) => {
    if (frame.buy !== undefined) reply(socket, frame, { buy: receipt })
    else if (frame.proposal_open_contract !== undefined) {
      reply(socket, frame, {
        proposal_open_contract: { ...poc, is_sold: 1, status: 'lost', sell_price: 0 },
        subscription: { id: 's' }
      })
    }
  })
  const recorder = newRecorder()
  await session.buy(even, { ...buyOptions, listener: recorder.listener })
  assert.is((await recorder.settled()).status, 'lost')
  await close()
})

care('receives sales on the connection it has, whatever one that it left still sends', async () => {
  const purchaseTime = Math.floor(Date.now() / 1000)
  const shortcode = `CALL_R_100_19.53_${purchaseTime}_${purchaseTime + 3600}_S0P_0`
  const state = { proposal_open_contract: { ...poc, shortcode }, subscription: { id: 'prices' } }
  const buys: SentFrame[] = []
  const held: SentFrame[] = []
  // The sockets on which sales are reported, in order.
  const sales: WebSocket[] = []
  const { session, close } = await scripted(
    (frame, socket) => {
      if (frame.buy !== undefined) {
        buys.push(frame)
        const bought = { ...receipt, contract_id: 4 + buys.length, purchase_time: purchaseTime, shortcode }
        reply(socket, frame, { buy: bought, ...(frame.subscribe ? { subscription: state.subscription } : {}) })
        if (frame.subscribe) reply(socket, frame, state)
      } else if (frame.transaction !== undefined) {
        sales.push(socket)
        reply(socket, frame, { transaction: {}, subscription: { id: `sales ${sales.length}` } })
      } else if (frame.proposal_open_contract !== undefined) {
        const error = { code: 'AuthorizationRequired', message: 'Please log in.' }
        reply(socket, frame, socket === sales[0] ? { error } : state)
      } else if (frame.portfolio !== undefined) reply(socket, frame, { portfolio: { contracts: [] } })
      else if (frame.balance !== undefined) held.push(frame)
    },
    { parkFromMs: 1_000 }
  )
  const buyHour = () =>
    session.buy(
      { ...even, contractType: 'CALL', duration: 1, durationUnit: 'h' },
      { ...buyOptions, listener: newRecorder().listener }
    )
  await buyHour()
  await upTo(async () => (await buyHour()) && buys.at(-1)!.subscribe === undefined)
  // A call under way keeps the connection open while it is left for another, on which sales arrive again.
  const balance = session.balance()
  await upTo(() => held.length > 0)
  await session.contract('5')
  await upTo(() => sales.length === 2)
  const late = { action: 'buy', contract_id: 9 }
  sales[0]!.send(JSON.stringify({ transaction: late, subscription: { id: 'sales 1' } }))
  reply(sales[0]!, held[0]!, { balance: { balance: 10, currency: 'USD', loginid: 'CR1' } })
  await balance
  await buyHour()
  assert.is(buys.at(-1)!.subscribe, undefined)
  assert.is(sales.length, 2)
  await close()
})

care('prints prices as the broker shows them, with every zero', async () => {
  const spots = {
    entry_tick: 1219.6,
    entry_tick_display_value: '1219.60',
    exit_tick: 1219.5,
    exit_tick_display_value: '1219.50',
    current_spot: 1e-7,
    profit: -10,
    payout: 19.5,
    status: null,
    is_sold: 1,
    sell_price: 0
  }
  const { session, close } = await scripted((frame, socket) =>
    reply(socket, frame, { proposal_open_contract: { ...poc, ...spots } })
  )
  const state = await session.contract('5')
  assert.equal([state.entryPrice, state.exitPrice, state.currentSpot], ['1219.60', '1219.50', '0.0000001'])
  assert.equal([state.profit, state.payout, state.sellPrice, state.status], ['-10', '19.5', '0', 'lost'])
  await close()
})

care('receives each frame of a contract once per frame, and none after its settlement', async () => {
  const { session, close } = await scripted((frame, socket) => {
    if (frame.buy === undefined) return
    const update = (fields: object) =>
      reply(socket, frame, { proposal_open_contract: { ...poc, ...fields }, subscription: { id: 'sub' } })
    update({ bid_price: 1 })
    reply(socket, frame, { buy: receipt, subscription: { id: 'sub' } })
    reply(socket, frame, { buy: receipt, subscription: { id: 'sub' } })
    update({ contract_id: 99 })
    update({ is_sold: 'maybe' })
    update({ is_sold: 1, status: 'won', sell_price: 19.53 })
    update({ is_sold: 1, status: 'won', sell_price: 19.53 })
  })
  const recorder = newRecorder()
  const bought = await session.buy(even, { ...buyOptions, listener: recorder.listener })
  await recorder.settled()
  assert.is(bought.contractId, '5')
  // A flag that cannot be read does not end the contract, and does not hide the rest.
  assert.equal(
    recorder.states.map(each => each.bidPrice ?? each.unreadable?.join() ?? each.status),
    ['1', 'is_sold', '']
  )
  assert.is(recorder.states.at(-1)?.status, 'won')
  await close()
})

care('receives a state that comes in the frame of its receipt', async () => {
  const { session, close } = await scripted((frame, socket) => {
    const end = { ...poc, is_sold: 1, status: 'won', sell_price: 19.53 }
    if (frame.buy !== undefined)
      reply(socket, frame, { buy: receipt, proposal_open_contract: end, subscription: { id: 'sub' } })
  })
  const recorder = newRecorder()
  await session.buy(even, { ...buyOptions, listener: recorder.listener })
  assert.is((await recorder.settled()).status, 'won')
  await close()
})

care('does not write a purchase to a connection that is closing', async () => {
  const { session, close } = await scripted((frame, socket) => {
    if (frame.buy !== undefined) reply(socket, frame, { buy: receipt })
    if (frame.balance === undefined) return
    reply(socket, frame, { balance: { loginid: 'CR1', balance: 1, currency: 'USD' } })
    socket.close(1001)
  })
  for (let round = 0; round < 5; round++) {
    await session.balance()
    assert.is((await session.buy(even, buyOptions)).contractId, '5')
  }
  await close()
})

care('closes a connection nobody uses although the one before it ended while it was being opened', async () => {
  const responses: Record<string, (() => void)[]> = { authorize: [], balance: [] }
  const sockets: WebSocket[] = []
  const broker = await scriptedBroker(
    (frame, socket) => {
      if (frame.website_status !== undefined) reply(socket, frame, { website_status: { site_status: 'up' } })
      else if (frame.authorize !== undefined)
        responses.authorize!.push(() => reply(socket, frame, { authorize: { loginid: 'CR1' } }))
      else if (frame.balance !== undefined)
        responses.balance!.push(() =>
          reply(socket, frame, { balance: { balance: 10, currency: 'USD', loginid: 'CR1' } })
        )
    },
    socket => sockets.push(socket)
  )
  const client = createV3Broker({ url: broker.url, log, idleCloseMs: 200 })
  const account = { accountId: 'CR1', appId: '7', token: async () => 'CR1' }
  const respond = async (call: string, nth: number) => {
    await upTo(() => responses[call]!.length > nth)
    responses[call]![nth]!()
  }
  const opened = client.session(account)
  await respond('authorize', 0)
  const balance = (await opened).balance()
  await upTo(() => responses.balance!.length === 1)
  const anew = client.session(account, { anew: true })
  await upTo(() => responses.authorize!.length === 2)
  await respond('balance', 0)
  await balance
  await upTo(() => sockets[0]!.readyState === sockets[0]!.CLOSED)
  await respond('authorize', 1)
  await anew
  await upTo(() => sockets[1]!.readyState === sockets[1]!.CLOSED)
  await client.close()
  await broker.close()
})

care('measures the clock from when its call leaves, however long that waited', async () => {
  let calls = 0
  // Time goes on between the two calls alone.
  let nowMs = Date.now()
  const broker = await scriptedBroker(
    courteous((frame, socket) => {
      if (frame.time === undefined) return
      const error = { code: 'RateLimit', message: 'Too many.' }
      reply(socket, frame, calls++ === 0 ? { error } : { time: Math.floor(nowMs / 1000) })
      if (calls === 1) nowMs += 20_000
    })
  )
  const client = createV3Broker({ url: broker.url, log, now: () => nowMs })
  const offset = await client.market('7').clockOffset()
  assert.is(calls, 2)
  assert.ok(Math.abs(offset) <= 0.501, String(offset))
  await client.close()
  await broker.close()
})

care('keeps to the published limits where the broker sends none that can be read', async () => {
  const none = { minutely: null, hourly: 'many' }
  const broker = await scriptedBroker((frame, socket) => {
    const api_call_limits = { max_requests_pricing: none, max_requests_outcome: none, max_requestes_general: none }
    if (frame.website_status !== undefined) reply(socket, frame, { website_status: { api_call_limits } })
    else if (frame.authorize !== undefined) reply(socket, frame, { authorize: { loginid: 'CR1' } })
    else if (frame.balance !== undefined)
      reply(socket, frame, { balance: { balance: 10, currency: 'USD', loginid: 'CR1' } })
    else reply(socket, frame, { error: { code: 'MarketIsClosed', message: 'closed' } })
  })
  const client = createV3Broker({ url: broker.url, log })
  const session = await client.session({ accountId: 'CR1', appId: '7', token: async () => 'CR1' })
  // Its response comes after the limits.
  await session.balance()
  const buys = Array.from({ length: 100 }, () => failure(session.sell('5')))
  await broker.got('sell', 80)
  await session.balance()
  assert.is(broker.received.filter(({ sell }) => sell !== undefined).length, 80)
  await client.close()
  await Promise.all(buys)
  await broker.close()
})

care('streams prices again after a first response without one, and the loss of its connection', async () => {
  let subscribed = 0
  const row = {
    symbol: 'R_100',
    display_name: 'R',
    market: 'm',
    pip: 0.01,
    exchange_is_open: 1,
    is_trading_suspended: 0
  }
  const broker = await scriptedBroker(
    courteous((frame, socket) => {
      if (frame.active_symbols !== undefined) reply(socket, frame, { active_symbols: [row] })
      if (frame.ticks === undefined) return
      const subscription = { id: `ticks ${++subscribed}` }
      const tick = { symbol: 'R_100', epoch: 1_700_000_000, quote: 1.25, pip_size: 2 }
      reply(socket, frame, { msg_type: 'tick', subscription, ...(subscribed === 1 ? {} : { tick }) })
      if (subscribed === 1) socket.close()
    })
  )
  const client = createV3Broker({ url: broker.url, log })
  const { ticks } = client.market('7')
  const price = await within<string>('a price', resolve => {
    ticks.listen(tick => resolve(tick.price))
    ticks.want(new Set(['R_100']))
  })
  assert.is(price, '1.25')
  await client.close()
  await broker.close()
})

care('ends every pending call when it is closed', async () => {
  const broker = await scriptedBroker(courteous(() => undefined))
  const client = createV3Broker({ url: broker.url, log })
  const session = await client.session({ accountId: 'CR1', appId: '7', token: async () => 'CR1' })
  const buy = failure(session.buy(even, buyOptions))
  const balance = failure(session.balance())
  await broker.got('balance')
  await client.close()
  assert.is((await buy).ran, 'unknown')
  assert.is((await balance).ran, 'no')
  assert.is((await failure(session.buy(even, buyOptions))).ran, 'no')
  await broker.close()
})

care('sends only frames the broker accepts', () => {
  assert.equal(relay.complaints, [])
  for (const call of ['authorize', 'website_status']) assert.ok(relay.calls.has(call), call)
})

care('never writes a token to the log', () => {
  assert.ok(lines.length > 0)
  for (const line of lines) assert.not.match(line, /sim-VRTC|never-issued|no token/)
})

care.after(closeClients)
opening.run()
buying.run()
care.run()

// test once for each dialect
// Binary orders from HTTP to the closed result, over a worker and the simulated broker.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { activateAccount, exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { contractTypes } from '../../schemas/orders.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, newAccountId, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 7, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
const env = {
  ...brokerEnv(simulator),
  ORDER_TTL_MS: '30000',
  RECONCILE_AFTER_MS: '1500',
  PERMIT_MS: '1000',
  SWEEP_MS: '200'
}
const harness = await openHarness({ env })
await startTestWorker(harness.env)
const partner = await harness.makePartner()
const trader = await partner.makeTrader()

const order = (changes: object = {}) => tickOrder(trader.traderExternalId, { duration: 3, ...changes })
const place = (changes: object = {}) => partner.call(placeBinaryOrder, { body: order(changes) })
const contractsOf = (accountId: string) => simulator.ledger().filter(entry => entry.loginid === accountId)

const refusing = suite('POST /v1/orders/binary refuses')

refusing('a body that breaks the schema, naming each path, and stores nothing', async () => {
  const { status, body } = await place({ stake: 0.1, duration: 0, durationUnit: 'x', clientOrderId: 'short' })
  assert.is(status, 400)
  assert.is(body.error, 'VALIDATION_FAILED')
  const paths = body.details.map((detail: { path: string }) => detail.path)
  assert.equal(paths.sort(), ['/body/clientOrderId', '/body/duration', '/body/durationUnit', '/body/stake'])
  const { body: page } = await partner.call(listOrders, { query: { traderExternalId: trader.traderExternalId } })
  assert.is(page.data.length, 0)
})

refusing('combinations that are no contract, before the broker is called', async () => {
  const before = simulator.ledger().length
  const wrong = {
    barrier: [
      { contractType: 'DIGITMATCH' },
      { contractType: 'CALL', barrier: '5' },
      { contractType: 'DIGITEVEN', barrier: '5' },
      { contractType: 'DIGITOVER', barrier: '9' },
      { contractType: 'DIGITUNDER', barrier: '0' }
    ],
    durationUnit: [{ contractType: 'DIGITODD', durationUnit: 's', duration: 30 }],
    duration: [{ contractType: 'CALL', duration: 11 }]
  }
  for (const [field, changes] of Object.entries(wrong).flatMap(([name, each]) =>
    each.map(one => [name, one] as const)
  )) {
    const { status, body } = await place(changes)
    assert.is(status, 422, JSON.stringify(changes))
    assert.is(body.error, 'INVALID_CONTRACT')
    assert.equal(body.details, [{ path: `/body/${field}`, message: body.message }])
  }
  assert.is(simulator.ledger().length, before)
})

refusing('a barrier that is not one digit, as a broken field', async () => {
  assert.is((await place({ contractType: 'DIGITMATCH', barrier: '12' })).status, 400)
})

refusing('a trader that was never exchanged', async () => {
  // Also with a contract that cannot be: records are checked before rules.
  for (const changes of [{}, { contractType: 'DIGITOVER', barrier: '9' }]) {
    const { status, body } = await place({ traderExternalId: 'nobody', ...changes })
    assert.is(status, 404)
    assert.is(body.error, 'TRADER_NOT_FOUND')
  }
})

refusing("another partner's trader", async () => {
  const other = await harness.makePartner()
  const { body } = await other.call(placeBinaryOrder, { body: order() })
  assert.is(body.error, 'TRADER_NOT_FOUND')
})

refusing('an asset the broker does not know, an account without money, a closed market', async () => {
  assert.is((await place({ asset: 'NOPE' })).body.error, 'INVALID_CONTRACT')
  const accountId = newAccountId()
  const poor = await partner.makeTrader({ accountId, token: `sim-${accountId}-poor` })
  const broke = await place({ traderExternalId: poor.traderExternalId, stake: 100 })
  assert.is(broke.status, 422)
  assert.is(broke.body.error, 'INSUFFICIENT_BALANCE')
})

refusing('an account whose token the broker does not take, which then shows as rejected', async () => {
  const { traderExternalId } = await partner.makeTrader({ token: 'bad-token-000' })
  const { status, body } = await place({ traderExternalId })
  assert.is(status, 404)
  assert.is(body.error, 'BROKER_DISCONNECTED')
  assert.match(body.message, 'TOKEN_REFUSED')
  const { body: accounts } = await partner.call(listAccounts, { query: { traderExternalId } })
  assert.equal([accounts.data[0].status, accounts.data[0].reason], ['REJECTED', 'TOKEN_REFUSED'])
  const balance = await partner.call(getBalance, { query: { traderExternalId } })
  assert.is(balance.body.error, 'BROKER_DISCONNECTED')
  assert.match(balance.body.message, 'TOKEN_REFUSED')
  // Also for a contract that cannot be: records are checked before rules.
  const wrong = await place({ traderExternalId, contractType: 'DIGITOVER', barrier: '9' })
  assert.equal([wrong.status, wrong.body.error], [404, 'BROKER_DISCONNECTED'])
  assert.match(wrong.body.message, 'TOKEN_REFUSED')
})

refusing(
  'with the words of the broker, also where they have half of a surrogate pair or a bound cuts one in two',
  async () => {
    const { traderExternalId, accountId: loginid } = await partner.makeTrader()
    for (const [message, shown] of [
      ['No \ud83d here\u0000.', /^No � here/],
      [`${'x'.repeat(299)}😀`, /^x{299}�$/]
    ] as const) {
      simulator.faults.add({
        effect: 'error',
        code: 'ContractCreationFailure',
        call: 'buy',
        message,
        loginid,
        times: 1
      })
      const bought = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
      assert.equal([bought.status, bought.body.error], [422, 'INVALID_CONTRACT'])
      assert.match(bought.body.message, shown)
      simulator.faults.add({ effect: 'error', code: 'UnknownError', call: 'balance', message, loginid, times: 1 })
      const read = await partner.call(getBalance, { query: { traderExternalId } })
      assert.is(read.status, 502)
      assert.match(read.body.message, shown)
    }
  }
)

const placing = suite('POST /v1/orders/binary')

placing('returns a tick contract with its closed result, as the broker decided it', async () => {
  const { status, body } = await place()
  assert.is(status, 200)
  assert.is(body.status, 'CLOSED')
  const contract = contractsOf(trader.accountId).at(-1)
  assert.is(body.brokerOrderId, String(contract?.contractId))
  assert.is(body.pnl, Number(contract?.profit))
  assert.is(body.buyPrice, 1)
  assert.ok(body.entryPrice > 0 && body.exitPrice > 0)
})

placing('takes all eight contract types', async () => {
  for (const contractType of contractTypes) {
    const barrier = ['DIGITMATCH', 'DIGITDIFF', 'DIGITOVER', 'DIGITUNDER'].includes(contractType)
      ? { barrier: '5' }
      : {}
    const { status, body } = await place({ contractType, ...barrier })
    assert.is(status, 200, `${contractType}: ${JSON.stringify(body)}`)
    assert.is(body.status, 'CLOSED')
  }
})

placing('returns a timed contract as open, which settles by itself', async () => {
  // Long enough at a hundredth to be open when a busy machine returns it.
  const { status, body } = await place({ duration: 5, durationUnit: 'm' })
  assert.is(status, 200)
  assert.is(body.status, 'OPEN')
  assert.not.ok('pnl' in body)
  await until('the settlement', async () => {
    const { body: page } = await partner.call(listOrders, { query: { status: 'CLOSED', limit: 200 } })
    return page.data.find((entry: { orderId: string }) => entry.orderId === body.orderId)
  })
})

placing('waits for the settlement of a timed contract with waitForSettle', async () => {
  const { body } = await place({ duration: 1, durationUnit: 'm', waitForSettle: true })
  assert.is(body.status, 'CLOSED')
})

placing('takes the currency of the account from the broker when none was given', async () => {
  const { traderExternalId } = await partner.makeTrader({ currency: null })
  const { status, body } = await place({ traderExternalId })
  assert.is(status, 200, JSON.stringify(body))
})

const repeating = suite('the same clientOrderId')

repeating('returns the same order again and buys one contract', async () => {
  const body = order()
  const first = await partner.call(placeBinaryOrder, { body })
  const count = simulator.ledger().length
  const second = await partner.call(placeBinaryOrder, { body })
  assert.is(first.headers.get('idempotent-replayed'), null)
  assert.is(second.headers.get('idempotent-replayed'), 'true')
  assert.equal(second.body, first.body)
  assert.is(simulator.ledger().length, count)
})

repeating('sent twice at once buys one contract, and both get its result', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const body = order({ traderExternalId })
  const [a, b] = await Promise.all([partner.call(placeBinaryOrder, { body }), partner.call(placeBinaryOrder, { body })])
  assert.equal(a.body, b.body)
  assert.is(a.body.status, 'CLOSED')
  assert.is(contractsOf(accountId).length, 1)
})

repeating('with other parameters is a conflict that names the first order', async () => {
  const body = order()
  const first = await partner.call(placeBinaryOrder, { body })
  const second = await partner.call(placeBinaryOrder, { body: { ...body, stake: 2 } })
  assert.is(second.status, 409)
  assert.is(second.body.error, 'CLIENT_ORDER_ID_REUSED')
  assert.is(second.body.orderId, first.body.orderId)
})

repeating('with another waitForSettle is a repeat', async () => {
  const body = order({ duration: 15, durationUnit: 's' })
  await partner.call(placeBinaryOrder, { body })
  const second = await partner.call(placeBinaryOrder, { body: { ...body, waitForSettle: true } })
  assert.is(second.status, 200)
  assert.is(second.body.status, 'CLOSED')
})

repeating('returns the stored refusal again, marked as a replay', async () => {
  const body = order({ asset: 'NOPE' })
  const first = await partner.call(placeBinaryOrder, { body })
  const second = await partner.call(placeBinaryOrder, { body })
  assert.is(second.status, 422)
  assert.is(second.headers.get('idempotent-replayed'), 'true')
  assert.is(second.body.message, first.body.message)
})

repeating('of two partners is two orders', async () => {
  const other = await harness.makePartner()
  const { traderExternalId } = await other.makeTrader()
  const body = order()
  const mine = await partner.call(placeBinaryOrder, { body })
  const theirs = await other.call(placeBinaryOrder, { body: { ...body, traderExternalId } })
  assert.is.not(mine.body.orderId, theirs.body.orderId)
})

const closing = suite('POST /v1/orders/{id}/close')

closing("refuses an unknown order and another partner's alike", async () => {
  const other = await harness.makePartner()
  const { body } = await place({ duration: 1, durationUnit: 'd' })
  const unknown = await partner.call(closeOrder, { params: { id: 'ord_00000000000000000000000000' } })
  const theirs = await other.call(closeOrder, { params: { id: body.orderId } })
  assert.is(unknown.status, 404)
  assert.is(theirs.status, 404)
  assert.is(unknown.body.error, theirs.body.error)
})

closing('sells an open contract and returns it closed, the second time as well', async () => {
  const { body } = await place({ duration: 1, durationUnit: 'd' })
  await until('a sellable contract', async () => {
    const response = await partner.call(closeOrder, { params: { id: body.orderId } })
    if (response.status !== 200) return false
    assert.is(response.body.status, 'CLOSED')
    assert.type(response.body.pnl, 'number')
    return true
  })
  const again = await partner.call(closeOrder, { params: { id: body.orderId } })
  assert.is(again.status, 200)
  assert.is(again.body.status, 'CLOSED')
})

closing('returns a contract that settled already', async () => {
  const { body } = await place()
  assert.equal((await partner.call(closeOrder, { params: { id: body.orderId } })).body, body)
})

const listing = suite('GET /v1/orders')

listing('pages newest first without a gap or a repeat while new orders arrive', async () => {
  const owner = await harness.makePartner()
  const { traderExternalId } = await owner.makeTrader()
  const placed: string[] = []
  const add = async () => {
    const { body } = await owner.call(placeBinaryOrder, { body: order({ traderExternalId, duration: 1 }) })
    placed.unshift(body.orderId)
  }
  for (let count = 0; count < 5; count++) await add()
  const before = [...placed]
  const seen: string[] = []
  let cursor: string | null = null
  do {
    const page: { data: { orderId: string }[]; nextCursor: string | null } = (
      await owner.call(listOrders, { query: { limit: 2, ...(cursor ? { cursor } : {}) } })
    ).body
    seen.push(...page.data.map(({ orderId }) => orderId))
    cursor = page.nextCursor
    await add()
  } while (cursor)
  assert.equal(seen, before)
})

listing('filters by trader and by status, and refuses a broken cursor or limit', async () => {
  const { body } = await partner.call(listOrders, {
    query: { status: 'FAILED', traderExternalId: trader.traderExternalId }
  })
  assert.ok(body.data.length > 0)
  assert.ok(body.data.every((entry: { status: string; error: object }) => entry.status === 'FAILED' && entry.error))
  for (const query of [{ cursor: 'nonsense' }, { limit: 0 }, { limit: 201 }, { limit: 'x' }, { status: 'DONE' }]) {
    assert.is((await partner.call(listOrders, { query: query as never })).status, 400, JSON.stringify(query))
  }
})

listing("never shows another partner's orders", async () => {
  const other = await harness.makePartner()
  assert.equal((await other.call(listOrders, { query: {} })).body, { data: [], nextCursor: null })
  // A trader of its own by that name; before it is exchanged there is none.
  const query = { traderExternalId: trader.traderExternalId }
  const { status, body } = await other.call(listOrders, { query })
  assert.equal([status, body.error], [404, 'TRADER_NOT_FOUND'])
  await other.makeTrader({ externalId: trader.traderExternalId })
  assert.equal((await other.call(listOrders, { query })).body, { data: [], nextCursor: null })
})

const accounts = suite('broker accounts')

accounts('the exchange keeps the active account and other tokens, and refuses a double', async () => {
  const [one, two] = [newAccountId(), newAccountId()]
  const externalId = randomUUID()
  const account = (accountId: string) => ({
    accountId,
    token: `sim-${accountId}`,
    accountMode: 'DEMO',
    currency: 'USD'
  })
  const first = await partner.call(exchangeTokens, {
    body: { traderExternalId: externalId, accounts: [account(one), account(two)] }
  })
  assert.is(first.body.activeAccountId, one)
  const switched = await partner.call(activateAccount, { body: { traderExternalId: externalId, accountId: two } })
  assert.is(switched.body.activeAccountId, two)
  const again = await partner.call(exchangeTokens, { body: { traderExternalId: externalId, accounts: [account(one)] } })
  assert.is(again.body.activeAccountId, two)
  assert.is(again.body.traderId, first.body.traderId)
  const { body } = await partner.call(listAccounts, { query: { traderExternalId: externalId } })
  assert.equal(
    body.data.map((entry: { accountId: string; active: boolean }) => [entry.accountId, entry.active]),
    [
      [one, false],
      [two, true]
    ]
  )
  const double = await partner.call(exchangeTokens, {
    body: { traderExternalId: externalId, accounts: [account(one), account(one)] }
  })
  assert.is(double.status, 400)
  assert.is(double.body.details[0].path, '/body/accounts/1/accountId')
  const unknown = await partner.call(activateAccount, { body: { traderExternalId: externalId, accountId: 'VRTC0' } })
  assert.is(unknown.body.error, 'ACCOUNT_NOT_FOUND')
})

accounts('the balance is read live for the active account', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const before = await partner.call(getBalance, { query: { traderExternalId } })
  assert.equal(before.body, { accountId, accountMode: 'DEMO', balance: 10000, currency: 'USD' })
  const { body } = await place({ traderExternalId })
  const after = await partner.call(getBalance, { query: { traderExternalId } })
  assert.is(after.body.balance, Math.round((10000 + body.pnl) * 100) / 100)
})

accounts('no token ever reaches a response, the database in clear, or a job', async () => {
  const accountId = newAccountId()
  const token = `sim-${accountId}-findme`
  await partner.makeTrader({ accountId, token })
  const { rows } = await harness.services.db.raw(
    `select count(*) as hits from broker_accounts a where a::text like ?`,
    [`%${token}%`]
  )
  assert.is(rows[0].hits, 0)
  const jobs = await harness.services.db.raw(`select count(*) as hits from pgboss.job j where j::text like ?`, [
    `%${token}%`
  ])
  assert.is(jobs.rows[0].hits, 0)
})

accounts.after(closeAll)
for (const tests of [refusing, placing, repeating, closing, listing, accounts]) tests.run()

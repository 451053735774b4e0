// test in a process of its own
// test once for each dialect
// Orders in doubt where the broker's lists differ in what they show of a contract: what its schemas let one leave out,
// another may have.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { reconcile as decide } from '../../cli/orders/doubt.ts'
import type { Opened } from '../../cli/terminal/context.ts'
import { listBreaks } from '../../db/orders/reconciliation.ts'
import { reconcileAccounts } from '../../worker/accounts/reconciliation.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { openRelay } from '../broker/broker-relay.ts'
import { appIds, brokerEnv, dialect } from '../support/dialects.ts'
import { soonInDoubt } from '../support/doubt-settings.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

/** The fields that every row of the statement has as null, and those that every row of a list lacks. */
let nulls: string[] = []
let lacks: string[] = []
/** What every row of a list has as well, and those of the list of closed contracts alone. */
let more = {}
let closedMore = {}
/** Seconds by which the times of purchases are behind the clock of the broker. */
let behind = 0
/** Rows that the statement has beside its own. */
let besides: unknown[] = []
/** What becomes of the receipt of a purchase. */
let receipt: ((buy: object) => object) | null = null
/** What the broker says its time is, where that is not its own. */
let timeOf: ((seconds: number) => object) | null = null
/** How many lists came without their rows, where they do. */
let withoutRows: number | null = null
/** The rows that a page has at most, whatever was asked for. */
let mostRows = Infinity
const simulator = await startSimulator({ tickMs: 10, seed: 3, limits: 'off' })
const earlier = (text: string) =>
  text.replace(
    /("(?:purchase|transaction|start)_time":|_)(1\d{9})\b(?!\.)/g,
    (_, before, time) => `${before}${time - behind}`
  )
const relay = await openRelay(simulator, sent => {
  if (timeOf !== null && sent.time !== undefined) return { ...sent, ...timeOf(Number(sent.time)) }
  if (receipt !== null && sent.buy !== undefined) return { ...sent, ...receipt(sent.buy as object) }
  const frame = behind === 0 ? sent : JSON.parse(earlier(JSON.stringify(sent)))
  const list = ['portfolio', 'statement', 'profit_table'].find(each => frame[each] !== undefined)
  if (list === undefined) return frame
  if (withoutRows !== null) withoutRows += 1
  const changes = Object.fromEntries(list === 'statement' ? nulls.map(field => [field, null]) : [])
  const rowsOf = ([name, rows]: [string, unknown]) =>
    Array.isArray(rows)
      ? [
          name,
          rows
            .map((row): unknown =>
              without({ ...row, ...changes, ...more, ...(list === 'profit_table' ? closedMore : {}) }, lacks)
            )
            .concat(list === 'statement' ? besides : [])
            .filter((_, index) => withoutRows === null && index < mostRows)
        ]
      : [name, rows]
  const body = Object.fromEntries(Object.entries(frame[list] as object).map(rowsOf))
  if (body.count > mostRows) body.count = mostRows
  return { ...frame, [list]: body }
})
const without = (row: object, fields: string[]) =>
  Object.fromEntries(Object.entries(row).filter(([field]) => !fields.includes(field)))
onClose(() => {
  relay.close()
  return simulator.close()
})
// No purchase is in doubt for want of time: each that is has its connection cut.
const harness = await openHarness({
  env: { ...brokerEnv(relay), ...soonInDoubt, BROKER_ANSWER_TIMEOUT_MS: '20000' }
})
const worker = await startTestWorker(harness.env)
const partner = await harness.makePartner()

const contractsOf = (accountId: string) => simulator.ledger().filter(({ loginid }) => loginid === accountId)

const lists = suite('an order in doubt, by lists that differ')

lists('is found where the statement has neither the code nor the payout of its contract', async () => {
  nulls = ['shortcode', 'payout', ...(dialect === 'v3' ? ['app_id'] : [])]
  const { traderExternalId, accountId } = await partner.makeTrader()
  simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
  const { status, body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  assert.is(status, 200, JSON.stringify(body))
  const [contract] = contractsOf(accountId)
  assert.equal(
    [body.status, body.brokerOrderId, body.potentialPayout],
    ['CLOSED', String(contract?.contractId), Number(contract?.payout)]
  )
})

lists('is found where the statement does not show the id of its contract', async () => {
  ;[nulls, lacks] = [['contract_id'], []]
  const { traderExternalId, accountId } = await partner.makeTrader()
  simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
  const { status, body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  const [contract] = contractsOf(accountId)
  assert.equal([status, body.status, body.brokerOrderId], [200, 'CLOSED', String(contract?.contractId)])
})

for (const payout of [0.5, 3, 5000])
  lists(`settles where the lists show a payout of ${payout}, which cannot be true`, async () => {
    ;[nulls, lacks, more] = [[], [], { payout }]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
    const { status, body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    more = {}
    const [contract] = contractsOf(accountId)
    const pays = Number(contract?.payout)
    assert.equal([status, body.status, body.potentialPayout], [200, 'CLOSED', pays], JSON.stringify(body))
  })

lists('is found where no list has the time of a purchase, nor its transaction', async () => {
  ;[nulls, lacks] = [[], ['purchase_time', 'transaction_time', 'transaction_id']]
  const { traderExternalId, accountId } = await partner.makeTrader()
  simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
  const { status, body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  const [contract] = contractsOf(accountId)
  assert.equal([status, body.status, body.brokerOrderId], [200, 'CLOSED', String(contract?.contractId)])
})

// The newer dialect has no application in any list.
if (dialect === 'v3')
  lists('leaves a contract alone that one list shows as of another application, and one as of none', async () => {
    ;[nulls, lacks] = [['app_id'], []]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'drop-before', call: 'buy', loginid: accountId, times: 1 })
    const order = tickOrder(traderExternalId)
    const response = partner.call(placeBinaryOrder, { body: order })
    await until('the buy', () => simulator.faults.settings.rules.every(({ loginid }) => loginid !== accountId))
    const session = await worker.services.brokers
      .of(dialect)
      .session({ accountId, appId: '99', credentialId: 'beside', token: async () => `sim-${accountId}` })
    const { asset, contractType, stake, duration } = order
    const terms = { asset, contractType, stake: String(stake), duration, durationUnit: 't', barrier: null } as const
    await session.buy({ kind: 'BINARY', currency: 'USD', ...terms }, { beforeSend() {}, maxPrice: String(stake) })
    const { body } = await response
    assert.is(body.status, 'FAILED', JSON.stringify(body))
  })

// There an open contract counts as the service's only beside an order that was sent.
if (dialect === 'v3')
  lists(
    'is audited, too, where no row of the statement names its type: an open contract without an order is found',
    async () => {
      ;[nulls, lacks] = [[], ['action_type']]
      const { traderExternalId, accountId } = await partner.makeTrader()
      await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
      const session = await worker.services.brokers
        .of(dialect)
        .session({ accountId, appId: appIds.v3, credentialId: 'beside', token: async () => `sim-${accountId}` })
      const terms = {
        asset: 'R_100',
        contractType: 'CALL',
        stake: '10',
        duration: 1,
        durationUnit: 'h',
        barrier: null
      } as const
      await session.buy({ kind: 'BINARY', currency: 'USD', ...terms }, { beforeSend() {}, maxPrice: '11' })
      const { orphans } = await reconcileAccounts(worker.services, { everyMinutes: 0, all: true })
      assert.is(orphans, 1)
    }
  )

// Rows of the newer dialect name no application.
if (dialect === 'v3')
  lists(
    'is audited, too, where a closed contract without an order is listed as of the broker that settled it',
    async () => {
      ;[nulls, lacks, closedMore] = [[], [], { app_id: 2 }]
      const { traderExternalId, accountId } = await partner.makeTrader()
      await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
      const session = await worker.services.brokers
        .of(dialect)
        .session({ accountId, appId: appIds.v3, credentialId: 'beside', token: async () => `sim-${accountId}` })
      const terms = { asset: 'R_100', contractType: 'CALL', stake: '10', duration: 1, durationUnit: 't' } as const
      const contract = { kind: 'BINARY', currency: 'USD', barrier: null, ...terms } as const
      const { contractId } = await session.buy(contract, { beforeSend() {}, maxPrice: '11' })
      await until('the end of the contract', async () => (await session.contract(contractId)).settled)
      await reconcileAccounts(worker.services, { everyMinutes: 0, all: true })
      closedMore = {}
      const found = (await listBreaks(worker.services.db, 100)).filter(each => each.accountId === accountId)
      assert.equal(
        found.map(each => [each.kind, each.contractId]),
        [['ORPHAN', contractId]]
      )
    }
  )

lists('by frames that the schemas allow', () => {
  assert.equal(relay.complaints, [])
})

// Not by the schemas, but by other documents of that dialect.
if (dialect === 'next')
  lists('is found where rows name an application by an id that is not the one it has here', async () => {
    ;[nulls, lacks, more] = [[], [], { app_id: 12_345 }]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
    const { status, body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    const [contract] = contractsOf(accountId)
    assert.equal([status, body.status, body.brokerOrderId], [200, 'CLOSED', String(contract?.contractId)])
  })

for (const [what, { lacking = [], garbage = {} }] of Object.entries<{ lacking?: string[]; garbage?: object }>({
  'lists show no price': { lacking: ['buy_price', 'amount'] },
  'lists show garbage for its price': { garbage: { buy_price: 'one', amount: { USD: -1 } } },
  'lists show garbage for its time': { garbage: { purchase_time: 'today', transaction_time: 1.7e12 } },
  'lists show neither time nor code': { lacking: ['purchase_time', 'transaction_time', 'shortcode'] }
}))
  lists(`is found by the contract itself where ${what}`, async () => {
    ;[nulls, lacks, more] = [[], lacking, garbage]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
    const { status, body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    const [contract] = contractsOf(accountId)
    assert.equal(
      [status, body.status, body.brokerOrderId, body.buyPrice],
      [200, 'CLOSED', String(contract?.contractId), 1],
      JSON.stringify(body)
    )
  })

for (const [what, row] of Object.entries({
  'a row that shows nothing': {},
  'a row that is no object': 'none',
  'a purchase without a contract': { action_type: 'buy', amount: -1 }
}))
  lists(`is for the operator beside ${what}; the others of its account, and their contracts, are not`, async () => {
    ;[nulls, lacks, more, besides] = [[], [], {}, [row]]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'drop-before', call: 'buy', loginid: accountId, times: 1 })
    const order = tickOrder(traderExternalId)
    const response = await partner.call(placeBinaryOrder, { body: order })
    assert.equal([response.body.error, response.body.status], ['BROKER_UPSTREAM', 'PENDING'], JSON.stringify(response))
    const [{ error_message: why }] = await worker.services
      .db('orders')
      .where({ client_order_id: order.clientOrderId })
      .select('error_message')
    assert.match(why, /Not shown of each: its id, .*its time, its terms/)
    const next = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    assert.equal([next.status, next.body.status], [200, 'CLOSED'])
    besides = []
  })

lists('is not absent while lists count rows that they do not have, and found once they have them', async () => {
  ;[nulls, lacks, more, withoutRows] = [[], [], {}, 0]
  const { traderExternalId, accountId } = await partner.makeTrader()
  simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
  const response = partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  // Of three lists in a check; two checks prove absence.
  await Promise.race([response, until('the checks', () => Number(withoutRows) > 12)])
  withoutRows = null
  const { body } = await response
  const [contract] = contractsOf(accountId)
  assert.equal([body.status, body.brokerOrderId], ['CLOSED', String(contract?.contractId)], JSON.stringify(body))
})

// With the newer dialect the others make it a doubt, as it names no application.
if (dialect === 'v3')
  lists('is not absent where the broker cuts pages short and its contract is on the second one', async () => {
    ;[nulls, lacks, more, withoutRows, mostRows] = [[], [], {}, 0, 50]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
    const response = partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    await until('its purchase', () => contractsOf(accountId).length === 1)
    const session = await worker.services.brokers
      .of(dialect)
      .session({ accountId, appId: '99', credentialId: 'beside', token: async () => `sim-${accountId}` })
    const terms = {
      asset: 'R_50',
      contractType: 'CALL',
      stake: '1',
      duration: 1,
      durationUnit: 't',
      barrier: null
    } as const
    for (let bought = 0; bought < 60; bought++)
      await session.buy({ kind: 'BINARY', currency: 'USD', ...terms }, { beforeSend() {}, maxPrice: '1' })
    // Not by the list of open contracts: the checks need its calls.
    await until('their ends', () => contractsOf(accountId).every(({ status }) => status !== 'open'))
    withoutRows = null
    const { body } = await response
    mostRows = Infinity
    const [contract] = contractsOf(accountId)
    assert.equal([body.status, body.brokerOrderId], ['CLOSED', String(contract?.contractId)], JSON.stringify(body))
  })

// There a contract counts as the service's only beside an order of its terms.
if (dialect === 'v3')
  lists('hides no contract of other terms that no order owns, however long it waits for the operator', async () => {
    ;[nulls, lacks, more, besides] = [[], [], {}, [{ action_type: 'buy' }]]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'drop-before', call: 'buy', loginid: accountId, times: 1 })
    const { body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    assert.is(body.status, 'PENDING')
    besides = []
    const session = await worker.services.brokers
      .of(dialect)
      .session({ accountId, appId: appIds.v3, credentialId: 'beside', token: async () => `sim-${accountId}` })
    const buy = async (changes: object) => {
      const terms = { asset: 'R_100', contractType: 'CALL', stake: '1', duration: 1, durationUnit: 't', ...changes }
      const contract = { kind: 'BINARY', currency: 'USD', barrier: null, ...terms } as const
      return (await session.buy(contract as never, { beforeSend() {}, maxPrice: '1' })).contractId
    }
    // This one may be the order's.
    await buy({})
    const contractId = await buy({ duration: 1, durationUnit: 'h' })
    await reconcileAccounts(worker.services, { everyMinutes: 0, all: true })
    const found = (await listBreaks(worker.services.db, 100)).filter(each => each.accountId === accountId)
    assert.equal(
      found.map(each => [each.kind, each.contractId]),
      [['ORPHAN', contractId]]
    )
  })

lists('is not absent where the times of its purchase are hours behind the clock of the broker', async () => {
  ;[nulls, lacks, more, behind] = [[], [], {}, 5 * 3600]
  const { traderExternalId, accountId } = await partner.makeTrader()
  await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId, { contractType: 'PUT' }) })
  simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
  const { body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  assert.is(body.status, 'PENDING', JSON.stringify(body))
  behind = 0
})

for (const [what, set, lacking] of [
  ['its price', { price: 100, parameters: { amount: 5 } }, []],
  ['its type', { parameters: { contract_type: 'PUT' } }, []],
  ['its type, which no list shows,', { parameters: { contract_type: 'PUT' } }, ['shortcode']],
  ['its asset', { parameters: { symbol: 'R_50' } }, []],
  ['its length', { parameters: { duration: 2 } }, []]
] as const)
  lists(`is not absent where the broker has altered ${what} and its receipt is lost`, async () => {
    ;[nulls, lacks, more] = [[], [...lacking], {}]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'altered', call: 'buy', loginid: accountId, times: 1, set })
    receipt = () => ({ buy: undefined, error: { code: 'Timeout', message: 'Time-out.' } })
    const order = tickOrder(traderExternalId)
    const { body } = await partner.call(placeBinaryOrder, { body: order })
    receipt = null
    assert.is(body.status, 'PENDING', JSON.stringify(body))
    const { error_message: why } = await worker.services.db('orders').where({ id: body.orderId }).first()
    assert.match(why, /Of other terms than the order, which the broker may have altered: 1/)
    assert.is(contractsOf(accountId).length, 1)
  })

lists('is found where its receipt names the contract of another order', async () => {
  ;[nulls, lacks, more] = [[], [], {}]
  const { traderExternalId, accountId } = await partner.makeTrader()
  const first = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  receipt = buy => ({ buy: { ...buy, contract_id: Number(first.body.brokerOrderId) } })
  const { body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  receipt = null
  assert.equal(
    [first, { body }].map(each => each.body.brokerOrderId),
    contractsOf(accountId).map(({ contractId }) => String(contractId)),
    JSON.stringify(body)
  )
})

lists('is adopted by hand where no list shows the id of its contract, by the id that the operator knows', async () => {
  ;[nulls, lacks, more] = [[], ['contract_id'], {}]
  const { traderExternalId, accountId } = await partner.makeTrader()
  simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
  const { body } = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  assert.is(body.status, 'PENDING', JSON.stringify(body))
  const reconcile = (...args: string[]) => operator(harness.env, 'orders', 'reconcile', body.orderId, ...args, '--json')
  const { data } = JSON.parse((await reconcile()).stdout)
  const row = data[0].contractId
  assert.is((await reconcile('--adopt', row, '--yes')).exitCode, 2)
  // As the console does it.
  const { db, config } = worker.services
  const opened = {
    db,
    config,
    url: harness.url,
    actor: 'test',
    note() {},
    confirm: async () => {}
  } as unknown as Opened
  const refusal = await decide(opened, { order: body.orderId, adopt: row }).catch(({ message }: Error) => message)
  assert.is(
    refusal,
    `The broker shows no id of the contract in ${row}; where you know it, name it with orders reconcile --adopt.`
  )
  assert.is((await reconcile('--adopt', '12345', '--yes')).exitCode, 1)
  const [contract] = contractsOf(accountId)
  const adopted = await reconcile('--adopt', String(contract?.contractId), '--yes')
  assert.is(adopted.exitCode, 0, adopted.stdout + adopted.stderr)
  const order = () => worker.services.db('orders').where({ id: body.orderId }).first()
  await until('the end of the contract', async () => (await order()).phase === 'closed')
  assert.equal(
    [(await order()).broker_order_id, Number((await order()).pnl)],
    [String(contract?.contractId), Number(contract?.profit)]
  )
  lacks = []
})

for (const payout of [0.5, 3, 5000])
  lists(`is adopted by hand and settles where the lists show a payout of ${payout}, which cannot be true`, async () => {
    ;[nulls, lacks, more, besides] = [[], [], { payout }, [{ action_type: 'buy', amount: -1 }]]
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
    const order = tickOrder(traderExternalId)
    const { body } = await partner.call(placeBinaryOrder, { body: order })
    assert.is(body.status, 'PENDING', JSON.stringify(body))
    const [contract] = contractsOf(accountId)
    const adopt = ['orders', 'reconcile', body.orderId, '--adopt', String(contract?.contractId), '--yes', '--json']
    const adopted = await operator(harness.env, ...adopt)
    ;[more, besides] = [{}, []]
    assert.is(adopted.exitCode, 0, adopted.stdout + adopted.stderr)
    const again = await partner.call(placeBinaryOrder, { body: order })
    assert.equal(
      [again.status, again.body.status, again.body.potentialPayout],
      [200, 'CLOSED', Number(contract?.payout)],
      JSON.stringify(again.body)
    )
  })

// The clock is read once a minute for each application: each of these has one of its own.
for (const [index, [what, time]] of Object.entries<(seconds: number) => object>({
  'in milliseconds': seconds => ({ time: seconds * 1000 }),
  'as a text': () => ({ time: 'now' }),
  'as a call that it does not know': () => ({ time: undefined, error: { code: 'UnrecognisedRequest', message: '?' } }),
  'of the day after tomorrow': seconds => ({ time: seconds + 2 * 86_400 })
}).entries())
  lists(`is not absent where the broker shows its time ${what}, and one that was not bought is`, async () => {
    ;[nulls, lacks, more, timeOf] = [[], [], {}, time]
    const another = await harness.makePartner()
    const app = dialect === 'v3' ? `77${index}` : `app-time${index}`
    await worker.services.db('partners').where({ id: another.partnerId }).update({ broker_app_id: app })
    const place = async (effect: 'drop-after' | 'drop-before') => {
      const { traderExternalId, accountId } = await another.makeTrader()
      simulator.faults.add({ effect, call: 'buy', loginid: accountId, times: 1 })
      const order = tickOrder(traderExternalId)
      const { body } = await another.call(placeBinaryOrder, { body: order })
      const { error_message: why } = await worker.services
        .db('orders')
        .where({ client_order_id: order.clientOrderId })
        .first()
      return [body.status, /The time that the broker reports cannot be read/.test(why)]
    }
    const placed = await Promise.all([place('drop-after'), place('drop-before')])
    timeOf = null
    assert.equal(placed, [
      ['PENDING', what !== 'of the day after tomorrow'],
      ['FAILED', false]
    ])
  })

lists('is absent or found as ever beside a row of other terms whose price and time are garbage', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const beside = {
    contract_id: 4711,
    shortcode: 'DIGITEVEN_R_100_1.95_1700000000_5T',
    amount: '?',
    transaction_time: '?'
  }
  besides = [{ action_type: 'buy', ...beside }]
  // In the newer dialect another purchase shows that somebody else trades on the account.
  if (dialect === 'v3') {
    simulator.faults.add({ effect: 'drop-after', call: 'buy', loginid: accountId, times: 1 })
    const found = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
    assert.equal([found.status, found.body.status], [200, 'CLOSED'], JSON.stringify(found))
  }
  simulator.faults.add({ effect: 'drop-before', call: 'buy', loginid: accountId, times: 1 })
  const absent = await partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
  assert.is(absent.body.status, 'FAILED', JSON.stringify(absent))
  besides = []
})

lists.after(closeAll)
lists.run()

// test in the full run only
// One order through all rooms, as processes: two APIs, workers, PostgreSQL and the simulated broker, each on
// its own; with a worker killed, and with none at all. In one dialect: the others' files speak both. TEST_DIALECT=next tries
// the other.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { call, closeAll, onClose, openHarness, type TestResponse, until } from '../support/harness.ts'
import { startApi, startWorker, type TestProcess } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 20, seed: 11, limits: 'off', timeScale: 100 })
onClose(() => simulator.close())
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator),
    ORDER_TTL_MS: '60000',
    LEASE_MS: '1500',
    SWEEP_MS: '300',
    SETTLE_WAIT_MS: '90000'
  }
})
const apis = await Promise.all([startApi(harness.env), startApi(harness.env)])
const partner = await harness.makePartner()
const authorization = `Bearer ${partner.key}`

const order = (traderExternalId: string, changes: object = {}) =>
  tickOrder(traderExternalId, { asset: 'R_50', contractType: 'DIGITEVEN', duration: 2, ...changes })
// biome-ignore lint/suspicious/noExplicitAny: read field by field
const send = (api: number, body: object): Promise<TestResponse<any>> =>
  call((apis[api] as { address: string }).address, placeBinaryOrder, { body, headers: { authorization } })

/** Those that run; each test finds the ones of the test before it. */
const workers: TestProcess[] = []
async function startWorkers(count: number): Promise<void> {
  workers.push(...(await Promise.all(Array.from({ length: count }, () => startWorker(harness.env)))))
}

const alone = suite('no worker')

alone('a request gets 502 within its time to live, nothing is placed, and the same id places once later', async () => {
  const impatient = await openHarness({ url: harness.url, env: { ...harness.env, ORDER_TTL_MS: '600' } })
  const { traderExternalId, accountId } = await partner.makeTrader()
  const body = order(traderExternalId)
  const startedAt = performance.now()
  const response = await call(impatient.address, placeBinaryOrder, { body, headers: { authorization } })
  assert.is(response.status, 502)
  assert.is(response.body.error, 'BROKER_UPSTREAM')
  assert.is(response.body.status, 'FAILED')
  // Where only its settlement ended the wait, it would take longer than that on any machine.
  assert.ok(performance.now() - startedAt < 45_000)
  await startWorkers(1)
  const again = await send(0, body)
  assert.is(again.status, 200, JSON.stringify(again.body))
  assert.is(again.body.orderId, response.body.orderId)
  assert.is(simulator.ledger().filter(({ loginid }) => loginid === accountId).length, 1)
})

const many = suite('200 orders at once, each sent twice, over two APIs and three workers')

many('buy 200 contracts, return the same to each pair, and every result as the broker has it', async () => {
  await startWorkers(2)
  const before = simulator.ledger().length
  const traders = await Promise.all(Array.from({ length: 50 }, () => partner.makeTrader()))
  const bodies = Array.from({ length: 200 }, (_, index) =>
    order((traders[index % 50] as { traderExternalId: string }).traderExternalId)
  )
  const responses = await Promise.all(bodies.flatMap(body => [send(0, body), send(1, body)]))
  const ledger = simulator.ledger().slice(before)
  assert.is(ledger.length, 200)
  const contracts = new Map(ledger.map(entry => [String(entry.contractId), entry]))
  for (let index = 0; index < responses.length; index += 2) {
    const [a, b] = [responses[index], responses[index + 1]] as [TestResponse, TestResponse]
    assert.is(a.status, 200, JSON.stringify(a.body))
    assert.equal(a.body, b.body)
    const contract = contracts.get(a.body.brokerOrderId as string)
    assert.is(a.body.status, 'CLOSED')
    assert.is(a.body.pnl, Number(contract?.profit))
    assert.is(a.body.entryPrice, Number(contract?.entry))
    assert.is(a.body.exitPrice, Number(contract?.exit))
    contracts.delete(a.body.brokerOrderId as string)
  }
  assert.is(contracts.size, 0)
  // One is left for what comes next.
  const leaving = workers.splice(1)
  for (const worker of leaving) worker.kill('SIGTERM')
  assert.equal(await Promise.all(leaving.map(({ ended }) => ended)), [0, 0])
})

const killed = suite('a worker killed with SIGKILL')

killed('leaves its open orders to another, which settles them; no contract is doubled', async () => {
  const [first] = workers as [TestProcess]
  const traders = await Promise.all(Array.from({ length: 20 }, () => partner.makeTrader()))
  const before = simulator.ledger().length
  // Ten minutes at a hundredth: bought before the kill, on a busy machine as well, and settled after it.
  const opened = await Promise.all(
    traders.map(({ traderExternalId }) =>
      send(0, order(traderExternalId, { contractType: 'CALL', duration: 10, durationUnit: 'm' }))
    )
  )
  assert.ok(opened.every(({ body }) => body.status === 'OPEN'))
  first.kill('SIGKILL')
  await first.ended
  await startWorker(harness.env)
  const ids = new Set(opened.map(({ body }) => body.orderId as string))
  await until(
    'all settlements',
    async () => {
      const { body } = await partner.call(listOrders, { query: { status: 'CLOSED', limit: 200 } })
      return body.data.filter(({ orderId }: { orderId: string }) => ids.has(orderId)).length === ids.size
    },
    20_000
  )
  assert.is(simulator.ledger().length - before, 20)
})

killed.after(closeAll)
for (const tests of [alone, many, killed]) tests.run()

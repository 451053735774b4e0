// Stopping in order, with work under way: SIGTERM to an API and to a worker under load completes what can be
// completed, leaves no lease and no doubt behind and ends with exit code 0; a second signal ends hard, and loses
// nothing either. In one dialect: stopping is the same in both. TEST_DIALECT=next tries the other.
// test in the full run only
// test time-out: 600 s
import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { rows } from '../../db/postgres/connection.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { audit, booksOf, readOrders, readReported, summary } from '../support/auditor.ts'
import { brokerEnv } from '../support/dialects.ts'
import { call, checkResponse, closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { startApi, startWorker, type TestProcess } from '../support/processes.ts'

const RECONCILE_AFTER_MS = 3000
const simulator = await startSimulator({ tickMs: 40, seed: 5, limits: 'off', timeScale: 10, latencyMs: 30 })
onClose(() => simulator.close())
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator),
    ORDER_TTL_MS: '20000',
    PERMIT_MS: '1500',
    BROKER_ANSWER_TIMEOUT_MS: '2500',
    RECONCILE_AFTER_MS: String(RECONCILE_AFTER_MS),
    RECONCILE_CRASHED_MS: '5000',
    LEASE_MS: '3000',
    SWEEP_MS: '200'
  }
})
const { db } = harness.services
const partner = await harness.makePartner()
const traders = await Promise.all(Array.from({ length: 40 }, () => partner.makeTrader()))

interface SentRequest {
  clientOrderId: string
  response?: { status: number; body: Record<string, unknown> }
  lost?: string
}

/** Sends orders from 40 clients, one after another each, until stopped; every response must keep the contract. */
function startLoad(address: string, { keepAlive, duration = 3 }: { keepAlive: boolean; duration?: number }) {
  const sent: SentRequest[] = []
  const agent = new Agent({ keepAlive, maxSockets: 200 })
  let stopped = false
  const client = async (trader: TestTrader) => {
    while (!stopped) {
      const order: SentRequest = { clientOrderId: randomUUID() }
      sent.push(order)
      await place(address, agent, { trader, order, duration })
      // A server that is gone responds to nobody any more.
      if (order.lost) return
    }
  }
  const clients = Promise.all(traders.map(client))
  return {
    sent,
    async stop() {
      stopped = true
      await clients
      agent.destroy()
    }
  }
}

function place(
  address: string,
  agent: Agent,
  { trader, order, duration }: { trader: TestTrader; order: SentRequest; duration: number }
): Promise<void> {
  const { traderExternalId } = trader
  const { clientOrderId } = order
  const terms = { asset: 'R_50', contractType: 'CALL', stake: 1, duration, durationUnit: 't' }
  const body = JSON.stringify({ traderExternalId, clientOrderId, ...terms })
  return new Promise(done => {
    const lost = (error: NodeJS.ErrnoException) => {
      order.lost = error.code ?? error.message
      done()
    }
    const headers = { authorization: `Bearer ${partner.key}`, 'content-type': 'application/json' }
    const req = request(`${address}${placeBinaryOrder.path}`, { method: 'POST', agent, headers }, response => {
      let text = ''
      response.setEncoding('utf8').on('data', chunk => {
        text += chunk
      })
      response.on('error', lost)
      response.on('end', () => {
        if (!response.complete) return lost(new Error('cut off'))
        const received = { status: response.statusCode as number, body: JSON.parse(text) as Record<string, unknown> }
        order.response = received
        const seen = { status: received.status, headers: new Headers(response.headers as Record<string, string>) }
        checkResponse(placeBinaryOrder, seen, received.body)
        done()
      })
    })
    req.on('error', lost)
    req.end(body)
  })
}

/** In order, and so within the 25 s after which a process ends itself with another code. */
async function endInOrder(process: TestProcess): Promise<void> {
  process.kill('SIGTERM')
  assert.is(await process.ended, 0, process.lines.slice(-5).join('\n'))
}

/** Reads balances all along until stopped: what a worker does beside orders. */
function startReads(address: string) {
  const statuses: number[] = []
  const headers = { authorization: `Bearer ${partner.key}` }
  let stopped = false
  const reading = (async () => {
    // In turn, so that no account's budget is used up.
    for (let turn = 0; !stopped; turn++) {
      const { traderExternalId } = traders[turn % traders.length] as TestTrader
      statuses.push((await call(address, getBalance, { query: { traderExternalId }, headers })).status)
    }
  })()
  return {
    async stop() {
      stopped = true
      await reading
      return statuses
    }
  }
}

/** Once no worker is left: no order is followed by one that is gone, no job is kept from the next one. */
async function assertNothingHeld(): Promise<void> {
  const followed = await rows(
    db,
    `select id, phase, lease_holder from orders where lease_holder is not null and phase = 'open'`
  )
  assert.equal(followed, [])
  const held = await rows(
    db,
    `select name, count(*)::int as count from pgboss.job
      where state = 'active' and name in ('order.place', 'ask', 'copy.fanout', 'template.deploy') group by name`
  )
  assert.equal(held, [])
}

const workerOf = (process: TestProcess) => {
  const line = process.lines.find(text => text.includes('"msg":"working"')) as string
  return (JSON.parse(line) as { worker: string }).worker
}

/** Nothing is on its way any more, and rows and books agree. */
async function assertClean(): Promise<void> {
  await until(
    'every order to end',
    async () => (await db('orders').whereIn('phase', ['queued', 'sending', 'open'])).length === 0,
    60_000
  )
  const report = audit({
    contracts: booksOf(simulator.ledger()),
    orders: await readOrders(db),
    reported: await readReported(db),
    lateToleranceMs: RECONCILE_AFTER_MS
  })
  assert.equal(report.findings, [], summary(report))
  assert.is(report.reported, 0)
}

const succeeded = (sent: SentRequest[]) => sent.filter(({ response }) => response?.status === 200)
const storedOf = async (sent: SentRequest[]) =>
  db('orders').whereIn(
    'client_order_id',
    sent.map(({ clientOrderId }) => clientOrderId)
  )

const stopping = suite('SIGTERM under load')

for (const keepAlive of [false, true])
  stopping(
    `an API completes every request it accepted and exits with 0 (connections ${keepAlive ? 'kept' : 'of one request'})`,
    async () => {
      const worker = await startWorker(harness.env)
      const api = await startApi(harness.env)
      const load = startLoad(api.address, { keepAlive })
      await until('the load to flow', () => succeeded(load.sent).length > 60, 60_000)
      await endInOrder(api)
      await load.stop()
      // What got no response was not accepted: refused at the door, and no order came of it.
      const lost = load.sent.filter(order => order.lost)
      assert.equal(await storedOf(lost), [], JSON.stringify(lost.slice(0, 5)))
      // On a machine too busy to settle an order in time, the response is that it is not known yet.
      for (const { response, lost: why } of load.sent) {
        const expected = response?.status === 200 || (response?.status === 502 && response.body.status === 'PENDING')
        assert.ok(why || expected, JSON.stringify({ why, ...response }))
      }
      await endInOrder(worker)
      await assertClean()
      await assertNothingHeld()
    }
  )

stopping('a worker hands everything to the other one: no lease, no doubt, no client notices', async () => {
  // Nothing of this waits for a time to be over, which on a busy machine a broker that responds may need, or a worker that lives.
  const times = {
    ORDER_TTL_MS: '120000',
    BROKER_ANSWER_TIMEOUT_MS: '60000',
    RECONCILE_AFTER_MS: '60000',
    LEASE_MS: '30000'
  }
  const patient = await openHarness({ url: harness.url, env: { ...harness.env, ...times }, brokerMs: 60_000 })
  const [leaving, staying] = await Promise.all([startWorker(patient.env), startWorker(patient.env)])
  const load = startLoad(patient.address, { keepAlive: true, duration: 8 })
  const reads = startReads(patient.address)
  await until('both workers to work', () => succeeded(load.sent).length > 60, 60_000)
  await endInOrder(leaving)
  const name = workerOf(leaving)
  const left = await rows(
    db,
    `select id, phase from orders where (phase = 'open' and lease_holder = :name) or (phase = 'sending' and sender = :name)`,
    { name }
  )
  assert.equal(left, [])
  await load.stop()
  for (const { response } of load.sent) assert.is(response?.status, 200, JSON.stringify(response))
  assert.equal([...new Set(await reads.stop())], [200])
  await endInOrder(staying)
  await assertClean()
  await assertNothingHeld()
})

const hard = suite('a second signal')
// For the next test as well.
let worker: TestProcess

hard('ends an API at once; its orders go on without it', async () => {
  worker = await startWorker(harness.env)
  const api = await startApi(harness.env)
  const load = startLoad(api.address, { keepAlive: false, duration: 10 })
  await until('the load to flow', () => succeeded(load.sent).length > 60, 60_000)
  api.kill('SIGTERM')
  await api.line(/"msg":"stopping"/)
  api.kill('SIGTERM')
  assert.is(await api.ended, 1)
  await load.stop()
  await assertClean()
})

hard('ends a worker at once; another one resolves what it left', async () => {
  const leaving = worker
  const load = startLoad(harness.address, { keepAlive: true })
  await until('the load to flow', () => succeeded(load.sent).length > 60, 60_000)
  leaving.kill('SIGTERM')
  await leaving.line(/"msg":"stopping"/)
  leaving.kill('SIGTERM')
  // One that is about to exit by itself is ended by the signal.
  const how = await leaving.ended
  assert.ok([0, 1, 'SIGTERM'].includes(how as number | string), String(how))
  const staying = await startWorker(harness.env)
  await load.stop()
  await assertClean()
  await endInOrder(staying)
})

hard.after(closeAll)
for (const tests of [stopping, hard]) tests.run()

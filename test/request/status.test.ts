// GET /status: for anybody, cheap, bounded, with nothing about any partner; and the state of each part.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { haltTrading, resumeTrading } from '../../db/platform/halts.ts'
import { type ProcessReport, registerProcess } from '../../db/platform/processes.ts'
import { readStatus } from '../../db/platform/status.ts'
import { violations } from '../../schemas/checks/validator.ts'
import { Status } from '../../schemas/status.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { makeTestSide } from '../support/test-side.ts'
import { tickOrder } from '../support/tick-order.ts'

const harness = await openHarness()
const { db, log } = harness.services
const read = (headers: Record<string, string> = {}) => fetch(`${harness.address}/status`, { headers })

/** A worker that reports this, until the returned function is called. */
async function worker(report: ProcessReport) {
  const name = `elsewhere:1:${randomUUID().slice(0, 6)}`
  const end = registerProcess(db, { name, kind: 'worker', report: () => report, log })
  await until('its first heartbeat', () => db('processes').where({ name }).first())
  return end
}

const REACHED = { dialect: 'v3', state: 'REACHED', address: null, cause: null, seconds: 0 } as const
const LOST = {
  dialect: 'v3',
  state: 'UNREACHABLE',
  address: 'ws://broker.internal',
  cause: 'ECONNREFUSED',
  seconds: 9
} as const

const status = suite('GET /status')

status('reports that nothing is placed where no worker runs', async () => {
  const found = await readStatus(db)
  assert.equal(violations(Status, found), [])
  assert.equal([found.state, found.api.state, found.workers], ['DOWN', 'OK', { state: 'DOWN', processes: 0 }])
  assert.is(found.markets, null)
  assert.is(found.latency.p50Ms, null)
})

status('shows what the workers reach, what is open, and whether placing is halted', async () => {
  const ends = [await worker({ broker: [REACHED], markets: [{ open: 3, closed: 2, seconds: 4 }] })]
  let found = await readStatus(db)
  assert.equal(violations(Status, found), [])
  assert.equal([found.state, found.broker.reachedBy, found.markets?.open], ['OK', 1, 3])

  ends.push(await worker({ broker: [LOST] }))
  found = await readStatus(db)
  assert.equal([found.state, found.broker], ['DEGRADED', { state: 'DEGRADED', reachedBy: 1, unreachedBy: 1 }])
  assert.not.match(JSON.stringify(found), 'broker.internal')
  await ends[0]?.()
  assert.is((await readStatus(db)).state, 'DOWN')
  await ends[1]?.()

  // The test broker is no part of the service: placing an order does not need it.
  const tests = await worker({ broker: [REACHED, { ...LOST, dialect: 'test' }] })
  found = await readStatus(db)
  assert.equal([found.state, found.broker], ['OK', { state: 'OK', reachedBy: 1, unreachedBy: 0 }])
  await tests()

  const end = await worker({ broker: [REACHED] })
  const all = { scope: 'all', subject: null } as const
  await haltTrading(db, { ...all, reason: 'a reason for operators', actor: 'test' })
  found = await readStatus(db)
  assert.equal([found.state, found.trading.halted], ['DEGRADED', true])
  assert.not.match(JSON.stringify(found), 'operators')
  await resumeTrading(db, all)
  await end()
})

status('shows how long the orders of the last minutes took from their request to the purchase', async () => {
  const simulator = await startSimulator({ tickMs: 10, seed: 25, limits: 'off' })
  onClose(() => simulator.close())
  const { services } = await startTestWorker({
    ...harness.env,
    ...brokerEnv(simulator),
    TEST_BROKER_URL: simulator.url,
    SWEEP_MS: '200'
  })
  const partner = await harness.makePartner()
  // Orders and markets of the test broker are not among those of the service.
  const side = await makeTestSide(harness, partner)
  const tester = await side.makeTrader()
  const tested = tickOrder(tester.traderExternalId, { durationUnit: 'h' })
  assert.is((await side.call(placeBinaryOrder, { body: tested })).status, 200)
  assert.is((await readStatus(db)).latency.orders, 0)
  await services.brokers.of('test').market('1000').symbols()
  assert.equal(services.brokers.seenMarkets(), [])
  // Nor what is left of its budgets among those that raise an alarm.
  assert.equal(
    Object.keys(services.brokers.budget()).filter(name => name.startsWith('test')),
    []
  )
  const { traderExternalId } = await partner.makeTrader()
  const body = tickOrder(traderExternalId, { durationUnit: 'h' })
  assert.is((await partner.call(placeBinaryOrder, { body })).status, 200)
  const { latency } = await readStatus(db)
  assert.is(latency.orders, 1)
  assert.ok((latency.p50Ms as number) > 0 && (latency.p99Ms as number) >= (latency.p50Ms as number))
})

status('needs no key, and is a page for browsers', async () => {
  const json = await read()
  assert.is(json.status, 200)
  assert.match(json.headers.get('content-type') ?? '', 'application/json')
  assert.equal(violations(Status, await json.json()), [])
  const page = await read({ accept: 'text/html,application/xhtml+xml,*/*;q=0.8' })
  assert.match(page.headers.get('content-type') ?? '', 'text/html')
  assert.match(page.headers.get('content-security-policy') ?? '', "default-src 'none'")
  assert.match(page.headers.get('vary') ?? '', 'Accept')
  assert.match(await page.text(), '<h1>Does not work</h1>')
  assert.is((await fetch(`${harness.address}/status`, { method: 'POST' })).status, 405)
})

status('is read once for many, and refused to an address that requests it too often', async () => {
  const bodies = new Set<string>()
  let refused: Response | undefined
  for (let i = 0; i < 61 && !refused; i++) {
    const response = await read()
    if (response.status === 429) refused = response
    else bodies.add(((await response.json()) as Status).at)
  }
  assert.ok(bodies.size <= 3, `${bodies.size} readings`)
  assert.is(refused?.status, 429)
  assert.ok(Number(refused?.headers.get('retry-after')) > 0)
})

status.after(closeAll)
status.run()

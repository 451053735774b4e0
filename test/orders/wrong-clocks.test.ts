// test in the full run only
// test once for each dialect
// Workers whose clocks are wrong. The database's and the broker's clocks decide; a worker's own wall clock may be off by any
// amount, and its monotonic clock is frozen while its machine is suspended.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { followLeader } from '../../api/copy.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { listWrongClocks } from '../../db/orders/leases.ts'
import { systemClock } from '../../worker/platform/clock.ts'
import { DatabaseClock } from '../../worker/platform/database-clock.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { stretched } from '../support/busy.ts'
import { brokerEnv, dialect } from '../support/dialects.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startTestWorker, startWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 5, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({
  env: {
    ...brokerEnv(simulator),
    // Less than any clock is off by, and enough for a busy machine.
    ORDER_TTL_MS: '20000',
    PERMIT_MS: '500',
    RECONCILE_AFTER_MS: String(stretched(1000)),
    BROKER_ANSWER_TIMEOUT_MS: String(stretched(700)),
    SWEEP_MS: '250',
    LEASE_MS: '900',
    SETTLE_WAIT_MS: '60000'
  }
})
const partner = await harness.makePartner()
// Reached in moments on a machine that has time.
const WAIT_MS = 60_000

const contractsOf = (accountId: string) => simulator.ledger().filter(({ loginid }) => loginid === accountId)

const orderOf = (traderExternalId: string) => tickOrder(traderExternalId, { duration: 2 })

/** Loaded before anything else of a process: its wall clock is off by `ms`, its monotonic clock is left alone. */
const withClockOff = (ms: number): Record<string, string> => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
    `const real = Date.now; globalThis.Date = class extends Date {
       constructor(...given) { if (given.length > 0) super(...given); else super(real() + ${ms}) }
       static now() { return real() + ${ms} }
     }`
  )}`
})

const wrong = suite("a worker whose wall clock is off the database's")

// What differs between the dialects is where the broker's clock is read.
for (const ms of dialect === 'v3' ? [30_000, -30_000, 3_600_000, -3_600_000] : [30_000, -3_600_000]) {
  wrong(`by ${ms} ms finds the contract of a purchase without a response, and buys once`, async () => {
    const worker = await startWorker({ ...harness.env, ...withClockOff(ms) })
    const { traderExternalId, accountId } = await partner.makeTrader()
    simulator.faults.add({ effect: 'mute', call: 'buy', loginid: accountId, times: 1 })
    const order = orderOf(traderExternalId)
    const first = await partner.call(placeBinaryOrder, { body: order })
    if (first.body.status !== 'CLOSED') await partner.call(placeBinaryOrder, { body: order })
    assert.is(contractsOf(accountId).length, 1, JSON.stringify(first.body))
    assert.is(first.body.status, 'CLOSED')
    assert.is(first.body.brokerOrderId, String(contractsOf(accountId)[0]?.contractId))
    worker.kill('SIGTERM')
    await worker.ended
  })
}

for (const ms of dialect === 'v3' ? [3_600_000, -3_600_000] : []) {
  wrong(`by ${ms} ms serves broker requests, and copies orders as old as they are`, async () => {
    const worker = await startWorker({ ...harness.env, ...withClockOff(ms) })
    const [leader, follower] = [await partner.makeTrader(), await partner.makeTrader()]
    // Ten closed orders make a leader.
    await insertOrderRows(harness.services.db, leader, { count: 10, at: new Date(Date.now() - 86_400_000) })
    const { traderExternalId } = follower
    const balance = await partner.call(getBalance, { query: { traderExternalId } })
    assert.is(balance.status, 200, JSON.stringify(balance.body))
    const follow = { traderExternalId, leaderId: leader.traderId, riskPct: 100, maxDrawdownPct: 50 }
    const followed = await partner.call(followLeader, { body: follow })
    assert.is(followed.status, 200, JSON.stringify(followed.body))
    const copied = await partner.call(placeBinaryOrder, { body: orderOf(leader.traderExternalId) })
    assert.is(copied.status, 200, JSON.stringify(copied.body))
    await until('the copy', () => contractsOf(follower.accountId)[0], WAIT_MS)
    worker.kill('SIGTERM')
    await worker.ended
  })
}

// In this process, where a mutant reaches it (test/simulate/tested-guards.ts).
wrong("takes a broker request for late by the database's clock alone", async () => {
  const { wall } = systemClock
  systemClock.wall = () => wall() + 3_600_000
  const worker = await startTestWorker(harness.env)
  const { traderExternalId } = await partner.makeTrader()
  const { status, body } = await partner.call(getBalance, { query: { traderExternalId } })
  systemClock.wall = wall
  assert.is(status, 200, JSON.stringify(body))
  await worker.stop()
})

wrong('is named by the doctor, in its log, its metric and its readiness', async () => {
  const metricsPort = String(await freePort())
  const worker = await startWorker({ ...harness.env, ...withClockOff(3000), METRICS_PORT: metricsPort })
  await worker.line(/differs from the database's by more than a second/)
  const { db } = harness.services
  const [named] = await until(
    'the offset beside the lease',
    async () => {
      const found = await listWrongClocks(db, 1000)
      return found.length > 0 && found
    },
    WAIT_MS
  )
  assert.ok(Math.abs(named!.offsetMs - 3000) < 1000, String(named?.offsetMs))
  const { json } = await operator({ ...harness.env, LOG_LEVEL: 'silent' }, 'doctor', '--json')
  const { checks } = json as {
    checks: { check: string; status: string; found: string }[]
  }
  const clocks = checks.find(({ check }) => check === 'worker clocks')
  assert.is(clocks?.status, 'warn')
  assert.ok(clocks?.found.includes(named!.worker), clocks?.found)
  // Served a moment after the worker has begun to work.
  const read = async (path: string): Promise<string> => {
    const readOnce = async () => {
      const response = await fetch(`http://127.0.0.1:${metricsPort}${path}`).catch(() => undefined)
      return response?.ok && response.text()
    }
    return until(path, readOnce, WAIT_MS)
  }
  assert.match(await read('/readyz'), /^ready\nthis machine's clock is [23]\.\d s off the database's/)
  assert.match(await read('/metrics'), /^service_clock_offset_seconds [23](\.\d+)?$/m)
  worker.kill('SIGTERM')
  await worker.ended
})

const elapsed = suite("time that has passed since the database's clock showed a time")

elapsed('is counted by the monotonic clock, from the first reading after it', () => {
  const clock = new DatabaseClock()
  clock.record(1_000_000, 50)
  clock.record(1_001_000, 1050)
  assert.is(clock.since(1_000_500, 3050), 2000)
  assert.is(clock.since(999_000, 3050), 3000)
  assert.is(clock.since(1_001_001, 3050), 0, 'no reading is as late')
})

elapsed("is not shortened when the database's clock is set forward", () => {
  const clock = new DatabaseClock()
  clock.record(1_000_000, 0)
  clock.record(1_061_000, 1000)
  assert.is(clock.since(1_000_000, 1000), 1000)
  assert.is(clock.since(1_000_500, 1000), 0)
})

elapsed("starts again when the database's clock is set back", () => {
  const clock = new DatabaseClock()
  clock.record(1_060_000, 0)
  clock.record(1_001_000, 1000)
  clock.record(1_006_000, 6000)
  assert.is(clock.since(1_005_000, 7000), 1000)
})

elapsed("is more than the database's clock shows for what began before it was set back, for that alone", () => {
  const clock = new DatabaseClock()
  const life = (beganMs: number) => clock.endOf({ beganMs, endsMs: beganMs + 10_000 })
  clock.record(1_000_000, 0)
  clock.record(1_005_000, 5000)
  assert.is(life(999_000), Number.POSITIVE_INFINITY)
  // A reading that took long is no step.
  clock.observe(1_005_500, 6000)
  assert.is(life(1_005_000), 15_000, 'as long as it is not known whether it is one')
  clock.observe(1_006_100, 6100)
  assert.is(life(1_005_000), Number.POSITIVE_INFINITY)
  clock.record(1_002_000, 7000)
  assert.equal([life(999_000), life(1_002_900)], [9000, 12_900])
  assert.is(life(1_003_100), Number.POSITIVE_INFINITY)
  // Once more: each ends by the clock that it began by.
  clock.observe(1_010_000, 15_000)
  clock.observe(1_006_000, 16_000)
  assert.equal([life(999_000), life(1_004_000)], [9000, 19_000])
  assert.is(life(1_007_100), Number.POSITIVE_INFINITY)
  // And set right.
  clock.observe(1_012_000, 17_000)
  assert.is(life(1_004_000), Number.POSITIVE_INFINITY)
})

elapsed.after(closeAll)
wrong.run()
elapsed.run()

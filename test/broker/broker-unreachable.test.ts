// test in the full run only
// test time-out: 200 s
// A broker that is away: a worker logs it once and once when it is back; metrics, /readyz and the doctor report
// it all the while, with the address.

import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import type { Finding } from '../../cli/doctor/finding.ts'
import { checkReach } from '../../cli/doctor/reach.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { operator } from '../support/operator.ts'
import { startWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const [brokerPort, metricsPort] = [await freePort(), await freePort()]
const url = `ws://127.0.0.1:${brokerPort}/websockets/v3`
const harness = await openHarness({ env: { BROKER_URL: url, ORDER_TTL_MS: '3000', SWEEP_MS: '200' } })
const partner = await harness.makePartner()
const { traderExternalId } = await partner.makeTrader()
const worker = await startWorker({ ...harness.env, METRICS_PORT: String(metricsPort) })

const read = async (path: string) => {
  const response = await fetch(`http://127.0.0.1:${metricsPort}${path}`)
  return { status: response.status, text: await response.text() }
}
const place = () => partner.call(placeBinaryOrder, { body: tickOrder(traderExternalId) })
const said = (message: string) => worker.lines.filter(line => line.includes(`"msg":"${message}"`)).length

const away = suite('a broker that is away')

away('is logged once, and shown all the while by metrics, /readyz and the doctor', async () => {
  await Promise.all([place(), place(), place()])
  await worker.line(/"msg":"the broker is unreachable"/)
  const ready = await read('/readyz')
  assert.is(ready.status, 503)
  assert.match(ready.text, new RegExp(`broker unreachable since .*127\\.0\\.0\\.1:${brokerPort}`))
  const metric = new RegExp(
    `^service_broker_unreachable_seconds\\{address="[^"]*127\\.0\\.0\\.1:${brokerPort}[^"]*"\\} \\d`,
    'm'
  )
  assert.match((await read('/metrics')).text, metric)
  const { json } = await operator(harness.env, 'doctor', '--json')
  const broker = json.checks.find(({ check }: { check: string }) => check === 'broker')
  assert.is(broker.status, 'fail')
  assert.match(broker.found, `127.0.0.1:${brokerPort} does not respond (ECONNREFUSED)`)
  assert.is(said('the broker is unreachable'), 1)
  const lost = await reach('fail')
  assert.match(lost.found, new RegExp(`has not reached ws://127\\.0\\.0\\.1:${brokerPort} \\(v3\\) for \\d+ s: `))

  const simulator = await startSimulator({ port: brokerPort, tickMs: 10, limits: 'off' })
  onClose(() => simulator.close())
  await worker.line(/"msg":"the broker can be reached again"/)
  await until('the worker to be ready', async () => (await read('/readyz')).status === 200)
  assert.not.match((await read('/metrics')).text, metric)
  // A busy machine may need long for it.
  harness.services.config.orderTtlMs = 60_000
  assert.is((await place()).status, 200)
  assert.equal([said('the broker is unreachable'), said('the broker can be reached again')], [1, 1])
})

away("is in each worker's heartbeat, whatever the machine of the doctor reaches", async () => {
  const found = await reach('ok')
  assert.match(found.found, /^v3 by 1 of 1 workers that use it/)
  // From here the broker is at another address, where nobody listens.
  const elsewhere = { ...harness.env, BROKER_URL: `ws://127.0.0.1:${await freePort()}/websockets/v3` }
  const { json } = await operator(elsewhere, 'doctor', '--json')
  const broker = json.checks.find(({ check }: { check: string }) => check === 'broker')
  assert.is(broker.status, 'warn')
  assert.match(broker.advice, 'only from this machine')
  const { BROKER_URL: _, ...unset } = harness.env as Record<string, string>
  const here = await operator(unset, 'doctor', '--json')
  const { status, found: said } = here.json.checks.find(({ check }: { check: string }) => check === 'broker')
  assert.equal([status, said], ['ok', 'BROKER_URL is unset here, and the workers reach theirs'])
  const list = await operator(harness.env, 'processes', 'list', '--json')
  assert.is(list.json.data.find(({ kind }: { kind: string }) => kind === 'worker').report.broker[0].state, 'REACHED')

  // A partner whose dialect no worker uses.
  await harness.services.db('partners').where({ id: partner.partnerId }).update({ broker_dialect: 'next' })
  const unspoken = await checkReach(harness.services.db)
  assert.equal(
    unspoken.map(({ status }) => status),
    ['fail']
  )
  assert.match(unspoken[0]?.found ?? '', '1 partners use dialect next, for which no worker has an address')
})

/** What the doctor finds of the workers' words once it is of this kind; heartbeats come every 5 s. */
async function reach(status: 'ok' | 'fail') {
  let found = await checkReach(harness.services.db)
  await until(`the workers' word to be ${status}`, async () => {
    found = await checkReach(harness.services.db)
    return found[0]?.status === status
  })
  return found[0] as Finding
}

away.after(closeAll)
away.run()

// test once for each dialect
// A claim that was not used: its permit ended on a clock that the worker's own timers do not follow. A virtual machine that
// is suspended takes its monotonic clock with it; what shows afterwards is a wall clock that jumped.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { brokerEnv } from '../support/dialects.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker, startWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const WAIT_MS = 60_000

const port = await freePort()
const network = await FaultyNetwork.open(port)
onClose(() => network.close())
const here = `127.0.0.1:${network.port}`
const simulator = await startSimulator({ port, tickMs: 10, seed: 16, limits: 'off', socketBase: `ws://${here}` })
onClose(() => simulator.close())
const { appIdHeader } = simulator
const harness = await openHarness({
  env: {
    ...brokerEnv({ url: `ws://${here}/websockets/v3`, nextUrl: `http://${here}`, appIdHeader }),
    ORDER_TTL_MS: '60000',
    PERMIT_MS: '30000',
    LEASE_MS: '1500',
    SWEEP_MS: '100',
    SETTLE_WAIT_MS: '60000'
  }
})
const { db } = harness.services
const partner = await harness.makePartner()

/** Loaded before anything else of a process: SIGUSR2 sets its wall clock forward by `ms`; its monotonic clock goes on as before. */
const withClockThatJumps = (ms: number): Record<string, string> => ({
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(
    `const real = Date.now
     let offset = 0
     globalThis.Date = class extends Date {
       constructor(...given) { if (given.length > 0) super(...given); else super(real() + offset) }
       static now() { return real() + offset }
     }
     process.on('SIGUSR2', () => { offset += ${ms}; console.log('the wall clock jumped') })`
  )}`
})

/** A trader whose account the broker has accepted, and whom no worker serves any more. */
async function makeProven() {
  const worker = await startTestWorker(harness.env)
  const trader = await partner.makeTrader()
  assert.is((await partner.call(getBalance, { query: { traderExternalId: trader.traderExternalId } })).status, 200)
  await worker.stop()
  return trader
}

const suspended = suite('a claim of a machine that is suspended')

suspended(
  'is not used once its permit is over by the wall clock: the order is given back and bought once',
  async () => {
    const { traderExternalId, accountId } = await makeProven()
    const order = async () => (await db('orders').where({ account_id: accountId }).first()) ?? {}
    const worker = await startWorker({ ...harness.env, ...withClockThatJumps(40_000) })
    const held = network.holdNew()
    const response = partner.call(placeBinaryOrder, {
      body: tickOrder(traderExternalId, { duration: 2 })
    })
    response.catch(() => {})
    await until('the claim', async () => (await order()).phase === 'sending', WAIT_MS)
    await until('its connection', () => held.bytes() > 0, WAIT_MS)
    const { attempt } = await order()
    worker.kill('SIGUSR2')
    await worker.line(/the wall clock jumped/)
    held.release()
    const { body } = await response
    assert.is(body.status, 'CLOSED', JSON.stringify(body))
    assert.is((await order()).attempt, attempt + 1)
    assert.ok(worker.lines.some(line => /PermitExpired.*an order was not sent/.test(line)))
    assert.is(simulator.ledger().filter(({ loginid }) => loginid === accountId).length, 1)
    worker.kill('SIGTERM')
    await worker.ended
  }
)

suspended.after(closeAll)
suspended.run()

// test in the full run only
// test once for each dialect
// A broker behind TLS, as the real one is: orders are bought through it, a certificate nobody vouches for is refused, and
// a worker that gives up a purchase the network holds lives on.
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { getBalance } from '../../api/traders/balance.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { makeCertificate } from '../support/certificate.ts'
import { brokerEnv } from '../support/dialects.ts'
import { freePort } from '../support/free-port.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const { cert, key, certFile } = await makeCertificate()

/** What the broker's own front does: ends TLS and hands on what is inside. */
const port = await freePort()
const front = createTlsServer({ cert, key }, outside => {
  const inside = connect({ port, host: '127.0.0.1' })
  outside.pipe(inside).pipe(outside)
  outside.on('error', () => inside.destroy())
  inside.on('error', () => outside.destroy())
}).listen(0, '127.0.0.1')
await once(front, 'listening')
onClose(async () => void front.close())
const network = await FaultyNetwork.open((front.address() as AddressInfo).port)
onClose(() => network.close())
const here = `localhost:${network.port}`
const simulator = await startSimulator({ port, tickMs: 10, seed: 9, limits: 'off', socketBase: `wss://${here}` })
onClose(() => simulator.close())
const { appIdHeader } = simulator
const harness = await openHarness({
  env: {
    ...brokerEnv({ url: `wss://${here}/websockets/v3`, nextUrl: `https://${here}`, appIdHeader }),
    // Of the orders that are bought, also on a busy machine.
    ORDER_TTL_MS: '60000',
    PERMIT_MS: '2000',
    BROKER_ANSWER_TIMEOUT_MS: '1000',
    RECONCILE_AFTER_MS: '1000',
    SWEEP_MS: '250',
    SETTLE_WAIT_MS: '60000'
  }
})
const partner = await harness.makePartner()

/** An order of a new trader. */
async function makeOrder() {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const body = tickOrder(traderExternalId, { duration: 2 })
  return {
    connect: () => partner.call(getBalance, { query: { traderExternalId } }),
    place: () => partner.call(placeBinaryOrder, { body }),
    contracts: () => simulator.ledger().filter(({ loginid }) => loginid === accountId)
  }
}

const secured = suite('a broker behind TLS')

secured('buys, also again after a purchase the network held was given up', async () => {
  const worker = await startWorker({ ...harness.env, NODE_EXTRA_CA_CERTS: certFile })
  const calm = await makeOrder()
  const bought = await calm.place()
  assert.is(bought.status, 200, JSON.stringify(bought.body))
  assert.is(calm.contracts().length, 1)

  const held = await makeOrder()
  await until('its connection', async () => (await held.connect()).status === 200)
  const { bytes, release } = network.hold(() => true, 'there')
  const response = held.place()
  await until('something sent', () => bytes() > 0)
  assert.is((await response).status, 502)
  release()
  assert.is((await held.place()).status, 200)
  assert.is(held.contracts().length, 1)
  worker.kill('SIGTERM')
  assert.is(await worker.ended, 0)
})

secured('is not trusted without a certificate of a known authority', async () => {
  const worker = await startWorker(harness.env)
  const { place, contracts } = await makeOrder()
  harness.services.config.orderTtlMs = 6000
  const refused = await place()
  assert.is(refused.status, 502)
  assert.is(refused.body.status, 'FAILED')
  assert.is(contracts().length, 0)
  worker.kill('SIGTERM')
  assert.is(await worker.ended, 0)
})

secured.after(closeAll)
secured.run()

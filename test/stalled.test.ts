// A purchase that stands somewhere on the way while everybody stops waiting for it: once its order counts as absent
// it must never arrive, however long the network keeps it.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getBalance } from '../api/balance.ts'
import { placeBinaryOrder } from '../api/orders.ts'
import { startSimulator } from '../worker/broker/simulator/server.ts'
import { Wire } from './chaos/wire.ts'
import { closeAll, onClose, openHarness, until } from './harness.ts'
import { startTestWorker } from './processes.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 8, limits: 'off' })
onClose(() => simulator.close())
const wire = await Wire.open(simulator.port)
onClose(() => wire.close())
const harness = await openHarness({
  env: {
    BROKER_URL: `ws://127.0.0.1:${wire.port}/websockets/v3`,
    ORDER_TTL_MS: '4000',
    PERMIT_MS: '2000',
    BROKER_ANSWER_TIMEOUT_MS: '700',
    RECONCILE_AFTER_MS: '1000',
    SWEEP_MS: '100',
    SETTLE_WAIT_MS: '15000'
  }
})
await startTestWorker(harness.env)
const partner = await harness.makePartner()

const stalled = suite('a purchase held up by the network')

stalled('never arrives once its order was given up, and the same id buys once', async () => {
  const { traderExternalId, accountId } = await partner.makeTrader()
  const contracts = () => simulator.ledger().filter(({ loginid }) => loginid === accountId)
  // Opens the account's connection, so that it is there to be held.
  assert.is((await partner.call(getBalance, { query: { traderExternalId } })).status, 200)
  const { held, release } = wire.hold(() => true, 'there')
  assert.ok(held > 0)
  const terms = { asset: 'R_100', contractType: 'CALL', stake: 1, duration: 2, durationUnit: 't' }
  const body = { traderExternalId, clientOrderId: randomUUID(), ...terms }
  const first = await partner.call(placeBinaryOrder, { body })
  assert.is(first.status, 502)
  assert.is(first.body.status, 'FAILED')
  release()
  const second = await partner.call(placeBinaryOrder, { body })
  assert.is(second.status, 200, JSON.stringify(second.body))
  await until('the contract', () => contracts()[0])
  assert.is(contracts().length, 1)
})

stalled.after(closeAll)
stalled.run()

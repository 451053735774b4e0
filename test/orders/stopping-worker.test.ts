// What waits on the accounts of a worker that stops is placed by another one at once, without its sweep.
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { rows } from '../../db/postgres/connection.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'

// The slow clock does not come up, and orders fail before it would.
const SWEEP_MS = 60_000
const TTL_MS = 30_000
const BUY_MS = 1500

const simulator = await startSimulator({ tickMs: 20, seed: 6, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({
  env: { ...brokerEnv(simulator), SWEEP_MS: String(SWEEP_MS), ORDER_TTL_MS: String(TTL_MS), PERMIT_MS: '10000' }
})
const { db } = harness.services
const partner = await harness.makePartner()

const stopping = suite('a worker that stops')

stopping('leaves an order that waits behind one at the broker to another worker, which places it at once', async () => {
  const first = await startTestWorker(harness.env)
  const { traderExternalId, accountId } = await partner.makeTrader()
  const place = () =>
    partner.call(placeBinaryOrder, {
      body: {
        traderExternalId,
        clientOrderId: randomUUID(),
        asset: 'R_100',
        contractType: 'CALL',
        stake: 1,
        duration: 10,
        durationUnit: 'm'
      }
    })
  const ordersOf = (phase: string) =>
    rows<{ sender: string }>(db, 'select sender from orders where account_id = :accountId and phase = :phase', {
      accountId,
      phase
    })
  assert.is((await place()).status, 200)
  simulator.faults.add({ effect: 'slow', call: 'buy', loginid: accountId, times: 1, delayMs: BUY_MS })
  const slow = place()
  await until('the slow purchase', async () => (await ordersOf('sending')).length === 1)
  const second = await startTestWorker(harness.env)
  const waiting = place()
  await until('the order behind it', async () => (await ordersOf('queued')).length === 1)
  const begun = performance.now()
  await Promise.all([first.stop(), slow])
  const answer = await waiting
  assert.equal([(await slow).status, answer.status], [200, 200], JSON.stringify(answer.body))
  assert.ok(performance.now() - begun < TTL_MS / 2)
  const senders = (await ordersOf('open')).map(({ sender }) => sender)
  assert.equal(senders.filter(sender => sender === second.services.worker).length, 1)
  await second.stop()
})

stopping.after(closeAll)
stopping.run()

// Requests to the broker: reading, however slow, holds no sale up, and one partner's requests leave places for others'.
import { randomUUID } from 'node:crypto'
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getBalance } from '../api/balance.ts'
import { closeOrder, placeBinaryOrder } from '../api/orders.ts'
import { openWaits } from '../api/waits.ts'
import { ApiError } from '../schemas/errors.ts'
import { startSimulator } from '../worker/broker/simulator/server.ts'
import { brokerEnv } from './dialects.ts'
import { closeAll, onClose, openHarness, until } from './harness.ts'
import { startTestWorker } from './processes.ts'

const simulator = await startSimulator({ tickMs: 50, seed: 17, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: brokerEnv(simulator) })
await startTestWorker(harness.env)

const asking = suite('beside a partner with 260 slow balances')
const SLOW = 260
const SLOW_MS = 9000

const slow = await harness.makePartner()
await harness.open.db('partners').where({ id: slow.partnerId }).update({ broker_app_id: '2' })
const quick = await harness.makePartner()
const trader = await quick.makeTrader()

async function buy(): Promise<string> {
  const { body } = await quick.call(placeBinaryOrder, {
    body: {
      traderExternalId: trader.traderExternalId,
      clientOrderId: randomUUID(),
      asset: 'R_100',
      contractType: 'CALL',
      stake: 1,
      duration: 10,
      durationUnit: 'm'
    }
  })
  assert.is(body.status, 'OPEN', JSON.stringify(body))
  return body.orderId
}

asking('another one’s sale, balance and order are answered at once', async () => {
  const orderId = await buy()
  const names = await Promise.all(Array.from({ length: SLOW }, async () => (await slow.makeTrader()).traderExternalId))
  simulator.faults.add({ effect: 'slow', call: 'balance', appId: 2, delayMs: SLOW_MS })
  const balances = Promise.all(names.map(traderExternalId => slow.call(getBalance, { query: { traderExternalId } })))
  await until('the balances to be asked for', async () => {
    const row = await harness.open.db('asks').where({ partner_id: slow.partnerId }).count('* as count').first()
    return Number(row?.count) === SLOW
  })
  const startedAt = performance.now()
  const sold = await quick.call(closeOrder, { params: { id: orderId } })
  const soldMs = performance.now() - startedAt
  const balance = await quick.call(getBalance, { query: { traderExternalId: trader.traderExternalId } })
  const readMs = performance.now() - startedAt - soldMs
  await buy()
  const tookMs = performance.now() - startedAt
  simulator.faults.reset()
  assert.is(sold.body.status, 'CLOSED', JSON.stringify(sold.body))
  assert.is(balance.status, 200)
  assert.ok(tookMs < SLOW_MS / 2, `sale ${soldMs} ms, balance ${readMs} ms, all ${tookMs} ms`)
  for (const { status } of await balances) assert.ok([200, 429, 502].includes(status))
})

const waiting = suite('requests that wait in an api process')
const response = () => new ServerResponse(new IncomingMessage(new Socket()))

waiting('are bounded for each partner: 429 with Retry-After, and others still may', () => {
  const waits = openWaits({ maxWaiting: 8 })
  const open = Array.from({ length: 4 }, response)
  for (const each of open) waits.signalFor(each, 'greedy')
  try {
    waits.signalFor(response(), 'greedy')
    assert.unreachable()
  } catch (error) {
    assert.instance(error, ApiError)
    assert.equal([(error as ApiError).code, (error as ApiError).headers?.['Retry-After']], ['RATE_LIMITED', '1'])
  }
  waits.signalFor(response(), 'modest')
  open[0]?.emit('close')
  waits.signalFor(response(), 'greedy')
})

waiting.after(closeAll)
for (const tests of [asking, waiting]) tests.run()

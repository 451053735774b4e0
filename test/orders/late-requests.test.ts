// test in the full run only
// The time to live of an order counts from when its request was sent: what the request waits for before the order is stored
// counts as well, be it a process that does not run or a lock.
import { once } from 'node:events'
import { connect } from 'node:net'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { FaultyNetwork } from '../chaos/network.ts'
import { brokerEnv } from '../support/dialects.ts'
import { call, closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { startApi, startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const TTL_MS = 2000
const simulator = await startSimulator({ tickMs: 10, seed: 6, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), ORDER_TTL_MS: String(TTL_MS), PERMIT_MS: '500' } })
const { db } = harness.services
const partner = await harness.makePartner()
await startTestWorker(harness.env)
const authorization = `Bearer ${partner.key}`

const orderOf = ({ traderExternalId }: TestTrader) => tickOrder(traderExternalId)
const rowOf = (clientOrderId: string) => db('orders').where({ client_order_id: clientOrderId }).first()
const contractsOf = ({ accountId }: TestTrader) =>
  simulator.ledger().filter(({ loginid }) => loginid === accountId).length

/** Places orders of the trader's until one is CLOSED: a busy machine may need longer than the time to live, also for the first one. */
const placeInTime = (trader: TestTrader, address = harness.address) =>
  until('an order that is placed in time', async () => {
    const response = await call(address, placeBinaryOrder, { body: orderOf(trader), headers: { authorization } })
    return response.status === 200 && response
  })

const late = suite('an order is not placed when its request was sent longer ago than its time to live')

late('and waited for a process that was stopped, also if its client has gone', async () => {
  const api = await startApi(harness.env)
  const trader = await partner.makeTrader()
  await placeInTime(trader, api.address)
  api.kill('SIGSTOP')
  const sentAt = performance.now()
  const body = orderOf(trader)
  const text = JSON.stringify(body)
  const { hostname, port } = new URL(api.address)
  const client = connect(Number(port), hostname).on('error', () => {})
  await once(client, 'connect')
  const head = `POST /v1/orders/binary HTTP/1.1\r\nHost: x\r\nAuthorization: ${authorization}\r\nContent-Type: application/json\r\n`
  await new Promise(resolve => client.write(`${head}Content-Length: ${text.length}\r\n\r\n${text}`, resolve))
  client.destroy()
  await until('its time to be over', () => performance.now() - sentAt > TTL_MS + 500)
  api.kill('SIGCONT')
  const row = await until('the order', async () => {
    const found = await rowOf(body.clientOrderId)
    return found && !['queued', 'sending', 'open'].includes(found.phase) && found
  })
  assert.equal([row.phase, row.retryable, contractsOf(trader)], ['failed', true, 1], row.error_message)
  // What follows is fresh again.
  assert.is((await placeInTime(trader, api.address)).body.status, 'CLOSED')
})

late('and waited for a lock', async () => {
  const trader = await partner.makeTrader()
  await placeInTime(trader)
  const lock = await db.transaction()
  await lock.raw('lock table orders in exclusive mode')
  const sentAt = performance.now()
  const body = orderOf(trader)
  const placing = partner.call(placeBinaryOrder, { body })
  await until('its time to be over', () => performance.now() - sentAt > TTL_MS + 500)
  await lock.commit()
  const { status, body: response } = await placing
  assert.equal([status, response.error, response.status], [502, 'BROKER_UPSTREAM', 'FAILED'])
  assert.is(contractsOf(trader), 1)
})

for (const [which, known] of Object.entries({ '': true, ', also of the first order of a process': false }))
  late(`and its statement reached the database late${which}`, async () => {
    const direct = new URL(harness.env.DATABASE_URL as string)
    const network = await FaultyNetwork.open(Number(direct.port))
    onClose(() => network.close())
    const api = await startApi({ ...harness.env, DATABASE_URL: Object.assign(direct, { port: network.port }).href })
    const trader = await partner.makeTrader()
    // By which the process knows the key as well, and by an order the database's clock.
    assert.is((await call(api.address, getMe, { headers: { authorization } })).status, 200)
    if (known) await placeInTime(trader, api.address)
    const body = orderOf(trader)
    // The first order of a process reads the database's clock before it is stored. Nothing else is held: it would have the process open
    // other connections.
    const { release, holds } = network.holdFrom(known ? body.clientOrderId : 'clock_timestamp()::timestamptz(3)')
    const placing = call(api.address, placeBinaryOrder, { body, headers: { authorization } })
    await until('its statement to leave', holds)
    // From then on, as on a busy machine the request itself takes seconds to arrive.
    const leftAt = performance.now()
    await until('its time to be over', () => performance.now() - leftAt > TTL_MS + 500)
    release()
    const { status, body: response } = await placing
    assert.equal(
      [status, response.error, response.status],
      [502, 'BROKER_UPSTREAM', 'FAILED'],
      JSON.stringify(response)
    )
    assert.is(contractsOf(trader), known ? 1 : 0)
  })

late.after(closeAll)
late.run()

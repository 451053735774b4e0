// Stopping in order when that is not easy: PostgreSQL killed or frozen, an order that takes longer than a process may
// wait. Within 25 s api and worker end with exit code 0 and say so.
// test in the full run only
// test time-out: 300 s
import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { removeEmbedded } from '../../db/embedded.ts'
import { migrate } from '../../db/postgres/migrate.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { openPostgres } from '../chaos/postgres.ts'
import { brokerEnv } from '../support/dialects.ts'
import { call, closeAll, onClose, openHarness, type TestPartner, until } from '../support/harness.ts'
import { startApi, startWorker, type TestProcess } from '../support/processes.ts'

const simulator = await startSimulator({ tickMs: 2000, seed: 5, limits: 'off' })
onClose(() => simulator.close())

const dir = mkdtempSync(join(tmpdir(), 'service-ending-'))
// Root's PostgreSQL runs as another user, who has to get through.
chmodSync(dir, 0o711)
onClose(async () => {
  await removeEmbedded(dir)
  await rm(dir, { recursive: true, force: true, maxRetries: 10 })
})
const postgres = await openPostgres(dir)
onClose(() => postgres.stop())
await migrate(postgres.url)
const harness = await openHarness({ url: postgres.url, env: brokerEnv(simulator) })
const partner = await harness.makePartner()

const order = { asset: 'R_50', contractType: 'CALL', stake: 1, durationUnit: 't' } as const

function place(address: string, { key }: TestPartner, traderExternalId: string, duration: number) {
  const body = { ...order, duration, traderExternalId, clientOrderId: `ending-${traderExternalId}` }
  return call(address, placeBinaryOrder, { body, headers: { authorization: `Bearer ${key}` } })
}

/** An api that waits for its order's settlement and has requests to count, and a worker that follows its contract. */
async function startBoth() {
  const [api, worker] = await Promise.all([startApi(harness.env), startWorker(harness.env)])
  const { traderExternalId, traderId } = await partner.makeTrader()
  const placed = place(api.address, partner, traderExternalId, 10).then(
    ({ status }) => status,
    () => 'cut off'
  )
  await until('the contract to be open', () =>
    harness.services.db('orders').where({ trader_id: traderId, phase: 'open' }).first()
  )
  const me = await call(api.address, getMe, { headers: { authorization: `Bearer ${partner.key}` } })
  assert.is(me.status, 200)
  return { api, worker, placed }
}

/** Its last output; when it does not end in order, the test fails with that. */
async function lastLine({ ended, lines }: TestProcess): Promise<{ msg: string; left?: string[] }> {
  assert.is(await ended, 0, lines.slice(-8).join('\n'))
  return JSON.parse(lines.findLast(line => line.includes('"msg":"stopped')) ?? '{}')
}

const away = suite('SIGTERM while PostgreSQL')

away('hangs ends api and worker in order; what hung is named', async () => {
  const { api, worker, placed } = await startBoth()
  postgres.freeze()
  try {
    for (const process of [api, worker]) process.kill('SIGTERM')
    const [ofApi, ofWorker] = await Promise.all([lastLine(api), lastLine(worker)])
    assert.ok(ofApi.left?.includes('database'), JSON.stringify(ofApi))
    assert.ok(ofWorker.left?.includes('work'), JSON.stringify(ofWorker))
    // Which of the two depends on what gives up first: the statement or the process. Neither reports that the order failed.
    assert.ok(['cut off', 503].includes(await placed), String(await placed))
  } finally {
    postgres.thaw()
  }
})

away('is gone ends api and worker in order; what could not be counted is logged', async () => {
  const { api, worker, placed } = await startBoth()
  await postgres.kill()
  try {
    for (const process of [api, worker]) process.kill('SIGTERM')
    const [ofApi, ofWorker] = await Promise.all([lastLine(api), lastLine(worker)])
    assert.match(ofApi.msg, /^stopped/)
    assert.match(ofWorker.msg, /^stopped/)
    assert.is(await placed, 503)
    const lost = api.lines.find(line => line.includes('usage counts could not be written'))
    assert.match(lost ?? '', new RegExp(partner.partnerId))
  } finally {
    await postgres.start()
  }
})

const slow = suite('SIGTERM to an api whose order takes too long')

slow('returns in time with what is known', async () => {
  // No worker: nothing becomes of the order.
  const apart = await openHarness({ env: { ORDER_TTL_MS: '60000' } })
  const waiting = await apart.makePartner()
  const { traderExternalId } = await waiting.makeTrader()
  const api = await startApi(apart.env)
  const placed = place(api.address, waiting, traderExternalId, 10)
  await until('the order to be stored', () => apart.services.db('orders').first())
  api.kill('SIGTERM')
  const { status, body } = await placed
  assert.equal([status, body.error, body.status], [502, 'BROKER_UPSTREAM', 'PENDING'])
  assert.equal((await lastLine(api)).msg, 'stopped')
})

slow.after(closeAll)
for (const tests of [away, slow]) tests.run()

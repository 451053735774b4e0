// The page on testing is what the simulated broker does: each row of it leads to the error it names.

import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { closeOrder, listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { exchangeTokens, listAccounts } from '../../api/traders/accounts.ts'
import { assetOf, type Magic, magics } from '../../worker/simulator/magic-list.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { provocations, testPage } from '../../worker/simulator/test-page.ts'
import { closeAll, newAccountId, onClose, openHarness, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 7, limits: 'off', timeScale: 100, magic: true })
onClose(() => simulator.close())
// A busy machine places none of them within three seconds, nor sends each within one.
const times = { ORDER_TTL_MS: '30000', RECONCILE_AFTER_MS: '1000', PERMIT_MS: '6000', SWEEP_MS: '200' }
const harness = await openHarness({ env: { BROKER_URL: simulator.url, BROKER_DIALECT: 'v3', ...times } })
await startTestWorker(harness.env)
const partner = await harness.makePartner()

const page = suite('the page on testing')

page('is written again whenever the simulated broker changes: make test-page', async () => {
  const written = await readFile(new URL('../../api/description/guides/testing.md', import.meta.url), 'utf8')
  assert.is(written, testPage())
})

for (const { error, what, says, account = {}, order = {}, control } of provocations)
  page(`${error}: ${what}`, async () => {
    const { flags = '-demo', accountMode = 'DEMO', currency = 'USD' } = account
    const accountId = newAccountId()
    const traderExternalId = `tester-${randomUUID()}`
    const token = account.token ?? `sim-${accountId}${flags}`
    const accounts = [{ accountId, token, accountMode, currency }]
    assert.is((await partner.call(exchangeTokens, { body: { traderExternalId, accounts } })).status, 200)
    const faults = (method: string) =>
      fetch(new URL('/control/faults', simulator.control), {
        method,
        ...(control ? { body: JSON.stringify(control) } : {})
      })
    if (control) assert.is((await faults('POST')).status, 200)
    const body = tickOrder(traderExternalId, { duration: 5, ...order })
    const placed = await partner.call(placeBinaryOrder, { body })
    if (control) await fetch(new URL('/control/faults', simulator.control), { method: 'DELETE' })
    assert.is(placed.body.error, error, JSON.stringify(placed.body))
    if (says === undefined) return
    assert.match(placed.body.message, says)
    const { data } = (await partner.call(listAccounts, { query: { traderExternalId } })).body
    assert.equal([data[0].status, data[0].reason], ['REJECTED', says])
  })

for (const magic of magics)
  page(`${magic.flag} by stake, asset and token: ${magic.what}`, async () => {
    const ways = [
      provoke(magic, { stake: Number(magic.stake) }, ''),
      provoke(magic, { asset: assetOf(magic) }, ''),
      provoke(magic, {}, `-${magic.flag}`)
    ]
    await Promise.all(ways)
  })

async function provoke(magic: Magic, changes: object, flags: string) {
  const { ends, error, field, rejects, closeError, atLeastMs = 0 } = magic
  const accountId = newAccountId()
  const { traderExternalId } = await partner.makeTrader({ accountId, token: `sim-${accountId}${flags}` })
  // What is to be closed must be open for a while.
  const duration = closeError ? { duration: 5, durationUnit: 'm' } : { duration: 1, durationUnit: 't' }
  const contract = { asset: 'R_100', contractType: 'CALL', stake: 1, ...duration, ...changes }
  const startedAt = performance.now()
  const body = { traderExternalId, clientOrderId: randomUUID(), ...contract }
  const placed = await partner.call(placeBinaryOrder, { body })
  assert.ok(performance.now() - startedAt >= atLeastMs, `returned after ${performance.now() - startedAt} ms`)
  assert.equal(
    [placed.body.error, placed.body.details?.[0].path],
    [error, field && `/body/${field}`],
    JSON.stringify(placed.body)
  )
  if (closeError) {
    const closed = await partner.call(closeOrder, { params: { id: placed.body.orderId } })
    assert.is(closed.body.error, closeError, JSON.stringify(closed.body))
  }
  const { data: accounts } = (await partner.call(listAccounts, { query: { traderExternalId } })).body
  assert.is(accounts[0].reason, rejects)
  const bought = () => simulator.ledger().filter(entry => entry.loginid === accountId).length
  const { orderId } = await until(
    'the order to end',
    async () => {
      const { data } = (await partner.call(listOrders, { query: { traderExternalId } })).body
      return data[0].status === ends && data[0]
    },
    60_000
  )
  assert.is(bought(), ends === 'FAILED' ? 0 : 1)
  if (error === undefined) assert.is(placed.body.orderId, orderId)
}

page.after(closeAll)
page.run()

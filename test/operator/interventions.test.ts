// What an operator does by hand, as functions of db/: corrects a top-up, closes an order, limits a partner, lists what runs.
// test in the full run only
import { randomUUID } from 'node:crypto'
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { getMe } from '../../api/me.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { getUsage } from '../../api/usage.ts'
import { debitWallet, getWallet, listStatement, topUp } from '../../db/money/wallets.ts'
import { findOrders, type OrderRow } from '../../db/orders/reading.ts'
import { sellOrder } from '../../db/orders/selling.ts'
import { setLimits } from '../../db/partners/partners.ts'
import { listProcesses } from '../../db/platform/processes.ts'
import type { ApiError } from '../../schemas/errors/errors.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, until } from '../support/harness.ts'
import { startApi, startWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const simulator = await startSimulator({ tickMs: 10, seed: 13, limits: 'off' })
onClose(() => simulator.close())
const harness = await openHarness({ env: { ...brokerEnv(simulator), SWEEP_MS: '200' } })
const { db, queue, bus, config } = harness.services
const worker = await startWorker(harness.env)

const refused = async (work: Promise<unknown>): Promise<ApiError> => {
  const error = await work.then(
    () => undefined,
    (refusal: ApiError) => refusal
  )
  if (!error) throw new Error('it was not refused')
  return error
}

const correcting = suite('taking a wrong top-up back')

correcting('takes it out of the wallet with the reason in the statement, and never goes below zero', async () => {
  const { partnerId } = await harness.makePartner()
  const prices = config.planPrices
  await db.transaction(trx => topUp(trx, { partnerId, amountUsd: '500', prices }))
  const debit = (amountUsd: string) =>
    db.transaction(trx => debitWallet(trx, { partnerId, amountUsd, reason: 'paid in twice' }))
  assert.is((await debit('450.10')).balanceUsd, '49.90')
  const short = await refused(debit('49.91'))
  assert.equal([short.code, short.extras.balanceUsd], ['WALLET_INSUFFICIENT', 49.9])
  assert.is((await getWallet(db, partnerId, prices)).balanceUsd, '49.90')
  const { data } = await listStatement(db, { partnerId, limit: 10 })
  assert.equal(
    data.map(({ amountUsd, explained }) => [amountUsd, explained.description]),
    [
      ['-450.10', 'Taken out by the operator: paid in twice'],
      ['500.00', 'Paid in']
    ]
  )
})

const closing = suite('the operator closes an order')

closing('sells its contract, and returns it again when it is closed', async () => {
  const partner = await harness.makePartner()
  const { traderExternalId } = await partner.makeTrader()
  const { body } = await partner.call(placeBinaryOrder, {
    body: tickOrder(traderExternalId, { stake: 2, durationUnit: 'h' })
  })
  assert.is(body.status, 'OPEN')
  const order = async () => (await findOrders(db, [body.orderId]))[0] as OrderRow
  const closed = await sellOrder(db, { queue, bus }, await order())
  assert.is(closed.status, 'CLOSED')
  assert.is((await sellOrder(db, { queue, bus }, await order())).closed_at?.getTime(), closed.closed_at?.getTime())
  const failed = await refused(sellOrder(db, { queue, bus }, { ...closed, phase: 'failed', status: 'FAILED' }))
  assert.is(failed.code, 'CONFLICT')
})

const limiting = suite("a partner's own limits")

limiting('hold from the next request on, and can be taken away', async () => {
  const partner = await harness.makePartner()
  const { traderExternalId } = await partner.makeTrader()
  const limits = async () => (await partner.call(getUsage)).body.rateLimit
  const before = await limits()
  await setLimits(db, partner.partnerId, { perKeyPerMinute: 5, perTraderPerMinute: 1 })
  assert.equal(await limits(), { perKeyPerMinute: 5, perTraderPerMinute: 1 })
  const { headers } = await partner.call(getMe)
  assert.match(headers.get('ratelimit-policy') as string, /"key";q=5;w=60/)
  const order = { traderExternalId, clientOrderId: randomUUID(), asset: 'R_100', contractType: 'CALL', stake: 2 }
  const place = () => partner.call(placeBinaryOrder, { body: { ...order, duration: 1, durationUnit: 't' } })
  assert.is((await place()).status, 200)
  const over = await place()
  assert.equal([over.status, over.body.message], [429, 'The limit of 1 calls a minute for this trader is reached.'])
  await setLimits(db, partner.partnerId, { perTraderPerMinute: null })
  await setLimits(db, partner.partnerId, { perKeyPerMinute: null })
  assert.equal(await limits(), before)
  assert.is((await refused(setLimits(db, 'ptn_nobody', { perKeyPerMinute: 5 }))).code, 'NOT_FOUND')
})

const listing = suite('the list of processes')

listing('shows what runs with version and address, and no longer what ended', async () => {
  const api = await startApi(harness.env)
  const known = (pid: number | undefined) => async () => (await listProcesses(db)).find(found => found.pid === pid)
  const shown = await until('the api', known(api.child.pid))
  assert.equal(
    { kind: shown.kind, version: shown.version, address: shown.address, alive: shown.alive },
    { kind: 'api', version: '1.0.0', address: api.address, alive: true }
  )
  assert.ok(shown.silentMs < 20_000 && shown.startedAt <= shown.seenAt)
  const working = await until('the worker', known(worker.child.pid))
  assert.equal([working.kind, working.address], ['worker', null])
  api.kill('SIGTERM')
  assert.is(await api.ended, 0)
  assert.is(await known(api.child.pid)(), undefined)
})

correcting.run()
closing.run()
limiting.run()
listing.after(closeAll)
listing.run()

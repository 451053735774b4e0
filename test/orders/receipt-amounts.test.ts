// test in a process of its own
// test once for each dialect
// Receipts of purchases with a payout that cannot be true: the contract settles by its own state, and shows that payout.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { placeMultiplierOrder } from '../../api/orders/multipliers.ts'
import { listOrders, placeBinaryOrder } from '../../api/orders/orders.ts'
import { listOpenPositions } from '../../api/orders/positions.ts'
import { listBreaks } from '../../db/orders/reconciliation.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { openRelay } from '../broker/broker-relay.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { startTestWorker } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

/** What the receipts of purchases contain instead. */
let changes: object = {}
const simulator = await startSimulator({ tickMs: 10, seed: 3, limits: 'off' })
const relay = await openRelay(simulator, frame =>
  frame.buy === undefined ? frame : { ...frame, buy: { ...(frame.buy as object), ...changes } }
)
onClose(() => {
  relay.close()
  return simulator.close()
})
const harness = await openHarness({ env: { ...brokerEnv(relay), SWEEP_MS: '200' } })
const worker = await startTestWorker(harness.env)
const partner = await harness.makePartner()

const contractOf = ({ accountId }: TestTrader) => simulator.ledger().find(({ loginid }) => loginid === accountId)
const entryOf = async ({ traderExternalId }: TestTrader) =>
  (await partner.call(listOrders, { query: { traderExternalId } })).body.data[0]
const findingsOf = async ({ accountId }: TestTrader) =>
  (await listBreaks(worker.services.db, 1000)).filter(each => each.accountId === accountId)

const receipts = suite('a receipt that cannot be true')

const unreadable = { shortcode: '' }
for (const [what, set] of [
  ['less than the price', { payout: 0.5 }],
  ['nothing', { payout: 0 }],
  ['more than any contract pays', { payout: 5000 }],
  ['another one than in its code', { payout: 3 }],
  ['one with more decimals than its currency', { payout: 1.951 }],
  ['less than the price, and no code', { payout: 0.5, ...unreadable }],
  ['more than any contract pays, and no code', { payout: 5000, ...unreadable }]
] as const)
  for (const contractType of ['DIGITEVEN', 'DIGITODD'] as const)
    receipts(`shows as its payout ${what}: ${contractType} settles with the payout of its contract`, async () => {
      const trader = await partner.makeTrader()
      changes = set
      const order = tickOrder(trader.traderExternalId, { contractType })
      const { status, body } = await partner.call(placeBinaryOrder, { body: order })
      const contract = contractOf(trader)
      const [pays, profit] = [Number(contract?.payout), Number(contract?.profit)]
      assert.equal([status, body.status, body.potentialPayout, body.pnl], [200, 'CLOSED', pays, profit])
      const [{ kind, details } = {}, ...others] = await findingsOf(trader)
      assert.equal([kind, Object.keys(details as object), others], ['MISMATCH', ['payout'], []])
    })

receipts('shows another payout than its code: the open order shows the one of its contract', async () => {
  const trader = await partner.makeTrader()
  changes = { payout: 3 }
  const order = tickOrder(trader.traderExternalId, { duration: 5, durationUnit: 'm' })
  const { body } = await partner.call(placeBinaryOrder, { body: order })
  assert.equal([body.status, body.potentialPayout], ['OPEN', 0])
  const entry = await until('the payout', async () => {
    const now = await entryOf(trader)
    return now.potentialPayout > 0 && now
  })
  assert.equal([entry.status, entry.potentialPayout], ['OPEN', Number(contractOf(trader)?.payout)])
})

receipts('is not filled in by a payout of its contract that cannot be true either', async () => {
  const trader = await partner.makeTrader()
  changes = { payout: 3 }
  simulator.faults.set({ states: [{ set: { payout: 0.5 }, when: 'open', loginid: trader.accountId }] })
  const order = tickOrder(trader.traderExternalId, { duration: 5, durationUnit: 'm' })
  const { body } = await partner.call(placeBinaryOrder, { body: order })
  const row = worker.services.db('orders').where({ id: body.orderId }).first()
  await until('a state of the contract', async () => (await row.clone()).marked_at !== null)
  assert.is((await entryOf(trader)).potentialPayout, 0)
  simulator.faults.set({ states: [] })
  // A state that is read now shows it.
  await partner.call(listOpenPositions, { query: { traderExternalId: trader.traderExternalId } })
  assert.is((await entryOf(trader)).potentialPayout, Number(contractOf(trader)?.payout))
})

receipts('shows a payout for a multiplier contract, which has none', async () => {
  const trader = await partner.makeTrader()
  const { traderExternalId } = trader
  changes = { payout: 5000 }
  const { clientOrderId } = tickOrder(traderExternalId)
  const terms = { asset: 'R_100', direction: 'up', stake: 10, multiplier: 100 } as const
  await partner.call(placeMultiplierOrder, { body: { traderExternalId, clientOrderId, ...terms } })
  const { status, potentialPayout } = await entryOf(trader)
  assert.equal([status, potentialPayout], ['OPEN', 0])
  assert.equal(await findingsOf(trader), [])
})

receipts.after(closeAll)
receipts.run()

// A leader's open order with one follower where no worker runs: the test takes its jobs.
import { systemClock } from '../../worker/platform/clock.ts'
import type { WorkerServices } from '../../worker/services.ts'
import { openHarness } from './harness.ts'
import { insertOrderRows } from './order-rows.ts'

/** `worker` is what a worker has whose broker's minimums are those of `leastOf`. */
export async function makeFollowedOrder(leastOf: () => Promise<object>) {
  const { services, makePartner } = await openHarness()
  const partner = await makePartner()
  const [leader, follower] = [await partner.makeTrader(), await partner.makeTrader()]
  await insertOrderRows(services.db, leader, { phase: 'open' })
  const { id: orderId } = (await services.db('orders').where({ trader_id: leader.traderId }).first('id')) as {
    id: string
  }
  await services.db.raw(
    `insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     select 'fol_' || substr(id, 5), partner_id, id, external_id, ?, 50, 90, 'ACTIVE', 10000 from traders where id = ?`,
    [leader.traderId, follower.traderId]
  )
  const brokers = { of: () => ({ market: () => ({ leastOf }) }) }
  const worker = { ...services, worker: 'worker', clock: systemClock, brokers } as unknown as WorkerServices
  return { services, leader, follower, orderId, worker }
}

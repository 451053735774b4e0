// test in the full run only
// Many copies over several worker processes, one of them killed in the middle: each follower gets one copy, and
// it is bought at most once or reported.
import { suite } from 'uvu'
import * as assert from 'uvu/assert'
import { followLeader, listMyFollows } from '../../api/copy.ts'
import { placeBinaryOrder } from '../../api/orders/orders.ts'
import { rows } from '../../db/postgres/connection.ts'
import { startSimulator } from '../../worker/simulator/server.ts'
import { audit, booksOf, readOrders, readReported } from '../support/auditor.ts'
import { brokerEnv } from '../support/dialects.ts'
import { closeAll, onClose, openHarness, type TestTrader, until } from '../support/harness.ts'
import { insertOrderRows } from '../support/order-rows.ts'
import { startWorker, type TestProcess } from '../support/processes.ts'
import { tickOrder } from '../support/tick-order.ts'

const FOLLOWERS = 120
const RECONCILE_AFTER_MS = 3000

const simulator = await startSimulator({ tickMs: 20, seed: 11, limits: 'off' })
onClose(() => simulator.close())
const env = {
  ...brokerEnv(simulator),
  BROKER_ANSWER_TIMEOUT_MS: '2500',
  RECONCILE_AFTER_MS: String(RECONCILE_AFTER_MS),
  RECONCILE_CRASHED_MS: String(RECONCILE_AFTER_MS),
  SWEEP_MS: '200'
}
const harness = await openHarness({ env })
const { db } = harness.services
const workers = await Promise.all([1, 2, 3].map(() => startWorker(harness.env)))
const partner = await harness.makePartner()

const fanOut = suite('copies over three workers, one of them killed')

fanOut('are bought once each or reported, whichever side placed them', async () => {
  const leader = await partner.makeTrader()
  await insertOrderRows(db, leader, { count: 10 })
  const followers: TestTrader[] = []
  for (let group = 0; group < FOLLOWERS / 20; group++)
    followers.push(...(await Promise.all(Array.from({ length: 20 }, () => follower(leader)))))

  // Every buy takes a while, so that the killed worker leaves some unanswered.
  simulator.faults.set({ latencyMs: 800 })
  const placed = partner.call(placeBinaryOrder, {
    body: tickOrder(leader.traderExternalId, { stake: 2 })
  })
  const accounts = new Set(followers.map(({ accountId }) => accountId))
  const contracts = () => simulator.ledger().filter(({ loginid }) => accounts.has(loginid))
  await until('a copy at the broker', () => contracts().length > 0, 30_000)
  const killed = await busiest()
  killed.kill('SIGKILL')
  await killed.ended
  assert.ok((await sentBy(killed)) > 0)
  simulator.faults.set({ latencyMs: 0 })

  const { orderId } = (await placed).body
  const copies = await until(
    'the end of every copy',
    async () => {
      const found = await rows<{ follow_id: string; phase: string; error_code: string | null }>(
        db,
        `select follow_id, phase, error_code from orders
          where copied_from = :orderId and phase in ('closed', 'failed', 'review')`,
        { orderId }
      )
      return found.length === FOLLOWERS && found
    },
    60_000
  )
  assert.is(new Set(copies.map(({ follow_id }) => follow_id)).size, FOLLOWERS)
  assert.equal(
    copies.filter(({ phase, error_code }) => phase !== 'closed' && error_code === null),
    []
  )
  assert.is(new Set(contracts().map(({ loginid }) => loginid)).size, contracts().length)
  // The leader's record is made up; everything else is in the broker's books.
  const orders = (await readOrders(db)).filter(order => order.id === orderId || accounts.has(order.account_id))
  const { findings } = audit({
    contracts: booksOf(simulator.ledger()),
    orders,
    reported: await readReported(db),
    lateToleranceMs: RECONCILE_AFTER_MS
  })
  assert.equal(findings, [])
  const [wrong] = await rows<{ count: number }>(
    db,
    `select count(*)::int as count from follows f
      where (f.pnl, f.since_pnl) <> (select coalesce(sum(pnl), 0), coalesce(sum(pnl), 0) from orders
                                      where follow_id = f.id and phase = 'closed')`
  )
  assert.is(wrong?.count, 0)
  const { body } = await partner.call(listMyFollows, {
    query: { traderExternalId: (followers[0] as TestTrader).traderExternalId }
  })
  assert.is(body.data[0].copiedOrders, 1)
})

async function follower(leader: TestTrader): Promise<TestTrader> {
  const trader = await partner.makeTrader()
  const { status, body } = await partner.call(followLeader, {
    body: { traderExternalId: trader.traderExternalId, leaderId: leader.traderId, maxDrawdownPct: 90 }
  })
  assert.is(status, 200, JSON.stringify(body))
  return trader
}

/** The worker with the most orders between intent and response. */
async function busiest(): Promise<TestProcess> {
  const counts = await Promise.all(workers.map(sentBy))
  return workers[counts.indexOf(Math.max(...counts))] as TestProcess
}

async function sentBy({ child }: TestProcess): Promise<number> {
  const [row] = await rows<{ count: number }>(
    db,
    `select count(*)::int as count from orders where phase = 'sending' and split_part(sender, ':', 2) = :pid`,
    { pid: String(child.pid) }
  )
  return row?.count ?? 0
}

fanOut.after(closeAll)
fanOut.run()

// Copy fan-out: how long after the leader's purchase each follower's copy is bought, with several workers and a
// broker that takes its time; then the same with one worker killed in the middle, where what counts is that
// nothing is bought twice and nothing is lost. Times are the broker's own, purchase to purchase.
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { type Db, rows } from '../../db/postgres/connection.ts'
import type { LedgerEntry } from '../../worker/simulator/engine/ledger.ts'
import { audit, booksOf, readOrders } from '../support/auditor.ts'
import { tickOrder } from '../support/tick-order.ts'
import { call, ms, type Stage, spread } from './stage.ts'

const WORKERS = 3
// Nothing lingers between processes of one machine: what a killed worker wrote has arrived or never will.
const SOON = { RECONCILE_CRASHED_MS: '5000' }

/**
 * Four orders of one leader: with no connection open at any worker, twice more as the connections come up, and
 * once with a worker killed when the first tenth of the copies is bought. Throws when a promise breaks.
 */
export async function copies(
  stage: Stage,
  { address, followers }: { address: string; followers: number }
): Promise<string[][]> {
  const workers = await Promise.all(Array.from({ length: WORKERS }, () => stage.startWorker(SOON)))
  const [leader, ...names] = await stage.makeTraders(address, followers + 1)
  await follow(stage.db, leader as string, names)
  const body: string[][] = []
  for (const [run, title] of ['no connection open', 'some open', 'more open', 'a worker killed'].entries()) {
    const placed = call({
      address,
      key: stage.key,
      path: '/v1/orders/binary',
      body: tickOrder(leader as string, { duration: 5, stake: 10 })
    })
    let doubts = 'none'
    if (title === 'a worker killed') {
      await until(async () => (await bought(stage.db)) >= followers * (run + 0.1))
      const pid = await busiest(stage.db)
      const killed = workers.find(worker => worker.pid === pid) ?? (workers[0] as ChildProcess)
      killed.kill('SIGKILL')
      await once(killed, 'exit')
      doubts = String(await sentBy(stage.db, killed.pid as number))
    }
    const { orderId } = JSON.parse(await placed) as { orderId: string }
    body.push([title, ...(await outcome(stage, orderId, followers)), doubts])
  }
  return body
}

/** Everybody follows the leader, as if each had sent the request. */
async function follow(db: Db, leader: string, followers: string[]): Promise<void> {
  await rows(
    db,
    `insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance)
     select 'fol_' || substr(t.id, 5), t.partner_id, t.id, t.external_id, l.id, 50, 90, 'ACTIVE', 1000000
       from traders t join traders l on l.external_id = :leader
      where t.external_id = any(:followers)`,
    { leader, followers }
  )
}

/** Copies that are bought, of all runs. */
async function bought(db: Db): Promise<number> {
  const [row] = await rows<{ count: number }>(
    db,
    `select count(*)::int as count from orders where copied_from is not null and broker_order_id is not null`
  )
  return row?.count ?? 0
}

/** The worker with the most orders between intent and response. */
async function busiest(db: Db): Promise<number | undefined> {
  const [row] = await rows<{ pid: number }>(
    db,
    `select split_part(sender, ':', 2)::int as pid from orders where phase = 'sending'
      group by sender order by count(*) desc limit 1`
  )
  return row?.pid
}

/** Copies that a dead worker leaves in doubt. */
async function sentBy(db: Db, pid: number): Promise<number> {
  const [row] = await rows<{ count: number }>(
    db,
    `select count(*)::int as count from orders where phase = 'sending' and sender like '%:' || :pid::text || ':%'`,
    { pid }
  )
  return row?.count ?? 0
}

/** Waits until every copy has its end; holds the rows against the broker's books; returns the figures. */
async function outcome(stage: Stage, leadingId: string, followers: number): Promise<string[]> {
  const { db } = stage
  await until(async () => {
    const [row] = await rows<{ ended: number }>(
      db,
      `select count(*)::int as ended from orders where copied_from = :leadingId and phase in ('closed', 'failed', 'review')`,
      { leadingId }
    )
    return row?.ended === followers
  })
  const books = (await (await fetch(`${stage.broker.control}/ledger`)).json()) as LedgerEntry[]
  const report = audit({ contracts: booksOf(books), orders: await readOrders(db), lateToleranceMs: 0 })
  if (report.findings.length > 0) throw new Error(`copies: ${JSON.stringify(report.findings.slice(0, 5))}`)

  const orders = await rows<{ id: string; copied_from: string | null; account_id: string; broker_order_id: string }>(
    db,
    `select id, copied_from, account_id, broker_order_id from orders where id = :leadingId or copied_from = :leadingId`,
    { leadingId }
  )
  const boughtAt = new Map(books.map(entry => [`${entry.loginid} ${entry.contractId}`, entry.boughtAtMs]))
  const times = new Map(
    orders.map(order => [order.id, boughtAt.get(`${order.account_id} ${order.broker_order_id}`)] as const)
  )
  const first = times.get(leadingId) as number
  times.delete(leadingId)
  const delays = [...times.values()].flatMap(at => (at === undefined ? [] : [at - first]))
  const rest = await rows<{ what: string }>(
    db,
    `select count(*) || ' ' || coalesce(error_code, phase) as what from orders
      where copied_from = :leadingId and phase <> 'closed' group by error_code, phase`,
    { leadingId }
  )
  const { p50, p99 } = spread(delays)
  return [
    `${delays.length} of ${followers}`,
    `${ms(p50)} / ${ms(p99)}`,
    ms(Math.max(...delays)),
    rest.map(({ what }) => what).join(', ') || 'none'
  ]
}

async function until(look: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 90_000
  while (!(await look())) {
    if (performance.now() > deadline) throw new Error('copies: not all ended within 90 s')
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

// The end of a chaos run: everything healed, every order waited for, then the auditor over the broker's books and
// the service's own audit, and for whatever is wrong the whole trace of its order.
import { setTimeout as sleep } from 'node:timers/promises'
import { Big } from 'big.js'
import { findBrokerRequests, storeBrokerRequests } from '../../db/platform/broker-requests.ts'
import { openLog } from '../../db/platform/log.ts'
import { openQueue } from '../../db/platform/queue.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import type { ReconciliationSummary } from '../../worker/accounts/reconciliation.ts'
import type { LedgerEntry } from '../../worker/simulator/engine/ledger.ts'
import { type AuditReport, audit, booksOf, readOrders, readReported } from '../support/auditor.ts'
import type { ChaosLoad } from './load.ts'
import type { ChaosStack } from './stack.ts'
import { type Doubts, doubts, sendersBefore, type TracedViolation } from './traces.ts'

// The window of the broker's tightest quota.
const CALLS_AGAIN_MS = 61_000
const AUDITS_AGAIN = 4

export interface Judgement {
  report: AuditReport
  violations: TracedViolation[]
  doubts: Doubts
  stillOpen: number
  markups: MarkupSums[]
}

/** What the application earned by our orders and by the broker's ledger, of one partner in one currency. */
export interface MarkupSums {
  partnerId: string
  currency: string
  ours: string
  theirs: string
  /** Contracts whose markup our orders do not know. */
  unknown: number
}

/** Waits until no order is on its way any more, at most `ms`; returns how many still are. */
export async function waitForEnd(db: Db, ms: number): Promise<number> {
  const deadline = performance.now() + ms
  for (;;) {
    const [row] = await rows<{ count: number }>(
      db,
      `select count(*)::int as count from orders where phase in ('unproven', 'queued', 'sending', 'open')`
    )
    if (row?.count === 0 || performance.now() > deadline) return row?.count ?? 0
    await sleep(100)
  }
}

/** Has the workers compare every account with the broker's books. */
export async function requestAudit(stack: ChaosStack): Promise<ReconciliationSummary> {
  const { db, postgres, traders } = stack
  const queue = await openQueue({ url: postgres.url, role: 'sender', log: openLog({ level: 'silent', name: 'chaos' }) })
  const total: ReconciliationSummary = {
    accounts: 0,
    contracts: 0,
    orphans: 0,
    mismatches: 0,
    unsettled: 0,
    unreachable: 0,
    behind: 0
  }
  try {
    // 200 accounts a time, and some more for those that could not be reached.
    for (let round = 0; round < Math.ceil(traders.length / 200) + 1; round++) {
      const question = { kind: 'audit', key: `chaos-${round}`, data: {}, replyChannel: 'nobody', timeoutMs: 120_000 }
      const [requested] = await db.transaction(trx => storeBrokerRequests(trx, queue, [question]))
      const deadline = performance.now() + question.timeoutMs
      for (;;) {
        const [row] = await findBrokerRequests(db, [(requested as { id: string }).id])
        if (row?.state === 'refused') throw new Error(`The audit was refused: ${JSON.stringify(row.error)}`)
        if (row?.state === 'answered') {
          for (const [name, count] of Object.entries(row.response as ReconciliationSummary))
            total[name as keyof ReconciliationSummary] += count
          break
        }
        if (performance.now() > deadline) throw new Error('The audit was not completed.')
        await sleep(100)
      }
    }
    return total
  } finally {
    await queue.close()
  }
}

/** Accounts that were not compared since their last order, but for those with an order that only the operator decides. */
async function countNotCompared(db: Db): Promise<number> {
  const [found] = await rows<{ count: number }>(
    db,
    `select count(*)::int as count from broker_accounts a
      where a.status = 'CONNECTED'
        and exists (select from orders o where o.broker_account_id = a.id and o.queued_at > coalesce(a.compared_at, 'epoch'))
        and not exists (select from orders o where o.broker_account_id = a.id and o.phase in ('sending', 'review'))`
  )
  return found?.count ?? 0
}

/** Holds the rows, the books and what clients received against each other. */
export async function judge(stack: ChaosStack, load: ChaosLoad): Promise<Judgement> {
  const { db, members } = stack
  const violations: TracedViolation[] = []
  const violate = (what: string, orderId: string | null = null, contractId: string | null = null) =>
    violations.push({ what, orderId, contractId })

  const stillOpen = await waitForEnd(db, 60_000)
  await requestAudit(stack)
  // Each failover has an account's books compared before it buys: after many its calls are used up for a minute. An audit takes
  // accounts that were compared a moment ago as well, so that only some of the others get the calls that are left.
  let lacking = await countNotCompared(db)
  for (let again = 0; lacking > 0 && again < AUDITS_AGAIN; again++) {
    await sleep(CALLS_AGAIN_MS)
    await requestAudit(stack)
    lacking = await countNotCompared(db)
  }
  if (lacking > 0) violate(`${lacking} accounts could not be audited in peace`)
  const [ledger, orders, reported] = [await stack.ledger(), await readOrders(db), await readReported(db)]
  const accepted = load.lives.filter(({ orderId }) => orderId).map(({ body }) => body.clientOrderId)
  const report = audit({
    contracts: booksOf(ledger),
    orders,
    reported,
    accepted,
    lateToleranceMs: stack.times.reconcile
  })
  for (const { kind, what, orderId, contractId } of report.findings) violate(`${kind}: ${what}`, orderId, contractId)

  for (const entry of ledger)
    if (reported.has(String(entry.contractId)) && !(await senderWasStruck(stack, entry)))
      violate('bought beside its order, and its sender was well', null, String(entry.contractId))
  const owners = new Map(orders.map(order => [order.broker_order_id, order.id]))
  for (const contractId of reported) {
    const owner = owners.get(contractId)
    if (owner) violate('the audit reported a contract that has its order', owner, contractId)
  }
  const [wrong] = await rows<{ count: number }>(
    db,
    `select count(*)::int as count from contract_breaks where kind = 'MISMATCH'`
  )
  if (wrong?.count) violate(`the audit reports ${wrong.count} orders whose figures differ`)
  const markups = await sumMarkups(db, ledger, reported)
  for (const { partnerId, currency, ours, theirs, unknown } of markups)
    if (!new Big(ours).eq(theirs) || unknown > 0)
      violate(`markup of ${partnerId} in ${currency} is ${ours}, the broker's ledger has ${theirs}; ${unknown} unknown`)
  compareWithResponses(load, new Map(orders.map(order => [order.client_order_id as string, order])), violate)
  for (const { what, life } of load.complaints) violate(what, life?.orderId ?? null)
  for (const { crashes } of members) for (const crash of crashes) violate(crash)
  return { report, violations, doubts: await doubts(db), stillOpen, markups }
}

/** Sums of markups by partner and currency; contracts that no order owns and the operator knows of are on neither side. */
async function sumMarkups(db: Db, ledger: LedgerEntry[], reported: ReadonlySet<string>): Promise<MarkupSums[]> {
  const orders = await rows<{
    partnerId: string
    currency: string
    accountId: string
    contractId: string
    markup: string | null
  }>(
    db,
    `select partner_id as "partnerId", coalesce(currency, '') as currency, account_id as "accountId", broker_order_id as "contractId", markup::text as markup
       from orders where phase in ('open', 'closed')`
  )
  const owned = new Set(orders.map(({ contractId }) => contractId))
  const [{ partnerId: only = '' } = {}] = orders
  const sums = new Map<string, MarkupSums>()
  const sumOf = (partnerId: string, currency: string): MarkupSums => {
    const key = `${partnerId} ${currency}`
    const sum = sums.get(key) ?? { partnerId, currency, ours: '0', theirs: '0', unknown: 0 }
    sums.set(key, sum)
    return sum
  }
  for (const { partnerId, currency, markup } of orders) {
    const sum = sumOf(partnerId, currency)
    sum.ours = new Big(sum.ours).plus(markup ?? 0).toFixed(2)
    if (markup === null) sum.unknown++
  }
  const partners = new Map(orders.map(({ accountId, partnerId }) => [accountId, partnerId]))
  for (const { contractId, loginid, currency, markup } of ledger) {
    if (!owned.has(String(contractId)) && reported.has(String(contractId))) continue
    const sum = sumOf(partners.get(loginid) ?? only, currency)
    sum.theirs = new Big(sum.theirs).plus(markup).toFixed(2)
  }
  return [...sums.values()]
}

/**
 * Whether a worker that may have sent the purchase was killed or frozen before it arrived. Only then nobody is left to
 * take it back: what a dead process has written its kernel still delivers, and a frozen one may write it late. The
 * audit has to find such a contract; from a sender that was well there must be none.
 */
async function senderWasStruck({ db, workers }: ChaosStack, entry: LedgerEntry): Promise<boolean> {
  const at = new Date(entry.boughtAtMs + 1000)
  const senders = await sendersBefore(db, { accountId: entry.loginid, at })
  const blows = workers.flatMap(({ blows }) => blows)
  return senders.some(({ sender, sentAt }) =>
    blows.some(blow => sender.includes(`:${blow.pid}:`) && blow.until >= sentAt && blow.at <= at)
  )
}

type JudgedRow = Awaited<ReturnType<typeof readOrders>>[number]

function compareWithResponses(
  load: ChaosLoad,
  byClient: Map<string, JudgedRow>,
  violate: (what: string, id?: string) => void
) {
  for (const life of load.lives) {
    const row = byClient.get(life.body.clientOrderId)
    if (!row) {
      if (life.orderId) violate('was acknowledged and has no row', life.orderId)
      continue
    }
    if (life.orderId && row.id !== life.orderId) violate(`was returned as ${life.orderId}`, row.id)
    if (life.brokerOrderId && row.broker_order_id !== life.brokerOrderId)
      violate(`was returned with the contract ${life.brokerOrderId}`, row.id)
    if (life.pnl !== undefined && Number(row.pnl) !== life.pnl) violate(`was returned with the pnl ${life.pnl}`, row.id)
    if (life.end === 'refused' && row.phase !== 'failed') violate(`was refused and is ${row.phase}`, row.id)
  }
}

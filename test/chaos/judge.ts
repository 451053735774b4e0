// The end of a chaos run: everything healed, every order waited for, then the auditor over the broker's books and
// the service's own audit, and for whatever is wrong the whole story of its order.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findAsks, storeAsks } from '../../db/asks.ts'
import { type Db, rows } from '../../db/connection.ts'
import { openLog } from '../../db/log.ts'
import { openQueue } from '../../db/queue.ts'
import type { AuditSummary } from '../../worker/audit.ts'
import type { LedgerEntry } from '../../worker/broker/simulator/ledger.ts'
import { type AuditReport, audit, booksOf, readOrders, readReported } from '../auditor.ts'
import { type Ground, times } from './ground.ts'
import type { Life, Load } from './load.ts'

export interface Violation {
  what: string
  orderId: string | null
  contractId: string | null
}

export interface Judgement {
  report: AuditReport
  violations: Violation[]
  /** Orders in doubt and decided, and how long that took from `sent_at`. */
  doubts: { count: number; p50Ms: number; p99Ms: number; maxMs: number }
  stillOpen: number
}

/** Waits until no order is on its way any more, at most `ms`; answers how many still are. */
export async function waitForEnd(db: Db, ms: number): Promise<number> {
  const deadline = performance.now() + ms
  for (;;) {
    const [row] = await rows<{ count: number }>(
      db,
      `select count(*)::int as count from orders where phase in ('queued', 'sending', 'open')`
    )
    if (row?.count === 0 || performance.now() > deadline) return row?.count ?? 0
    await sleep(100)
  }
}

/** Has the workers compare every account with the broker's books. */
export async function askForAudit(ground: Ground): Promise<AuditSummary> {
  const { db, postgres, traders } = ground
  const queue = await openQueue({ url: postgres.url, role: 'sender', log: openLog({ level: 'silent', name: 'chaos' }) })
  const total: AuditSummary = { accounts: 0, contracts: 0, orphans: 0, mismatches: 0, unreachable: 0 }
  try {
    // 200 accounts a time, and some more for those that could not be reached.
    for (let round = 0; round < Math.ceil(traders.length / 200) + 1; round++) {
      const question = { kind: 'audit', key: `chaos-${round}`, data: {}, origin: 'nobody', timeoutMs: 120_000 }
      const [asked] = await db.transaction(trx => storeAsks(trx, queue, [question]))
      const deadline = performance.now() + question.timeoutMs
      for (;;) {
        const [row] = await findAsks(db, [(asked as { id: string }).id])
        if (row?.state === 'refused') throw new Error(`The audit was refused: ${JSON.stringify(row.error)}`)
        if (row?.state === 'answered') {
          for (const [name, count] of Object.entries(row.answer as AuditSummary))
            total[name as keyof AuditSummary] += count
          break
        }
        if (performance.now() > deadline) throw new Error('The audit was not answered.')
        await sleep(100)
      }
    }
    return total
  } finally {
    await queue.close()
  }
}

/** Holds the rows, the books and what clients were told against each other. */
export async function judge(ground: Ground, load: Load): Promise<Judgement> {
  const { db, members } = ground
  const violations: Violation[] = []
  const violate = (what: string, orderId: string | null = null, contractId: string | null = null) =>
    violations.push({ what, orderId, contractId })

  const stillOpen = await waitForEnd(db, 60_000)
  const audited = await askForAudit(ground)
  if (audited.unreachable > 0) violate(`${audited.unreachable} accounts could not be audited in peace`)
  const [ledger, orders, reported] = [await ground.ledger(), await readOrders(db), await readReported(db)]
  const accepted = load.lives.filter(({ orderId }) => orderId).map(({ body }) => body.clientOrderId)
  const report = audit({
    contracts: booksOf(ledger),
    orders,
    reported,
    accepted,
    lateToleranceMs: times.reconcile
  })
  for (const { kind, what, orderId, contractId } of report.findings) violate(`${kind}: ${what}`, orderId, contractId)

  const owners = new Map(orders.map(order => [order.broker_order_id, order.id]))
  for (const contractId of reported) {
    const owner = owners.get(contractId)
    if (owner) violate('the audit reported a contract that has its order', owner, contractId)
  }
  const [wrong] = await rows<{ count: number }>(
    db,
    `select count(*)::int as count from contract_findings where kind = 'MISMATCH'`
  )
  if (wrong?.count) violate(`the audit reports ${wrong.count} orders whose figures differ`)
  compareWithAnswers(load, new Map(orders.map(order => [order.client_order_id as string, order])), violate)
  for (const { what, life } of load.complaints) violate(what, life?.orderId ?? null)
  for (const { crashes } of members) for (const crash of crashes) violate(crash)
  return { report, violations, doubts: await doubts(db), stillOpen }
}

type Row = Awaited<ReturnType<typeof readOrders>>[number]

function compareWithAnswers(load: Load, byClient: Map<string, Row>, violate: (what: string, id?: string) => void) {
  for (const life of load.lives) {
    const row = byClient.get(life.body.clientOrderId)
    if (!row) {
      if (life.orderId) violate('was answered and has no row', life.orderId)
      continue
    }
    if (life.orderId && row.id !== life.orderId) violate(`was answered as ${life.orderId}`, row.id)
    if (life.brokerOrderId && row.broker_order_id !== life.brokerOrderId)
      violate(`was answered with the contract ${life.brokerOrderId}`, row.id)
    if (life.pnl !== undefined && Number(row.pnl) !== life.pnl) violate(`was answered with the pnl ${life.pnl}`, row.id)
    if (life.end === 'refused' && row.phase !== 'failed') violate(`was refused and is ${row.phase}`, row.id)
  }
}

/** An order counts as in doubt when nobody had decided it by the time its reconciliation was due. */
async function doubts(db: Db): Promise<Judgement['doubts']> {
  const [row] = await rows<{ count: number; p50: number; p99: number; max: number }>(
    db,
    `with steps as (
       select phase, sent_at, reconcile_at, lead(at) over (partition by order_id order by id) as decided_at from chaos_steps
     ), waits as (
       select extract(epoch from decided_at - sent_at)::float8 * 1000 as ms
         from steps where phase = 'sending' and decided_at >= reconcile_at
     )
     select count(*)::int as count, coalesce(percentile_cont(0.5) within group (order by ms), 0) as p50,
            coalesce(percentile_cont(0.99) within group (order by ms), 0) as p99, coalesce(max(ms), 0)::float8 as max
       from waits`
  )
  const { count = 0, p50 = 0, p99 = 0, max = 0 } = row ?? {}
  return { count, p50Ms: Math.round(p50), p99Ms: Math.round(p99), maxMs: Math.round(max) }
}

/** Everything that is known of an order or a contract. */
export async function story(
  ground: Ground,
  load: Load,
  about: Violation & { deeds: { at: Date; what: string }[]; ledger: LedgerEntry[] }
): Promise<string> {
  const { db, logs } = ground
  const lines: string[] = [`== ${about.what} (order ${about.orderId ?? '-'}, contract ${about.contractId ?? '-'})`]
  const contract = about.ledger.find(({ contractId }) => String(contractId) === about.contractId)
  const [order] = about.orderId
    ? await rows<Record<string, unknown>>(db, 'select * from orders where id = :id', { id: about.orderId })
    : []
  if (order) lines.push(`row: ${JSON.stringify(order, (_, value) => value ?? undefined)}`)
  const account = (order?.account_id as string | undefined) ?? contract?.loginid
  for (const entry of about.ledger.filter(
    each => each === contract || String(each.contractId) === order?.broker_order_id
  ))
    lines.push(`ledger: ${new Date(entry.boughtAtMs).toISOString()} ${JSON.stringify(entry)}`)
  const life = load.lives.find(each =>
    order
      ? each.body.clientOrderId === order.client_order_id
      : each.orderId !== undefined && each.orderId === about.orderId
  )
  if (life) lines.push(...tell(life))
  // The account's orders around the moment: one of them may be the contract's owner.
  const moment = contract ? new Date(contract.boughtAtMs) : undefined
  const steps = await rows<Record<string, unknown> & { at: Date }>(
    db,
    `select s.* from chaos_steps s join orders o on o.id = s.order_id
      where (s.order_id = :id or (o.account_id = :account and s.at between :from and :to)) order by s.id limit 200`,
    {
      id: about.orderId ?? '',
      account: moment ? (account ?? '') : '',
      from: new Date((moment?.getTime() ?? 0) - 15_000),
      to: new Date((moment?.getTime() ?? 0) + 15_000)
    }
  )
  for (const { at, id, ...step } of steps)
    lines.push(`step: ${at.toISOString()} ${JSON.stringify(step, (_, value) => value ?? undefined)}`)
  const ids = [
    ...new Set([about.orderId, about.contractId, order?.broker_order_id as string].filter(Boolean))
  ] as string[]
  for (const name of ids.length > 0 ? await readdir(logs) : [])
    for (const line of (await readFile(join(logs, name), 'utf8')).split('\n'))
      if (ids.some(id => line.includes(id))) lines.push(`${name}: ${line.slice(0, 600)}`)
  const times = steps.map(({ at }) => at.getTime())
  const [from, to] = [Math.min(...times) - 2000, Math.max(...times) + 2000]
  for (const { at, what } of about.deeds)
    if (at.getTime() >= from && at.getTime() <= to) lines.push(`deed: ${at.toISOString()} ${what}`)
  return lines.join('\n')
}

function tell({ body, tries, end, log }: Life): string[] {
  return [`client: ${JSON.stringify(body)}, ${tries} tries, ${end}`, ...log.map(line => `client: ${line}`)]
}

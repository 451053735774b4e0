// The verdict on a simulation: the auditor's, and whether every client received the truth.
import { Big } from 'big.js'
import { type AuditedOrder, type AuditReport, audit } from '../support/auditor.ts'
import type { WorldBooks } from './books.ts'
import { KERNEL_MS } from './buys.ts'
import type { Counts } from './chance.ts'
import type { ClientLife } from './clients.ts'
import type { Schedule } from './clock.ts'
import type { Database } from './database.ts'
import { eventViolations, LOGGED, type LoggedEvent } from './events.ts'

export interface LifeVerdict {
  seed: number
  lives: number
  /** What two runs of the seed must agree on. */
  hash: string
  report: AuditReport
  /** Clients that received what is not so. */
  violations: string[]
  /** Contracts bought after their sender froze, and how many of them only the service's audit knows. */
  excused: { contracts: number; unknown: number }
  counts: Record<string, number>
  events: number
  statements: number
  virtualMs: number
  ms: number
  /** Errors that no fault explains. */
  errors: string[]
  good: boolean
  /** What was recorded of the ids that were requested. */
  trace: string[]
}

/** A purchase that a worker reported as nobody's. */
export interface Alarm {
  orderId?: string
  contractId?: string
}

// A buy is executed up to 15 s after it was sent, which may be 1.5 s after its order's time to live at the latest; what
// a process wrote before it died is on its way for longer.
const LATE_TOLERANCE_MS = 17_000 + KERNEL_MS

export async function verdictOf(end: {
  seed: number
  audit: boolean
  /** How far the database's clock may be from where it was, ms. */
  clockMs: number
  /** What the world found wrong by itself: orders that made no progress without a reason, copies. */
  violations: string[]
  schedule: Schedule
  database: Database
  books: WorldBooks
  lives: ClientLife[]
  counts: Counts
  errors: string[]
  alarms: Alarm[]
}): Promise<Omit<LifeVerdict, 'ms' | 'trace'>> {
  const { schedule, database, books, lives, counts, errors } = end
  const orders = await database.look<AuditedOrder>('select * from orders order by id')
  const found = await database.look<{ kind: string; broker_order_id: string }>(
    'select kind, broker_order_id from contract_breaks order by id'
  )
  const deals = [...books.deals.values()]
  const reported = new Set(found.filter(({ kind }) => kind === 'ORPHAN').map(({ broker_order_id }) => broker_order_id))
  const excused = new Set(deals.filter(deal => deal.excused).map(({ id }) => id))
  const foreign = new Set(deals.filter(deal => deal.foreign).map(({ id }) => id))
  const input = {
    contracts: books.booked(end.clockMs),
    orders,
    foreign,
    accepted: new Set(lives.flatMap(({ responses }) => responses.flatMap(({ orderId }) => orderId || []))),
    lateToleranceMs: LATE_TOLERANCE_MS,
    clockToleranceMs: 1500 + end.clockMs,
    // A multiplier that nobody closes stays open; a binary contract ends long before the simulation does.
    openIsFine: true
  }
  // Only a purchase whose sender froze may be left to the service's audit.
  const report = audit({ ...input, reported: new Set([...reported].filter(id => excused.has(id))) })
  report.findings = report.findings.filter(
    ({ kind, contractId }) => !(kind === 'late' && contractId !== null && excused.has(contractId))
  )
  report.late = report.findings.filter(({ kind }) => kind === 'late').length
  const mismatches = found.filter(({ kind }) => kind === 'MISMATCH').length
  const falseAlarms = [...reported].filter(id => !excused.has(id) && !foreign.has(id)).length
  const violations = [...violationsOf(lives, orders), ...books.breaches, ...end.violations]
  violations.push(...eventViolations(await database.look<LoggedEvent>(LOGGED), orders))
  if (mismatches > 0) violations.push(`the audit reported ${mismatches} orders whose figures are right`)
  if (falseAlarms > 0) violations.push(`the audit reported ${falseAlarms} contracts that have their order`)
  const owners = new Map(orders.map(({ broker_order_id, id }) => [broker_order_id, id]))
  for (const { orderId, contractId = '' } of end.alarms)
    if (owners.get(contractId) === orderId)
      violations.push(`${orderId} was reported without its contract ${contractId}`)
  for (const order of orders) schedule.note(`${order.id} ${order.phase} ${order.broker_order_id} ${order.pnl}\n`)
  return {
    seed: end.seed,
    lives: lives.length,
    hash: schedule.digest(),
    report,
    violations,
    excused: { contracts: excused.size, unknown: report.reported },
    counts: counts.all(),
    events: schedule.events,
    statements: database.statements,
    virtualMs: schedule.now,
    errors,
    // A simulation in which little was bought has shown little.
    good:
      report.findings.length === 0 && violations.length === 0 && errors.length === 0 && deals.length > lives.length / 4
  }
}

/** What clients received, and what they may not be, against the rows as they ended. */
function* violationsOf(lives: ClientLife[], orders: AuditedOrder[]): Iterable<string> {
  const byClient = new Map<string, AuditedOrder>()
  for (const order of orders) {
    // A copy is nobody's request.
    if (order.client_order_id === null) continue
    const key = `${(order as { partner_id?: string }).partner_id} ${order.client_order_id}`
    if (byClient.has(key)) yield `${order.client_order_id} names two orders`
    byClient.set(key, order)
  }
  for (const { clientOrderId, party, responses, requests } of lives) {
    const order = byClient.get(`${party.partnerId} ${clientOrderId}`)
    if (order?.broker_order_id && responses.some(({ final }) => final))
      yield `${clientOrderId} was refused for good and bought`
    for (const { status, orderId, brokerOrderId, pnl } of responses) {
      const about = `${clientOrderId} was returned as ${status} ${orderId} ${brokerOrderId ?? ''} and its row`
      if (orderId === undefined || orderId === '') continue
      if (!order || order.id !== orderId) yield `${about} is ${order?.id}`
      else if (status === 'OPEN' || status === 'CLOSED') {
        if (status === 'CLOSED' && order.phase !== 'closed') yield `${about} is ${order.phase}`
        // A settlement that is not believed is reported as an error, which names no contract.
        if (brokerOrderId !== undefined && order.broker_order_id !== brokerOrderId)
          yield `${about} has ${order.broker_order_id}`
        if (order.phase !== 'closed' && order.phase !== 'open') yield `${about} is ${order.phase}`
        if (status === 'CLOSED' && (order.pnl === null || !new Big(order.pnl).eq(pnl as number)))
          yield `${about} made ${order.pnl}`
      }
    }
    // No request was repeated, so that a FAILED order must have stayed what it was.
    if (responses[0]?.status === 'FAILED' && requests === 1 && order?.broker_order_id)
      yield `${clientOrderId} FAILED and owns a contract`
  }
}

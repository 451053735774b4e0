// The auditor: what the broker's own books hold against the orders' final rows, and nothing else. It shares
// no code with the order path, so that an error there cannot hide itself. Every fault test ends with it.
import { Big } from 'big.js'
import type { Db } from '../../db/postgres/connection.ts'

/** A contract in the broker's books; money as decimal strings. */
export interface BookedContract {
  contractId: string
  accountId: string
  appId: string
  contractType: string
  asset: string
  /** Ticks ('t') or seconds ('s'); null for multipliers. */
  duration: number | null
  durationUnit: 't' | 's' | null
  barrier: string | null
  multiplier: number | null
  buyPrice: string
  payout: string
  boughtAtMs: number
  sellPrice: string | null
  /** When the request that bought it left its sender, where the books know: then lateness has no tolerance. */
  writtenAtMs?: number
}

/** The columns of an order that the audit reads. */
export interface AuditedOrder {
  id: string
  client_order_id: string | null
  account_id: string
  app_id: string
  phase: string
  kind: string
  asset: string
  contract_type: string | null
  direction: string | null
  multiplier: string | null
  stake: string
  duration: number | null
  duration_unit: 't' | 's' | 'm' | 'h' | 'd' | null
  barrier: string | null
  queued_at: Date
  expires_at: Date
  broker_order_id: string | null
  buy_price: string | null
  payout: string | null
  pnl: string | null
  evidence: unknown
}

type FindingKind = 'doubled' | 'lost' | 'late' | 'money' | 'stuck'

export interface AuditFinding {
  kind: FindingKind
  orderId: string | null
  contractId: string | null
  what: string
}

export interface AuditInput {
  contracts: Iterable<BookedContract>
  orders: AuditedOrder[]
  /** Purchases made by others than the service: they are nobody's, and must stay so. */
  foreign?: ReadonlySet<string>
  /** Contracts that the service's own audit reported: known to the operator, and counted apart. */
  reported?: ReadonlySet<string>
  /** Ids, ours or the clients', of orders that were acknowledged. */
  accepted?: Iterable<string>
  /**
   * How long after an order's time to live its contract may be dated: the broker's own time-out and the way
   * there. A buy whose sending is known (`writtenAtMs`) gets none of it.
   */
  lateToleranceMs: number
  /** How far the broker's clock may be from the database's. Default: a second, what it rounds to. */
  clockToleranceMs?: number
  /** Open orders are fine while their contract is. Default: false, everything must have ended. */
  openIsFine?: boolean
}

export interface AuditReport {
  orders: number
  contracts: number
  /** Orders by phase. */
  phases: Record<string, number>
  doubled: number
  lost: number
  late: number
  /** Price, payout, result or terms differ between the books and the row. */
  money: number
  /** Orders without an end. */
  stuck: number
  /** Contracts without an order that the service's own audit reported. */
  reported: number
  findings: AuditFinding[]
}

/** Compares the books with the rows. Pure: the same input gives the same report. */
export function audit(input: AuditInput): AuditReport {
  const { orders, foreign = new Set(), reported = new Set() } = input
  const findings: AuditFinding[] = []
  const find = (kind: FindingKind, what: string, about: { order?: AuditedOrder; contract?: BookedContract }) =>
    findings.push({ kind, what, orderId: about.order?.id ?? null, contractId: about.contract?.contractId ?? null })

  const contracts = new Map<string, BookedContract>()
  for (const contract of input.contracts) contracts.set(keyOf(contract.accountId, contract.contractId), contract)
  const owners = new Map<string, AuditedOrder>()
  const phases: Record<string, number> = {}
  for (const order of orders) {
    phases[order.phase] = (phases[order.phase] ?? 0) + 1
    checkEnd(order, find)
    if (order.broker_order_id === null) continue
    const key = keyOf(order.account_id, order.broker_order_id)
    const contract = contracts.get(key)
    const other = owners.get(key)
    if (!contract) find('lost', 'owns a contract that the broker does not have', { order })
    else if (other) find('doubled', `owns the contract of ${other.id} as well`, { order, contract })
    else {
      owners.set(key, order)
      checkPair(order, contract, input, find)
    }
  }

  const twins = ordersByTerms(orders)
  let known = 0
  for (const [key, contract] of contracts) {
    if (owners.has(key) || foreign.has(contract.contractId)) continue
    const candidates = (twins.get(contract.accountId) ?? []).filter(order => isFor(order, contract))
    // In review the operator sees it among the candidates.
    if (candidates.some(({ phase, evidence }) => phase === 'review' && shows(evidence, contract.contractId))) continue
    if (reported.has(contract.contractId)) known += 1
    else if (candidates.some(({ broker_order_id }) => broker_order_id !== null))
      find('doubled', 'was bought beside the contract of an order of these terms', { order: candidates[0], contract })
    else find('lost', 'was bought, and no order knows it', { order: candidates[0], contract })
  }

  const ids = new Set(orders.flatMap(({ id, client_order_id }) => [id, client_order_id]))
  for (const id of input.accepted ?? [])
    if (!ids.has(id)) findings.push({ kind: 'lost', orderId: id, contractId: null, what: 'was accepted and is gone' })

  const count = (kind: FindingKind) => findings.filter(finding => finding.kind === kind).length
  return {
    orders: orders.length,
    contracts: contracts.size,
    phases,
    doubled: count('doubled'),
    lost: count('lost'),
    late: count('late'),
    money: count('money'),
    stuck: count('stuck'),
    reported: known,
    findings
  }

  function checkEnd(order: AuditedOrder, report: typeof find): void {
    if (['closed', 'failed', 'review'].includes(order.phase)) return
    const contract = contracts.get(keyOf(order.account_id, order.broker_order_id ?? ''))
    if (order.phase === 'open' && input.openIsFine && contract?.sellPrice === null) return
    report('stuck', `is ${order.phase}`, { order, contract })
  }
}

type ReportFinding = (kind: FindingKind, what: string, about: { order: AuditedOrder; contract: BookedContract }) => void

function checkPair(order: AuditedOrder, contract: BookedContract, input: AuditInput, find: ReportFinding): void {
  const about = { order, contract }
  if (input.foreign?.has(contract.contractId)) find('money', "owns somebody else's purchase", about)
  else if (!isFor(order, contract)) find('money', 'owns a contract of other terms', about)
  if (contract.appId !== order.app_id) find('money', 'owns a contract of another application', about)
  const clockMs = input.clockToleranceMs ?? 1000
  const { queued_at, expires_at } = order
  if (contract.writtenAtMs !== undefined && contract.writtenAtMs > expires_at.getTime())
    find('late', `was sent ${contract.writtenAtMs - expires_at.getTime()} ms after its time`, about)
  else if (contract.boughtAtMs > expires_at.getTime() + input.lateToleranceMs + clockMs)
    find('late', `was bought ${contract.boughtAtMs - expires_at.getTime()} ms after its time`, about)
  if (contract.boughtAtMs < queued_at.getTime() - clockMs) find('late', 'was bought before it was asked for', about)
  if (!same(order.buy_price, contract.buyPrice)) find('money', `paid ${order.buy_price}, ${contract.buyPrice}`, about)
  if (!same(order.payout, contract.payout)) find('money', `pays out ${order.payout}, ${contract.payout}`, about)
  if (order.phase !== 'closed') return
  const profit = contract.sellPrice === null ? null : new Big(contract.sellPrice).minus(contract.buyPrice).toFixed()
  if (profit === null) find('money', 'is closed while its contract is open', about)
  else if (!same(order.pnl, profit)) find('money', `made ${order.pnl}, ${profit}`, about)
}

const keyOf = (accountId: string, contractId: string) => `${accountId} ${contractId}`

const same = (ours: string | null, theirs: string) => ours !== null && new Big(ours).eq(theirs)

function ordersByTerms(orders: AuditedOrder[]): Map<string, AuditedOrder[]> {
  const byAccount = new Map<string, AuditedOrder[]>()
  for (const order of orders) {
    const list = byAccount.get(order.account_id)
    if (list) list.push(order)
    else byAccount.set(order.account_id, [order])
  }
  return byAccount
}

const secondsIn = { s: 1, m: 60, h: 3600, d: 86_400 } as const

/** Whether a contract has an order's terms, its price included. */
function isFor(order: AuditedOrder, contract: BookedContract): boolean {
  if (order.asset.toUpperCase() !== contract.asset.toUpperCase() || !same(order.stake, contract.buyPrice)) return false
  if (order.kind === 'MULTIPLIER') {
    const type = order.direction === 'up' ? 'MULTUP' : 'MULTDOWN'
    return contract.contractType === type && Number(order.multiplier) === contract.multiplier
  }
  if (order.contract_type !== contract.contractType) return false
  if (/^DIGIT(MATCH|DIFF|OVER|UNDER)$/.test(contract.contractType) && order.barrier !== contract.barrier) return false
  const { duration, duration_unit: unit } = order
  if (duration === null || unit === null) return false
  if (unit === 't') return contract.durationUnit === 't' && contract.duration === duration
  // A contract of days ends with a trading day, not after so many seconds.
  if (unit === 'd') return contract.durationUnit === 's'
  return contract.durationUnit === 's' && contract.duration === duration * secondsIn[unit]
}

function shows(evidence: unknown, contractId: string): boolean {
  return Array.isArray(evidence) && evidence.some(item => (item as { contractId?: unknown }).contractId === contractId)
}

/** The orders as they are, for `audit`. */
export async function readOrders(db: Db): Promise<AuditedOrder[]> {
  const { rows } = (await db.raw(
    `select id, client_order_id, account_id, app_id, phase, kind, asset, contract_type, direction, multiplier, stake, duration,
            duration_unit, barrier, queued_at, expires_at, broker_order_id, buy_price, payout, pnl, evidence
       from orders order by id`
  )) as { rows: AuditedOrder[] }
  return rows
}

/** Contracts without an order that the service's own audit has reported. */
export async function readReported(db: Db): Promise<Set<string>> {
  const { rows } = (await db.raw(`select broker_order_id from contract_breaks where kind = 'ORPHAN'`)) as {
    rows: { broker_order_id: string }[]
  }
  return new Set(rows.map(({ broker_order_id }) => broker_order_id))
}

/** The simulated broker's books (its ledger, from inside or over its control port) as `audit` reads them. */
export function booksOf(
  ledger: Iterable<{
    contractId: number
    loginid: string
    appId: number | string
    contractType: string
    symbol: string
    duration: number | null
    durationUnit: 't' | 's' | null
    barrier: string | null
    multiplier: number | null
    buyPrice: string
    payout: string
    boughtAtMs: number
    sellPrice: string | null
  }>
): BookedContract[] {
  return [...ledger].map(entry => ({
    contractId: String(entry.contractId),
    accountId: entry.loginid,
    appId: String(entry.appId),
    contractType: entry.contractType,
    asset: entry.symbol,
    duration: entry.duration,
    durationUnit: entry.durationUnit,
    barrier: entry.barrier,
    multiplier: entry.multiplier,
    buyPrice: entry.buyPrice,
    payout: entry.payout,
    boughtAtMs: entry.boughtAtMs,
    sellPrice: entry.sellPrice
  }))
}

/** A report in one line, for people. */
export function summary(report: AuditReport): string {
  const phases = Object.entries(report.phases)
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([phase, count]) => `${count} ${phase}`)
  const { doubled, lost, late, money, stuck, reported } = report
  return `${report.orders} orders (${phases.join(', ')}), ${report.contracts} contracts: ${doubled} doubled, ${lost} lost, ${late} late, ${money} money, ${stuck} without end, ${reported} reported by the audit`
}

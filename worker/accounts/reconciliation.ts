// Reconciliation: each active account's recent contracts at the broker against our rows. It finds what no
// protocol can exclude (a process frozen between its last check and the write) and what should not be.
import { Big } from 'big.js'
import {
  asNamedHere,
  type ClaimedContract,
  type ContractBreak,
  claimedContracts,
  type DueAccount,
  insertBreak,
  markCompared,
  ordersInDoubt,
  ordersSentAround,
  takeDueAccounts
} from '../../db/orders/reconciliation.ts'
import { resolveSettledBreaks } from '../../db/orders/review.ts'
import { serveAccounts } from '../../db/traders/account-leases.ts'
import { BrokerError } from '../broker/broker-error.ts'
import { isNamed } from '../broker/dialects/mapping.ts'
import { PROFIT_TABLE, readPages, STATEMENT } from '../broker/pages.ts'
import type { Evidence } from '../broker/port.ts'
import { fitsTerms, rowPerContract } from '../orders/evidence.ts'
import { type OverdueReads, reconcilePastEnd } from '../orders/past-end.ts'
import { contractOf } from '../orders/terms.ts'
import type { WorkerServices } from '../services.ts'
import { openSession } from './accounts.ts'

// Accounts compared in one run, and at once: each costs two calls of the account's own tightest budget (25 a minute,
// shared with the checks of orders in doubt), and at most about 16 where there is a lot to compare.
const ACCOUNTS = 200
const AT_ONCE = 8
// The broker's clock has whole seconds and may differ from ours by this.
const SLACK_MS = 5000
// How long the settlement of a contract that is closed at the broker may take here.
const SETTLING_MS = 120_000

export interface ReconciliationSummary {
  accounts: number
  contracts: number
  orphans: number
  mismatches: number
  /** Orders that are open here although their contract is over, reported for the first time. */
  unsettled: number
  /** Accounts that could not be compared now; they are due again soon. */
  unreachable: number
  /** Accounts with more purchases than one turn reads: compared from the oldest on, and due again soon for the rest. */
  behind: number
}

/** Compares the accounts that are due: all of them, or those that this worker or none serves; `reads` as in `reconcilePastEnd`. */
export async function reconcileAccounts(
  services: WorkerServices,
  { everyMinutes, all = false, reads }: { everyMinutes: number; all?: boolean; reads?: OverdueReads }
): Promise<ReconciliationSummary> {
  const summary: ReconciliationSummary = {
    accounts: 0,
    contracts: 0,
    orphans: 0,
    mismatches: 0,
    unsettled: 0,
    unreachable: 0,
    behind: 0
  }
  await resolveSettledBreaks(services.db)
  // Applications whose broker cannot be reached: each of their accounts would only wait for its time-out.
  const down = new Set<string>()
  const due = await takeDueAccounts(services.db, {
    everyMinutes,
    limit: ACCOUNTS,
    worker: all ? null : services.worker
  })
  if (!all)
    await serveAccounts(
      services.db,
      services.worker,
      due.map(({ accountId }) => accountId)
    )
  const compareOne = async (account: DueAccount): Promise<void> => {
    const application = `${account.dialect} ${account.appId}`
    // The operator has taken the address away, since no order is open there any more.
    if (account.isLeft && !services.brokers.speaks(account.dialect)) {
      summary.unreachable += 1
      return markCompared(services.db, account, null)
    }
    if (down.has(application)) {
      summary.unreachable += 1
      return
    }
    try {
      const { seen, until } = await recentContracts(services, account)
      summary.accounts += 1
      if (until !== null) summary.behind += 1
      summary.contracts += seen.size
      const { differences, undecided } = await compare(services, account, seen)
      for (const difference of differences) {
        if (difference.kind === 'ORPHAN') summary.orphans += 1
        else if (difference.kind === 'MISMATCH') summary.mismatches += 1
        else summary.unsettled += 1
        if (await insertBreak(services.db, difference)) services.log.error({ ...difference }, 'the books differ')
      }
      // An account with an order in doubt is compared again later, from the same point.
      if (!undecided) await markCompared(services.db, account, until)
    } catch (error) {
      summary.unreachable += 1
      services.log.warn({ err: error, accountId: account.accountId }, 'an account could not be audited')
      // In the dialect that its partner has now it would be REJECTED, and not be compared any more either.
      if (account.isLeft && error instanceof BrokerError && error.rejected)
        await markCompared(services.db, account, null)
      if (!(await isReachable(services, account))) down.add(application)
    }
  }
  // One account of each application first: it shows whether the broker can be reached.
  const applications = new Set<string>()
  const first = due.filter(({ dialect, appId }) => {
    const application = `${dialect} ${appId}`
    return !applications.has(application) && applications.add(application)
  })
  for (const wave of [first, due.filter(account => !first.includes(account))]) {
    const waiting = wave.values()
    // Each runner takes the next account when it has finished one: a slow account delays no other.
    const compareNext = async () => {
      for (const account of waiting) await compareOne(account)
    }
    await Promise.all(Array.from({ length: AT_ONCE }, compareNext))
  }
  summary.unsettled += await reconcilePastEnd(services, { everyMinutes, all, reads })
  return summary
}

async function isReachable({ brokers }: WorkerServices, { dialect, appId }: DueAccount): Promise<boolean> {
  try {
    return await brokers.of(dialect).reachable(appId)
  } catch {
    // No broker is configured for the dialect.
    return false
  }
}

/**
 * What was bought since the last comparison, up to `until` (epoch seconds): all of it (null) or, where that is more than
 * one turn may read, the oldest part.
 */
async function recentContracts(
  services: WorkerServices,
  account: DueAccount
): Promise<{ seen: Map<string, Evidence>; until: number | null }> {
  const session = await openSession(services, account)
  const from = Math.floor(account.since.getTime() / 1000)
  for (let until: number | null = null; ; ) {
    const range = until === null ? { from } : { from, to: until }
    const bought = await readPages(STATEMENT, page => session.statement({ ...range, ...page }))
    const closed = bought.whole
      ? await readPages(PROFIT_TABLE, page => session.profitTable({ ...range, ...page }))
      : null
    if (closed?.whole) {
      const seen = new Map<string, Evidence>()
      // The purchase's row first: the broker's rows of automatic settlements name an application of its own.
      const all = rowPerContract([...bought.rows, ...closed.rows])
      const ours = new Set([null, account.appId, ...account.former.appIds])
      for (const item of all.filter(isNamed).map(row => asNamedHere(row, account)))
        if (ours.has(item.appId)) seen.set(item.contractId, item)
      const unnamed = all.length - all.filter(isNamed).length
      if (unnamed > 0)
        services.log.warn({ accountId: account.accountId, rows: unnamed }, 'purchases without a contract')
      return { seen, until }
    }
    const times = bought.rows.flatMap(({ purchaseTime }) => purchaseTime ?? []).sort((a, b) => a - b)
    const end: number = until ?? Math.max(Math.ceil(account.takenAt.getTime() / 1000), times.at(-1) ?? 0)
    const shorter = from + Math.max(1, Math.floor(bought.whole ? (end - from) / 2 : partOf({ from, times, end })))
    if (shorter >= end) throw new Error('The account has more purchases in a second than can be read.')
    until = shorter
  }
}

/**
 * How many seconds from `from` on can be read in one turn, when the newest purchases up to `end` fill all pages: as long as two
 * thirds of a turn's rows took at the oldest of `times`. At most half of the period, so that the next estimate is better, and not
 * too few after a burst.
 */
function partOf({ from, times, end }: { from: number; times: number[]; end: number }): number {
  const [oldest = from, later = from] = [times[0], times[Math.floor((times.length * 2) / 3)]]
  return Math.min((end - from) / 2, Math.max(later - oldest, (oldest - from) / 16))
}

/** The order for which the contract may have been bought: same terms, sent not long before; null where there is none. */
async function meantBy(services: WorkerServices, account: DueAccount, item: Evidence): Promise<string | null> {
  const { orderTtlMs, reconcileAfterMs, reconcileCrashedMs } = services.config
  const { purchaseTime } = item
  const [earliestMs, latestMs] =
    purchaseTime === null
      ? [account.since.getTime(), account.takenAt.getTime()]
      : [purchaseTime * 1000, purchaseTime * 1000]
  const from = new Date(earliestMs - orderTtlMs - reconcileAfterMs - reconcileCrashedMs - SLACK_MS)
  const to = new Date(latestMs + SLACK_MS)
  const orders = await ordersSentAround(services.db, { accountRowId: account.accountRowId, from, to })
  return orders.find(order => fitsTerms(item, contractOf(order)))?.id ?? null
}

async function compare(
  services: WorkerServices,
  account: DueAccount,
  seen: Map<string, Evidence>
): Promise<{ differences: ContractBreak[]; undecided: boolean }> {
  const claims = await claimedContracts(services.db, account.accountId, [...seen.keys()])
  const differences: ContractBreak[] = []
  let undecided = false
  for (const [contractId, item] of seen) {
    const about = { accountId: account.accountId, contractId, partnerId: account.partnerId }
    const claim = claims.get(contractId)
    if (!claim) {
      // The broker does not show which application bought: only a purchase that we were making at that moment may be ours.
      const meant = item.appId === null ? await meantBy(services, account, item) : null
      if (item.appId === null && meant === null) continue
      // Bought a moment ago, or an order in doubt has its terms: the contract may still find its order.
      if ((await ordersInDoubt(services.db, account.accountId)).some(order => fitsTerms(item, contractOf(order)))) {
        undecided = true
        continue
      }
      if ((await claimedContracts(services.db, account.accountId, [contractId])).size > 0) continue
      differences.push({
        kind: 'ORPHAN',
        ...about,
        orderId: meant,
        details: { shortcode: item.shortcode, buyPrice: item.buyPrice, purchaseTime: item.purchaseTime }
      })
      continue
    }
    const differs: Record<string, [ours: string, theirs: string]> = {}
    const { buyPrice } = item
    if (buyPrice !== null && !new Big(claim.buyPrice).eq(buyPrice)) differs.buyPrice = [claim.buyPrice, buyPrice]
    if (claim.phase === 'closed' && claim.pnl !== null && item.sellPrice != null && buyPrice !== null) {
      const pnl = new Big(item.sellPrice).minus(buyPrice)
      if (!pnl.eq(claim.pnl)) differs.pnl = [claim.pnl, pnl.toFixed()]
    }
    if (Object.keys(differs).length > 0)
      differences.push({ kind: 'MISMATCH', ...about, orderId: claim.orderId, details: differs })
    if (await isUnsettled(services, account, claim, item)) {
      const { sellPrice: soldFor, sellTime } = item
      const closedAt = new Date((sellTime as number) * 1000).toISOString()
      differences.push({
        kind: 'UNSETTLED',
        ...about,
        orderId: claim.orderId,
        details: { broker: 'closed', soldFor, closedAt }
      })
    }
  }
  return { differences, undecided }
}

/** Whether the broker closed the contract minutes ago while the order is still open. */
async function isUnsettled(
  { db }: WorkerServices,
  { accountId, takenAt }: DueAccount,
  { contractId, phase }: ClaimedContract,
  { sellPrice, sellTime }: Evidence
): Promise<boolean> {
  if (phase !== 'open' || sellPrice == null || sellTime == null) return false
  if (sellTime * 1000 > takenAt.getTime() - SETTLING_MS) return false
  // It may have been settled since the orders were read.
  return (await claimedContracts(db, accountId, [contractId])).get(contractId)?.phase === 'open'
}

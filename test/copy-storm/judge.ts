// What a storm of copying must leave behind, by the broker's books: no follow lost more than its limit, every copy of
// an order that its leader closed is closed, no order is copied twice for a follow, each copy is on the account of its
// follow, and the sums are the orders'.
import { Big } from 'big.js'
import { listMyFollows } from '../../api/copy.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import type { LedgerEntry } from '../../worker/simulator/engine/ledger.ts'
import type { TestPartner, TestTrader } from '../support/harness.ts'

export interface CopyVerdict {
  copies: number
  skipped: number
  paused: number
  /** Copies whose limits were changed at the broker after their leader's. */
  changed: number
  /** The deepest fall of a follow, as a share of what it may lose. */
  worstShare: number
  /** What broke a promise, in words. */
  broken: string[]
}

interface Copy {
  id: string
  follow_id: string
  copied_from: string
  phase: string
  account_id: string
  broker_order_id: string | null
  stop_loss: string | null
  pnl: string | null
  limits_version: number
  limits_at: Date | null
  leader_closed_early: boolean
}

interface Follow {
  id: string
  trader_external_id: string
  account_id: string
  base_balance: string
  max_drawdown_pct: string
  status: string
}

/** The orders of an account that own no contract, as far as they explain one that nobody owns. */
function ordersOf(db: Db, accountId: string) {
  return rows<{ id: string; phase: string; evidence: unknown }>(
    db,
    `select id, phase, asset, stake, attempt, sender, sent_at, permit_until, reset_at, checks, absence_checks, error_code, error_message, evidence
       from orders where account_id = :accountId and broker_order_id is null and attempt > 1 order by id`,
    { accountId }
  )
}

/** Judges what is left when nothing is under way any more. */
export async function judge({
  db,
  partner,
  ledger,
  followers
}: {
  db: Db
  partner: TestPartner
  ledger: LedgerEntry[]
  followers: TestTrader[]
}): Promise<CopyVerdict> {
  const broken: string[] = []
  const contracts = new Map(ledger.map(entry => [`${entry.loginid} ${entry.contractId}`, entry]))
  const follows = await rows<Follow>(db, 'select * from follows order by id')
  const copies = await rows<Copy>(
    db,
    `select o.id, o.follow_id, o.copied_from, o.phase, o.account_id, o.broker_order_id, o.stop_loss, o.pnl, o.limits_version, o.limits_at, l.closed_early as leader_closed_early
       from orders o join orders l on l.id = o.copied_from order by o.id`
  )
  const byFollow = Map.groupBy(copies, copy => copy.follow_id)
  const owned = new Set<string>()
  let worstShare = 0
  for (const follow of follows) {
    const mine = byFollow.get(follow.id) ?? []
    const bought: LedgerEntry[] = []
    let slipped = new Big(0)
    const copied = new Set<string>()
    for (const copy of mine) {
      if (copied.has(copy.copied_from)) broken.push(`${copy.id} is a second copy of ${copy.copied_from}`)
      copied.add(copy.copied_from)
      if (copy.account_id !== follow.account_id)
        broken.push(`${copy.id} is on ${copy.account_id}, not ${follow.account_id}`)
      if (copy.leader_closed_early && !['closed', 'failed'].includes(copy.phase))
        broken.push(`${copy.id} is ${copy.phase}, its leader closed`)
      if (copy.broker_order_id === null) continue
      const contract = contracts.get(`${copy.account_id} ${copy.broker_order_id}`)
      if (!contract) {
        broken.push(`${copy.id} owns a contract that the broker does not have`)
        continue
      }
      owned.add(`${copy.account_id} ${copy.broker_order_id}`)
      bought.push(contract)
      if (copy.pnl === null || !new Big(copy.pnl).eq(contract.profit ?? 0))
        broken.push(`${copy.id} has pnl ${copy.pnl}, the broker ${contract.profit}`)
      // A market that jumps passes a stop loss by what it jumps.
      const lost = new Big(contract.profit ?? 0).times(-1)
      if (copy.stop_loss !== null && lost.gt(copy.stop_loss)) slipped = slipped.plus(lost.minus(copy.stop_loss))
    }
    const limit = new Big(follow.base_balance).times(follow.max_drawdown_pct).div(100)
    const deepest = deepestLoss(bought)
    worstShare = Math.max(worstShare, deepest.div(limit).toNumber())
    if (deepest.gt(limit.plus(slipped).plus('0.01')))
      broken.push(`${follow.id} lost ${deepest} of ${limit} it may lose (${slipped} by jumps of the market)`)
  }
  const followed = new Set(followers.map(({ accountId }) => accountId))
  for (const { loginid, contractId } of ledger) {
    if (!followed.has(loginid) || owned.has(`${loginid} ${contractId}`)) continue
    const orders = await ordersOf(db, loginid)
    // The operator sees it among the candidates of an order in review.
    if (
      orders.some(({ phase, evidence }) => phase === 'review' && JSON.stringify(evidence).includes(`"${contractId}"`))
    )
      continue
    broken.push(`contract ${contractId} of ${loginid} is nobody's; orders without one: ${JSON.stringify(orders)}`)
  }
  let skipped = 0
  for (const trader of followers) {
    const { body } = await partner.call(listMyFollows, { query: { traderExternalId: trader.traderExternalId } })
    for (const shown of body.data) {
      const mine = byFollow.get(shown.followId) ?? []
      const pnl = mine.reduce((sum, copy) => sum.plus(copy.pnl ?? 0), new Big(0))
      skipped += shown.skippedCopies
      const reported = [shown.copiedOrders, shown.openCopies, shown.pnl]
      const counted = [mine.length, mine.filter(({ phase }) => phase === 'review').length, pnl.toNumber()]
      if (JSON.stringify(reported) !== JSON.stringify(counted))
        broken.push(`${shown.followId} shows ${reported}, its orders are ${counted}`)
    }
  }
  const paused = follows.filter(({ status }) => status === 'PAUSED_DRAWDOWN').length
  const changed = copies.filter(({ limits_version: version, limits_at: at }) => version > 0 && at === null).length
  return { copies: copies.length, skipped, paused, changed, worstShare, broken }
}

/** The deepest fall below the start, of contracts in the order in which they ended; what is open counts as it is. */
export function deepestLoss(contracts: Pick<LedgerEntry, 'profit' | 'soldAtMs'>[]): Big {
  const ended = contracts
    .filter(({ profit }) => profit !== null)
    .sort((a, b) => Number(a.soldAtMs) - Number(b.soldAtMs))
  let sum = new Big(0)
  let deepest = new Big(0)
  for (const { profit } of ended) {
    sum = sum.plus(profit as string)
    if (sum.times(-1).gt(deepest)) deepest = sum.times(-1)
  }
  return deepest
}

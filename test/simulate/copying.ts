// Copying in a simulation: who follows whom, and what must be true of the copies once everything has ended, read from
// the rows and the broker's books alone.
import { Big } from 'big.js'
import type { WorldBooks } from './books.ts'
import type { Database } from './database.ts'

/** Every so manieth account leads, and those between two leaders follow the first. */
export const FOLLOWERS = 4

// What the followers with a narrow limit may lose, in USD; the others' limit is never reached.
const NARROW_BASE = 60
const NARROW_PCT = 20
const WIDE_BASE = 1_000_000

/** Makes the follows, also across partners; every third has a narrow limit, every fifth does not mirror closes. */
export const makeFollows = `
  with shown as (
    insert into community_profiles (party_id, partner_id, is_public) select id, id, true from partners
  )
  insert into follows (id, partner_id, trader_id, trader_external_id, leader_id, risk_pct, max_drawdown_pct, status, base_balance,
                       broker_account_id, account_id, account_mode, currency, mirror_closes)
  select replace(f.id, 'acc_', 'fol_'), f.partner_id, f.trader_id, t.external_id, l.trader_id, 50 + 25 * (f.place % 5),
         case when f.place % 3 = 0 then ${NARROW_PCT} else 90 end, 'ACTIVE', case when f.place % 3 = 0 then ${NARROW_BASE} else ${WIDE_BASE} end,
         f.id, f.account_id, f.account_mode, f.currency, f.place % 5 <> 0
    from (select *, row_number() over (order by account_id, id) - 1 as place from broker_accounts) f
    join (select *, row_number() over (order by account_id, id) - 1 as place from broker_accounts) l
      on l.place = f.place / ${FOLLOWERS + 1} * ${FOLLOWERS + 1} and l.place <> f.place
    join traders t on t.id = f.trader_id
   where f.currency is not null and l.currency is not null`

/** Whether copies are still to be made, or to be closed: a simulation goes on until they are. */
export async function copiesUnderWay(database: Database): Promise<boolean> {
  const [found] = await database.look<{ some: boolean }>(
    `select exists (select from pgboss.job where name in ('copy.fanout', 'copy.close') and state < 'completed')
         or exists (select from orders where close_at is not null and phase = 'open') as some`
  )
  return found?.some ?? false
}

interface SimulatedCopy {
  id: string
  follow_id: string
  copied_from: string
  broker_order_id: string | null
  pnl: string | null
}

/** What is wrong with the copies, a sentence each. */
export async function copyViolations(database: Database, books: WorldBooks): Promise<string[]> {
  const violations: string[] = []
  const twice = await database.look<{ follow_id: string; copied_from: string; many: string }>(
    `select follow_id, copied_from, count(*) as many from orders where copied_from is not null
      group by follow_id, copied_from having count(*) > 1`
  )
  for (const { follow_id, copied_from, many } of twice)
    violations.push(`${follow_id} has ${many} copies of ${copied_from}`)
  // Nobody begins or stops to follow while a simulation runs, and a wide limit pauses nobody. A job that comes twice may
  // count an order as skipped twice.
  const missing = await database.look<{ id: string; bought: string; copies: string; skipped: number }>(
    `select * from (
       select f.id, f.skipped_copies as skipped,
              (select count(*) from orders o where o.trader_id = f.leader_id and o.has_followers and o.broker_order_id is not null) as bought,
              (select count(*) from orders o where o.follow_id = f.id) as copies
         from follows f where f.base_balance = ${WIDE_BASE}) counted
      where bought > copies + skipped or copies > bought`
  )
  for (const { id, bought, copies, skipped } of missing)
    violations.push(`${id} has ${copies} copies and ${skipped} skipped ones of its leader's ${bought} orders`)
  const sums = await database.look<{ id: string; pnl: string; made: string }>(
    `select f.id, f.pnl, coalesce(sum(o.pnl), 0) as made from follows f left join orders o on o.follow_id = f.id and o.phase = 'closed'
      group by f.id having f.pnl <> coalesce(sum(o.pnl), 0) or f.since_pnl <> coalesce(sum(o.pnl), 0)`
  )
  for (const { id, pnl, made } of sums) violations.push(`${id} says that its copies made ${pnl}, they made ${made}`)
  const open = await database.look<{ id: string }>(
    `select c.id from orders c join orders l on l.id = c.copied_from join follows f on f.id = c.follow_id
      where c.phase = 'open' and l.phase = 'closed' and l.closed_early and f.mirror_closes`
  )
  for (const { id } of open) violations.push(`${id} is open, and its leader closed the order`)
  violations.push(...(await lossesAboveLimits(database, books)))
  return violations
}

/** Follows that lost more than their limit at any moment, by when the broker ended their contracts. */
async function lossesAboveLimits(database: Database, books: WorldBooks): Promise<string[]> {
  const violations: string[] = []
  const copies = await database.look<SimulatedCopy>(
    `select o.id, o.follow_id, o.copied_from, o.broker_order_id, o.pnl from orders o join follows f on f.id = o.follow_id
      where f.base_balance = ${NARROW_BASE} and o.phase = 'closed' order by o.id`
  )
  const limit = new Big(NARROW_BASE).times(NARROW_PCT).div(100)
  for (const [follow, all] of Map.groupBy(copies, copy => copy.follow_id)) {
    const ended = all
      .map(copy => ({ pnl: copy.pnl as string, at: books.deals.get(copy.broker_order_id as string)?.sale?.at ?? 0 }))
      .sort((a, b) => a.at - b.at || Number(b.pnl) - Number(a.pnl))
    let made = new Big(0)
    for (const { pnl } of ended) {
      made = made.plus(pnl)
      if (made.plus(limit).gte(0)) continue
      violations.push(`${follow} lost ${made.times(-1).toFixed()}, and its limit is ${limit.toFixed()}`)
      break
    }
  }
  return violations
}

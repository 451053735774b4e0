// What must hold at every pause of the money storm, looked up in the tables and in what processes received.

import { verifyLedger } from '../../db/money/verify.ts'
import { type Db, rows } from '../../db/postgres/connection.ts'
import type { MoneyScene } from './scene.ts'

/** A rule: returns the first thing that breaks it, or nothing. */
interface BookRule {
  name: string
  sql: string
}

const rules: BookRule[] = [
  {
    name: 'no period is charged twice: the fees of a partner are at least 28 days apart',
    sql: `select reference from (
            select reference, (details->>'periodStart')::timestamptz - lag((details->>'periodStart')::timestamptz)
                     over (partition by split_part(reference, ':', 2) order by details->>'periodStart') as apart
              from ledger_transfers where kind = 'plan_fee') f
          where apart < interval '28 days' limit 1`
  },
  {
    name: 'the period a partner is in is the one its last fee paid for',
    sql: `select p.id from partners p
            join (select split_part(reference, ':', 2) as id, max((details->>'periodStart')::timestamptz) as paid
                    from ledger_transfers where kind = 'plan_fee' group by 1) f using (id)
           where p.period_start <> f.paid limit 1`
  },
  {
    name: 'after a check every active plan is paid',
    sql: 'select id from partners where plan_active and period_end <= :now limit 1'
  },
  {
    name: 'after a check no plan is inactive that its wallet could pay',
    sql: `select p.id from partners p left join ledger_accounts a on a.id = 'wallet:' || p.id
           where not p.plan_active and coalesce(a.balance, 0) >= (:prices::jsonb ->> p.plan)::numeric limit 1`
  },
  {
    name: 'after a check no subscription is due that is neither past due nor canceled',
    sql: `select id from marketplace_subscriptions where status = 'ACTIVE' and current_period_end <= :now limit 1`
  },
  {
    name: 'what a bot is said to have sold is what was sold',
    sql: `select b.id from marketplace_bots b
            left join lateral (select count(*) as sales, coalesce(sum(price), 0) as gross, coalesce(sum(price - fee), 0) as net
                                 from marketplace_purchases where bot_id = b.id and status = 'COMPLETED') p on true
            left join lateral (select count(*) filter (where status <> 'CANCELED') as subscribers,
                                      coalesce(sum(price * periods), 0) as gross
                                 from marketplace_subscriptions where bot_id = b.id) s on true
           where b.sales <> p.sales or b.subscribers <> s.subscribers or b.gross <> p.gross + s.gross
              or b.net < p.net or b.net > b.gross limit 1`
  },
  {
    name: 'what creators earned is what their bots brought, less what they had paid out',
    sql: `select b.partner_id from (select partner_id, sum(net) as net from marketplace_bots group by 1) b
            left join ledger_accounts e on e.id = 'earnings:' || b.partner_id
            left join (select partner_id, sum(amount) as taken from payouts
                        where status <> 'REJECTED' group by 1) t on t.partner_id = b.partner_id
           where coalesce(e.balance, 0) <> b.net - coalesce(t.taken, 0) limit 1`
  }
]

/** The first promise that does not hold, in words; null when all do. */
export async function audit(
  db: Db,
  { scene, acknowledged }: { scene: MoneyScene; acknowledged: Set<string> }
): Promise<string | null> {
  const { broken } = await verifyLedger(db)
  if (broken) return broken
  for (const { name, sql } of rules) {
    const [row] = await rows<Record<string, unknown>>(db, sql, {
      now: scene.now,
      prices: JSON.stringify(scene.prices)
    })
    if (row) return `Broken: ${name} (${JSON.stringify(row)}).`
  }
  const references = [...acknowledged]
  for (let i = 0; i < references.length; i += 5000) {
    const [lost] = await rows<{ reference: string }>(
      db,
      `select r as reference from unnest(:references::text[]) r
        where not exists (select from ledger_transfers t where t.reference = r) limit 1`,
      { references: references.slice(i, i + 5000) }
    )
    if (lost) return `Lost: ${lost.reference} was acknowledged as made.`
  }
  return null
}

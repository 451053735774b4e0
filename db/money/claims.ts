// Checks records of money against the ledger: every purchase, subscription and payout has exactly the movements that
// its status requires, and every such movement has its record. Part of `ledger verify`.
import { type Db, rows } from '../postgres/connection.ts'

const BATCH = 5000

interface LedgerClaim {
  /** The finding about a record whose movements do not match its status. */
  broken: string
  /** Names the first such record of one batch of ids after :last, or null; always the batch's last id and its size. */
  sql: string
}

// Each statement reads one batch by primary key and joins the ledger by reference.
const batch = (table: string) => `batch as (select * from ${table} where id > :last order by id limit ${BATCH})`
const result = `select (select id from wrong order by id limit 1) as wrong,
                       (select max(id) from batch) as last, (select count(*) from batch) as size`

const claims: LedgerClaim[] = [
  {
    broken: 'The purchase % does not have the movements of its status.',
    sql: `with ${batch('marketplace_purchases')}, wrong as (
            select b.id from batch b
              left join ledger_transfers s on s.reference = 'purchase:' || b.id and s.kind = 'sale'
              left join ledger_transfers r on r.reference = 'refund:' || b.id and r.kind = 'refund'
             where s.amount is distinct from nullif(b.price, 0)
                or r.amount is distinct from case b.status when 'REFUNDED' then nullif(b.price, 0) end
          ) ${result}`
  },
  {
    broken: 'The subscription % is not paid once for each of its periods.',
    sql: `with ${batch('marketplace_subscriptions')}, wrong as (
            select b.id from batch b
             cross join lateral (select count(*) as paid, min(t.amount) as least, max(t.amount) as most from ledger_transfers t
                                  where t.reference > 'subscription:' || b.id || ':'
                                    and t.reference < 'subscription:' || b.id || ';' and t.kind = 'subscription') t
             where (b.price > 0 and (t.paid <> b.periods or t.least <> b.price or t.most <> b.price))
                or (b.price = 0 and t.paid <> 0)
          ) ${result}`
  },
  {
    broken: 'The subscription % is not paid back as its record says: the last month, once.',
    sql: `with ${batch('marketplace_subscriptions')}, wrong as (
            select b.id from batch b
              left join ledger_transfers r on r.reference = 'refund:' || b.id || ':' || b.periods and r.kind = 'refund'
             cross join lateral (select count(*) as refunds from ledger_transfers t
                                  where t.reference > 'refund:' || b.id || ':'
                                    and t.reference < 'refund:' || b.id || ';' and t.kind = 'refund') t
             where r.amount is distinct from case when b.refunded_at is not null then nullif(b.price, 0) end
                or t.refunds > 1 or (t.refunds = 1 and r.id is null)
          ) ${result}`
  },
  {
    broken: 'The payout % does not have the movements of its status.',
    sql: `with ${batch('payouts')}, wrong as (
            select b.id from batch b
              left join ledger_transfers q on q.reference = 'payout:' || b.id || ':request' and q.kind = 'payout_request'
              left join ledger_transfers p on p.reference = 'payout:' || b.id || ':paid' and p.kind = 'payout_paid'
              left join ledger_transfers r on r.reference = 'payout:' || b.id || ':release' and r.kind = 'payout_release'
             where q.amount is distinct from b.amount
                or p.amount is distinct from case b.status when 'PAID' then b.amount end
                or r.amount is distinct from case b.status when 'REJECTED' then b.amount end
          ) ${result}`
  },
  {
    broken: 'The transfer % moved money for a record that does not exist.',
    sql: `with ${batch('ledger_transfers')}, wrong as (
            select b.id from batch b
             where not case b.kind
                     when 'sale' then exists (select from marketplace_purchases where id = split_part(b.reference, ':', 2))
                     when 'refund' then exists (select from marketplace_purchases where id = split_part(b.reference, ':', 2))
                                     or exists (select from marketplace_subscriptions
                                                 where id = split_part(b.reference, ':', 2))
                     when 'subscription' then exists (select from marketplace_subscriptions
                                                       where id = split_part(b.reference, ':', 2))
                     when 'payout_request' then exists (select from payouts where id = split_part(b.reference, ':', 2))
                     when 'payout_paid' then exists (select from payouts where id = split_part(b.reference, ':', 2))
                     when 'payout_release' then exists (select from payouts where id = split_part(b.reference, ':', 2))
                     else true end
          ) ${result}`
  }
]

/** The first record or movement without its counterpart, as a sentence; null when all have one. */
export async function checkClaims(trx: Db): Promise<string | null> {
  for (const { broken, sql } of claims) {
    let last = ''
    for (;;) {
      const [found] = await rows<{ wrong: string | null; last: string | null; size: number }>(trx, sql, { last })
      if (found?.wrong) return broken.replace('%', found.wrong)
      if (!found?.last || found.size < BATCH) break
      last = found.last
    }
  }
  return null
}

// From bought to settled. Whoever follows a contract's stream holds a short lease on its row, renewed for
// all of its orders in one statement; a lease that ran out is anybody's.
import { type Db, rows } from './connection.ts'
import type { OrderRow } from './orders.ts'

/** How a contract ended. */
export interface Settlement {
  id: string
  pnl: string
  entryPrice: string | null
  exitPrice: string | null
  commission: string | null
  /** Epoch seconds. */
  closedAt: number
}

/** Marks open orders as closed with their result. */
export async function markClosed(trx: Db, settlements: Settlement[]): Promise<OrderRow[]> {
  return rows<OrderRow>(
    trx,
    `update orders o
        set phase = 'closed', pnl = s.pnl, entry_price = s."entryPrice", exit_price = s."exitPrice",
            commission = coalesce(s.commission, o.commission), closed_at = to_timestamp(s."closedAt"),
            current_value = null, unrealized_pnl = null, follower = null, lease_until = null
       from jsonb_to_recordset(:settlements::jsonb) as s (id text, pnl numeric, "entryPrice" numeric, "exitPrice" numeric,
            commission numeric, "closedAt" float8)
      where o.id = s.id and o.phase = 'open'
     returning o.*`,
    { settlements: JSON.stringify(settlements) }
  )
}

/** Extends the leases of `worker`; answers the ids it still holds. */
export async function renewLeases(db: Db, worker: string, ids: string[], leaseMs: number): Promise<Set<string>> {
  const found = await rows<{ id: string }>(
    db,
    `update orders set lease_until = now() + :leaseMs * interval '1 millisecond'
      where id = any(:ids) and phase = 'open' and follower = :worker
     returning id`,
    { worker, ids, leaseMs }
  )
  return new Set(found.map(({ id }) => id))
}

/** Takes over open orders that nobody follows. */
export async function takeOver(
  db: Db,
  options: { worker: string; leaseMs: number; limit: number }
): Promise<OrderRow[]> {
  return rows<OrderRow>(
    db,
    `update orders set follower = :worker, lease_until = now() + :leaseMs * interval '1 millisecond'
      where id in (select id from orders where phase = 'open' and (lease_until is null or lease_until < now())
                    order by lease_until nulls first limit :limit for update skip locked)
     returning *`,
    options
  )
}

/** Hands back leases, so that another worker takes over at once (or after `retryMs`). */
export async function releaseLeases(db: Db, worker: string, ids: string[], retryMs = 0): Promise<void> {
  await rows(
    db,
    `update orders set follower = null, lease_until = now() + :retryMs * interval '1 millisecond'
      where id = any(:ids) and phase = 'open' and follower = :worker`,
    { worker, ids, retryMs }
  )
}

/** What an open contract is worth now. */
export interface Mark {
  id: string
  currentValue: string
  unrealizedPnl: string
  commission: string | null
  /** Epoch seconds. */
  expiryAt: number | null
}

/** Notes the last known values of open orders. */
export async function markValues(db: Db, marks: Mark[]): Promise<void> {
  await rows(
    db,
    `update orders o
        set current_value = m."currentValue", unrealized_pnl = m."unrealizedPnl", marked_at = now(),
            commission = coalesce(m.commission, o.commission), expiry_at = coalesce(to_timestamp(m."expiryAt"), o.expiry_at)
       from jsonb_to_recordset(:marks::jsonb) as m (id text, "currentValue" numeric, "unrealizedPnl" numeric,
            commission numeric, "expiryAt" float8)
      where o.id = m.id and o.phase = 'open'`,
    { marks: JSON.stringify(marks) }
  )
}

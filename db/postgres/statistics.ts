// Statistics that keep up with a table that grows. The planner knows a table by its last ANALYZE, and a prepared statement
// keeps its plan until the next; autovacuum comes once a minute at best. A queue that fills, or the first thousand orders,
// would be read in full by each statement until then.
import { type Db, rows } from './connection.ts'

// By table, the columns that plans go by, where there are many others: reading a sample of each takes its time.
const tables: Record<string, string> = {
  orders: `(id, partner_id, trader_id, trader_external_id, broker_account_id, account_id, client_order_id, phase, status,
    lease_holder, follow_id, copied_from, created_at, queued_at, closed_at)`,
  broker_requests: '',
  traders: '',
  broker_accounts: '',
  'pgboss.job_common': ''
}
const MIN_PAGES = 8
// Beyond this (160 MB) reading a sample takes a while, and autovacuum is soon enough.
const MAX_PAGES = 20_000

/** Analyses the tables of the order path that are twice as long as at their last analysis; returns their names. */
export async function analyseGrown(db: Db): Promise<string[]> {
  const grown = await rows<{ name: string }>(
    db,
    `select t.name from unnest(:tables::text[]) as t (name) join pg_class c on c.oid = t.name::regclass
      cross join lateral (select pg_relation_size(c.oid) / current_setting('block_size')::int as pages) s
      where s.pages between greatest(:least, 2 * c.relpages) and :most`,
    { tables: Object.keys(tables), least: MIN_PAGES, most: MAX_PAGES }
  )
  // Of several workers one is enough.
  for (const { name } of grown) await db.raw(`analyze (skip_locked) ${name} ${tables[name]}`)
  return grown.map(({ name }) => name)
}

// Statistics that keep up with a table that grows. The planner knows a table by its last ANALYZE, and a prepared statement
// keeps its plan until the next; autovacuum comes once a minute at best. A queue that fills, or the first thousand orders,
// would be read in full by each statement until then.
import { type Db, rows } from './connection.ts'

// By table, the columns that plans go by, where there are many others: reading a sample of each takes its time.
const tables: Record<string, string[]> = {
  orders: `id partner_id trader_id trader_external_id broker_account_id account_id client_order_id phase status
    lease_holder follow_id copied_from created_at queued_at closed_at`.split(/\s+/),
  broker_requests: [],
  traders: [],
  broker_accounts: [],
  account_leases: [],
  follows: [],
  'pgboss.job_common': []
}
const MIN_PAGES = 8
// Fewer rows cost little whatever the plan, and come and go too often.
const MIN_ROWS = 1000
// Beyond this (160 MB) reading a sample takes a while, and autovacuum is soon enough.
const MAX_PAGES = 20_000

/**
 * Analyses the tables of the order path that are twice as long as at their last analysis, or have twice as many rows. Where a
 * table is analysed while a transaction fills it, that analysis finds the full length and no rows, and each plan after it is for
 * an empty table. Returns the names of the tables.
 */
export async function analyseGrown(db: Db): Promise<string[]> {
  const grown = await rows<{ name: string }>(
    db,
    `select t.name from unnest(:tables::text[]) as t (name) join pg_class c on c.oid = t.name::regclass
      cross join lateral (select pg_relation_size(c.oid) / current_setting('block_size')::int as pages) s
      where s.pages between :least and :most
        and (s.pages >= 2 * c.relpages or pg_stat_get_live_tuples(c.oid) > 2 * c.reltuples + :more)`,
    { tables: Object.keys(tables), least: MIN_PAGES, most: MAX_PAGES, more: MIN_ROWS }
  )
  // Several workers may do this at once; one analysis is enough.
  for (const { name } of grown)
    await rows(db, 'select analyse_table(:name, :columns::text[])', { name, columns: tables[name] })
  return grown.map(({ name }) => name)
}

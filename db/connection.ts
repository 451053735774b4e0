// The one place that opens PostgreSQL.
import { createHash } from 'node:crypto'
import knex, { type Knex } from 'knex'
import pg from 'pg'

/** A pool or a transaction: every function of this folder takes one first. */
export type Db = Knex

// numeric stays text: money never passes through a float on its way. int8 counts fit a number.
pg.types.setTypeParser(pg.types.builtins.NUMERIC, text => text)
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

export interface DatabaseOptions {
  url: string
  /** Connections at most. */
  pool?: number
  /** Shown in pg_stat_activity. */
  name?: string
}

/**
 * Opens a pool; nothing connects before the first query. A statement ends after 30 s, a lock wait after
 * 10 s, an idle transaction after 30 s, so that one stuck client cannot hold the others for ever.
 */
export function openDatabase({ url, pool = 10, name = 'operator' }: DatabaseOptions): Db {
  return knex({
    client: 'pg',
    connection: {
      connectionString: url,
      application_name: `service-${name}`,
      connectionTimeoutMillis: 5000,
      keepAlive: true,
      statement_timeout: 30_000,
      idle_in_transaction_session_timeout: 30_000,
      options: '-c lock_timeout=10000'
    },
    pool: { min: 0, max: pool, acquireTimeoutMillis: 10_000, idleTimeoutMillis: 30_000, propagateCreateError: false },
    acquireConnectionTimeout: 10_000
  })
}

/**
 * The rows of a raw query. Each statement is prepared once per connection: parsing and planning the long ones
 * costs more than running them.
 */
export async function rows<T>(db: Db, sql: string, bindings: Record<string, unknown> = {}): Promise<T[]> {
  const query = db.raw(sql, bindings as Knex.ValueDict).options({ name: nameOf(sql) })
  return ((await query) as { rows: T[] }).rows
}

// Statements are text in our code, so there are only so many; a bound all the same.
const names = new Map<string, string>()
const MAX_NAMES = 2000

function nameOf(sql: string): string {
  let name = names.get(sql)
  if (!name) {
    if (names.size >= MAX_NAMES) names.clear()
    name = createHash('sha256').update(sql).digest('base64url').slice(0, 24)
    names.set(sql, name)
  }
  return name
}

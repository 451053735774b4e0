// Whether PostgreSQL responds at all, with a readable reason: the pool would try for ten seconds and then report an
// error about itself.
import pg from 'pg'
import { ApiError } from '../../schemas/errors/errors.ts'

export interface Reached {
  /** For example 18. */
  majorVersion: number
  /** What the database takes for now. */
  now: Date
  /** Of the database's texts, for example UTF8. */
  encoding: string
}

const CONNECT_TIMEOUT_MS = 5000

/** The only row of a statement, on a connection of its own. Throws pg's errors; connecting and the statement have 5 s each. */
async function queryOnce<Row extends pg.QueryResultRow>(url: string, sql: string): Promise<Row> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: CONNECT_TIMEOUT_MS,
    application_name: 'service-reach'
  })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<Row>(sql)
    return rows[0] as Row
  } finally {
    await client.end().catch(() => {})
  }
}

/** Connects once. Throws UNAVAILABLE with a sentence on what to do. */
export async function reachDatabase(url: string): Promise<Reached> {
  const sql = `select current_setting('server_version_num')::int / 10000 as "majorVersion", clock_timestamp() as now, current_setting('server_encoding') as encoding`
  return queryOnce<Reached>(url, sql).catch((cause: { code?: string }) => {
    throw new ApiError('UNAVAILABLE', sentence(url, cause), { cause })
  })
}

/** Host, port and database of a URL; never its user or password. */
export function placeOf(url: string): string {
  if (!URL.canParse(url)) return 'DATABASE_URL'
  const { host, pathname, searchParams } = new URL(url)
  return `${searchParams.get('host') ?? host}${pathname}`
}

function sentence(url: string, { code }: { code?: string }): string {
  const place = placeOf(url)
  switch (code) {
    case 'ECONNREFUSED':
      return `No PostgreSQL listens at ${place}: start it, or correct DATABASE_URL.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The host of ${place} is unknown: correct DATABASE_URL.`
    case '28P01':
    case '28000':
      return `PostgreSQL at ${place} refuses this user or password: correct DATABASE_URL.`
    case '3D000':
      return `PostgreSQL answers, but there is no database ${place}: create it, or correct DATABASE_URL.`
    case '57P03':
      return `PostgreSQL at ${place} is starting or stopping: try again shortly.`
    case '53300':
      return `PostgreSQL at ${place} has no connection left: raise max_connections, or lower DATABASE_POOL.`
    default:
      return `PostgreSQL at ${place} does not answer${code ? ` (${code})` : ''}: check DATABASE_URL and the network.`
  }
}

/** Where a connection ended: a standby, or a server that takes writes; address and port are null for a socket of its own machine. */
export interface ReachedServer {
  standby: boolean
  address: string | null
  port: number | null
}

/** The server at which a connection by this address ends. Rejects as the connection does. */
export function readServer(url: string): Promise<ReachedServer> {
  return queryOnce<ReachedServer>(
    url,
    'select pg_is_in_recovery() as standby, host(inet_server_addr()) as address, inet_server_port() as port'
  )
}

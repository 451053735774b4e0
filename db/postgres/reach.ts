// Whether PostgreSQL responds at all, takes writes and keeps to our sessions, with a readable reason: the pool would try for ten
// seconds and then report an error about itself.
import pg from 'pg'
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Db, DEPENDABLE, DEPENDED_ON, LOCK_LIMIT, rows, sessionAt } from './connection.ts'
import { isUntrusted, systemErrorText } from './system-errors.ts'

export interface Reached {
  /** For example 18. */
  majorVersion: number
  /** What the database takes for now. */
  now: Date
  /** The encoding of the database, for example UTF8. */
  encoding: string
  /** Why nothing can be written at present, a sentence. */
  readOnly?: string
  /** Why our statements would not do here what they do elsewhere, a sentence each; only an operator can change it. */
  unfit: string[]
  /** Whether the time limits of our sessions do not arrive. */
  unlimited: boolean
}

const CONNECT_TIMEOUT_MS = 5000

/** Opens a connection with the settings of ours, and closes it after `use`. Throws pg's errors; connecting and each statement have 5 s. */
async function connectOnce<T>(url: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({
    ...sessionAt(url, `${LOCK_LIMIT} ${DEPENDABLE}`),
    // As the pool's connections have it: a pooler may refuse it.
    statement_timeout: CONNECT_TIMEOUT_MS,
    idle_in_transaction_session_timeout: CONNECT_TIMEOUT_MS,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: CONNECT_TIMEOUT_MS,
    application_name: 'service-reach'
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return await use(client)
  } finally {
    await client.end().catch(() => {})
  }
}

/** The only row of a statement. */
async function queryOne<Row extends pg.QueryResultRow>(client: pg.Client, sql: string, values: unknown[] = []) {
  const { rows } = await client.query<Row>(sql, values)
  return rows[0] as Row
}

const reading = `select current_setting('server_version_num')::int / 10000 as "majorVersion", clock_timestamp() as now,
    current_setting('server_encoding') as encoding, pg_backend_pid() as pid, pg_is_in_recovery() as standby,
    current_setting('transaction_read_only') = 'on' as "readOnly", current_setting('session_replication_role') = 'replica' as replica,
    '0' in (current_setting('lock_timeout'), current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout')) as unlimited,
    array(select format('%s is %s', name, current_setting(name)) from unnest($1::text[], $2::text[]) s (name, wanted)
           where current_setting(name) <> wanted) as lost`

/** How many connections there are for this role at this database, where the role has no privileges. */
export async function readMostConnections(db: Db): Promise<number> {
  const [found] = await rows<{ most: number }>(
    db,
    // A limit of -1 is none.
    `select least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
                  - coalesce(current_setting('reserved_connections', true)::int, 0),
                  (select nullif(rolconnlimit, -1) from pg_roles where rolname = current_user),
                  (select nullif(datconnlimit, -1) from pg_database where datname = current_database())) as most`
  )
  return found?.most ?? 0
}

/** Connects once. Throws UNAVAILABLE with a sentence on what to do. */
export async function reachDatabase(url: string): Promise<Reached> {
  try {
    return await connectOnce(url, client => examine(url, client))
  } catch (cause) {
    throw new ApiError('UNAVAILABLE', sentence(url, cause as Failure), { cause })
  }
}

async function examine(url: string, client: pg.Client): Promise<Reached> {
  interface Found extends Pick<Reached, 'majorVersion' | 'now' | 'encoding' | 'unlimited'> {
    pid: number
    standby: boolean
    readOnly: boolean
    replica: boolean
    lost: string[]
  }
  const wanted = [Object.keys(DEPENDED_ON), Object.values(DEPENDED_ON)]
  const { pid, standby, readOnly, replica, lost, ...reached } = await queryOne<Found>(client, reading, wanted)
  const place = placeOf(url)
  const unfit: string[] = []
  if (lost.length > 0)
    unfit.push(
      `A pooler before ${place} drops the settings of our sessions (${lost.join(', ')}): connect to PostgreSQL itself, or set them for the role by \`alter role\``
    )
  // A pooler gives its clients a number of its own.
  const { processID } = client as unknown as { processID: number }
  if (processID !== pid && (await changesServers(url, client)))
    unfit.push(
      `A pooler before ${place} lends a session another connection for each transaction, and hints and locks get lost: set pool_mode = session, or connect to PostgreSQL itself`
    )
  if (replica)
    unfit.push(
      `PostgreSQL at ${place} runs no triggers for this role, and events, sums and the guards of the archive rely on them: \`alter role … reset session_replication_role\`, or of the database`
    )
  const reason = standby ? 'a standby' : 'default_transaction_read_only is on for the server, the database or the role'
  return {
    ...reached,
    ...(readOnly ? { readOnly: `PostgreSQL at ${place} takes no writes (${reason}).` } : {}),
    unfit
  }
}

// Another client of the pooler may take the connection that was just given back.
const TRIES = 3

/** Whether a transaction of another session gets the connection that a session of ours has just used. */
async function changesServers(url: string, client: pg.Client): Promise<boolean> {
  const read = async (of: pg.Client) => (await queryOne<{ pid: number }>(of, 'select pg_backend_pid() as pid')).pid
  return connectOnce(url, async other => {
    for (let attempt = 1; attempt <= TRIES; attempt++) {
      const before = await read(client)
      await other.query('begin')
      await read(other)
      const after = await read(client)
      await other.query('rollback')
      if (before !== after) return true
    }
    return false
  })
}

/** Host, port and database of a URL; never its user or password. */
export function placeOf(url: string): string {
  if (!URL.canParse(url)) return 'DATABASE_URL'
  const { host, pathname, searchParams } = new URL(url)
  return `${searchParams.get('host') ?? host}${pathname}`
}

interface Failure extends Error {
  code?: string
  /** Of a file. */
  path?: string
  /** Of an error that a server has sent: a function of PostgreSQL's, since its message may be in any language. */
  routine?: string
  severity?: string
}

function sentence(url: string, cause: Failure): string {
  const { code, message, path, routine, severity } = cause
  const place = placeOf(url)
  if (path !== undefined) return `A file that DATABASE_URL names: ${systemErrorText(cause)}.`
  if (/does not support SSL/.test(message))
    return `PostgreSQL at ${place} offers no TLS, and the sslmode in DATABASE_URL requires it: turn it on there, or set sslmode=disable.`
  if (isUntrusted(code))
    return `The certificate of PostgreSQL at ${place} is not accepted (${code}): name its authority by sslrootcert, and the host as the certificate does, in DATABASE_URL.`
  // How PgBouncer refuses a setting at the start of a session.
  if (/unsupported startup parameter/.test(message))
    return `A pooler before ${place} refuses the settings of our sessions (${message}): add them to its ignore_startup_parameters, and set them for the role by \`alter role\`, or connect to PostgreSQL itself.`
  if (/^SASL: .* password must be/.test(message))
    return `PostgreSQL at ${place} requires a password, and DATABASE_URL has none: add it.`
  if (code === '28000' && routine === 'ClientAuthentication')
    return `PostgreSQL at ${place} admits no connection of this user from here: add a line to its pg_hba.conf, or, where that admits them with TLS alone, sslmode=verify-full to DATABASE_URL.`
  switch (code) {
    case 'ECONNREFUSED':
    case 'ENOENT':
      return `No PostgreSQL listens at ${place}: start it, or correct DATABASE_URL.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The host of ${place} is unknown: correct DATABASE_URL.`
    case '28P01':
    case '28000':
      return `PostgreSQL at ${place} refuses this user or password: correct DATABASE_URL.`
    case '3D000':
      return `PostgreSQL responds, but there is no database ${place}: create it, or correct DATABASE_URL.`
    case '57P03':
      return `PostgreSQL at ${place} is starting or stopping: try again shortly.`
    case '53300':
      return `PostgreSQL at ${place} has no connection left${limitOf(routine)}, or lower DATABASE_POOL.`
    default:
      return severity === undefined
        ? `PostgreSQL at ${place} does not respond (${code ?? message}): check DATABASE_URL and the network.`
        : `PostgreSQL at ${place} refuses the connection: ${message} (${code}).`
  }
}

/** Whose limit of connections is reached, and what to raise. */
function limitOf(routine: string | undefined): string {
  switch (routine) {
    case 'InitializeSessionUserId':
      return ' for this role: raise its limit by `alter role … connection limit`'
    case 'CheckMyDatabase':
      return ' for this database: raise its limit by `alter database … connection limit`'
    default:
      return ': raise max_connections'
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
  const sql = 'select pg_is_in_recovery() as standby, host(inet_server_addr()) as address, inet_server_port() as port'
  return connectOnce(url, client => queryOne<ReachedServer>(client, sql))
}

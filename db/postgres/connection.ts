// The one place that opens PostgreSQL.
import { createHash } from 'node:crypto'
import type { Socket } from 'node:net'
import knex, { type Knex } from 'knex'
import pg from 'pg'
import type { Log } from '../platform/log.ts'
import { Statement } from './statement.ts'
import { systemErrorText } from './system-errors.ts'

/** A pool or a transaction: every function of this folder takes one first. */
export type Db = Knex

// numeric stays text: money never passes through a float on its way. int8 counts fit a number.
pg.types.setTypeParser(pg.types.builtins.NUMERIC, text => text)
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

interface TimeLimits {
  /** How long a statement may take. */
  statementMs: number
  /** Silence of the server after which a connection is given up; longer than any statement may take. */
  silenceMs: number
}

const ofTheService: TimeLimits = { statementMs: 30_000, silenceMs: 40_000 }

/** How long a statement waits for a connection of the pool. */
const CONNECTION_WAIT_MS = 10_000

interface DatabaseOptions {
  url: string
  /** Connections at most. */
  pool?: number
  /** Shown in pg_stat_activity. */
  name?: string
  /** Null where a statement may take its time: for migrations. */
  limits?: TimeLimits | null
  /** Called for connections that break; without it only the statement that fails by it shows the break. */
  log?: Pick<Log, 'warn'>
}

/** For the `options` of a connection. */
export const LOCK_LIMIT = '-c lock_timeout=10000'

/** For the `options` of a connection. */
export const WITHOUT_STATEMENT_TIMEOUT = '-c statement_timeout=0'

/** A commit is acknowledged when it is on disk, and on a synchronous standby where there is one. A purchase leaves after such a commit. */
const DURABLE = { synchronous_commit: 'on' }

/**
 * What our statements mean. A guard that waits for a lock and then reads what the other has written relies on read committed, a date
 * with an interval on UTC, the client's parsers on how dates, intervals, bytes and floats are written, a list with a null in it on
 * that null.
 */
const MEANING = {
  default_transaction_isolation: 'read committed',
  TimeZone: 'UTC',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  transform_null_equals: 'off'
}

/** Warnings must arrive: PostgreSQL reports only by a warning that it acknowledges a commit without its standby. */
const WITH_WARNINGS = { client_min_messages: 'warning' }

/** What a connection that writes what must last has in force, as PostgreSQL shows it. */
export const DEPENDED_ON: Readonly<Record<string, string>> = { ...DURABLE, ...MEANING }

/**
 * For the `options` of a connection that writes what must last: its statements mean the same everywhere, and its commits are on disk,
 * whatever the server's, the database's or the role's defaults are.
 */
export const DEPENDABLE = Object.entries({ ...DEPENDED_ON, ...WITH_WARNINGS })
  .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
  .join(' ')

// Settings that the driver would take from the address instead of ours: an address decides where to connect, not how long a
// statement may take.
const SETTINGS_OF_OURS = [
  'application_name',
  'client_encoding',
  'connectionTimeoutMillis',
  'idle_in_transaction_session_timeout',
  'keepAlive',
  'lock_timeout',
  'query_timeout',
  'statement_timeout'
]

/**
 * Address and `options` of a connection. The driver would prefer options in the address: here ours come last, and win. Our
 * connections never end for being idle, as those that listen or hold a lock are idle.
 */
export function sessionAt(url: string, ours: string): { connectionString: string; options: string } {
  const [place = '', query = ''] = url.split(/\?(.*)/s)
  const given = new URLSearchParams(query)
  const theirs = given.get('options') ?? ''
  const options = `${theirs} -c idle_session_timeout=0 ${ours}`.trim()
  const changed = ['options', ...SETTINGS_OF_OURS].filter(name => given.has(name))
  for (const name of changed) given.delete(name)
  const connectionString = changed.length === 0 ? url : given.size === 0 ? place : `${place}?${given}`
  return { connectionString, options }
}

/**
 * For the `options` of a connection: no statement is compiled. Compiling a long one takes seconds on a busy machine and cannot
 * be interrupted, so that a primary that is to hand over waits for it while all orders wait; none of ours runs long enough to gain.
 */
const UNCOMPILED = '-c jit=off'

// Where PostgreSQL waits for a synchronous standby. Its notice from there means: committed here, and perhaps nowhere else.
const REPLICATION_WAIT = 'SyncRepWaitForLSN'

/**
 * Breaks a connection when PostgreSQL cancels a commit's wait for its standby. It then acknowledges the commit with a
 * warning alone, although a failover would undo it: the statement's outcome is unknown, and must not count as done.
 */
function breakOnLostReplication(client: pg.Client): void {
  client.on('notice', notice => {
    if (notice.routine !== REPLICATION_WAIT) return
    const { connection } = client as unknown as { connection: NodeJS.EventEmitter & { stream: Socket } }
    const message = 'The commit was acknowledged without its standby: its outcome is unknown.'
    // As if the server had closed the connection: the statement under way fails before its acknowledgement is read, and so do all after it.
    connection.emit('error', Object.assign(new Error(message), { code: 'SYNC_REPLICATION_CANCELED', cause: notice }))
    connection.stream.destroy()
  })
}

// SQLSTATE read_only_sql_transaction.
const READ_ONLY = '25006'

/**
 * Has the pool replace a connection that was refused a write. It began while the database, the role or the server had
 * default_transaction_read_only on, and would keep that after it was reset.
 */
function replaceReadOnly(client: pg.Client): void {
  const { connection } = client as unknown as { connection: NodeJS.EventEmitter }
  connection.on('errorMessage', (message: { code?: string }) => {
    // knex checks this before it lends a connection.
    if (message.code === READ_ONLY) Object.assign(client, { __knex__disposed: 'it began read-only' })
  })
}

/**
 * A role or a database may limit transactions from version 17 on. An earlier version would refuse a session that begins with a
 * setting of this name.
 */
const WITHOUT_TRANSACTION_TIMEOUT = `select set_config('transaction_timeout', '0', false) where current_setting('transaction_timeout', true) <> '0'`

/** For a connection that has just been made. */
export async function liftTransactionTimeout(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  await client.query(WITHOUT_TRANSACTION_TIMEOUT)
}

/**
 * Opens a pool; nothing connects before the first query. A statement ends after 30 s, a lock wait after 10 s, an idle
 * transaction after 30 s, so that one stuck client cannot hold the others for ever. A server that does not even report
 * that (its machine or the network is gone) is given up after 40 s.
 */
export function openDatabase({ url, pool = 10, name = 'operator', limits = ofTheService, log }: DatabaseOptions): Db {
  // By itself knex would write to standard output, where others expect JSON. Why there is no connection, `explainWaits` reports.
  const warn = (message: unknown) => {
    if (!String(message).startsWith('Acquire connection error')) log?.warn({ message }, 'the database pool')
  }
  const db = knex({
    client: 'pg',
    connection: {
      // The server may have a statement time-out of its own for everybody.
      ...sessionAt(url, `${LOCK_LIMIT} ${DEPENDABLE} ${UNCOMPILED}${limits ? '' : ` ${WITHOUT_STATEMENT_TIMEOUT}`}`),
      application_name: `service-${name}`,
      connectionTimeoutMillis: 5000,
      keepAlive: true,
      statement_timeout: limits?.statementMs,
      idle_in_transaction_session_timeout: 30_000
    },
    pool: {
      min: 0,
      max: pool,
      acquireTimeoutMillis: CONNECTION_WAIT_MS,
      idleTimeoutMillis: 30_000,
      propagateCreateError: false,
      afterCreate(client: pg.Client, done: (error?: Error | null) => void) {
        const { stream } = (client as unknown as { connection: { stream: Socket } }).connection
        breakOnLostReplication(client)
        replaceReadOnly(client)
        if (limits) stream.setTimeout(limits.silenceMs, () => stream.destroy(silent(limits.silenceMs)))
        liftTransactionTimeout(client).then(() => done(), done)
      }
    },
    acquireConnectionTimeout: CONNECTION_WAIT_MS,
    log: { warn, error: warn, debug: warn, deprecate: warn }
  })
  explainWaits(db, { pool, log })
  return db
}

interface TarnPool {
  on(event: 'createFail', listen: (id: number, error: unknown) => void): void
  on(event: 'createSuccess', listen: () => void): void
}

/** knex would report each wait without a connection as a transaction that its caller forgot: ours has the reason. */
function explainWaits(db: Db, { pool, log }: { pool: number; log: DatabaseOptions['log'] }): void {
  const client = db.client as KnexClient & { pool: TarnPool }
  let failure: unknown
  client.pool.on('createFail', (_id, error) => {
    failure = error
  })
  client.pool.on('createSuccess', () => {
    failure = undefined
  })
  const acquire = client.acquireConnection.bind(client)
  client.acquireConnection = () =>
    acquire().catch((error: Error) => {
      if (error.name !== 'KnexTimeoutError') throw error
      const reason = failure === undefined ? `all ${pool} are in use` : connectionFailure(failure)
      error.message = `There was no connection to the database within ${CONNECTION_WAIT_MS / 1000} s: ${reason}.`
      log?.warn({ err: error }, 'the database pool')
      throw error
    })
}

const connectionFailure = (error: unknown) => systemErrorText(error) ?? (error as Error).message

function silent(ms: number): Error {
  return Object.assign(new Error(`PostgreSQL has not responded for ${ms} ms.`), { code: 'ETIMEDOUT' })
}

/**
 * The rows of a statement with named bindings (`:name`). Each statement is prepared once per connection: parsing and
 * planning the long ones costs more than running them.
 */
export async function rows<T>(db: Db, sql: string, bindings: Record<string, unknown> = {}): Promise<T[]> {
  const { text, names } = positioned(sql, bindings)
  return execute<T>(
    db,
    text,
    names.map(name => bindings[name])
  )
}

/**
 * `any` of a list of texts, as SQL: `id = ${among('ids')}`. PostgreSQL plans `= any($1)` again on every run, which takes longer than
 * such a statement; hiding the list in a subquery keeps one generic plan.
 */
export const among = (name: string): string => `any(array(select unnest(:${name}::text[])))`

/** Rows of lists of texts, one column each, as SQL; out of sight of the planner for the same reason. */
export const listing = (...names: string[]): string =>
  `unnest(${names.map(name => `(select :${name}::text[])`).join(', ')})`

const joined = new WeakMap<TemplateStringsArray, { parts: string[]; text: string }>()

/**
 * A statement built of parts that are usually the same as at the last call: then the same string is returned, which saves joining
 * it and hashing its whole length again.
 */
export function sql(strings: TemplateStringsArray, ...parts: string[]): string {
  const last = joined.get(strings)
  if (last?.parts.every((part, index) => part === parts[index])) return last.text
  const text = String.raw({ raw: strings }, ...parts)
  joined.set(strings, { parts, text })
  return text
}

// Knex's way to a connection without its compiler, which takes longer than some statements do.
interface KnexClient {
  acquireConnection(): Promise<pg.Client>
  releaseConnection(connection: pg.Client): Promise<void>
}

// SQLSTATE deadlock_detected: of transactions that wait for each other in a circle PostgreSQL breaks one off. SQLSTATE
// serialization_failure: what a statement was decided on has changed since it began (refuse_archived_names in schema.sql).
const CONFLICTS = new Set<unknown>(['40P01', '40001'])
const TRIES = 3

// Where PostgreSQL refuses a prepared statement whose columns a migration has changed; its SQLSTATE is shared by others.
const COLUMNS_CHANGED = 'RevalidateCachedQuery'

/**
 * Runs a prepared statement with bindings $1, $2, …; returns its rows. Aborted by a conflict with another transaction, a statement that is its
 * own transaction is run again: it did nothing, and the other transaction goes first. So is one whose columns a
 * migration has changed since it was prepared, under a new name; in a transaction the caller's next try has that name.
 */
export async function execute<T>(db: Db, text: string, values: unknown[]): Promise<T[]> {
  const { isCompleted } = db as unknown as { isCompleted?: () => boolean }
  // After the end of its transaction a statement would run on a connection that another caller holds by now.
  if (isCompleted?.()) throw new Error('The transaction of this statement has ended.')
  for (let attempt = 1; ; attempt++) {
    const name = nameOf(text)
    try {
      return await executeOnce<T>(db, { name, text, values })
    } catch (error) {
      const { code, routine } = error as { code?: unknown; routine?: unknown }
      const changed = routine === COLUMNS_CHANGED
      if (changed) rename(text, name)
      if (isCompleted || attempt === TRIES || !(changed || CONFLICTS.has(code))) throw error
    }
  }
}

async function executeOnce<T>(db: Db, run: { name: string; text: string; values: unknown[] }): Promise<T[]> {
  const { client } = db as unknown as { client: KnexClient }
  const connection = await client.acquireConnection()
  try {
    return await new Promise<T[]>((resolve, reject) => {
      const done = (error: unknown, found: T[]) => (error ? reject(error) : resolve(found))
      connection.query(new Statement<T>(run, done))
    })
  } finally {
    await client.releaseConnection(connection)
  }
}

// SQLSTATE query_canceled.
const CANCELED = '57014'

/** Whether PostgreSQL cancelled a statement, as it does with one that takes longer than it may. */
export const wasCanceled = (error: unknown): boolean => (error as { code?: unknown }).code === CANCELED

// SQLSTATE insufficient_privilege.
const NO_PRIVILEGE = '42501'

/** Whether the role may not do what the statement does. */
export const lacksPrivilege = (error: unknown): boolean => (error as { code?: unknown }).code === NO_PRIVILEGE

// SQLSTATE lock_not_available.
const LOCKED = '55P03'

/** Whether a statement waited for a lock for as long as it may. */
export const isLockTimeout = (error: unknown): boolean => (error as { code?: unknown } | undefined)?.code === LOCKED

/** Whether a statement did not wait for a lock, as its `nowait` demands. Only a wait that was broken off ends in this function of PostgreSQL's. */
export const wasNotAwaited = (error: unknown): boolean =>
  isLockTimeout(error) && (error as { routine?: unknown }).routine !== 'ProcessInterrupts'

const BREAKS = new Set(['ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'SYNC_REPLICATION_CANCELED'])

/**
 * Whether a connection broke while it was in use: a statement that it had sent, a commit among them, may have taken effect or not. The
 * SQLSTATEs are those of a broken connection (08) and of a server that ends it (57P).
 */
export function isBrokenConnection(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: unknown }
  if (typeof code === 'string') return /^(08|57P)/.test(code) || BREAKS.has(code)
  // The driver gives it no code, and knex puts the statement before the message.
  return /(^| - )(Connection terminated|Client has encountered a connection error)/.test(error.message)
}

interface Positioned {
  text: string
  names: string[]
}

// Statements are text in our code, so their number is limited anyway.
const MAX_STATEMENTS = 2000
const known = new Map<string, Positioned>()

function positioned(sql: string, bindings: Record<string, unknown>): Positioned {
  let found = known.get(sql)
  if (!found) {
    const names: string[] = []
    const text = sql.replaceAll(/(?<![:\w]):([a-zA-Z]\w*)/g, (written, name: string) => {
      if (!Object.hasOwn(bindings, name)) return written
      // Each place has a parameter of its own: one in two places would have to be of one type.
      names.push(name)
      return `$${names.length}`
    })
    found = { text, names }
    if (known.size >= MAX_STATEMENTS) known.clear()
    known.set(sql, found)
  }
  const missing = found.names.find(name => bindings[name] === undefined)
  if (missing !== undefined) throw new Error(`The statement's binding ${missing} is undefined.`)
  return found
}

const hashes = new Map<string, string>()

function nameOf(text: string): string {
  let name = hashes.get(text)
  if (!name) {
    if (hashes.size >= MAX_STATEMENTS) hashes.clear()
    name = createHash('sha256').update(text).digest('base64url').slice(0, 24)
    hashes.set(text, name)
  }
  return name
}

let renamed = 0

/** Gives a statement another name, unless it has been renamed since `name`. */
function rename(text: string, name: string): void {
  if (hashes.get(text) === name) hashes.set(text, `${name.slice(0, 24)} ${++renamed}`)
}

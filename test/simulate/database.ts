// The database of a simulation: a real PostgreSQL, reached by every simulated process through a knex of its own whose
// statements are events. Each takes virtual time, may be lost before or after its effect, and is really executed
// alone, so that a seed always replays the same interleaving; a statement that waits for a lock waits for real.
import { createRequire } from 'node:module'
import knex from 'knex'
import pg from 'pg'
import { type Db, openDatabase } from '../../db/postgres/connection.ts'
import type { Statement as PreparedStatement } from '../../db/postgres/statement.ts'
import type { Chance, Counts } from './chance.ts'
import { type Actor, type Schedule, START_MS } from './clock.ts'

// Knex's own client, which compiles; only where its statements go is replaced.
const PostgresClient = createRequire(import.meta.url)('knex/lib/dialects/postgres/index.js') as new (
  config: object
) => { config: { actor: Actor } }

// Statements arrive in bunches, and so do their responses: what waits for them travels together again.
const RESPONSE_GRID_MS = 5
const GRID_MS = 40
const SLOW_MS = [500, 14_000] as const

const realTimeout = setTimeout
const realClear = clearTimeout

/** A slow one is executed at once, and its response comes seconds later. */
type StatementFate = 'done' | 'slow' | 'lost' | 'unknown' | 'timed out'

interface Physical {
  client: pg.Client
  pid: number
  /** The time it last received. */
  receivedAt: number
}

/** A connection as a simulated process has it; it has a real one only while a transaction is open. */
interface DatabaseSession {
  actor: Actor
  inTransaction: boolean
  physical: Physical | null
  broken: Error | null
  waiting: number
  /** A statement that uses the protocol itself, recognised by what it is. */
  query(statement: Prepared): void
}

type Prepared = Pick<PreparedStatement<unknown>, 'text' | 'values' | 'callback'>

interface SimulatedStatement {
  session: DatabaseSession
  text: string
  values: unknown[]
  fate: StatementFate
  resolve(result: pg.QueryResult): void
  reject(error: Error): void
}

/** What was sent over one real connection and is not done yet: one statement of a transaction, or several that are transactions of their own. */
interface SentStatement {
  physical: Physical
  items: { statement: SimulatedStatement; outcome: Promise<StatementOutcome> }[]
  /** The processes whose locks it waits for. */
  by: number[]
}

type StatementOutcome = { result: pg.QueryResult } | { error: Error }

export interface Database {
  /** A knex for an actor: its statements go through the schedule. */
  of(actor: Actor): Db
  /** What became of the actor's transactions when it crashed or froze: the server ends them. */
  abandon(actor: Actor): void
  /** How many transactions are open. */
  readonly transactions: number
  /** Queried by the world itself, at once and undisturbed. */
  look<T>(sql: string, values?: unknown[]): Promise<T[]>
  statements: number
  /** Its clock minus the world's. */
  offsetMs: number
  /** The server dies with the next statements that arrive: right after it has acknowledged them. */
  dies: boolean
  close(): Promise<void>
}

export async function openSimulatedDatabase(options: {
  url: string
  schedule: Schedule
  chance: Chance
  counts: Counts
  fateOf(actor: Actor): StatementFate
  /** The server has died; no more responses. */
  died(): void
  /** Called with statements that the database refuses. */
  wrong(error: Error): void
}): Promise<Database> {
  const { url, schedule, chance, counts, fateOf } = options
  const idle: Physical[] = []
  const all: Physical[] = []
  const sessions = new Map<Actor, Set<DatabaseSession>>()
  const deferred: SimulatedStatement[] = []
  let blocked: SentStatement[] = []
  const arrivals = new Map<number, SimulatedStatement[]>()

  async function connect(): Promise<Physical> {
    const client = new pg.Client({ connectionString: url, application_name: 'simulation', pipeline: true })
    await client.connect()
    const { rows } = await client.query('select pg_backend_pid() as pid')
    const physical = { client, pid: rows[0].pid as number, receivedAt: -1 }
    all.push(physical)
    return physical
  }
  // The server itself commits asynchronously; what a session insists on, its commits keep.
  const service = openDatabase({ url })
  const { connection } = (service.client as { config: { connection: { options?: string } } }).config
  const insists = /synchronous_commit=on\b/.test(connection.options ?? '')
  await service.destroy()
  // Opened before the process's own timers are taken over.
  for (let i = 0; i < 12; i++) idle.push(await connect())
  const monitor = await connect()

  // The schema `sim` has its own now() and clock_timestamp(), which read this setting. It travels with what follows it.
  function sendTime(physical: Physical): void {
    const now = schedule.now + database.offsetMs
    if (physical.receivedAt === now) return
    physical.receivedAt = now
    const time = new Date(START_MS + now).toISOString()
    const query = { name: 'time', text: `select set_config('sim.now', $1, false)`, values: [time] }
    // In a transaction that failed it fails as well, and so does what follows.
    physical.client.query(query).catch(() => {})
  }

  async function end(session: DatabaseSession, how: 'commit' | 'rollback'): Promise<undefined> {
    session.inTransaction = false
    const { physical } = session
    if (!physical) return
    session.physical = null
    // A rollback takes the setting back as well.
    if (how === 'rollback') physical.receivedAt = -1
    try {
      await physical.client.query(how)
    } finally {
      idle.push(physical)
    }
  }

  /** Statements reach the server. While one waits for a lock, only those whose locks it waits for go on. */
  async function arrive(statements: SimulatedStatement[]): Promise<void> {
    if (database.dies && blocked.length === 0 && deferred.length === 0) return die(statements)
    deferred.push(...statements)
    for (;;) {
      const next = deferred.findIndex(mayRun)
      if (next < 0) return
      const alone: SimulatedStatement[] = []
      // Those that are transactions of their own and nothing befalls go over one connection, one behind the other.
      for (let i = next; blocked.length === 0 && i < deferred.length && isPlain(deferred[i]!); i++)
        alone.push(deferred[i]!)
      if (alone.length > 1) {
        deferred.splice(next, alone.length)
        for (const { session } of alone) session.waiting -= 1
        await send(alone[0]!.session, alone)
      } else await perform(deferred.splice(next, 1)[0]!)
    }
  }

  /**
   * The server acknowledges what arrives now, as far as it can, and dies: every connection breaks, and where the commits
   * were asynchronous it does not know of them when it is back.
   */
  async function die(statements: SimulatedStatement[]): Promise<void> {
    database.dies = false
    counts.add(`database: dies, and ${insists ? 'keeps' : 'forgets'} its last commits`)
    const alive = statements.filter(({ session, fate }) => !session.actor.dead && !session.broken && fate === 'done')
    const commits = alive.filter(({ session, text }) => session.inTransaction && /^commit/i.test(text))
    const alone = alive.filter(({ session }) => !session.inTransaction)
    for (const statement of commits)
      respond(statement, await outcomeOf(end(statement.session, insists ? 'commit' : 'rollback')))
    const done = new Set(commits)
    const kept = new Set(commits.map(({ session }) => session))
    for (const session of [...sessions.values()].flatMap(each => [...each])) {
      if (kept.has(session)) continue
      session.broken = failure('terminating connection because of crash of another server process', '57P02')
      if (session.physical) await end(session, 'rollback')
    }
    const physical = idle.pop() ?? (await connect())
    if (!insists) await physical.client.query('begin')
    for (const statement of alone) {
      const { text, values } = statement
      sendTime(physical)
      const outcome = await outcomeOf(physical.client.query({ name: nameOf(text), text, values }))
      respond(statement, outcome)
      done.add(statement)
      // Nothing more can be done in its transaction.
      if ('error' in outcome && !insists) break
    }
    if (!insists) await physical.client.query('rollback')
    physical.receivedAt = -1
    idle.push(physical)
    for (const statement of statements) {
      statement.session.waiting -= 1
      if (!done.has(statement)) respond(statement, { error: statement.session.broken ?? failure('gone', '57P02') })
    }
    options.died()
  }

  function mayRun({ session }: SimulatedStatement): boolean {
    const last = blocked.at(-1)
    return !last || (session.physical !== null && last.by.includes(session.physical.pid))
  }

  const isPlain = ({ session, text, fate }: SimulatedStatement) =>
    !session.inTransaction &&
    !session.broken &&
    !session.actor.dead &&
    (fate === 'done' || fate === 'slow' || fate === 'unknown') &&
    !/^(commit|rollback)/i.test(text)

  async function perform(statement: SimulatedStatement): Promise<void> {
    const { session, text, fate } = statement
    session.waiting -= 1
    if (session.actor.dead) {
      // It was on its way when its sender died: it arrived, or it did not.
      const arrived = !session.broken && chance.is(0.5)
      if (arrived && session.inTransaction && /^commit/i.test(text)) await end(session, 'commit')
      else if (arrived && !session.inTransaction) await execute(statement).catch(() => {})
      await end(session, 'rollback')
      return settleBlocked()
    }
    if (session.broken) {
      respond(statement, { error: session.broken })
      await end(session, 'rollback')
      return settleBlocked()
    }
    if (fate === 'lost' || (fate === 'timed out' && /^commit/i.test(text))) return lose(statement)
    if (fate === 'timed out') {
      counts.add('database: statement timed out')
      return respond(statement, { error: failure('canceling statement due to statement timeout', '57014') })
    }
    await execute(statement)
  }

  async function execute(statement: SimulatedStatement): Promise<void> {
    const { session, text } = statement
    const how = /^(commit|rollback)/i.exec(text)?.[0].toLowerCase() as 'commit' | 'rollback' | undefined
    if (how) return finish(statement, await outcomeOf(end(session, how)))
    await send(session, [statement])
  }

  async function send(session: DatabaseSession, statements: SimulatedStatement[]): Promise<void> {
    const physical = session.physical ?? idle.pop() ?? (await connect())
    // All of it leaves in one write.
    const { stream } = physical.client.connection
    stream.cork()
    if (session.inTransaction && !session.physical) {
      session.physical = physical
      physical.client.query('begin').catch(() => {})
    }
    sendTime(physical)
    const items = statements.map(statement => {
      const { text, values } = statement
      return { statement, outcome: outcomeOf(physical.client.query({ name: nameOf(text), text, values })) }
    })
    stream.uncork()
    await complete({ physical, items, by: [] })
  }

  /** Reports the outcomes in order, as far as they are there. */
  async function complete(sent: SentStatement): Promise<void> {
    const { physical, items } = sent
    for (let item = items[0]; item; item = items[0]) {
      const seen = await untilDone(item.outcome, physical)
      if (Array.isArray(seen)) {
        sent.by = seen
        if (blocked.at(-1) !== sent) {
          counts.add('database: waited for a lock')
          blocked.push(sent)
        }
        return
      }
      items.shift()
      if (items.length === 0) {
        blocked = blocked.filter(each => each !== sent)
        if (item.statement.session.physical !== physical) idle.push(physical)
      }
      await finish(item.statement, seen)
    }
  }

  async function finish(statement: SimulatedStatement, outcome: StatementOutcome): Promise<void> {
    schedule.note('', () => `${statement.session.actor.name} got ${gist(outcome)}`)
    if ('error' in outcome) {
      // What the database itself refuses: two that raced are expected, a statement that is wrong is not.
      const { code } = outcome.error as { code?: string }
      counts.add(`database: refused with ${code}`)
      if (!/^(23505|40P01)$/.test(code ?? '')) options.wrong(outcome.error)
    }
    const { session } = statement
    if (session.actor.dead) await end(session, 'rollback')
    else if (statement.fate === 'unknown') await lose(statement)
    else respond(statement, outcome)
    if (!session.physical) await settleBlocked()
  }

  /** The connection breaks: an open transaction is undone, the sender gets an error without an outcome. */
  async function lose(statement: SimulatedStatement): Promise<void> {
    const { session } = statement
    counts.add(`database: connection lost ${statement.fate === 'unknown' ? 'after' : 'before'} a statement`)
    session.broken = failure('Connection terminated unexpectedly', '08006')
    respond(statement, { error: session.broken })
    if (session.physical) {
      await end(session, 'rollback')
      await settleBlocked()
    }
  }

  function respond({ session, fate, resolve, reject }: SimulatedStatement, outcome: StatementOutcome): void {
    if (fate === 'slow') counts.add('database: slow response')
    const ms = fate === 'slow' ? chance.int(...SLOW_MS) : chance.int(1, 6)
    schedule.onGrid(ms, RESPONSE_GRID_MS, session.actor, 'row', () => {
      if ('error' in outcome) reject(outcome.error)
      else resolve(outcome.result)
    })
  }

  /** Locks may have been let go: who waited for them goes on, the last one first, for the others may wait for it. */
  async function settleBlocked(): Promise<void> {
    for (let last = blocked.at(-1); last; last = blocked.at(-1)) {
      await complete(last)
      if (blocked.at(-1) === last) return
    }
  }

  /** The outcome, or the processes it waits for. Nothing else happens meanwhile, so it is one or the other for good. */
  async function untilDone(
    outcome: Promise<StatementOutcome>,
    { pid }: Physical
  ): Promise<StatementOutcome | number[]> {
    for (let patienceMs = 5; ; patienceMs = Math.min(50, patienceMs * 2)) {
      let timer: NodeJS.Timeout | undefined
      const seen = await Promise.race([
        outcome,
        new Promise<null>(resolve => {
          timer = realTimeout(resolve, patienceMs, null)
        })
      ])
      realClear(timer)
      if (seen) return seen
      const { rows } = await monitor.client.query('select pg_blocking_pids($1) as by', [pid])
      if (rows[0].by.length > 0) return rows[0].by as number[]
    }
  }

  function submit(session: DatabaseSession, text: string, values: unknown[]): Promise<pg.QueryResult> {
    return new Promise((resolve, reject) => {
      const fate = /^(begin|rollback)/i.test(text) ? 'done' : fateOf(session.actor)
      const statement: SimulatedStatement = { session, text, values, fate, resolve, reject }
      // The begin of a transaction has no effect by itself, and travels with its first statement.
      if (/^begin/i.test(text)) {
        session.inTransaction = true
        return respond(statement, nothing)
      }
      session.waiting += 1
      database.statements += 1
      const at = Math.ceil((schedule.now + chance.int(1, 20)) / GRID_MS) * GRID_MS
      const others = arrivals.get(at)
      if (others) others.push(statement)
      else {
        arrivals.set(at, [statement])
        schedule.really(at - schedule.now, 'statements', () => {
          const statements = arrivals.get(at) as SimulatedStatement[]
          arrivals.delete(at)
          for (const { session, text, values, fate } of statements)
            schedule.note(
              `${session.actor.name} ${text.slice(0, 24)}`,
              () => `${flat(text)} ${fate} ${JSON.stringify(values)}`
            )
          return arrive(statements)
        })
      }
    })
  }

  class SimulatedClient extends PostgresClient {
    async acquireConnection() {
      const actor = this.config.actor
      const session: DatabaseSession = {
        ...{ actor, inTransaction: false, physical: null, broken: null, waiting: 0 },
        query: ({ text, values, callback }) =>
          void submit(session, text, values).then(
            result => callback(null, result.rows),
            error => callback(error, [])
          )
      }
      sessionsOf(actor).add(session)
      return session
    }

    async releaseConnection(session: DatabaseSession) {
      sessionsOf(session.actor).delete(session)
    }

    _query(session: DatabaseSession, query: { sql: string; bindings?: unknown[]; response?: unknown }) {
      return submit(session, query.sql, query.bindings ?? []).then(response => {
        query.response = response
        return query
      })
    }
  }

  function sessionsOf(actor: Actor): Set<DatabaseSession> {
    const known = sessions.get(actor) ?? new Set()
    sessions.set(actor, known)
    return known
  }

  const database: Database = {
    statements: 0,
    offsetMs: 0,
    dies: false,
    get transactions() {
      // One connection is the monitor's.
      return all.length - 1 - idle.length
    },
    of: actor => knex({ client: SimulatedClient, version: '18', actor } as never),
    abandon(actor) {
      for (const session of sessionsOf(actor)) {
        if (!session.physical) continue
        // What a dead process sent last may still arrive; one that is frozen finds its connection closed.
        if (!actor.dead) session.broken = failure('terminating connection due to idle-in-transaction timeout', '25P03')
        if (session.waiting === 0) {
          schedule.really(0, `${actor.name} is cut off`, async () => {
            if (session.physical && session.waiting === 0) await end(session, 'rollback')
            await settleBlocked()
            await arrive([])
          })
        }
      }
    },
    async look(sql, values = []) {
      sendTime(monitor)
      return (await monitor.client.query(sql, values)).rows
    },
    async close() {
      await Promise.allSettled(all.map(({ client }) => client.end()))
    }
  }
  return database
}

// Prepared once per connection: most of a short statement's cost would be its planning.
const names = new Map<string, string>()

function nameOf(text: string): string {
  const known = names.get(text)
  if (known) return known
  names.set(text, `s${names.size}`)
  return nameOf(text)
}

const nothing: StatementOutcome = { result: { rows: [], rowCount: 0, command: '', oid: 0, fields: [] } }

function outcomeOf(work: Promise<pg.QueryResult | undefined>): Promise<StatementOutcome> {
  return work.then(
    result => (result ? { result } : nothing),
    (error: Error) => ({ error })
  )
}

/** What came back, for traces. */
function gist(outcome: StatementOutcome): string {
  if ('error' in outcome) return outcome.error.message
  const shown = [
    'id',
    'phase',
    'attempt',
    'sender',
    'checks',
    'lease_holder',
    'broker_order_id',
    'account_id',
    'error_code'
  ]
  return JSON.stringify(outcome.result.rows, (key, value) =>
    key && !Number(key) && key !== '0' && !shown.includes(key) ? undefined : value
  )
}

const flat = (text: string) => text.replace(/\s+/g, ' ').slice(0, 120)

function failure(message: string, code: string): Error {
  return Object.assign(new Error(message), { code })
}

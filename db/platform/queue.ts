// The queue: jobs are stored in the caller's transaction, fetched and completed in groups. Queue rules
// are declared in schemas/jobs.ts; db/postgres/migrate.ts creates them.
import type { PgBoss } from 'pg-boss'
import { matches } from '../../schemas/checks/validator.ts'
import { deadLetterOf, type JobData, type QueueName, queues } from '../../schemas/jobs.ts'
import { type Db, DEPENDABLE, execute, liftTransactionTimeout, rows, sessionAt } from '../postgres/connection.ts'
import { conditionOf } from './job-condition.ts'
import type { Log } from './log.ts'

// Longer than its upkeep takes on a large table.
const QUERY_TIMEOUT_MS = 120_000
const QUEUE_LIMITS = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']
  .map(limit => `-c ${limit}=${QUERY_TIMEOUT_MS}`)
  .join(' ')

export interface Job<Name extends QueueName = QueueName> {
  id: string
  data: JobData[Name]
  retryCount: number
}

export interface Queue {
  /** Stores jobs in the transaction `trx`; they exist when it commits. */
  enqueue<Name extends QueueName>(
    trx: Db,
    name: Name,
    data: JobData[Name][],
    options?: { priority?: number }
  ): Promise<void>
  /**
   * The same as a part of a statement: an insert, to be one of its common table expressions. `jobs` is a select of what
   * the jobs carry, one jsonb each.
   */
  enqueueing(name: QueueName, jobs: string): string
  /**
   * Takes up to `limit` jobs within `trx`; no other worker gets them once it commits. Those whose data breaks their
   * schema become dead letters in the same transaction, and are not returned.
   */
  fetch<Name extends QueueName>(trx: Db, name: Name, limit: number): Promise<Job<Name>[]>
  /** Takes up to `limit` jobs for good, oldest first: they are done with this statement, as `taking` describes. */
  take<Name extends QueueName>(db: Db, name: Name, limit: number): Promise<JobData[Name][]>
  /**
   * The same as common table expressions, of which `taken` has the jobs' `data`; of `recent` ones or of all. What breaks its
   * schema becomes a dead letter in the same statement, and is not in `taken`.
   */
  taking(name: QueueName, limit: number, among?: 'recent' | 'all'): string
  /** Which of these queues have a job that is due: one statement instead of one for each queue. */
  due<Name extends QueueName>(db: Db, names: readonly Name[]): Promise<Name[]>
  complete(trx: Db, name: QueueName, jobs: Job[]): Promise<void>
  /**
   * Counts a failed try: the job is tried again with back-off, and past its retries it becomes a dead letter. Also for
   * a job whose fetch was rolled back with the work; if another worker has fetched it since, nothing changes.
   */
  fail(trx: Db, name: QueueName, job: Job, error: unknown): Promise<void>
  /** pg-boss itself, for schedules and statistics. */
  boss: PgBoss
  close(): Promise<void>
}

/** Connections to the database of a queue, at most. */
export const QUEUE_CONNECTIONS = { sender: 2, worker: 4 } as const

/**
 * Opens the queue. As a 'sender' it only stores jobs; as a 'worker' it also runs the upkeep (expiry,
 * retention, schedules). Expects a migrated database.
 */
export async function openQueue(options: {
  url: string
  role: 'sender' | 'worker'
  log: Log
  pool?: number
}): Promise<Queue> {
  // Loaded here: the commands of the operator's tool that open no queue need not spend some 20 ms of CPU on it at their start.
  const { PgBoss, fromKnex } = await import('pg-boss')
  const working = options.role === 'worker'
  const boss = new PgBoss({
    application_name: `service-queue-${options.role}`,
    max: options.pool ?? QUEUE_CONNECTIONS[options.role],
    connectionTimeoutMillis: 5000,
    // Without keep-alive and time-out a server that fell silent would go unnoticed.
    // Its upkeep takes longer than the server may let a statement or a transaction take.
    ...{ keepAlive: true, query_timeout: QUERY_TIMEOUT_MS, onConnect: liftTransactionTimeout },
    ...sessionAt(options.url, `${DEPENDABLE} ${QUEUE_LIMITS}`),
    migrate: false,
    createSchema: false,
    supervise: working,
    schedule: working,
    // The hot table is small and ever changing: keep its statistics and its dead rows in order.
    maintenanceIntervalSeconds: 300,
    superviseIntervalSeconds: 30
  })
  boss.on('error', error => options.log.warn({ err: error }, 'queue'))
  const close = () => boss.stop({ graceful: false, close: true })
  // The part of the job table that a queue is in: over the whole of it, statements take twice as long to plan.
  const tables = await boss
    .start()
    .then(() => boss.getQueues())
    .then(found => new Map(found.map(({ name, table }) => [name, table])))
    .catch(async (error: unknown) => {
      // Its timers and connections would outlive the attempt.
      await close().catch(() => {})
      throw error
    })
  const { log } = options
  const tableOf = (name: QueueName) => `pgboss.${tables.get(name) ?? 'job'}`
  const taking: Queue['taking'] = (name, limit, among = 'all') => takingFrom(tableOf(name), { name, limit, among })
  return {
    boss,
    async enqueue(trx, name, data, { priority } = {}) {
      const jobs = data.map(item => ({ data: item as object, ...(priority === undefined ? {} : { priority }) }))
      await boss.insert(name, jobs, { db: on(trx) })
    },
    enqueueing: (name, jobs) => enqueueingInto(tableOf(name), { name, jobs }),
    async fetch(trx, name, limit) {
      const jobs = (await boss.fetch(name, { batchSize: limit, db: fromKnex(trx) } as never)) as Job<typeof name>[]
      const broken = jobs.filter(({ data }) => !matches(queues[name].data, data))
      if (broken.length === 0) return jobs
      log.error({ queue: name, jobs: broken.map(({ id }) => id) }, 'job data breaks its schema')
      const ids = broken.map(({ id }) => id)
      await rows(trx, `update ${tableOf(name)} set retry_limit = retry_count where name = :name and id = any(:ids)`, {
        name,
        ids
      })
      await boss.fail(name, ids, { message: BROKEN }, { db: fromKnex(trx) })
      return jobs.filter(job => !broken.includes(job))
    },
    taking,
    async take(db, name, limit) {
      const taken = await execute<{ data: never }>(db, `with ${taking(name, limit)} select data from taken`, [])
      return taken.map(({ data }) => data)
    },
    async due(db, names) {
      const found = names.map(
        name => `select '${name}' as name where exists (select from ${tableOf(name)} where ${dueIn(name)})`
      )
      return (await execute<{ name: (typeof names)[number] }>(db, found.join(' union all '), [])).map(
        ({ name }) => name
      )
    },
    async complete(trx, name, jobs) {
      if (jobs.length > 0)
        await boss.complete(
          name,
          jobs.map(({ id }) => id),
          undefined,
          { db: fromKnex(trx) }
        )
    },
    async fail(trx, name, job, error) {
      const message = error instanceof Error ? error.message : String(error)
      // pg-boss counts a try when a job is fetched again after a fetch that was committed.
      await rows(
        trx,
        `update ${tableOf(name)}
            set state = 'active', started_on = pgboss.job_now(),
                retry_count = case when started_on is null then retry_count else retry_count + 1 end
          where name = :name and id = :id and state < 'active'`,
        { name, id: job.id }
      )
      await boss.fail(name, job.id, { message }, { db: fromKnex(trx) })
    },
    close
  }
}

// Why a job is a dead letter that was never tried.
const BROKEN = 'The data of the job breaks the schema of its queue.'

// A job found this long after it was stored still counts as recent: longer than a worker takes from a commit to its
// fetch.
const RECENT_SECONDS = 3

/** A condition on the job table: a job of the queue that may be fetched now. */
const dueIn = (name: QueueName) =>
  `name = '${name}' and state < 'active' and not blocked and start_after <= pgboss.job_now()`

/**
 * Stores jobs with pg-boss' defaults. Its own statement reads twenty more columns of each job out of json, all absent
 * here, which is an eighth of the time that storing one order takes.
 */
function enqueueingInto(table: string, { name, jobs }: { name: QueueName; jobs: string }): string {
  return `insert into ${table} (name, data, start_after, created_on, keep_until, expire_seconds, deletion_seconds,
                retry_limit, retry_delay, retry_backoff, retry_delay_max, policy, dead_letter, heartbeat_seconds)
          select q.name, job.data, pgboss.job_now(), pgboss.job_now(), pgboss.job_now() + q.retention_seconds * interval '1 second',
                 q.expire_seconds, q.deletion_seconds, q.retry_limit, q.retry_delay, q.retry_backoff, q.retry_delay_max,
                 q.policy, q.dead_letter, q.heartbeat_seconds
            from pgboss.queue q cross join (${jobs}) job (data)
           where q.name = '${name}'`
}

/**
 * Fetches and completes at once, which pg-boss has no call for, in its own terms. The ids are found first: joined, as
 * pg-boss does, a plan made while the table was empty reads all jobs for each job it takes. Done jobs stay in the index
 * while any transaction is open, and jobs that are not due yet precede newer ones: a fetch of recent jobs only (of the
 * usual priority) begins behind them in the index, by its order (priority, created_on).
 */
function takingFrom(
  table: string,
  { name, limit, among }: { name: QueueName; limit: number; among: 'recent' | 'all' }
): string {
  const recent = ` and priority = 0 and created_on > pgboss.job_now() - interval '${RECENT_SECONDS} seconds'`
  return `fetched as (
          update ${table}
             set state = case when ${conditionOf(queues[name].data, 'data')} then 'completed' else 'failed' end::pgboss.job_state,
                 started_on = pgboss.job_now(), completed_on = pgboss.job_now()
           where name = '${name}'
             and id = any(array(select id from ${table}
                                 where ${dueIn(name)}${among === 'recent' ? recent : ''}
                                 order by priority desc, created_on limit ${limit} for update skip locked))
          returning id, name, data, state, created_on
       ), broken as (
          insert into pgboss.job (name, data, retry_limit, start_after, created_on, keep_until, deletion_seconds, expire_seconds,
                 source_name, source_id, source_created_on, source_retry_count, source_output, source_root_id)
          select q.name, f.data, q.retry_limit, pgboss.job_now(), pgboss.job_now(),
                 pgboss.job_now() + q.retention_seconds * interval '1 second', q.deletion_seconds, q.expire_seconds,
                 f.name, f.id, f.created_on, 0, jsonb_build_object('message', '${BROKEN}'), f.id
            from fetched f join pgboss.queue q on q.name = '${deadLetterOf(name)}'
           where f.state = 'failed'
       ), taken as (select data from fetched where state = 'completed')`
}

/** The connection as pg-boss takes it, for statements worth preparing. */
function on(trx: Db): { executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }> } {
  return { executeSql: async (text, values = []) => ({ rows: await execute(trx, text, values) }) }
}

// The queue: jobs are stored in the caller's transaction, fetched and completed in groups. Queue rules
// are declared in schemas/jobs.ts; db/migrate.ts creates them.
import { fromKnex, PgBoss } from 'pg-boss'
import type { JobData, QueueName } from '../schemas/jobs.ts'
import type { Db } from './connection.ts'
import type { Log } from './log.ts'

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
    options?: { startAfterSeconds?: number }
  ): Promise<void>
  /** Takes up to `limit` jobs within `trx`; they are nobody else's once it commits. */
  fetch<Name extends QueueName>(trx: Db, name: Name, limit: number): Promise<Job<Name>[]>
  complete(trx: Db, name: QueueName, jobs: Job[]): Promise<void>
  /** Gives a job back to be tried again with back-off; past its retries it becomes a dead letter. */
  fail(trx: Db, name: QueueName, job: Job, error: unknown): Promise<void>
  /** pg-boss itself, for schedules and statistics. */
  boss: PgBoss
  close(): Promise<void>
}

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
  const working = options.role === 'worker'
  const boss = new PgBoss({
    connectionString: options.url,
    application_name: `service-queue-${options.role}`,
    max: options.pool ?? (working ? 4 : 2),
    connectionTimeoutMillis: 5000,
    migrate: false,
    createSchema: false,
    supervise: working,
    schedule: working,
    // The hot table is small and ever changing: keep its statistics and its dead rows in order.
    maintenanceIntervalSeconds: 300,
    superviseIntervalSeconds: 30
  })
  boss.on('error', error => options.log.warn({ err: error }, 'queue'))
  await boss.start()
  return {
    boss,
    async enqueue(trx, name, data, { startAfterSeconds } = {}) {
      const jobs = data.map(item => ({
        data: item as object,
        ...(startAfterSeconds ? { startAfter: startAfterSeconds } : {})
      }))
      await boss.insert(name, jobs, { db: fromKnex(trx) })
    },
    async fetch(trx, name, limit) {
      return (await boss.fetch(name, { batchSize: limit, db: fromKnex(trx) } as never)) as never
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
      await boss.fail(name, job.id, { message }, { db: fromKnex(trx) })
    },
    async close() {
      await boss.stop({ graceful: false, close: true })
    }
  }
}

// The depths of the queues, read from pg-boss' table in one statement, and dead letters put back to work.
import type { RedriveOptions } from 'pg-boss'
import { deadLetterOf, type QueueName, queues } from '../../schemas/jobs.ts'
import { type Db, DEPENDABLE, rows, sessionAt } from '../postgres/connection.ts'

export interface QueueDepth {
  queue: QueueName
  /** Ready to be taken, and put off to a later time. */
  waiting: number
  deferred: number
  active: number
  /** Gave up after all retries; kept as dead letters. */
  deadLetters: number
  oldestWaitingSeconds: number | null
  oldestActiveSeconds: number | null
  oldestDeadLetterSeconds: number | null
}

interface CountRow {
  name: string
  waiting: number
  deferred: number
  active: number
  waiting_s: number | null
  active_s: number | null
}

/** Every queue of ours, in the order of their declaration. */
export async function readQueueDepths(db: Db): Promise<QueueDepth[]> {
  const counted = await rows<CountRow>(
    db,
    `select name,
            count(*) filter (where state < 'active' and start_after <= now()) as waiting,
            count(*) filter (where state < 'active' and start_after > now()) as deferred,
            count(*) filter (where state = 'active') as active,
            extract(epoch from now() - min(created_on) filter (where state < 'active' and start_after <= now()))::int as waiting_s,
            extract(epoch from now() - min(started_on) filter (where state = 'active'))::int as active_s
       from pgboss.job
      where state <= 'active'
      group by name`
  )
  const byName = new Map(counted.map(row => [row.name, row]))
  return (Object.keys(queues) as QueueName[]).map(queue => {
    const row = byName.get(queue)
    const dead = byName.get(deadLetterOf(queue))
    return {
      queue,
      waiting: row?.waiting ?? 0,
      deferred: row?.deferred ?? 0,
      active: row?.active ?? 0,
      deadLetters: dead?.waiting ?? 0,
      oldestWaitingSeconds: row?.waiting_s ?? null,
      oldestActiveSeconds: row?.active_s ?? null,
      oldestDeadLetterSeconds: dead?.waiting_s ?? null
    }
  })
}

/** The queues declared in the database, ours and their dead letters'. */
export async function declaredQueues(db: Db): Promise<string[]> {
  const found = await rows<{ name: string }>(db, 'select name from pgboss.queue')
  return found.map(({ name }) => name)
}

const AT_ONCE = 1000

/** Puts a queue's dead letters back to be tried again, oldest first, in the transaction `trx`. Returns how many. */
export async function retryDeadLetters(trx: Db, url: string, queue: QueueName): Promise<number> {
  const { PgBoss, fromKnex } = await import('pg-boss')
  const boss = new PgBoss({
    ...sessionAt(url, DEPENDABLE),
    application_name: 'service-retry',
    max: 1,
    migrate: false,
    createSchema: false,
    supervise: false,
    schedule: false
  })
  boss.on('error', () => {}) // What fails here fails the call as well.
  await boss.start()
  try {
    let moved = 0
    for (;;) {
      // The types leave `db` out; without it the move would not be part of the transaction.
      const options = { limit: AT_ONCE, destination: queue, db: fromKnex(trx) }
      const some = await boss.redrive(deadLetterOf(queue), options as RedriveOptions)
      moved += some
      if (some < AT_ONCE) return moved
    }
  } finally {
    await boss.stop({ graceful: false, close: true })
  }
}

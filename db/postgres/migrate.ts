// Migrations: an explicit list, forward only, and the queue's own tables with them.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Knex } from 'knex'
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { ConfigError } from '../../schemas/config/config.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { deadLetterOf, type QueueName, type QueueRule, queues } from '../../schemas/jobs.ts'
import { backOff } from '../platform/back-off.ts'
import {
  type Db,
  DEPENDABLE,
  isLockTimeout,
  liftTransactionTimeout,
  openDatabase,
  sessionAt,
  WITHOUT_STATEMENT_TIMEOUT
} from './connection.ts'
import { migrationStatus, migrations, refuseSchema, UTF8 } from './migrations.ts'

type Migration = Pick<Knex.Migration, 'up'> & { config?: { transaction: boolean } }

/** How long a migration waits for a table while others work: a second and a half, in which orders wait as well. An autovacuum gives way after one. */
const TABLE_WAIT = '1500ms'

/**
 * Where migrations are. Those of a new database run in one transaction, whatever their `config`: nobody waits there. In any other one each
 * runs in a transaction of its own, unless its `config` has none: no table is locked while another migration runs.
 */
const settingsFor = (isNew: boolean): Knex.MigratorConfig => ({
  tableName: 'migrations',
  migrationSource: {
    getMigrations: async () => [...migrations],
    getMigrationName: (name: string) => name,
    async getMigration(name: string) {
      const { up, config } = (await import(`../migrations/${name}.ts`)) as Migration
      const upBesideOthers = async (trx: Knex) => {
        if (trx.isTransaction) await trx.raw(`set local lock_timeout = '${TABLE_WAIT}'`)
        await up(trx)
      }
      return {
        up: isNew ? up : upBesideOthers,
        down: async () => {
          throw new Error('Migrations go forward only.')
        },
        ...(config && !isNew ? { config } : {})
      }
    }
  }
})

const MIGRATION_LOCK = 724_200
const LOCK_LOOK_MS = 200
// As long as the build of an index waits for the end of a dump (build-index.ts).
const LOCK_WAIT_MS = 3_600_000
const TABLE_TRIES = { firstMs: 1000, mostMs: 30_000 }

/**
 * Applies what is missing, both ours and the queue's, and declares every queue. Safe to run twice and by
 * two at once: the second waits for the first. Returns the names applied. A statement may take as long as the tables
 * are large, on a connection of its own; only locks are not waited for for ever: throws CONFLICT after an hour. `note` is called with what
 * is waited for. Leaves a database alone that a newer version migrated; throws ConfigError when that one lacks some of ours, or the
 * search_path leaves our tables out.
 */
export async function migrate(url: string, note: (text: string) => void = () => {}): Promise<string[]> {
  // A lock that ends with its connection. knex's own is a row, which a killed migration leaves behind for ever:
  // whoever holds this one may take that row away.
  const lock = new pg.Client({
    // Idle for as long as the migrations take: its end would let another run begin.
    ...sessionAt(url, WITHOUT_STATEMENT_TIMEOUT),
    connectionTimeoutMillis: 5000,
    keepAlive: true
  })
  lock.on('error', () => {})
  await lock.connect()
  try {
    await takeLock(lock, note)
    await refuseEncoding(lock)
    const db = openDatabase({ url, pool: 2, name: 'migrate', limits: null })
    try {
      const status = await migrationStatus(db)
      // Created again in another schema, the tables would be empty.
      if (status.elsewhere !== undefined) refuseSchema(status)
      if (status.newer.length > 0) {
        // The newer version has made what there is to make, and declared the queues its way.
        refuseSchema(status)
        return []
      }
      const applied = status.applied.length === 0 ? await applyAll(db) : await applyOneByOne(db, note)
      await declareQueues(url)
      return applied
    } finally {
      await db.destroy()
    }
  } finally {
    await lock.end().catch(() => {})
  }
}

/**
 * Waits for the lock of migrations by trying: a statement that waits has a snapshot, and the build of an index by the holder waits for the end
 * of all that are older.
 */
async function takeLock(client: pg.Client, note: (text: string) => void): Promise<void> {
  const deadline = performance.now() + LOCK_WAIT_MS
  for (let tries = 0; ; tries++) {
    const { rows: tried } = await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [
      MIGRATION_LOCK
    ])
    if (tried[0]?.taken) return
    if (performance.now() > deadline)
      throw new ApiError('CONFLICT', 'Another migration of this database has run for an hour: end it, then repeat.')
    if (tries === 0) note('another migration of this database runs: waiting for its end')
    await sleep(LOCK_LOOK_MS)
  }
}

/**
 * Throws ConfigError where the first migration would begin in a database of another encoding than UTF8: it would refuse names that
 * the API takes, or count their bytes for letters. One that was migrated before goes on; `operator doctor` reports it.
 */
async function refuseEncoding(client: pg.Client): Promise<void> {
  const { rows: found } = await client.query<{ encoding: string }>(
    `select current_setting('server_encoding') as encoding where to_regclass('partners') is null`
  )
  const encoding = found[0]?.encoding ?? UTF8
  if (encoding !== UTF8)
    throw new ConfigError(
      `DATABASE_URL names a database of the encoding ${encoding}; this needs ${UTF8}: make one by \`create database … encoding 'UTF8' template template0\``
    )
}

const RETENTION_SECONDS = 30 * 86_400

async function applyAll(db: Db): Promise<string[]> {
  const settings = settingsFor(true)
  await db.migrate.forceFreeMigrationsLock(settings)
  const [, applied] = (await db.migrate.latest(settings)) as [number, string[]]
  return applied
}

// knex's error where it does not get its row, which the session of a killed migration keeps until its statement has ended.
const ROW_LOCKED = 'MigrationLocked'

/**
 * Applies what is missing beside processes that work. A migration that does not get its tables, since a dump or another long transaction has
 * them, is undone and tried again after a pause: while it waits, all others wait behind it.
 */
async function applyOneByOne(db: Db, note: (text: string) => void): Promise<string[]> {
  const settings = settingsFor(false)
  const applied: string[] = []
  let deadline = performance.now() + LOCK_WAIT_MS
  for (let failures = 0; ; ) {
    try {
      await db.migrate.forceFreeMigrationsLock(settings)
      const [, [name]] = (await db.migrate.up(settings)) as [number, string[]]
      if (name === undefined) return applied
      applied.push(name)
      failures = 0
      deadline = performance.now() + LOCK_WAIT_MS
    } catch (error) {
      if (!isLockTimeout(error) && (error as Error).name !== ROW_LOCKED) throw error
      const [next] = (await migrationStatus(db)).pending
      if (performance.now() > deadline)
        throw new ApiError(
          'CONFLICT',
          `The migration ${next} did not get its tables within an hour: end the dump or the long transaction that has them, then repeat.`,
          { cause: error }
        )
      if (failures === 0) note(`${next} waits for the end of a dump or another long transaction`)
      await sleep(backOff(++failures, TABLE_TRIES))
    }
  }
}

async function declareQueues(url: string): Promise<void> {
  const boss = new PgBoss({
    ...sessionAt(url, `${WITHOUT_STATEMENT_TIMEOUT} ${DEPENDABLE}`),
    supervise: false,
    schedule: false,
    max: 2,
    application_name: 'service-migrate',
    ...{ keepAlive: true, onConnect: liftTransactionTimeout }
  })
  boss.on('error', () => {})
  await boss.start()
  try {
    for (const [name, rule] of Object.entries<QueueRule>(queues)) {
      const dead = deadLetterOf(name as QueueName)
      await boss.createQueue(dead, { retentionSeconds: RETENTION_SECONDS })
      const options = {
        deadLetter: dead,
        retryLimit: rule.retry?.limit ?? 0,
        retryDelay: rule.retry?.delaySeconds ?? 0,
        retryBackoff: rule.retry !== undefined,
        expireInSeconds: rule.retry?.expireSeconds ?? 60,
        // A job that is the only trace of its work waits as long as dead letters do, however long no worker runs. The clock makes others.
        retentionSeconds: rule.retry && rule.wake === 'commit' ? RETENTION_SECONDS : 86_400,
        deleteAfterSeconds: 3600,
        notify: false
      }
      await boss.createQueue(name, options)
      await boss.updateQueue(name, options)
    }
  } finally {
    await boss.stop({ graceful: false })
  }
}

// Migrations: an explicit list, forward only, and the queue's own tables with them.
import type { Knex } from 'knex'
import pg from 'pg'
import { PgBoss } from 'pg-boss'
import { ConfigError } from '../../schemas/config/config.ts'
import { deadLetterOf, type QueueName, type QueueRule, queues } from '../../schemas/jobs.ts'
import {
  type Db,
  DEPENDABLE,
  liftTransactionTimeout,
  openDatabase,
  sessionAt,
  WITHOUT_STATEMENT_TIMEOUT
} from './connection.ts'
import { migrationStatus, migrations, refuseSchema, UTF8 } from './migrations.ts'

type Migration = Pick<Knex.Migration, 'up'> & { config?: { transaction: boolean } }

/**
 * Where migrations are. Those of a new database run in one transaction, whatever their `config`: nobody waits there. Where one of
 * the missing has `transaction: false`, each of the others has a transaction of its own.
 */
const settingsFor = (isNew: boolean): Knex.MigratorConfig => ({
  tableName: 'migrations',
  migrationSource: {
    getMigrations: async () => [...migrations],
    getMigrationName: (name: string) => name,
    async getMigration(name: string) {
      const { up, config } = (await import(`../migrations/${name}.ts`)) as Migration
      return {
        up,
        down: async () => {
          throw new Error('Migrations go forward only: restore a backup to go back.')
        },
        ...(config && !isNew ? { config } : {})
      }
    }
  }
})

const MIGRATION_LOCK = 724_200
const LOCK_WAIT_MS = 120_000

/**
 * Applies what is missing, both ours and the queue's, and declares every queue. Safe to run twice and by
 * two at once: the second waits for the first. Returns the names applied. A statement may take as long as the tables
 * are large, on a connection of its own; only locks are not waited for for ever. Leaves a database alone that a newer version
 * migrated; throws ConfigError when that one lacks some of ours, or the search_path leaves our tables out.
 */
export async function migrate(url: string): Promise<string[]> {
  // A lock that ends with its connection. knex's own is a row, which a killed migration leaves behind for ever:
  // whoever holds this one may take that row away.
  const lock = new pg.Client({
    // Idle for as long as the migrations take: its end would let another run begin.
    ...sessionAt(url, WITHOUT_STATEMENT_TIMEOUT),
    connectionTimeoutMillis: 5000,
    keepAlive: true,
    lock_timeout: LOCK_WAIT_MS
  })
  lock.on('error', () => {})
  await lock.connect()
  try {
    // The wait for the lock is a transaction, too.
    await liftTransactionTimeout(lock)
    await lock.query('select pg_advisory_lock($1)', [MIGRATION_LOCK])
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
      const settings = settingsFor(status.applied.length === 0)
      await db.migrate.forceFreeMigrationsLock(settings)
      return await applyMissing(db, url, settings)
    } finally {
      await db.destroy()
    }
  } finally {
    await lock.end().catch(() => {})
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

async function applyMissing(db: Db, url: string, settings: Knex.MigratorConfig): Promise<string[]> {
  const [, applied] = (await db.migrate.latest(settings)) as [number, string[]]
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
  return applied
}

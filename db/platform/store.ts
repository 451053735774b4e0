// What every process opens first: the database (the embedded one where none is named), the token keys and
// the pepper, in one call, and closes last.
import type { Config } from '../../schemas/config/config.ts'
import { ConfigError } from '../../schemas/config/config.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { type Db, lacksPrivilege, openDatabase } from '../postgres/connection.ts'
import { migrationStatus, refuseSchema } from '../postgres/migrations.ts'
import { reachDatabase } from '../postgres/reach.ts'
import { systemErrorText } from '../postgres/system-errors.ts'
import { openPepper, openVault, type Pepper, tokenKeysOf, type Vault } from './crypto.ts'
import type { Log } from './log.ts'

/** The oldest PostgreSQL that has what the statements need. */
export const OLDEST_VERSION = 15

export interface Store {
  url: string
  db: Db
  vault: Vault
  pepper: Pepper
  close(): Promise<void>
}

/**
 * DATABASE_URL, or the embedded PostgreSQL of DATA_DIR: joined when it runs, started when it does not. Throws UNAVAILABLE
 * with a sentence when it cannot be started.
 */
export async function locateDatabase(
  config: Config,
  print: (message: string) => void
): Promise<{ url: string; stop(): Promise<void> }> {
  if (config.databaseUrl) return { url: config.databaseUrl, stop: async () => {} }
  // Loaded only here: with DATABASE_URL the embedded PostgreSQL need not be installed.
  const { startEmbedded } = await import('../embedded.ts')
  try {
    return await startEmbedded({ dataDir: config.dataDir, log: print })
  } catch (cause) {
    const reason = systemErrorText(cause) ?? (cause as Error).message
    throw new ApiError('UNAVAILABLE', `The embedded PostgreSQL: ${reason}`, { cause })
  }
}

/**
 * Opens the store. Throws UNAVAILABLE when the database does not respond, or takes no writes and `writes` is set; ConfigError when it
 * is not migrated, sealed under other keys, or no place for our statements.
 */
export async function openStore(
  config: Config,
  options: { name: string; log?: Log; writes?: boolean }
): Promise<Store> {
  const vault = openVault(tokenKeysOf(config))
  const { url, stop } = await locateDatabase(config, message => options.log?.info(message))
  const db = openDatabase({ url, pool: config.databasePool, ...options })
  const close = async () => {
    await db.destroy()
    await stop()
  }
  try {
    const reached = await reachDatabase(url)
    if (reached.majorVersion < OLDEST_VERSION)
      throw new ConfigError(
        `DATABASE_URL names PostgreSQL ${reached.majorVersion}; this needs ${OLDEST_VERSION} or later`
      )
    const [unfit] = reached.unfit
    if (unfit !== undefined) throw new ConfigError(unfit)
    if (options.writes && reached.readOnly !== undefined) throw new ApiError('UNAVAILABLE', reached.readOnly)
    const schema = await migrationStatus(db)
    refuseSchema(schema)
    if (schema.newer.length > 0)
      options.log?.warn(
        { migrations: schema.newer },
        'a newer version migrated the database: upgrade this process soon'
      )
    return { url, db, vault, pepper: await openPepper(db, vault), close }
  } catch (error) {
    await close()
    if (!lacksPrivilege(error)) throw error
    const reason =
      'DATABASE_URL names a role that may not use these tables: run `operator db grant ROLE` as their owner'
    throw new ConfigError(reason, { cause: error })
  }
}

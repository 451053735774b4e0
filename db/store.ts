// What every process opens first: the database (the embedded one where none is named), the token keys and
// the pepper, in one call, and closes last.
import type { Config } from '../schemas/config.ts'
import { ConfigError } from '../schemas/config.ts'
import { type Db, openDatabase } from './connection.ts'
import { openPepper, openVault, type Pepper, tokenKeysOf, type Vault } from './crypto.ts'
import type { Log } from './log.ts'
import { migrationStatus } from './migrate.ts'
import { reachDatabase } from './reach.ts'

export interface Store {
  url: string
  db: Db
  vault: Vault
  pepper: Pepper
  close(): Promise<void>
}

/** DATABASE_URL, or the embedded PostgreSQL of DATA_DIR: joined when it runs, started when it does not. */
export async function locateDatabase(
  config: Config,
  tell: (message: string) => void
): Promise<{ url: string; stop(): Promise<void> }> {
  if (config.databaseUrl) return { url: config.databaseUrl, stop: async () => {} }
  // Loaded only here: with DATABASE_URL the embedded PostgreSQL need not be installed.
  const { startEmbedded } = await import('./embedded.ts')
  return startEmbedded({ dataDir: config.dataDir, log: tell })
}

/**
 * Opens the store. Throws UNAVAILABLE when the database does not answer, ConfigError when it is not migrated or
 * sealed under other keys.
 */
export async function openStore(config: Config, options: { name: string; log?: Log }): Promise<Store> {
  const vault = openVault(tokenKeysOf(config))
  const { url, stop } = await locateDatabase(config, message => options.log?.info(message))
  const db = openDatabase({ url, pool: config.databasePool, ...options })
  const close = async () => {
    await db.destroy()
    await stop()
  }
  try {
    await reachDatabase(url)
    const { pending } = await migrationStatus(db)
    if (pending.length > 0)
      throw new ConfigError(
        `The database lacks ${pending.length} migrations: run \`npm run -s operator -- db migrate\``
      )
    return { url, db, vault, pepper: await openPepper(db, vault), close }
  } catch (error) {
    await close()
    throw error
  }
}

// The files in a data directory of the embedded PostgreSQL, and the options and facts exchanged with its keeper.
import { join } from 'node:path'

/** What startEmbedded hands to the keeper it starts. */
export interface KeeperOptions {
  dataDir: string
  settings: Record<string, string>
  binDir?: string
}

/** How to reach the server and its keeper, written by the keeper once both respond. */
export interface ServerFacts {
  url: string
  port: number
  controlPort: number
  token: string
}

/** For the `options` of a connection, which would otherwise be PGOPTIONS, for other servers, of the shell. */
export const OWN_OPTIONS = '-c client_min_messages=warning'

/** The files of a data directory that belong to the embedded PostgreSQL. */
export function filesIn(dataDir: string) {
  return {
    /** The cluster itself, or a link to it where the server's user cannot reach this directory. */
    cluster: join(dataDir, 'postgres'),
    lock: join(dataDir, 'postgres.lock'),
    facts: join(dataDir, 'postgres.json'),
    port: join(dataDir, 'postgres.port'),
    log: join(dataDir, 'postgres.log')
  }
}

// Which installations use a Redis. Its channels reach every client, whatever the number of the database in its address: another
// installation would show our prices and wake up for our orders. So each process subscribes to a channel named after its
// installation, which Redis lists; nothing is published there. Processes of the previous version are not listed.
import { createHash } from 'node:crypto'
import { type Db, rows } from '../postgres/connection.ts'
import { installationIdentity } from '../postgres/lineage.ts'
import type { Bus } from './bus.ts'
import type { Log } from './log.ts'

// The prefix of the processes' channels: the rights that were granted for those cover it.
const CHANNELS = 'svc_api_of_'

async function channelOf(db: Db): Promise<string> {
  const [row] = await rows<{ identity: string }>(db, `select ${installationIdentity} as identity`)
  return `${CHANNELS}${createHash('sha256').update(String(row?.identity)).digest('hex').slice(0, 16)}`
}

/** How many other installations have processes on this Redis. Rejects where it does not respond within a few seconds, or refuses to list. */
export async function countOtherInstallations(db: Db, redisUrl: string): Promise<number> {
  const own = await channelOf(db)
  const { Redis } = await import('ioredis')
  const redis = new Redis(redisUrl, {
    lazyConnect: true,
    connectTimeout: 4000,
    commandTimeout: 5000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null
  })
  // The rejection has it, too.
  redis.on('error', () => {})
  try {
    await redis.connect()
    const channels = (await redis.pubsub('CHANNELS', `${CHANNELS}*`)) as string[]
    return channels.filter(channel => channel !== own).length
  } finally {
    redis.disconnect()
  }
}

/** Has the process listed on its Redis under its installation, and warns where another installation is there. Never throws. */
export async function showInstallation({
  db,
  bus,
  redisUrl,
  log
}: {
  db: Db
  bus: Bus
  redisUrl: string | undefined
  log: Log
}): Promise<void> {
  if (redisUrl === undefined) return
  try {
    await bus.listen(await channelOf(db), () => {})
    const others = await countOtherInstallations(db, redisUrl)
    if (others > 0)
      log.error(
        { installations: others },
        'another installation uses this Redis: each shows prices of the other; give each a Redis of its own'
      )
  } catch (error) {
    log.info({ err: error }, 'whether another installation uses this Redis is not known')
  }
}

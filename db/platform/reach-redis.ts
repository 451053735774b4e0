// Whether Redis answers at all.
import { Redis } from 'ioredis'

/** Asks for one answer. Rejects within five seconds when there is none. */
export async function reachRedis(url: string): Promise<void> {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: 4000,
    commandTimeout: 5000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null
  })
  let cause: Error | undefined
  redis.on('error', error => {
    cause = error
  })
  try {
    await redis.connect()
    await redis.ping()
  } catch (error) {
    // The rejection only says that the connection is closed; the event said why.
    throw cause ?? error
  } finally {
    redis.disconnect()
  }
}

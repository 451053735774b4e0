// Whether Redis responds at all.
import { Redis } from 'ioredis'

/** Sends one PING. Rejects without a response within five seconds. */
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
    // The rejection only has 'connection closed'; the event had the reason.
    throw cause ?? error
  } finally {
    redis.disconnect()
  }
}

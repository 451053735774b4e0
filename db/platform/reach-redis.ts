// Whether Redis responds at all, and takes what we write.
import { Redis } from 'ioredis'

/**
 * Sends a PING, a write that ends by itself and a message. Rejects without responses within five seconds, and where Redis refuses one: a
 * replica, a Redis whose memory is full, one node of a cluster or a user without the rights responds to PING all the same.
 */
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
    // Names as the limits and the bus use them.
    await redis.set('svc_rate:doctor', 1, 'PX', 1000)
    await redis.eval(`return redis.call('zcard', KEYS[1])`, 1, 'svc_held:doctor')
    await redis.publish('svc_doctor', '')
    // A number of a database that there is not is an event alone: the client goes on in another one.
    if (cause) throw cause
  } catch (error) {
    // The rejection only has 'connection closed'; the event had the reason.
    throw cause ?? error
  } finally {
    redis.disconnect()
  }
}

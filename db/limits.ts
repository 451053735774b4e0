// How often: one counter per key and per trader in windows of a minute, in memory or in Redis. When Redis
// is away each process counts for itself until it is back.
import { Redis } from 'ioredis'
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Log } from './log.ts'

export interface Count {
  allowed: boolean
  limit: number
  remaining: number
  /** Whole seconds until the window ends, at least 1. */
  resetSeconds: number
}

export interface Limits {
  /** Counts one hit on `name` against `limit` a window. */
  hit(name: string, limit: number): Promise<Count>
  close(): Promise<void>
}

/** Opens the counters. `windowSeconds` is 60 everywhere but in tests. */
export function openLimits(options: { redisUrl?: string | undefined; log: Log; windowSeconds?: number }): Limits {
  const duration = options.windowSeconds ?? 60
  const redis = options.redisUrl
    ? new Redis(options.redisUrl, {
        enableOfflineQueue: false,
        maxRetriesPerRequest: 1,
        commandTimeout: 500,
        connectTimeout: 5000
      })
    : undefined
  redis?.on('error', error => options.log.warn({ err: error }, 'rate limits through Redis'))
  const limiters = new Map<number, RateLimiterAbstract>()

  // A limiter per limit, since plans differ; the number of different limits is the number of settings.
  function limiterOf(points: number): RateLimiterAbstract {
    let limiter = limiters.get(points)
    if (!limiter) {
      const memory = new RateLimiterMemory({ points, duration })
      limiter = redis
        ? new RateLimiterRedis({
            storeClient: redis,
            points,
            duration,
            keyPrefix: 'svc_rate',
            insuranceLimiter: memory,
            rejectIfRedisNotReady: true
          })
        : memory
      limiters.set(points, limiter)
    }
    return limiter
  }

  const toCount = (limit: number, allowed: boolean, res: RateLimiterRes): Count => ({
    allowed,
    limit,
    remaining: allowed ? Math.max(0, res.remainingPoints) : 0,
    resetSeconds: Math.max(1, Math.ceil(res.msBeforeNext / 1000))
  })

  return {
    async hit(name, limit) {
      try {
        return toCount(limit, true, await limiterOf(limit).consume(name))
      } catch (error) {
        if (error instanceof RateLimiterRes) return toCount(limit, false, error)
        throw error
      }
    },
    async close() {
      redis?.disconnect()
    }
  }
}

// How often: one counter per key and per trader in windows of a minute, and of failed logins in longer ones,
// in memory or in Redis. When Redis is away each process counts for itself until it is back.
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
  /** Counts a hit on `name`, of one point or more, against `limit` a window (a minute unless it is given). */
  hit(name: string, limit: number, windowSeconds?: number, points?: number): Promise<Count>
  /** Takes one hit back: what was counted beforehand turned out not to count. */
  giveBack(name: string, limit: number, windowSeconds?: number): Promise<void>
  /** How many hits `name` has in its window; counts none. */
  count(name: string, limit: number, windowSeconds?: number): Promise<number>
  /** Starts the count of `name` afresh. */
  forget(name: string, limit: number, windowSeconds?: number): Promise<void>
  close(): Promise<void>
}

/** Opens the counters. `windowSeconds` is 60 everywhere but in tests. */
export async function openLimits(options: {
  redisUrl?: string | undefined
  log: Log
  windowSeconds?: number
}): Promise<Limits> {
  const minute = options.windowSeconds ?? 60
  // Loaded only where there is one.
  const { Redis } = options.redisUrl ? await import('ioredis') : {}
  const redis = Redis
    ? new Redis(options.redisUrl as string, {
        enableOfflineQueue: false,
        maxRetriesPerRequest: 1,
        commandTimeout: 500,
        connectTimeout: 5000
      })
    : undefined
  redis?.on('error', error => options.log.warn({ err: error }, 'rate limits through Redis'))
  const limiters = new Map<string, RateLimiterAbstract>()

  // A limiter per limit, since plans differ; the number of different limits is the number of settings.
  function limiterOf(points: number, duration = minute): RateLimiterAbstract {
    let limiter = limiters.get(`${points}/${duration}`)
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
      limiters.set(`${points}/${duration}`, limiter)
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
    async hit(name, limit, windowSeconds, points = 1) {
      try {
        return toCount(limit, true, await limiterOf(limit, windowSeconds).consume(name, points))
      } catch (error) {
        if (error instanceof RateLimiterRes) return toCount(limit, false, error)
        throw error
      }
    },
    async giveBack(name, limit, windowSeconds) {
      await limiterOf(limit, windowSeconds).reward(name)
    },
    async count(name, limit, windowSeconds) {
      return (await limiterOf(limit, windowSeconds).get(name))?.consumedPoints ?? 0
    },
    async forget(name, limit, windowSeconds) {
      await limiterOf(limit, windowSeconds).delete(name)
    },
    async close() {
      redis?.disconnect()
    }
  }
}

// How often: one counter per key and per trader in windows of a minute, and of failed logins in longer ones,
// in memory or in Redis. When Redis is away each process counts for itself until it is back.
import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Log } from './log.ts'
import { isReplica, logOutages, type TakesWrites, takesWrites } from './redis-outage.ts'

export interface Count {
  allowed: boolean
  limit: number
  remaining: number
  /** Whole seconds until the window ends, at least 1. */
  resetSeconds: number
}

export interface RateLimits {
  /** Counts a hit on `name`, of one point or more, against `limit` a window (a minute unless it is given). */
  hit(name: string, limit: number, windowSeconds?: number, points?: number): Promise<Count>
  /** Takes one hit back: what was counted beforehand turned out not to count. */
  giveBack(name: string, limit: number, windowSeconds?: number): Promise<void>
  /** How many hits `name` has in its window; counts none. */
  count(name: string, limit: number, windowSeconds?: number): Promise<number>
  /** Starts the count of `name` afresh. */
  forget(name: string, limit: number, windowSeconds?: number): Promise<void>
  /**
   * Takes one of `limit` places under `name`, for as long as it is not released; null when all are taken. Counted over all
   * processes with Redis, where those of a process that died are free again within 30 seconds.
   */
  hold(name: string, limit: number): Promise<HeldPlace | null>
  close(): Promise<void>
}

/** A place that is held. */
interface HeldPlace {
  release(): void
}

// Redis' connection is given up when it does not respond for this long.
const SILENCE_MS = 1000
// Places in Redis are members of a sorted set whose score is when they end unless they are held on to.
const HELD_MS = 25_000
const HOLD_ON_MS = 8000
// By the clock of Redis, which all processes share: a process whose clock is ahead would hold its places long after its
// death, and those of one whose clock is behind would be free while it holds them.
const NOW = `local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`
const TAKE = `${NOW}
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if redis.call('zcard', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[2], ARGV[3])
redis.call('pexpire', KEYS[1], ARGV[2])
return 1`
const HOLD_ON = `${NOW}
for i = 2, #ARGV do redis.call('zadd', KEYS[1], now + ARGV[1], ARGV[i]) end
redis.call('pexpire', KEYS[1], ARGV[1])`

/** Opens the counters. `windowSeconds` is 60 everywhere but in tests. */
export async function openLimits(options: {
  redisUrl?: string | undefined
  log: Log
  windowSeconds?: number
}): Promise<RateLimits> {
  const minute = options.windowSeconds ?? 60
  // Loaded only where there is one.
  const ioredis = options.redisUrl ? await import('ioredis') : undefined
  const redis = ioredis
    ? new ioredis.Redis(options.redisUrl as string, {
        enableOfflineQueue: false,
        maxRetriesPerRequest: 1,
        commandTimeout: 500,
        connectTimeout: 5000,
        // A Redis that hangs counts as away: else each request would wait for it.
        socketTimeout: SILENCE_MS,
        // Its address may lead to the new primary by now.
        reconnectOnError: isReplica
      })
    : undefined
  const meanwhile = 'each process counts rate limits for itself'
  if (redis) logOutages([redis], { log: options.log, meanwhile })
  // Tested apart from the requests: a Redis that accepts connections but no writes would delay each of them.
  const shared = redis && takesWrites(redis, { log: options.log, meanwhile })
  const limiters = new Map<string, { memory: RateLimiterAbstract; shared: RateLimiterAbstract | undefined }>()

  // A limiter per limit, since plans differ; the number of different limits is the number of settings.
  function limitersOf(points: number, duration = minute) {
    const known = limiters.get(`${points}/${duration}`)
    if (known) return known
    const limit = { points, duration }
    const store = { storeClient: redis, keyPrefix: 'svc_rate', rejectIfRedisNotReady: true }
    const made = {
      memory: new RateLimiterMemory(limit),
      shared: redis && new RateLimiterRedis({ ...limit, ...store })
    }
    limiters.set(`${points}/${duration}`, made)
    return made
  }

  /** Counts in Redis, or here while it takes no writes. */
  async function counting<T>(
    limit: number,
    windowSeconds: number | undefined,
    run: (limiter: RateLimiterAbstract) => Promise<T>
  ): Promise<T> {
    const limiter = limitersOf(limit, windowSeconds)
    if (!limiter.shared || !shared?.now()) return run(limiter.memory)
    try {
      return await run(limiter.shared)
    } catch (error) {
      // A limiter throws this where the limit is reached.
      if (error instanceof RateLimiterRes) throw error
      shared.failed(error)
      return run(limiter.memory)
    }
  }

  // A window in memory ends by a timer, and what is left of it is computed by the wall clock: set back, it shows more.
  const toCount = (limit: number, allowed: boolean, res: RateLimiterRes, windowSeconds = minute): Count => ({
    allowed,
    limit,
    remaining: allowed ? Math.max(0, res.remainingPoints) : 0,
    resetSeconds: Math.max(1, Math.min(windowSeconds, Math.ceil(res.msBeforeNext / 1000)))
  })

  const places = openPlaces(redis, shared)
  return {
    hold: places.hold,
    async hit(name, limit, windowSeconds, points = 1) {
      try {
        const res = await counting(limit, windowSeconds, limiter => limiter.consume(name, points))
        return toCount(limit, true, res, windowSeconds)
      } catch (error) {
        if (error instanceof RateLimiterRes) return toCount(limit, false, error, windowSeconds)
        throw error
      }
    },
    async giveBack(name, limit, windowSeconds) {
      await counting(limit, windowSeconds, limiter => limiter.reward(name))
    },
    async count(name, limit, windowSeconds) {
      return (await counting(limit, windowSeconds, limiter => limiter.get(name)))?.consumedPoints ?? 0
    },
    async forget(name, limit, windowSeconds) {
      await counting(limit, windowSeconds, limiter => limiter.delete(name))
    },
    async close() {
      places.close()
      shared?.close()
      redis?.disconnect()
    }
  }
}

/** Places that are held, in Redis where there is one: there those of a process that is gone end by themselves. */
function openPlaces(
  redis: Redis | undefined,
  shared: TakesWrites | undefined
): Pick<RateLimits, 'hold'> & { close(): void } {
  /** Places of this process: what Redis knows of them is renewed from here. */
  const places = new Map<string, Map<string, true>>()
  const renewing = redis && setInterval(() => void renew().catch(() => {}), HOLD_ON_MS)
  renewing?.unref()

  async function renew(): Promise<void> {
    const batch = (redis as Redis).pipeline()
    for (const [name, members] of places) batch.eval(HOLD_ON, 1, `svc_held:${name}`, HELD_MS, ...members.keys())
    await batch.exec()
  }

  async function holdInRedis(name: string, limit: number, member: string): Promise<boolean> {
    const taken = await redis?.eval(TAKE, 1, `svc_held:${name}`, limit, HELD_MS, member)
    return taken === 1
  }

  return {
    async hold(name, limit) {
      const own = places.get(name) ?? new Map<string, true>()
      if (own.size >= limit) return null
      const member = randomUUID()
      // Before the call to Redis: of several at once each counts those before it.
      places.set(name, own.set(member, true))
      const release = () => {
        own.delete(member)
        if (own.size === 0 && places.get(name) === own) places.delete(name)
        redis?.zrem(`svc_held:${name}`, member).catch(() => {})
      }
      if (shared?.now()) {
        // Without Redis each process counts for itself.
        const taken = await holdInRedis(name, limit, member).catch((error: unknown) => {
          shared.failed(error)
          return true
        })
        if (!taken) {
          release()
          return null
        }
      }
      return { release }
    },
    close() {
      clearInterval(renewing)
    }
  }
}

// A Redis that is away, or that takes no writes, is logged once, with what that means, and once when it is back: a client reports
// every attempt.
import type { Redis } from 'ioredis'
import type { Log } from './log.ts'

/** Logs outages of one Redis that `clients` are connected to. `meanwhile` is what happens until it is back. */
export function logOutages(clients: Redis[], { log, meanwhile }: { log: Log; meanwhile: string }): void {
  const away = new Set<Redis>()
  let since = 0
  for (const client of clients) {
    client.on('error', error => {
      if (away.size === 0) {
        since = performance.now()
        log.warn({ err: error, meanwhile }, 'Redis is unreachable')
      }
      away.add(client)
    })
    client.on('ready', () => {
      if (away.delete(client) && away.size === 0)
        log.info({ seconds: Math.round((performance.now() - since) / 1000) }, 'Redis can be reached again')
    })
  }
}

// Between two attempts to write.
const ATTEMPT_MS = 500
// As the counters write: a Redis may take commands and refuse scripts, by the rights of its user or a name that was taken away.
const ATTEMPT = `return redis.call('set', KEYS[1], 1, 'px', 1000)`

export interface TakesWrites {
  /** Whether it took the last write, as far as is known. */
  now(): boolean
  /** A command failed: from now on writes are tried in the background until one succeeds. */
  failed(error: unknown): void
  close(): void
}

/** Whether an error is that of a replica: the primary is elsewhere. */
export const isReplica = (error: unknown): boolean => error instanceof Error && /\bREADONLY\b/.test(error.message)

/**
 * Knows whether a Redis takes writes. One may accept connections and respond to INFO and PING all the while that it takes none: paused
 * for a failover, out of memory, a replica, without scripts. `meanwhile` is what happens then.
 */
export function takesWrites(client: Redis, { log, meanwhile }: { log: Log; meanwhile: string }): TakesWrites {
  let takes = true
  let reported = false
  let closed = false
  let timer: NodeJS.Timeout | undefined

  async function attempt(): Promise<void> {
    try {
      // A name as those of the limits, which the rights of its user cover.
      await client.eval(ATTEMPT, 1, 'svc_rate:attempt')
      takes = true
      if (reported) log.info('Redis takes writes again')
      reported = false
    } catch (error) {
      // One that is unreachable is reported where its connection is.
      if (client.status === 'ready' && !reported) {
        reported = true
        log.warn({ err: error, meanwhile }, 'Redis takes no writes')
      }
      if (closed) return
      clearTimeout(timer)
      timer = setTimeout(() => void attempt(), ATTEMPT_MS)
      timer.unref()
    }
  }

  client.on('ready', () => {
    if (!takes) void attempt()
  })

  return {
    now: () => takes,
    failed(error) {
      if (!takes) return
      takes = false
      log.debug({ err: error }, 'a count in Redis failed')
      void attempt()
    },
    close() {
      closed = true
      clearTimeout(timer)
    }
  }
}

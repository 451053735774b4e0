// A Redis that is away is logged once, with what that means, and once when it is back: a client reports every attempt.
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

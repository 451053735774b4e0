// The PostgreSQL of simulations: its own, in memory where the machine has such a place, without the care for power
// cuts that only costs time here.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { removeEmbedded, startEmbedded } from '../../db/embedded.ts'
import { findPlace, GOES_WITH_DATA } from '../support/memory-place.ts'
import { makeTemplate } from './setup.ts'

// A server's data take less, and several are started at the same time.
const ROOM_BYTES = 2 * 1024 ** 3

export interface Server {
  url: string
  stop(): Promise<void>
}

/** Starts a server and makes the template of all simulations in it; `SIMULATION_PG_URL` names one to use instead. */
export async function startServer(): Promise<Server> {
  const given = process.env.SIMULATION_PG_URL
  if (given) {
    await makeTemplate(given)
    return { url: given, stop: async () => {} }
  }
  const dataDir = join(await findPlace(ROOM_BYTES), `operator-simulation-${randomBytes(4).toString('hex')}`)
  const embedded = await startEmbedded({
    dataDir,
    settings: {
      fsync: 'off',
      synchronous_commit: 'off',
      full_page_writes: 'off',
      // Statistics and dead rows change when a seed demands it, not when a daemon comes by.
      autovacuum: 'off',
      // Of two that wait for each other the later one always gets the error: the first has checked long before.
      deadlock_timeout: '1ms',
      shared_buffers: '256MB',
      ...GOES_WITH_DATA
    }
  })
  let stopping: Promise<unknown> | undefined
  const server: Server = {
    url: embedded.url,
    async stop() {
      stopping ??= embedded.stop().then(() => removeEmbedded(dataDir))
      await stopping
      running.delete(server)
    }
  }
  running.add(server)
  await makeTemplate(embedded.url)
  return server
}

// A simulation that is ended takes its servers with it, and what they kept in memory.
const running = new Set<Server>()
let leaving = false
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    leaving = true
    void Promise.allSettled([...running].map(server => server.stop())).then(() => process.exit(1))
  })
}

/**
 * Runs `work` so many times at once, each with a server of its own: what one simulation does to the server's
 * transactions decides when another's dead rows may go, and with that the order in which rows are found.
 */
export async function withServers(count: number, work: (admin: string) => Promise<void>): Promise<void> {
  const ends = await Promise.allSettled(
    Array.from({ length: count }, async () => {
      const server = await startServer()
      try {
        await work(server.url)
      } finally {
        // A failure because the server was stopped is expected; the process ends when all are gone.
        if (leaving) await new Promise(() => {})
        await server.stop()
      }
    })
  )
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

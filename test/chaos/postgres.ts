// A PostgreSQL of its own that is killed, frozen and started again: fsync on, as in production.
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type EmbeddedServer, openCluster, startServer, stopServer } from '../../db/embedded/cluster.ts'
import { GOES_WITH_DATA } from '../support/memory-place.ts'

export interface Postgres {
  url: string
  port: number
  up: boolean
  frozen: boolean
  /** Whether the server process is there. */
  alive(): boolean
  /** Kills the postmaster; its processes follow by themselves. */
  kill(): Promise<void>
  /** Ends every connection and stops, with a checkpoint. */
  stop(): Promise<void>
  start(): Promise<void>
  /** Stops the clock of all its processes, or of some of its sessions. */
  freeze(choose?: () => boolean): number
  thaw(): void
}

/** Starts a PostgreSQL whose data lie under `dir`. */
export async function openPostgres(dir: string, settings: Record<string, string> = {}): Promise<Postgres> {
  await mkdir(dir, { recursive: true })
  await chmod(dir, 0o711) // Root's server runs as another user.
  const cluster = await openCluster(dir, { note: () => {} })
  const logPath = join(dir, 'postgres.log')
  const all = { fsync: 'on', max_connections: '300', log_min_messages: 'warning', ...GOES_WITH_DATA, ...settings }
  let server: EmbeddedServer = await startServer(cluster, { settings: all, logPath })
  const { port } = server
  let stopped: number[] = []
  const postgres: Postgres = {
    url: server.url,
    port,
    up: true,
    frozen: false,
    alive: () => server.process.exitCode === null && server.process.signalCode === null,
    async kill() {
      postgres.up = false
      const end = postgres.alive() ? once(server.process, 'exit') : undefined
      server.process.kill('SIGKILL')
      postgres.thaw()
      await end
    },
    async stop() {
      postgres.up = false
      postgres.thaw()
      await stopServer(server.process)
    },
    async start() {
      server = await startServer(cluster, { port, settings: all, logPath })
      if (server.port !== port) throw new Error(`PostgreSQL's port ${port} was taken by somebody else.`)
      postgres.up = true
    },
    freeze(choose) {
      const pid = server.process.pid as number
      const children = childrenOf(pid)
      stopped = choose ? children.filter(() => choose()) : [pid, ...children]
      postgres.frozen = true
      for (const each of stopped) signal(each, 'SIGSTOP')
      return stopped.length
    },
    thaw() {
      postgres.frozen = false
      for (const each of stopped.splice(0)) signal(each, 'SIGCONT')
    }
  }
  return postgres
}

/** At once, so that nothing comes between looking and freezing. */
function childrenOf(pid: number): number[] {
  const list = `/proc/${pid}/task/${pid}/children`
  if (existsSync(list)) return readFileSync(list, 'utf8').split(' ').filter(Boolean).map(Number)
  // Elsewhere than on Linux; without children pgrep ends with 1.
  const { stdout } = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' })
  return stdout.split('\n').filter(Boolean).map(Number)
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // It ended by itself meanwhile.
  }
}

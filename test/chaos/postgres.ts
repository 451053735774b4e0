// A PostgreSQL of its own that is killed, frozen and started again: fsync on, as in production.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { openCluster, type Server, startServer, stopServer } from '../../db/embedded/cluster.ts'

export interface Postgres {
  url: string
  port: number
  up: boolean
  frozen: boolean
  /** Kills the postmaster; its processes follow by themselves. */
  kill(): Promise<void>
  /** Ends every connection and stops, with a checkpoint. */
  stop(): Promise<void>
  start(): Promise<void>
  /** Stops the clock of all its processes, or of some of its sessions. */
  freeze(choose?: () => boolean): Promise<number>
  thaw(): void
}

/** Starts a PostgreSQL whose data lie under `dir`. */
export async function openPostgres(dir: string, settings: Record<string, string> = {}): Promise<Postgres> {
  await mkdir(dir, { recursive: true })
  await chmod(dir, 0o711) // Root's server runs as another user.
  const cluster = await openCluster(dir, { note: () => {} })
  const logPath = join(dir, 'postgres.log')
  const all = { fsync: 'on', max_connections: '300', log_min_messages: 'warning', ...settings }
  let server: Server = await startServer(cluster, { settings: all, logPath })
  const { port } = server
  let stopped: number[] = []
  const gone = () => {
    const { process: child } = server
    return child.exitCode !== null || child.signalCode !== null ? Promise.resolve() : once(child, 'exit')
  }
  const postgres: Postgres = {
    url: server.url,
    port,
    up: true,
    frozen: false,
    async kill() {
      postgres.up = false
      const end = gone()
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
    async freeze(choose) {
      const pid = server.process.pid as number
      const children = await childrenOf(pid)
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

async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('pgrep', ['-P', String(pid)]).catch(() => ({ stdout: '' }))
  return stdout.split('\n').filter(Boolean).map(Number)
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error // It ended by itself meanwhile.
  }
}

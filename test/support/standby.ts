// A standby of a PostgreSQL of `openPostgres`, streaming for real. Its data are a copy of the primary's files, made while the
// primary is down, so that no program is needed beside the server itself.

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { open, realpath, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { chooseUser, findPrograms, serverEnv } from '../../db/embedded/place.ts'
import { filesIn } from '../../db/embedded/standing.ts'
import type { Postgres } from '../chaos/postgres.ts'
import { freePort } from './free-port.ts'
import { GOES_WITH_DATA } from './memory-place.ts'
import { until } from './until.ts'

// A server that has to replay something first.
const READY_MS = 60_000

interface Standby {
  url: string
  /** Kills the server with SIGKILL. */
  kill(): Promise<void>
  start(): Promise<void>
  /** Runs a statement as the superuser; returns the first column of its first row. */
  query(sql: string): Promise<unknown>
}

/** Restarts `primary`, whose data lie under `dir`, and starts a standby of it, which calls itself `name`. */
export async function openStandby(primary: Postgres, dir: string, name: string): Promise<Standby> {
  const cluster = await realpath(filesIn(dir).cluster)
  const copy = join(dir, name)
  await primary.stop()
  const copied = spawnSync('cp', ['-a', cluster, copy], { encoding: 'utf8' })
  if (copied.status !== 0) throw new Error(`cp: ${copied.stderr}`)
  await primary.start()
  const user = await chooseUser(copy)
  const { bin } = await findPrograms(user)
  await writeFile(join(copy, 'standby.signal'), '')
  const port = await freePort()
  const url = new URL(primary.url)
  const { username, password, hostname } = url
  url.port = String(port)
  const settings = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    // At least as many as the primary.
    max_connections: '300',
    primary_conninfo: `host=${hostname} port=${primary.port} user=${username} password=${password} application_name=${name}`,
    wal_receiver_status_interval: '1s',
    wal_retrieve_retry_interval: '200ms',
    jit: 'off',
    ...GOES_WITH_DATA
  }
  let child: ChildProcess
  const query = async (sql: string) => {
    const client = new pg.Client({ connectionString: url.href, connectionTimeoutMillis: 2000 })
    client.on('error', () => {})
    try {
      await client.connect()
      const { rows } = await client.query({ text: sql, rowMode: 'array' })
      return rows[0]?.[0]
    } finally {
      await client.end().catch(() => {})
    }
  }
  const standby: Standby = {
    url: url.href,
    query,
    async kill() {
      const end = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
      child.kill('SIGKILL')
      await end
    },
    async start() {
      await rm(join(copy, 'postmaster.pid'), { force: true })
      const log = await open(join(dir, `${name}.log`), 'a', 0o600)
      const options = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])
      child = spawn(join(bin, 'postgres'), ['-D', copy, ...options], {
        ...user,
        cwd: '/',
        env: serverEnv,
        stdio: ['ignore', log.fd, log.fd]
      })
      await log.close()
      await until(`the standby ${name}`, () => query('select true').catch(() => false), READY_MS)
    }
  }
  await standby.start()
  return standby
}

/** Resolves once the standby has replayed all that the primary has written until now. */
export async function caughtUp(primaryUrl: string, standby: Standby): Promise<void> {
  const client = new pg.Client({ connectionString: primaryUrl })
  await client.connect()
  const { rows } = await client.query('select pg_current_wal_flush_lsn()::text as lsn')
  await client.end()
  await until(
    'the standby to catch up',
    () => standby.query(`select pg_last_wal_replay_lsn() >= '${rows[0].lsn}'`),
    READY_MS
  )
}

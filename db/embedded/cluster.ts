// One PostgreSQL cluster on disk and the server over it: initialise, start on a free port, stop.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, open, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { commandOf } from './lock.ts'
import { canEnter, chooseUser, findPrograms, makeClusterDir, serverEnv, settleClusterDir, type User } from './place.ts'
import { filesIn, OWN_OPTIONS } from './standing.ts'

const PASSWORD_FILE = 'operator.password'
const INIT_TIMEOUT_MS = 60_000
const READY_TIMEOUT_MS = 30_000
const FAST_STOP_MS = 20_000
const HARD_STOP_MS = 5_000
const START_ATTEMPTS = 8
const POLL_MS = 20

const defaults: Record<string, string> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '128MB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] %d ',
  jit: 'off'
}

export interface EmbeddedCluster {
  dir: string
  user: User
  bin: string
  password: string
}

export interface EmbeddedServer {
  process: ChildProcess
  port: number
  url: string
}

/** The cluster of a data directory, initialised first when there is none or its initialisation was interrupted. */
export async function openCluster(
  dataDir: string,
  { binDir, note }: { binDir?: string; note: (text: string) => void }
): Promise<EmbeddedCluster> {
  const wanted = filesIn(dataDir).cluster
  const user = await chooseUser(wanted)
  const { bin, major } = await findPrograms(user, binDir)
  await removeHalfMade(wanted)
  if (!(await stat(wanted).catch(() => undefined))) {
    note('Initialising PostgreSQL; this happens once.')
    await initialise({ wanted, user, bin, major })
  }
  const dir = await realpath(wanted)
  if (!(await canEnter(dir, user)))
    throw new Error(`User ${user.uid}, which runs PostgreSQL, cannot reach ${dir}: were permissions above it changed?`)
  const written = Number(await readFile(join(dir, 'PG_VERSION'), 'utf8'))
  if (written !== major)
    throw new Error(`The data in ${dir} was written by PostgreSQL ${written}, and ${bin} holds PostgreSQL ${major}.`)
  return { dir, user, bin, password: (await readFile(join(dir, PASSWORD_FILE), 'utf8')).trim() }
}

/** Starts the server, on `port` if it is free and on another otherwise. Resolves when it takes connections. */
export async function startServer(
  cluster: EmbeddedCluster,
  { port, settings, logPath }: { port?: number; settings: Record<string, string>; logPath: string }
): Promise<EmbeddedServer> {
  for (let attempt = 1; ; attempt++) {
    const tried = port ?? (await listenBriefly(0))
    const child = await spawnServer(cluster, { port: tried, settings, logPath })
    if (await becomesReady(child, cluster.dir)) {
      // It has no TLS, whatever PGSSLMODE is in the shell for other servers.
      const url = `postgres://operator:${cluster.password}@127.0.0.1:${tried}/operator?sslmode=disable`
      await ensureDatabase(url).catch(async error => {
        await stopServer(child)
        throw error
      })
      return { process: child, port: tried, url }
    }
    if (attempt === START_ATTEMPTS) throw new Error(`PostgreSQL does not start; see ${logPath}.`)
    // Either another process has the port, or a killed server's processes are still going away.
    if (await isFree(tried)) await sleep(50 * attempt)
    else port = undefined
  }
}

/** Stops a server in order; harder after 20 s. */
export async function stopServer(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise(done => child.once('exit', done))
  for (const [signal, patienceMs] of stopping) {
    child.kill(signal)
    if (await Promise.race([gone.then(() => true), sleep(patienceMs, false, { ref: false })])) return
  }
}

/** Stops a server whose keeper died before it, so that its data can be opened again. */
export async function stopOrphan(dir: string): Promise<void> {
  const pidPath = join(dir, 'postmaster.pid')
  const pid = Number((await readFile(pidPath, 'utf8').catch(() => '')).split('\n')[0])
  if (!pid) return
  const ours = async () => (await commandOf(pid))?.includes(`-D ${dir} `) ?? false
  if (!(await ours())) {
    // After a crash another process may have this pid. PostgreSQL itself would refuse to start if that process runs as
    // the same user.
    if ((await commandOf(pid)) !== undefined) await rm(pidPath, { force: true })
    return
  }
  for (const [signal, patienceMs] of stopping) {
    if (!(await ours())) return
    process.kill(pid, signal)
    for (const end = Date.now() + patienceMs; Date.now() < end && (await ours()); ) await sleep(POLL_MS)
  }
}

const stopping: [NodeJS.Signals, number][] = [
  ['SIGINT', FAST_STOP_MS],
  ['SIGQUIT', HARD_STOP_MS],
  ['SIGKILL', HARD_STOP_MS]
]

// Made under another name and renamed when complete, so that an interrupted initdb leaves nothing that resembles a
// cluster. The password goes in before the rename for the same reason.
async function initialise(to: { wanted: string; user: User; bin: string; major: number }): Promise<void> {
  const { wanted, user, bin, major } = to
  const made = await makeClusterDir(wanted, user)
  const passwordPath = `${made}.password`
  const password = `${randomBytes(24).toString('hex')}\n`
  // From 17 on PostgreSQL brings C.UTF-8 itself; before that the system has to have it.
  const locale =
    major >= 17 ? ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C'] : ['--locale=C.UTF-8']
  try {
    await writeOwned(passwordPath, password, user)
    await promisify(execFile)(
      join(bin, 'initdb'),
      ['-D', made, '-U', 'operator', '--auth=scram-sha-256', `--pwfile=${passwordPath}`, '--encoding=UTF8', ...locale],
      { ...user, cwd: '/', env: serverEnv, timeout: INIT_TIMEOUT_MS }
    )
    await writeOwned(join(made, PASSWORD_FILE), password, user)
    await settleClusterDir(made, wanted)
  } catch (error) {
    await rm(made, { recursive: true, force: true })
    throw error
  } finally {
    await rm(passwordPath, { force: true })
  }
}

async function writeOwned(path: string, text: string, { uid, gid }: User): Promise<void> {
  await writeFile(path, text, { mode: 0o600, flag: 'wx' })
  if (uid !== undefined && gid !== undefined) await chown(path, uid, gid)
}

/** Removes what an interrupted initdb left; the caller holds the data directory's lock. */
async function removeHalfMade(wanted: string): Promise<void> {
  for (const name of await readdir(dirname(wanted)))
    if (name.startsWith(`${basename(wanted)}.init-`))
      await rm(join(dirname(wanted), name), { recursive: true, force: true, maxRetries: 10 })
  // A link whose target was deleted.
  if (!(await stat(wanted).catch(() => undefined))) await rm(wanted, { force: true })
}

async function spawnServer(
  { dir, user, bin }: EmbeddedCluster,
  { port, settings, logPath }: { port: number; settings: Record<string, string>; logPath: string }
): Promise<ChildProcess> {
  const all = { ...defaults, port: String(port), ...settings }
  const log = await open(logPath, 'a', 0o600)
  try {
    return spawn(
      join(bin, 'postgres'),
      ['-D', dir, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
      { ...user, cwd: '/', env: serverEnv, stdio: ['ignore', log.fd, log.fd] }
    )
  } finally {
    await log.close()
  }
}

/** True once the server takes connections; false when it ended instead. */
async function becomesReady(child: ChildProcess, dir: string): Promise<boolean> {
  let ended = false
  const end = () => {
    ended = true
  }
  child.once('error', end)
  child.once('exit', end)
  // Read from the server's own file: another server may be listening on the port.
  for (const deadline = Date.now() + READY_TIMEOUT_MS; Date.now() < deadline; await sleep(POLL_MS)) {
    if (ended) return false
    const lines = (await readFile(join(dir, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
    if (lines[0] === String(child.pid) && lines[7]?.trim() === 'ready') return true
  }
  await stopServer(child)
  return false
}

/** initdb makes only the database `postgres`. */
async function ensureDatabase(url: string): Promise<void> {
  const maintenance = new URL(url)
  maintenance.pathname = '/postgres'
  const client = new pg.Client({
    connectionString: maintenance.href,
    options: OWN_OPTIONS,
    connectionTimeoutMillis: READY_TIMEOUT_MS
  })
  await client.connect()
  try {
    const { rowCount } = await client.query(`select 1 from pg_database where datname = 'operator'`)
    if (!rowCount) await client.query('create database operator')
  } finally {
    await client.end()
  }
}

async function isFree(port: number): Promise<boolean> {
  return listenBriefly(port).then(
    () => true,
    () => false
  )
}

function listenBriefly(port: number): Promise<number> {
  return new Promise((done, fail) => {
    const probe = createServer()
    probe.once('error', fail)
    probe.listen(port, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => done(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

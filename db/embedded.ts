// The PostgreSQL that comes with the project, used when DATABASE_URL is unset and by the tests. Each data directory has
// one keeper, a process in a session of its own, which runs the server as long as any process holds a connection to the
// keeper, and stops it in order when the last holder let go or died.
import { spawn } from 'node:child_process'
import { mkdir, readFile, realpath, rm } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { stopOrphan } from './embedded/cluster.ts'
import { holderOf } from './embedded/lock.ts'
import { filesIn, type KeeperOptions, OWN_OPTIONS, type ServerFacts } from './embedded/standing.ts'

const START_TIMEOUT_MS = 60_000
const STOP_TIMEOUT_MS = 45_000
const RESPONSE_TIMEOUT_MS = 5_000
const POLL_MS = 40

interface EmbeddedOptions {
  /** Where the data, the log and the lock live; made when missing. */
  dataDir: string
  /** Called with a sentence about a step that takes a while. */
  log?: (message: string) => void
  /** Server settings over the built-in ones, for example `{ fsync: 'off' }`. Ignored when attaching. */
  settings?: Record<string, string>
  /** Another PostgreSQL's `bin` directory, for example `/usr/lib/postgresql/15/bin`. Ignored when attaching. */
  binDir?: string
}

interface Embedded {
  /** The URL of the superuser `operator` and the database of the same name. */
  url: string
  /** Lets go of the server; resolves once it has stopped, or at once when others still use it. */
  stop(): Promise<void>
}

/**
 * Starts the PostgreSQL of a data directory, or joins the one already running there. The server lives
 * until every holder has called `stop` or ended, however it ended. Rejects with a sentence for the
 * operator when PostgreSQL is not installed, cannot start, or is not ready within a minute.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const dataDir = resolve(options.dataDir)
  const deadline = Date.now() + START_TIMEOUT_MS
  // Not 0700: when root starts it, the server runs as another user, which needs access.
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  while (Date.now() < deadline) {
    const embedded = await attach(dataDir)
    if (embedded) return embedded
    if (await holderOf(filesIn(dataDir).lock)) await sleep(POLL_MS)
    else await launchKeeper({ dataDir, settings: options.settings ?? {}, binDir: options.binDir }, options.log)
  }
  const holder = await holderOf(filesIn(dataDir).lock)
  throw new Error(
    holder
      ? `Process ${holder.pid} on ${holder.host} has kept ${dataDir} for itself for a minute and offers no database.`
      : `PostgreSQL in ${dataDir} was not ready within a minute; see ${filesIn(dataDir).log}.`
  )
}

/** The URL of the PostgreSQL now running from a data directory, or undefined; tried by really connecting. */
export async function runningEmbedded(dataDir: string): Promise<string | undefined> {
  const facts = await readServerFacts(resolve(dataDir))
  if (!facts) return undefined
  return (await accepts(facts.url)) ? facts.url : undefined
}

/**
 * Deletes a data directory with everything in it, first stopping a server that lost its keeper. Returns false, and
 * changes nothing, while a keeper is at work there.
 */
export async function removeEmbedded(dataDir: string): Promise<boolean> {
  const files = filesIn(resolve(dataDir))
  if (await holderOf(files.lock)) return false
  const cluster = await realpath(files.cluster).catch(() => undefined)
  if (cluster) {
    await stopOrphan(cluster)
    await rm(cluster, { recursive: true, force: true })
  }
  await rm(dataDir, { recursive: true, force: true })
  return true
}

async function attach(dataDir: string): Promise<Embedded | undefined> {
  const facts = await readServerFacts(dataDir)
  if (!facts) return undefined
  const socket = await hold(facts)
  if (!socket) return undefined
  if (!(await accepts(facts.url))) {
    socket.destroy()
    return undefined
  }
  // The connection must not keep a process alive that has nothing else to do.
  socket.unref()
  return { url: facts.url, stop: () => release(socket) }
}

/** A connection the keeper counts as a holder; undefined when no keeper, or another one, is there. */
function hold({ controlPort, token }: ServerFacts): Promise<Socket | undefined> {
  return new Promise(done => {
    const socket = connect(controlPort, '127.0.0.1', () => socket.write(`${token}\n`))
    const give = (result: Socket | undefined) => {
      clearTimeout(timer)
      if (!result) socket.destroy()
      done(result)
    }
    const timer = setTimeout(give, RESPONSE_TIMEOUT_MS, undefined)
    socket.once('error', () => give(undefined))
    socket.once('close', () => give(undefined))
    socket.once('data', data => {
      const held = data.toString() === 'held\n'
      // From here on a lost keeper shows in the database connections; the socket only has to stay quiet.
      if (held) socket.on('error', () => {})
      give(held ? socket : undefined)
    })
  })
}

function release(socket: Socket): Promise<void> {
  if (socket.destroyed) return Promise.resolve()
  return new Promise((done, fail) => {
    const timer = setTimeout(() => {
      socket.destroy()
      fail(new Error(`PostgreSQL did not stop within ${STOP_TIMEOUT_MS / 1000} s.`))
    }, STOP_TIMEOUT_MS)
    socket.ref()
    socket.resume()
    socket.once('close', () => {
      clearTimeout(timer)
      done()
    })
    socket.write('release\n')
  })
}

/** Resolves when the keeper serves, or found that another was first; rejects with what it could not do. */
function launchKeeper(options: KeeperOptions, log?: (message: string) => void): Promise<void> {
  const keeper = spawn(
    process.execPath,
    [fileURLToPath(new URL('./embedded/keeper.ts', import.meta.url)), JSON.stringify(options)],
    // A session of its own: Ctrl-C reaches us, and we stop the server in order.
    { detached: true, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] }
  )
  return new Promise((done, fail) => {
    let complaint = ''
    const finish = (error?: Error) => {
      keeper.removeAllListeners()
      keeper.unref()
      lines.close()
      keeper.stdout.destroy()
      keeper.stderr.destroy()
      if (error) fail(error)
      else done()
    }
    keeper.stderr.on('data', chunk => {
      complaint = (complaint + chunk).slice(-4000)
    })
    const lines = createInterface(keeper.stdout)
    lines.on('line', line => {
      const message = JSON.parse(line) as { note?: string; settled?: boolean; error?: string }
      if (message.note) log?.(message.note)
      else finish(message.error === undefined ? undefined : new Error(message.error))
    })
    keeper.once('error', finish)
    keeper.once('close', () => finish(new Error(`PostgreSQL's keeper ended early. ${complaint}`.trim())))
  })
}

async function readServerFacts(dataDir: string): Promise<ServerFacts | undefined> {
  try {
    return JSON.parse(await readFile(filesIn(dataDir).facts, 'utf8')) as ServerFacts
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`Cannot read how to reach the PostgreSQL in ${dataDir}: it belongs to another user.`, {
      cause: error
    })
  }
}

async function accepts(url: string): Promise<boolean> {
  const client = new pg.Client({
    connectionString: url,
    options: OWN_OPTIONS,
    connectionTimeoutMillis: RESPONSE_TIMEOUT_MS
  })
  client.on('error', () => {})
  try {
    await client.connect()
    return true
  } catch {
    return false
  } finally {
    await client.end()
  }
}

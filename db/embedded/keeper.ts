// The process that runs the embedded PostgreSQL of one data directory: started by startEmbedded in a
// session of its own, counts who holds a connection to it, and stops the server after the last one.
// Holders are counted by open sockets, because the system closes those even of a process killed by
// SIGKILL.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { backOff } from '../platform/back-off.ts'
import {
  type EmbeddedCluster,
  type EmbeddedServer,
  openCluster,
  startServer,
  stopOrphan,
  stopServer
} from './cluster.ts'
import { acquire } from './lock.ts'
import { filesIn, type KeeperOptions, type ServerFacts } from './standing.ts'

const FIRST_HOLDER_MS = 15_000
const GREETING_MS = 2_000
const LOG_LIMIT_BYTES = 50 * 1024 * 1024
const LOG_CHECK_MS = 60_000
// Between attempts to start a server that ended: at once, and ever later where that fails or it ends again and again.
const RESTARTS = { firstMs: 500, mostMs: 10_000 }
const STEADY_MS = 60_000

const options = JSON.parse(process.argv[2] ?? '') as KeeperOptions
const files = filesIn(options.dataDir)
const holders = new Set<Socket>()
let cluster: EmbeddedCluster
let server: EmbeddedServer
let reviving: Promise<boolean> | undefined
let restarts = 0
let leaving = false
const left = new AbortController()
let unlock: () => Promise<void> = async () => {}

process.title = `postgres keeper ${options.dataDir}`
process.on('SIGINT', () => {})
process.on('SIGHUP', () => {})
process.stdout.on('error', () => {}) // The starter may be gone; the server has other users too.

const token = randomBytes(24).toString('hex')
const door = createServer({ pauseOnConnect: false }, greet)
await keep()

async function keep(): Promise<void> {
  try {
    const taken = await acquire(files.lock)
    if (!taken) return say({ settled: true })
    unlock = taken
    cluster = await openCluster(options.dataDir, { binDir: options.binDir, note: text => say({ note: text }) })
    await stopOrphan(cluster.dir)
    await serve(await lastPort())
    process.on('SIGTERM', () => void leave())
    door.listen(0, '127.0.0.1')
    await once(door, 'listening')
    await writeServerFacts()
  } catch (error) {
    say({ error: error instanceof Error ? error.message : String(error) })
    return leave()
  }
  say({ settled: true })
  setInterval(() => void boundLog(), LOG_CHECK_MS).unref()
  setTimeout(leaveIfAlone, FIRST_HOLDER_MS)
}

function say(what: { note?: string; settled?: true; error?: string }): void {
  process.stdout.write(`${JSON.stringify(what)}\n`)
}

async function serve(port: number | undefined): Promise<void> {
  server = await startServer(cluster, { port, settings: options.settings, logPath: files.log })
  const startedAt = performance.now()
  server.process.once('exit', () => {
    if (leaving) return
    if (performance.now() - startedAt > STEADY_MS) restarts = 0
    reviving = revive()
    void reviving.then(revived => {
      if (!revived) void leave()
    })
  })
}

/**
 * Starts the server again, on the same port, when it ended without a stop request. That is tried until it succeeds: holders have no other
 * way back to their data once, for example, the disk has room again. False where the data are gone.
 */
async function revive(): Promise<boolean> {
  for (const { port } = server; ; ) {
    if (restarts > 0) await sleep(backOff(restarts - 1, RESTARTS), undefined, { signal: left.signal }).catch(() => {})
    restarts++
    if (leaving) return true
    if (!(await stat(join(cluster.dir, 'PG_VERSION')).catch(() => undefined))) return false
    try {
      await serve(port)
    } catch {
      continue // See postgres.log.
    }
    // A full disk does not take even that, and whoever is to read it has the same facts.
    return (
      server.port === port ||
      (await writeServerFacts().then(
        () => true,
        () => false
      ))
    )
  }
}

/** One connection: its first line is the token, and it is a holder until it sends "release" or closes. */
function greet(socket: Socket): void {
  let received = ''
  const patience = setTimeout(() => socket.destroy(), GREETING_MS)
  socket.on('error', () => {})
  socket.on('data', chunk => {
    received += chunk
    if (received.length > 256) return socket.destroy()
    if (!holders.has(socket) && received.startsWith(`${token}\n`) && !leaving) {
      clearTimeout(patience)
      received = received.slice(token.length + 1)
      holders.add(socket)
      socket.write('held\n')
    }
    if (holders.has(socket) && received === 'release\n') {
      // The last one gets its response, the close, only when the server has stopped.
      if (holders.size === 1) void leave()
      else socket.end()
    }
  })
  socket.on('close', () => {
    clearTimeout(patience)
    holders.delete(socket)
    leaveIfAlone()
  })
}

function leaveIfAlone(): void {
  if (holders.size === 0) void leave()
}

/** Stops everything, once, and ends the process. */
async function leave(): Promise<void> {
  if (leaving) return
  leaving = true
  left.abort()
  door.close()
  await rm(files.facts, { force: true })
  // A start that is under way ends first: its server would be left without a keeper.
  await reviving
  if (server) await stopServer(server.process)
  await unlock()
  process.exit(0)
}

async function writeServerFacts(): Promise<void> {
  const facts: ServerFacts = {
    url: server.url,
    port: server.port,
    controlPort: (door.address() as AddressInfo).port,
    token
  }
  await writeFile(`${files.facts}.new`, JSON.stringify(facts), { mode: 0o600 })
  await rename(`${files.facts}.new`, files.facts)
  await writeFile(files.port, String(server.port))
}

/** The port of the last time, so that addresses written down somewhere stay true while it is free. */
async function lastPort(): Promise<number | undefined> {
  const text = await readFile(files.port, 'utf8').catch(() => '')
  const port = Number(text)
  return Number.isInteger(port) && port > 1023 && port < 65_536 ? port : undefined
}

async function boundLog(): Promise<void> {
  const log = await stat(files.log).catch(() => undefined)
  if (log && log.size > LOG_LIMIT_BYTES) await truncate(files.log).catch(() => {}) // The next round tries again.
}

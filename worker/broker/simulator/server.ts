// The simulated broker on a port: sockets for its dialect, and plain HTTP under /control for whoever runs it.
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { control } from './control.ts'
import { Engine } from './engine.ts'
import { Faults } from './faults.ts'
import { openJournal } from './journal.ts'
import { type LedgerEntry, ledgerEntry } from './ledger.ts'
import type { SimulatorOptions } from './options.ts'
import { publishedLimits, Quota } from './quota.ts'
import { type Peer, V3 } from './v3.ts'

export interface Simulator {
  /** Where the broker's clients connect; they add `?app_id=`. */
  url: string
  /** Where it is controlled over HTTP. */
  control: string
  port: number
  engine: Engine
  faults: Faults
  quota: Quota
  v3: V3
  /** Every contract there is, in the order of purchase. */
  ledger(): LedgerEntry[]
  /** Cuts every connection and frees the port. */
  close(): Promise<void>
}

const HOST = '127.0.0.1'
const PATH = '/websockets/v3'
const MAX_FRAME_BYTES = 1_048_576
const MAX_BACKLOG_BYTES = 16 * 1_048_576
const REFUSED = 1008

/** Starts a simulated broker. Rejects when the port is taken or the journal cannot be read. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const seed = options.seed ?? 1
  const engine = new Engine({
    ...options,
    journal: options.journal === undefined ? undefined : openJournal(options.journal)
  })
  const faults = new Faults(seed, {
    latencyMs: options.latencyMs ?? 0,
    jitterMs: options.jitterMs ?? 0,
    ...options.faults
  })
  const limits = options.limits ?? 'published'
  const quota = new Quota(engine.clock, limits === 'off' ? null : limits === 'published' ? publishedLimits : limits)
  const v3 = new V3({
    engine,
    faults,
    quota,
    seed,
    mode: options.mode ?? 'strict',
    ...(options.idleMs ? { idleMs: options.idleMs } : {})
  })
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_FRAME_BYTES, perMessageDeflate: false })
  const ledger = () => [...engine.contracts.values()].map(ledgerEntry)
  const server = createServer(control({ engine, faults, quota, v3 }))
  const revoked = new Set(options.revokedAppIds)

  faults.onChange(({ down }) => {
    if (down) v3.cutAll()
  })
  server.on('upgrade', (request, socket, head) => {
    // A client may be gone before it was let in; nobody else listens yet.
    socket.on('error', () => socket.destroy())
    const path = new URL(request.url ?? '/', `http://${HOST}`).pathname
    if (faults.settings.down || path !== PATH) {
      socket.end(
        `HTTP/1.1 ${faults.settings.down ? '503 Service Unavailable' : '404 Not Found'}\r\nConnection: close\r\n\r\n`
      )
      return
    }
    sockets.handleUpgrade(request, socket, head, ws => {
      const appId = appIdOf(request)
      if (appId === null || revoked.has(appId)) refuse(ws)
      else serve({ v3, appId, ws, socket })
    })
  })
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(options.port ?? 0, HOST, resolve)
    })
  } catch (error) {
    engine.close()
    throw error
  }
  const { port } = server.address() as AddressInfo
  return {
    url: `ws://${HOST}:${port}${PATH}`,
    control: `http://${HOST}:${port}/control`,
    port,
    engine,
    faults,
    quota,
    v3,
    ledger,
    async close() {
      v3.close()
      engine.close()
      for (const ws of sockets.clients) ws.terminate()
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    }
  }
}

function appIdOf(request: IncomingMessage): number | null {
  const text = new URL(request.url ?? '/', `http://${HOST}`).searchParams.get('app_id') ?? ''
  return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : null
}

function refuse(ws: WebSocket): void {
  ws.on('error', () => ws.terminate())
  const error = { code: 'InvalidAppID', message: 'Your app_id is invalid.' }
  ws.send(JSON.stringify({ error, echo_req: {}, msg_type: 'error' }))
  ws.close(REFUSED, 'InvalidAppID')
}

function serve({ v3, appId, ws, socket }: { v3: V3; appId: number; ws: WebSocket; socket: Duplex }): void {
  let gathering = false
  // What is said in one turn leaves in one write: with thousands of frames a second writing is what costs.
  const gather = () => {
    if (gathering) return
    gathering = true
    socket.cork()
    process.nextTick(() => {
      gathering = false
      socket.uncork()
    })
  }
  const peer: Peer = {
    send(text) {
      if (ws.readyState !== ws.OPEN) return false
      // A client that does not read must not fill our memory.
      if (ws.bufferedAmount > MAX_BACKLOG_BYTES) {
        connection.cut()
        return false
      }
      gather()
      ws.send(text)
      return true
    },
    close: () => ws.close(),
    terminate: () => ws.terminate()
  }
  const connection = v3.connect(appId, peer)
  ws.on('message', data => connection.receive(String(data)))
  ws.on('close', () => connection.closed())
  ws.on('error', () => connection.cut())
}

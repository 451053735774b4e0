// The simulated broker on a port: sockets for its dialects, REST for the newer one, and plain HTTP under /control for
// tests and operators.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { http } from '../../db/platform/http.ts'
import { control } from './control.ts'
import { Engine } from './engine/engine.ts'
import { openJournal } from './engine/journal.ts'
import { type LedgerEntry, ledgerEntry } from './engine/ledger.ts'
import { type CallQuotas, publishedLimits, Quota } from './engine/quota.ts'
import type { AppId } from './engine/records.ts'
import { Faults } from './faults.ts'
import { magicDelayMs, orderOf } from './magic.ts'
import { APP_ID_HEADER, Next, nextLimits } from './next/next.ts'
import { OAuth } from './next/oauth.ts'
import { nextRest, OF_ADDRESS } from './next/rest.ts'
import type { SimulatorOptions } from './options.ts'
import { addressOf } from './request-address.ts'
import { ClientConnection } from './v3/connection.ts'
import { type Peer, V3 } from './v3/v3.ts'

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
  /** The REST address of the newer dialect, and the header in which its clients name their application. */
  nextUrl: string
  appIdHeader: string
  next: Next
  /** Where its tokens are renewed. */
  oauth: OAuth
  /** Every contract there is, in the order of purchase. */
  ledger(): LedgerEntry[]
  /** Cuts every connection and frees the port. */
  close(): Promise<void>
}

const LOOPBACK = '127.0.0.1'
const PATH = '/websockets/v3'
const MAX_FRAME_BYTES = 1_048_576
const MAX_BACKLOG_BYTES = 16 * 1_048_576
const REFUSED = 1008

/** Starts a simulated broker. Rejects when the port is taken or the journal cannot be read. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const seed = options.seed ?? 1
  const host = options.host ?? LOOPBACK
  const { books } = options
  const engine = new Engine({
    ...options,
    ...(options.magic ? { settlesLater: contract => magicDelayMs(orderOf(contract)) } : {}),
    journal: books?.journal ?? (options.journal === undefined ? undefined : openJournal(options.journal))
  })
  const faults = new Faults(seed, {
    latencyMs: options.latencyMs ?? 0,
    jitterMs: options.jitterMs ?? 0,
    ...options.faults
  })
  const limits = options.limits ?? 'published'
  const limitsOr = (published: CallQuotas) => (limits === 'off' ? null : limits === 'published' ? published : limits)
  const quota = new Quota(engine.clock, limitsOr(publishedLimits))
  const shared = {
    engine,
    faults,
    seed,
    mode: options.mode ?? 'strict',
    magic: options.magic ?? false,
    ...(options.idleMs ? { idleMs: options.idleMs } : {})
  }
  const v3 = new V3({ ...shared, quota })
  const next = new Next({ ...shared, limits: limitsOr(nextLimits) })
  // Where books are written later, no frame shows what is not yet in them.
  const after = books?.after ?? (run => run())
  let port = 0
  // An address with colons has brackets in a URL.
  const place = () => `${host.includes(':') ? `[${host}]` : host}:${port}`
  const sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_FRAME_BYTES, perMessageDeflate: false })
  const ledger = () => [...engine.contracts.values()].map(ledgerEntry)
  const revokedAppIds = options.revokedAppIds ?? []
  const oauth = new OAuth(next, revokedAppIds)
  const server = http.createServer(
    nextRest(
      {
        next,
        oauth,
        revokedAppIds,
        callsOfAddress: options.restCalls ?? OF_ADDRESS,
        socketBase: () => options.socketBase ?? `ws://${place()}`
      },
      options.controlled === false ? notFound : control({ engine, faults, quota, v3, next })
    )
  )

  faults.onChange(({ down }) => {
    if (!down) return
    v3.cutAll()
    next.front.cutAll()
  })
  admitSockets(server, sockets, { v3, next, faults, revokedAppIds, after })
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(options.port ?? 0, host, resolve)
    })
  } catch (error) {
    engine.close()
    throw error
  }
  port = (server.address() as AddressInfo).port
  return {
    url: `ws://${place()}${PATH}`,
    control: `http://${place()}/control`,
    port,
    engine,
    faults,
    quota,
    v3,
    nextUrl: `http://${place()}`,
    appIdHeader: APP_ID_HEADER,
    next,
    oauth,
    ledger,
    async close() {
      v3.close()
      next.front.close()
      engine.close()
      for (const ws of sockets.clients) ws.terminate()
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    }
  }
}

/** Connects sockets to the dialect that their path belongs to, or refuses them. */
function admitSockets(
  server: Server,
  sockets: WebSocketServer,
  {
    v3,
    next,
    faults,
    revokedAppIds,
    after
  }: Pick<Simulator, 'v3' | 'next' | 'faults'> & {
    revokedAppIds: AppId[]
    after: (run: () => void) => void
  }
): void {
  server.on('upgrade', (request, socket, head) => {
    // A client may disconnect before it is admitted; there is no other error listener yet.
    socket.on('error', () => socket.destroy())
    const url = addressOf(request)
    if (faults.settings.down) refuse(socket, 503)
    else if (next.owns(url.pathname)) {
      const admitted = next.admit(url)
      if (typeof admitted === 'number') refuse(socket, admitted)
      else
        sockets.handleUpgrade(request, socket, head, ws => {
          serve(ws, socket, after, peer => {
            const { connection, left } = next.connect(admitted, peer)
            ws.on('close', left)
            return connection
          })
        })
    } else if (url.pathname !== PATH) refuse(socket, 404)
    else
      sockets.handleUpgrade(request, socket, head, ws => {
        const appId = appIdOf(url)
        if (appId === null || revokedAppIds.includes(appId)) dismiss(ws)
        else serve(ws, socket, after, peer => new ClientConnection(v3, appId, peer))
      })
  })
}

function notFound(_: IncomingMessage, response: ServerResponse): void {
  response.writeHead(404).end()
}

function appIdOf(url: URL): number | null {
  const text = url.searchParams.get('app_id') ?? ''
  return /^[1-9][0-9]{0,14}$/.test(text) ? Number(text) : null
}

function refuse(socket: Duplex, status: number): void {
  socket.end(`HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\nConnection: close\r\n\r\n`)
}

/** Admits an unknown application, to send it an error. */
function dismiss(ws: WebSocket): void {
  ws.on('error', () => ws.terminate())
  const error = { code: 'InvalidAppID', message: 'Your app_id is invalid.' }
  ws.send(JSON.stringify({ error, echo_req: {}, msg_type: 'error' }))
  ws.close(REFUSED, 'InvalidAppID')
}

function serve(
  ws: WebSocket,
  socket: Duplex,
  after: (run: () => void) => void,
  connect: (peer: Peer) => ClientConnection
): void {
  let corked = false
  // All frames of one turn leave in one write: at thousands of frames a second, writes are the main cost.
  const cork = () => {
    if (corked) return
    corked = true
    socket.cork()
    process.nextTick(() => {
      corked = false
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
      after(() => {
        if (ws.readyState !== ws.OPEN) return
        cork()
        ws.send(text)
      })
      return true
    },
    close: () => ws.close(),
    terminate: () => ws.terminate()
  }
  const connection = connect(peer)
  ws.on('message', data => {
    try {
      connection.receive(String(data))
    } catch {
      // No frame may end the process: one can be nested so deeply that it can be read and not be repeated.
      connection.cut()
    }
  })
  ws.on('close', () => connection.closed())
  ws.on('error', () => connection.cut())
}

// /v1/stream: upgrades that were admitted (admission.ts), the sockets that are open in this process, and their end.
import { type IncomingMessage, type Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { listBarred } from '../../../db/events/tickets.ts'
import { collectStreamSockets } from '../../../db/platform/metrics.ts'
import { SUBPROTOCOL, streamLimits } from '../../../schemas/stream.ts'
import type { ApiServices } from '../../operation.ts'
import { type Admission, type AdmittedRequest, openGate, type SocketPlace } from './admission.ts'
import { StreamSocket } from './socket.ts'
import { Tails } from './tail.ts'
import { Ticks } from './ticks.ts'

const TICK_MS = 1000
// Sockets served before other work of the process gets its turn.
const SOCKETS_AT_ONCE = 100
// A revoked key's sockets close within a second.
const BARRED_EVERY_MS = 400
// Over how long a stop is spread, and how much each socket adds to it.
const STOP_MS = 10_000
const STOP_STEP_MS = 2
// For a client to close its side.
const CLOSE_MS = 3000

interface EventStream {
  /** Takes the upgrades of a server. */
  attach(server: Server): void
  /** Closes every socket, spread over time, so that not all reconnect at once. */
  stop(): Promise<void>
}

/** The stream of one process; nothing listens before `attach`. */
export function openStream(services: ApiServices): EventStream {
  const { db, log } = services
  const sockets = new Map<StreamSocket, SocketPlace>()
  const tails = new Tails(services)
  const ticks = new Ticks(services)
  const wss = new WebSocketServer({
    noServer: true,
    maxPayload: streamLimits.messageBytes,
    perMessageDeflate: false,
    clientTracking: false,
    handleProtocols: offered => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false)
  })
  let stopping = false

  const handle = openGate(services, { tails, stopping: () => stopping })

  function opened(ws: WebSocket, { holder, held, tail, release }: Admission): void {
    const socket = new StreamSocket(services, ws, { holder, tail, ticks })
    const place = {
      release() {
        held.release()
        release()
      }
    }
    sockets.set(socket, place)
    ws.once('close', () => {
      sockets.delete(socket)
      socket.ended()
      place.release()
    })
  }

  function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy())
    const response = new ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket as never)
    response.once('finish', () => (socket as Duplex & { destroySoon(): void }).destroySoon())
    handle(request, response).then(
      () => {
        const { admitted } = request as AdmittedRequest
        if (!admitted) return
        response.detachSocket(socket as never)
        response.removeAllListeners('finish')
        const free = () => {
          admitted.held.release()
          admitted.release()
        }
        if (socket.destroyed) return free()
        socket.once('close', free)
        wss.handleUpgrade(request, socket as never, head, ws => {
          socket.off('close', free)
          opened(ws, admitted)
        })
      },
      (error: unknown) => {
        log.error({ err: error }, 'an upgrade failed')
        socket.destroy()
      }
    )
  }

  const ticking = setInterval(() => void tickAll(), TICK_MS)
  let over = true
  /** Sockets that were opened together have their heartbeats together: requests get their turn between them. */
  async function tickAll(): Promise<void> {
    if (!over) return
    over = false
    let served = 0
    for (const socket of sockets.keys()) {
      socket.tick(performance.now())
      served += 1
      if (served % SOCKETS_AT_ONCE === 0) await new Promise(resolve => setImmediate(resolve))
    }
    over = true
  }
  let barring = false
  const barred = setInterval(() => {
    if (barring || sockets.size === 0) return
    barring = true
    closeBarred()
      .catch((error: unknown) => log.warn({ err: error }, 'keys of open sockets could not be checked'))
      .finally(() => {
        barring = false
      })
  }, BARRED_EVERY_MS)
  collectStreamSockets(() => sockets.size)

  async function closeBarred(): Promise<void> {
    const found = await listBarred(db, [...new Set([...sockets.keys()].map(({ holder }) => holder.keyId))])
    const byKey = new Map(found.map(({ keyId, why }) => [keyId, why]))
    if (byKey.size === 0) return
    for (const socket of sockets.keys()) {
      const why = byKey.get(socket.holder.keyId)
      if (why === 'plan') socket.close(4402, 'the plan is inactive')
      else if (why) socket.close(4403, why === 'key' ? 'the key was revoked' : 'the partner is suspended')
    }
  }

  return {
    attach(server) {
      server.on('upgrade', upgrade)
    },
    async stop() {
      stopping = true
      clearInterval(ticking)
      clearInterval(barred)
      const spreadMs = Math.min(STOP_MS, sockets.size * STOP_STEP_MS)
      const all = [...sockets.keys()]
      const startedAt = performance.now()
      for (const [index, socket] of all.entries()) {
        const wait = startedAt + (spreadMs * index) / all.length - performance.now()
        if (wait > 1) await new Promise(resolve => setTimeout(resolve, wait))
        socket.stop(Math.round(Math.random() * Math.max(1000, spreadMs)))
      }
      const until = performance.now() + CLOSE_MS
      while (sockets.size > 0 && performance.now() < until) await new Promise(resolve => setTimeout(resolve, 20))
      for (const socket of sockets.keys()) socket.terminate()
      await ticks.close()
    }
  }
}

// /v1/stream: upgrades that were admitted (admission.ts), the sockets that are open in this process, and their end.
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { listBarred, listBarredTraders, listDisabledLately } from '../../../db/events/tickets.ts'
import { http } from '../../../db/platform/http.ts'
import { collectStreamSockets } from '../../../db/platform/metrics.ts'
import { SUBPROTOCOL, streamLimits } from '../../../schemas/stream.ts'
import type { ApiServices } from '../../operation.ts'
import { type Admission, type AdmittedRequest, openGate } from './admission.ts'
import { StreamSocket } from './socket.ts'
import { SurplusSockets } from './surplus.ts'
import { Tails } from './tail.ts'
import { Ticks } from './ticks.ts'

const TICK_MS = 1000
// Sockets served before the process does other work.
const SOCKETS_AT_ONCE = 100
// The sockets of a revoked key, and those by tickets of a trader that is disabled or erased, close within a second.
const BARRED_EVERY_MS = 400
// Every trader of a ticket is looked up so often; between that those that were disabled lately suffice, a few of many.
const ALL_TRADERS_EVERY_MS = 60_000
// Over how long a stop is spread, and how much each socket adds to it.
const STOP_MS = 10_000
const STOP_STEP_MS = 2
// For a client to close its side.
const CLOSE_MS = 3000
// A frame of a message that is not complete keeps in memory all that was received together with it, up to 64 KiB. Clients send a message in
// one frame, or in frames of some kilobytes.
const FRAMES_OF_A_MESSAGE = 128

/** The stream of one process; nothing listens before `attach`. */
export class EventStream {
  readonly #services: ApiServices
  readonly #sockets = new Set<StreamSocket>()
  readonly #surplus = new SurplusSockets()
  readonly #ticks: Ticks
  readonly #admit: ReturnType<typeof openGate>
  readonly #wss = new WebSocketServer({
    noServer: true,
    maxPayload: streamLimits.messageBytes,
    maxFragments: FRAMES_OF_A_MESSAGE,
    perMessageDeflate: false,
    clientTracking: false,
    handleProtocols: offered => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false)
  })
  readonly #timers: NodeJS.Timeout[]
  #stopping = false
  #beating = false
  #barring = false
  #allTradersAt = performance.now()

  constructor(services: ApiServices) {
    this.#services = services
    this.#ticks = new Ticks(services)
    this.#admit = openGate(services, {
      tails: new Tails(services),
      stopping: () => this.#stopping,
      surplus: this.#surplus
    })
    this.#timers = [
      setInterval(() => void this.#beat(), TICK_MS),
      setInterval(() => {
        this.#closeBarred().catch((error: unknown) =>
          services.log.warn({ err: error }, 'keys and traders of open sockets could not be checked')
        )
      }, BARRED_EVERY_MS)
    ]
    collectStreamSockets(() => this.#sockets.size)
  }

  /** Takes the upgrades of a server. */
  attach(server: Server): void {
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head))
  }

  /** Closes every socket, spread over time, so that not all reconnect at once. */
  async stop(): Promise<void> {
    this.#stopping = true
    for (const timer of this.#timers) clearInterval(timer)
    const all = [...this.#sockets]
    const spreadMs = Math.min(STOP_MS, all.length * STOP_STEP_MS)
    const startedAt = performance.now()
    for (const [index, socket] of all.entries()) {
      const wait = startedAt + (spreadMs * index) / all.length - performance.now()
      if (wait > 1) await new Promise(resolve => setTimeout(resolve, wait))
      socket.stop(Math.round(Math.random() * Math.max(1000, spreadMs)))
    }
    const until = performance.now() + CLOSE_MS
    while (this.#sockets.size > 0 && performance.now() < until) await new Promise(resolve => setTimeout(resolve, 20))
    for (const socket of this.#sockets) socket.terminate()
    this.#surplus.end()
    await this.#ticks.close()
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy())
    const response = new http.ServerResponse(request)
    response.shouldKeepAlive = false
    response.assignSocket(socket as never)
    response.once('finish', () => (socket as Duplex & { destroySoon(): void }).destroySoon())
    this.#admit(request, response).then(
      () => {
        const { admitted, surplus } = request as AdmittedRequest
        if (!admitted && surplus === undefined) return
        response.detachSocket(socket as never)
        response.removeAllListeners('finish')
        if (!admitted) return this.#close(request, socket, { head, reason: surplus })
        const free = () => {
          admitted.held.release()
          admitted.release()
        }
        if (socket.destroyed) return free()
        socket.once('close', free)
        this.#wss.handleUpgrade(request, socket as never, head, ws => {
          socket.off('close', free)
          this.#open(ws, admitted, free)
        })
      },
      (error: unknown) => {
        this.#services.log.error({ err: error }, 'an upgrade failed')
        socket.destroy()
      }
    )
  }

  #close(
    request: IncomingMessage,
    socket: Duplex,
    { head, reason }: { head: Buffer; reason: string | undefined }
  ): void {
    if (socket.destroyed) return
    this.#wss.handleUpgrade(request, socket as never, head, ws => {
      ws.on('error', () => {})
      ws.close(4429, reason)
    })
  }

  #open(ws: WebSocket, { holder, tail }: Admission, free: () => void): void {
    const socket = new StreamSocket(this.#services, ws, { holder, tail, ticks: this.#ticks })
    this.#sockets.add(socket)
    ws.once('close', () => {
      this.#sockets.delete(socket)
      socket.ended()
      free()
    })
  }

  /** Sockets that were opened together have their heartbeats together: requests get their turn between them. */
  async #beat(): Promise<void> {
    if (this.#beating) return
    this.#beating = true
    let served = 0
    for (const socket of this.#sockets) {
      socket.tick(performance.now())
      served += 1
      if (served % SOCKETS_AT_ONCE === 0) await new Promise(resolve => setImmediate(resolve))
    }
    this.#beating = false
  }

  async #closeBarred(): Promise<void> {
    if (this.#barring || this.#sockets.size === 0) return
    this.#barring = true
    try {
      const keyIds = new Set([...this.#sockets].map(({ holder }) => holder.keyId))
      const found = await listBarred(this.#services.db, [...keyIds])
      const byKey = new Map(found.map(({ keyId, why }) => [keyId, why]))
      const named = new Map(
        [...this.#sockets].flatMap(({ holder: { ticket } }) => (ticket ? [[ticket.traderId, ticket]] : []))
      )
      const traders = await this.#barredOf(named)
      if (byKey.size + traders.size === 0) return
      for (const socket of this.#sockets) {
        const why = byKey.get(socket.holder.keyId)
        if (why === 'plan') socket.close(4402, 'the plan is inactive')
        else if (why) socket.close(4403, why === 'key' ? 'the key was revoked' : 'the partner is suspended')
        else if (traders.has(socket.holder.ticket?.traderId ?? ''))
          socket.close(4403, 'the trader of the ticket is disabled or erased')
      }
    } finally {
      this.#barring = false
    }
  }

  /** Returns which of these traders of tickets, by their ids, are disabled or erased. */
  async #barredOf(named: ReadonlyMap<string, { traderId: string; traderExternalId: string }>): Promise<Set<string>> {
    if (named.size === 0) return new Set()
    const { db } = this.#services
    if (performance.now() < this.#allTradersAt)
      return new Set((await listDisabledLately(db)).filter(traderId => named.has(traderId)))
    const found = await listBarredTraders(db, [...named.values()])
    this.#allTradersAt = performance.now() + ALL_TRADERS_EVERY_MS
    return new Set(found)
  }
}

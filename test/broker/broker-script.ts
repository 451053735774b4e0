// For tests of the broker's client: a broker that does exactly what a test has it do, frame by frame, and what is
// needed around it.

import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type WebSocket, WebSocketServer } from 'ws'
import { BrokerError } from '../../worker/broker/broker-error.ts'
import type { BrokerLog } from '../../worker/broker/port.ts'
import { stretched } from '../support/busy.ts'

export type SentFrame = Record<string, unknown> & { req_id: number }

interface Scripted {
  url: string
  /** Every frame received, in order, from all connections. */
  received: SentFrame[]
  /** Connections accepted so far. */
  opened: number
  /** Resolves when `count` frames were received that have the key. */
  got(key: string, count?: number): Promise<SentFrame[]>
  close(): Promise<void>
}

export type Script = (frame: SentFrame, socket: WebSocket) => void

/** Starts a broker that runs the script for each frame. `welcome` runs when a connection opens. */
export async function scriptedBroker(script: Script, welcome?: (socket: WebSocket) => void): Promise<Scripted> {
  const server: Server = createServer()
  const sockets = new WebSocketServer({ server, maxPayload: 32 * 1024 * 1024 })
  const waiting = new Set<() => void>()
  const scripted: Scripted = {
    url: '',
    received: [],
    opened: 0,
    got(key, count = 1) {
      return within(`${count} × ${key}`, resolve => {
        const check = () => {
          const found = scripted.received.filter(each => each[key] !== undefined)
          if (found.length < count) return
          waiting.delete(check)
          resolve(found)
        }
        waiting.add(check)
        check()
      })
    },
    async close() {
      for (const socket of sockets.clients) socket.terminate()
      server.close()
      server.closeAllConnections()
    }
  }
  sockets.on('connection', socket => {
    scripted.opened += 1
    welcome?.(socket)
    socket.on('error', () => socket.terminate())
    socket.on('message', data => {
      const frame = JSON.parse(String(data)) as SentFrame
      scripted.received.push(frame)
      script(frame, socket)
      for (const check of [...waiting]) check()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  scripted.url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/websockets/v3`
  return scripted
}

/** Responds to a frame with these fields. */
export function reply(socket: WebSocket, { req_id }: SentFrame, fields: Record<string, unknown>): void {
  socket.send(JSON.stringify({ ...fields, req_id }))
}

/** The script of a broker that authorises everybody whose token is their account id, and reports its status. */
export function courteous(next: Script): Script {
  return (frame, socket) => {
    if (frame.authorize !== undefined) reply(socket, frame, { authorize: { loginid: frame.authorize } })
    else if (frame.website_status !== undefined) reply(socket, frame, { website_status: { site_status: 'up' } })
    else if (frame.ping !== undefined) reply(socket, frame, { ping: 'pong' })
    else next(frame, socket)
  }
}

/** What an event resolves, or an error that names what did not come within 10 s, longer while the machine is busy. */
export function within<T>(what: string, start: (resolve: (value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`did not come: ${what}`)), stretched(10_000))
    start(value => {
      clearTimeout(timer)
      resolve(value)
    })
  })
}

/** The BrokerError a promise ends with; fails when it does not. */
export async function failure(promise: Promise<unknown> | undefined): Promise<BrokerError> {
  try {
    await promise
  } catch (error) {
    if (error instanceof BrokerError) return error
    throw error
  }
  throw new Error('it did not fail')
}

/** A log that keeps its lines as text. */
export function keptLog(): { log: BrokerLog; lines: string[] } {
  const lines: string[] = []
  const keep = (...facts: unknown[]) => {
    lines.push(
      facts
        .map(each =>
          JSON.stringify(each, (_key, value) => (value instanceof Error ? { ...value, message: value.message } : value))
        )
        .join(' ')
    )
  }
  return { log: { debug: keep, info: keep, warn: keep, error: keep } as unknown as BrokerLog, lines }
}

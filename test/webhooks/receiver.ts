// An endpoint of a partner for tests: a real HTTP server that records what it received, verifies each signature with the
// package `standardwebhooks`, and returns the configured response.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { onClose } from '../support/harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests read fields of many shapes
export type ReceivedDelivery = { event: any; headers: Record<string, string>; verified: boolean; at: number }

export interface Receiver {
  url: string
  /** Everything received so far, in order. */
  book: ReceivedDelivery[]
  /** Connections so far. */
  connections(): number
  /** The secrets with which requests may be signed. */
  secrets: string[]
  /** The response to the next requests; 204 at first. */
  respond: (received: ReceivedDelivery, response: ServerResponse, request: IncomingMessage) => void
  close(): Promise<void>
}

/** Starts a receiver on a free port. */
export async function openReceiver(host = '127.0.0.1'): Promise<Receiver> {
  let connections = 0
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', part => parts.push(part))
    request.on('end', () => {
      const body = Buffer.concat(parts).toString()
      const headers = request.headers as Record<string, string>
      const verified = receiver.secrets.some(secret => {
        try {
          new Webhook(secret).verify(body, headers)
          return true
        } catch {
          return false
        }
      })
      const received = { event: JSON.parse(body || 'null'), headers, verified, at: performance.now() }
      receiver.book.push(received)
      receiver.respond(received, response, request)
    })
  })
  server.on('connection', () => {
    connections += 1
  })
  await new Promise<void>(resolve => server.listen(0, host, resolve))
  const close = async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  }
  onClose(close)
  const receiver: Receiver = {
    url: `http://${host}:${(server.address() as AddressInfo).port}/hook`,
    book: [],
    connections: () => connections,
    secrets: [],
    respond: (_received, response) => response.writeHead(204).end(),
    close
  }
  return receiver
}

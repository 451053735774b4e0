// The load generator's HTTP client. It shares the cores with what it measures, so it does only what the bench
// needs: one request at a time on a kept connection, a response with a content length, no redirects, no TLS.
import { connect, type Socket } from 'node:net'

interface RawResponse {
  status: number
  text: string
}

/** A response, and whether its connection ends with it. */
type Received = RawResponse & { last: boolean }

/** No measurement waits longer for a response: longer than the service lets a request wait. */
const ANSWER_MS = 150_000

interface Line {
  socket: Socket
  received: Buffer
  waiting: { resolve(answer: RawResponse): void; reject(error: Error): void } | undefined
}

const idle = new Map<string, Line[]>()

/** Sends one request and resolves with its response. Rejects when the connection fails, or is silent for 150 s, before it is whole. */
export function exchange(
  address: string,
  { method, path, headers, body = '' }: { method: string; path: string; headers: Record<string, string>; body?: string }
): Promise<RawResponse> {
  const free = idle.get(address) ?? []
  idle.set(address, free)
  const line = free.pop() ?? open(address, free)
  const { host } = new URL(address)
  const length = body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  const fields = Object.entries({ host, ...headers, ...length }).map(([name, value]) => `${name}: ${value}\r\n`)
  return new Promise((resolve, reject) => {
    line.waiting = { resolve, reject }
    line.socket.write(`${method} ${path} HTTP/1.1\r\n${fields.join('')}\r\n${body}`)
  })
}

function open(address: string, free: Line[]): Line {
  const { hostname, port } = new URL(address)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  socket.setTimeout(ANSWER_MS, () => socket.destroy())
  const line: Line = { socket, received: Buffer.alloc(0), waiting: undefined }
  socket.on('data', chunk => {
    line.received = line.received.length === 0 ? chunk : Buffer.concat([line.received, chunk])
    const answer = readAnswer(line.received)
    if (!answer) return
    const { waiting } = line
    line.received = Buffer.alloc(0)
    line.waiting = undefined
    if (answer.last) socket.destroy()
    else free.push(line)
    waiting?.resolve(answer)
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    const at = free.indexOf(line)
    if (at !== -1) free.splice(at, 1)
    line.waiting?.reject(new Error(`${address} closed the connection before it had answered`))
  })
  // A kept connection must not keep the bench from ending.
  socket.unref()
  return line
}

function readAnswer(received: Buffer): Received | undefined {
  const end = received.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = received.toString('latin1', 0, end)
  const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0)
  const from = end + 4
  if (received.length < from + length) return undefined
  const last = /\r\nconnection: *close/i.test(head)
  return { status: Number(head.slice(9, 12)), text: received.toString('utf8', from, from + length), last }
}

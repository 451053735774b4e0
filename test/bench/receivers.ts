// The endpoints of `BENCH_ONLY=webhooks`, in a process of its own. The first part of a path is the behaviour of the endpoint: `ok` at once,
// `slow` after 100 ms, `hang` never, `drip` a byte a second, `dead` by a reset until it is revived. The rest is the endpoint's name.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const SLOW_MS = 100
const DRIP_MS = 1000
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

/** What endpoints received since the last report. */
export interface Received {
  count: number
  /** From the change that an event reports to its request, ms. */
  agesMs: number[]
}

export type ReceiverRequest = { take: string } | { revive: true }

const books = new Map<string, Received>()
let revived = false

function answer(how: string, request: IncomingMessage, response: ServerResponse): void {
  if (how === 'hang') return
  if (how === 'dead' && !revived) request.socket.destroy()
  else if (how === 'slow') setTimeout(() => response.writeHead(204).end(), SLOW_MS)
  else if (how === 'drip') drip(request)
  else response.writeHead(204).end()
}

function drip({ socket }: IncomingMessage): void {
  let sent = 0
  const timer = setInterval(() => {
    if (sent < HEAD.length && !socket.destroyed) socket.write(HEAD[sent++] as string)
    else clearInterval(timer)
  }, DRIP_MS)
}

const server = createServer((request, response) => {
  const at = performance.timeOrigin + performance.now()
  const [, how = '', name = ''] = (request.url ?? '').split('/')
  const parts: Buffer[] = []
  request.on('data', part => parts.push(part))
  request.on('error', () => {})
  request.on('end', () => {
    if (how !== 'dead' || revived) {
      const { createdAt } = JSON.parse(Buffer.concat(parts).toString()) as { createdAt: string }
      const key = `${how}/${name}`
      const book = books.get(key) ?? { count: 0, agesMs: [] }
      books.set(key, book)
      book.count += 1
      book.agesMs.push(at - Date.parse(createdAt))
    }
    answer(how, request, response)
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => {
  process.send?.({ base: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
})

process.on('message', (asked: ReceiverRequest) => {
  const all: Received = { count: 0, agesMs: [] }
  if ('revive' in asked) revived = true
  else
    for (const [key, { count, agesMs }] of books)
      if (key.startsWith(asked.take)) {
        books.delete(key)
        all.count += count
        all.agesMs = all.agesMs.concat(agesMs)
      }
  process.send?.(all)
})
process.on('disconnect', () => process.exit())

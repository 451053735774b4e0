// The consumers of `BENCH_ONLY=events`, in a process of its own: sockets that subscribe, drop and come back with their cursors, sockets that
// count ticks, and sockets that read 1 kB a second.
import { request } from 'node:http'
import type { Socket } from 'node:net'
import { WebSocket } from 'ws'
import { each } from './stage.ts'

/** How a socket subscribes, less its id. */
export type Subscribing = { channel: 'events'; after?: string } | { channel: 'ticks'; assets: string[] }

export type SocketsRequest =
  /** With `note` when each event arrived is noted by its id; for few sockets. */
  | { do: 'open'; address: string; keys: string[]; count: number; subscribe: Subscribing; note?: boolean }
  | { do: 'slow'; address: string; key: string; count: number; after: string }
  /** Takes what has been counted since the last time. */
  | { do: 'take' }
  | { do: 'drop' }
  /** Comes back with the cursors, and waits until each socket has received `events` more. */
  | { do: 'return'; events: number }
  | { do: 'close' }

export interface SocketsAnswer {
  tookMs: number
  /** Sockets that are open. */
  open: number
  /** Events that no socket received though it should have, or out of turn. */
  lost: number
  frames: number
  bytes: number
  /** From the change to the frame, ms. */
  agesMs: number[]
  /** Where it was to be noted: the ids of events, and when each arrived, ms since the epoch with fractions. */
  arrivals: [id: string, at: number][]
}

const AT_ONCE = 100
const PATIENCE_MS = 60_000
const SLOW_BYTES = 1024

interface Consumer {
  address: string
  key: string
  subscribe: Subscribing
  ws: WebSocket | undefined
  cursor: string
  /** Events since it came back. */
  received: number
}

let consumers: Consumer[] = []
const slow: { socket: Socket; timer: NodeJS.Timeout }[] = []
let counted = nothing()
let noting = false
let onEvent = () => {}

function nothing(): Omit<SocketsAnswer, 'tookMs' | 'open'> {
  return { frames: 0, bytes: 0, lost: 0, agesMs: [], arrivals: [] }
}

function receive(consumer: Consumer, data: Buffer): void {
  counted.frames += 1
  counted.bytes += data.length
  if (consumer.subscribe.channel === 'ticks') return
  const message = JSON.parse(data.toString()) as {
    type: string
    cursor: string
    previous: string
    event: { id: string; createdAt: string }
  }
  if (message.type === 'subscribed') consumer.cursor = message.cursor
  if (message.type !== 'event') return
  if (message.previous !== consumer.cursor) counted.lost += 1
  consumer.cursor = message.cursor
  consumer.received += 1
  const now = performance.timeOrigin + performance.now()
  counted.agesMs.push(now - Date.parse(message.event.createdAt))
  if (noting) counted.arrivals.push([message.event.id, now])
  onEvent()
}

async function connect(consumer: Consumer): Promise<void> {
  const { address, key, subscribe, cursor } = consumer
  const ws = new WebSocket(`${address.replace('http', 'ws')}/v1/stream`, {
    headers: { authorization: `Bearer ${key}` },
    perMessageDeflate: false
  })
  consumer.ws = ws
  await new Promise<void>((resolve, reject) => {
    ws.once('error', reject)
    ws.on('message', data => {
      if (ws.readyState === WebSocket.OPEN) receive(consumer, data as Buffer)
      if ((data as Buffer).includes('"subscribed"')) resolve()
    })
    ws.once('open', () =>
      ws.send(JSON.stringify({ type: 'subscribe', id: 'all', ...subscribe, ...(cursor ? { after: cursor } : {}) }))
    )
  })
  ws.on('error', () => {})
}

/** A socket that reads 1 kB a second; `ws` would read all that is there. */
async function connectSlowly({ address, key, after }: { address: string; key: string; after: string }): Promise<void> {
  const socket = await new Promise<Socket>((resolve, reject) => {
    const opening = request(`${address}/v1/stream`, {
      headers: {
        authorization: `Bearer ${key}`,
        connection: 'Upgrade',
        upgrade: 'websocket',
        'sec-websocket-version': '13',
        'sec-websocket-key': 'YmVuY2gtYmVuY2gtYmVuYw=='
      }
    })
    opening.once('upgrade', (_response, upgraded) => resolve(upgraded as Socket))
    opening.once('response', ({ statusCode }) => reject(new Error(`the upgrade was answered with ${statusCode}`)))
    opening.once('error', reject)
    opening.end()
  })
  const text = Buffer.from(JSON.stringify({ type: 'subscribe', id: 'all', channel: 'events', after }))
  // A text frame with a mask of zeros.
  const head = Buffer.from([0x81, 0x80 | 126, text.length >> 8, text.length & 255, 0, 0, 0, 0])
  socket.write(Buffer.concat([head, text]))
  socket.pause()
  socket.on('error', () => {})
  slow.push({ socket, timer: setInterval(() => socket.read(SLOW_BYTES), 1000) })
}

async function serve(asked: SocketsRequest): Promise<void> {
  if (asked.do === 'open') {
    const { address, keys, count, subscribe } = asked
    noting = asked.note === true
    const more = Array.from({ length: count }, (_, index): Consumer => {
      const key = keys[index % keys.length] as string
      return { address, key, subscribe, ws: undefined, cursor: '', received: 0 }
    })
    consumers = consumers.concat(more)
    await each(more, AT_ONCE, connect)
  } else if (asked.do === 'slow') {
    for (let opened = 0; opened < asked.count; opened++) await connectSlowly(asked)
  } else if (asked.do === 'drop') {
    for (const { ws } of consumers) ws?.terminate()
  } else if (asked.do === 'return') {
    for (const consumer of consumers) consumer.received = 0
    let missing = consumers.length * asked.events
    const all = new Promise<void>(resolve => {
      onEvent = () => --missing === 0 && resolve()
      setTimeout(resolve, PATIENCE_MS)
    })
    await each(consumers, AT_ONCE, connect)
    await all
    counted.lost += consumers.reduce((sum, { received }) => sum + Math.abs(asked.events - received), 0)
  } else if (asked.do === 'close') {
    for (const { ws } of consumers) ws?.terminate()
    for (const { socket, timer } of slow.splice(0)) {
      clearInterval(timer)
      socket.destroy()
    }
    consumers = []
  }
}

process.on('message', async (asked: SocketsRequest) => {
  const startedAt = performance.now()
  if (asked.do !== 'take') counted = nothing()
  await serve(asked)
  const open = consumers.filter(({ ws }) => ws?.readyState === WebSocket.OPEN).length
  const answer: SocketsAnswer = { tookMs: performance.now() - startedAt, open, ...counted }
  counted = nothing()
  process.send?.(answer)
})
process.on('disconnect', () => process.exit())

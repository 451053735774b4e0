// The stream of events and prices. The cursor moves only when an event was dealt with, and each event names the one before it:
// one that was lost shows as a gap, and the stream goes on from the cursor. So events come at least once, and none is missed.
import { isTemporary, ServiceError } from './errors.ts'
import type { Schemas } from './types.ts'

export interface StreamOptions {
  /** Called for one event after the other; the next waits for it. An event may come again, under its id. */
  onEvent?: (event: Schemas['Event']) => unknown
  /** Where to go on: what `onCursor` stored last. Without it: from now on. */
  after?: string | undefined
  /** Store the cursor: called after each event was dealt with, and once at the beginning. */
  onCursor?: (cursor: string) => unknown
  /** Events after the cursor are not kept any more: compare your records, return where to go on. Without it: rejects. */
  onExpired?: (kept: { oldest: string; latest: string }) => string | Promise<string>
  types?: Schemas['Event']['type'][]
  traderExternalIds?: string[]
  /** Live prices of these. */
  assets?: string[]
  onTicks?: (ticks: { asset: string; epoch: number; price: number }[]) => unknown
  /** Why a connection ended, or an asset has no prices; for your log. */
  onTrouble?: (reason: string) => void
  signal?: AbortSignal
  /** A connection that is silent for longer is given up; heartbeats come every ten seconds. */
  silenceMs?: number
  /** Rejects when no connection worked for so long; an hour without it. */
  giveUpMs?: number
  /** Opens a socket where the platform's WebSocket is missing or sends no header fields. */
  openSocket?: (url: string, options: { protocols: string[]; headers?: Record<string, string> }) => WebSocket
}

interface Source {
  url: string
  headers?: Record<string, string>
  ticket?: () => string | Promise<string>
  /** Throws why the service refuses the key. */
  check?: () => Promise<unknown>
}

/** The stream in a browser; `ticket` gets a new one from your server (POST /v1/stream/tickets) for each connection. */
export const openStream = (options: StreamOptions & { url: string; ticket: () => string | Promise<string> }) =>
  consume(options)

// Frames that wait for a slow callback; beyond it the socket is closed, and the rest comes from the log, later.
const MOST_WAITING = 1000
const ID = 'events'
// Servers' platforms take an object with header fields, browsers only the protocols.
const platformSocket: NonNullable<StreamOptions['openSocket']> = (url, options) =>
  new WebSocket(url, options.headers ? (options as unknown as string[]) : options.protocols)

// biome-ignore lint/suspicious/noExplicitAny: a frame has the fields of its type
type Frame = { type: string; [name: string]: any }
type End = { reason: string; pauseMs?: number }

/** Reads a stream until the signal aborts; reconnects as long as that can help. */
export async function consume(options: StreamOptions & Source): Promise<void> {
  const { onEvent, assets, signal, types, traderExternalIds, giveUpMs = 3_600_000, check } = options
  let cursor = options.after
  let workedAt = performance.now()
  let pauseMs = 250

  const store = async (next: string) => {
    if (next !== cursor) await options.onCursor?.(next)
    cursor = next
  }

  function subscribe(socket: WebSocket): void {
    const send = (message: object) => socket.send(JSON.stringify({ type: 'subscribe', ...message }))
    if (onEvent) send({ id: ID, channel: 'events', after: cursor, types, traderExternalIds })
    if (assets) send({ id: 'ticks', channel: 'ticks', assets })
  }

  async function connection(): Promise<End> {
    let ticket: string | undefined
    try {
      ticket = await options.ticket?.()
    } catch (error) {
      return { reason: `there was no ticket: ${error}` }
    }
    if (signal?.aborted) return { reason: 'aborted' }
    const protocols = ['service.v1', ...(ticket ? [`ticket.${ticket}`] : [])]
    const url = `${options.url.replace(/^http/, 'ws').replace(/\/+$/, '')}/v1/stream`
    const headers = options.headers ? { headers: options.headers } : {}
    const socket = (options.openSocket ?? platformSocket)(url, { protocols, ...headers })
    const end: End = { reason: '' }
    let seen: string | undefined
    let greeted = false
    for await (const frame of frames(socket, end, options)) {
      const { type, id, error } = frame
      if (type === 'hello') subscribe(socket)
      greeted = true
      if (type === 'subscribed' && id === ID) {
        seen = frame.cursor
        await store(frame.cursor)
      }
      if (type === 'event') {
        if (frame.previous !== seen) return { reason: `a gap before ${frame.event.id}` }
        await onEvent?.(frame.event)
        seen = frame.cursor
        await store(frame.cursor)
      }
      const reported = type === 'heartbeat' && frame.subscriptions.find((each: Frame) => each.id === ID)
      if (reported && reported.cursor !== seen) return { reason: 'a gap before a heartbeat' }
      if (reported?.resume) await store(reported.resume)
      if (type === 'ticks') await options.onTicks?.(frame.data)
      if (type === 'closing') end.pauseMs = frame.reconnectAfterMs
      if (type === 'event' || type === 'heartbeat') {
        workedAt = performance.now()
        pauseMs = 250
      }
      if (type !== 'error') continue
      if (error === 'CURSOR_EXPIRED' && options.onExpired) await store(await options.onExpired(frame as never))
      else if (error !== 'UNAVAILABLE' && id === ID) throw new ServiceError(error, frame as never)
      if (id === ID) return { reason: frame.message }
      options.onTrouble?.(frame.message)
    }
    // A refused socket carries no reason; a call returns it.
    if (!greeted || /^closed with 440[23]/.test(end.reason)) await check?.()
    return end
  }

  while (!signal?.aborted) {
    const end = await connection().catch((error: unknown): End => {
      if (signal?.aborted || (error instanceof ServiceError && isTemporary(error, true))) return { reason: `${error}` }
      throw error
    })
    if (signal?.aborted) return
    options.onTrouble?.(end.reason)
    if (performance.now() - workedAt > giveUpMs) throw new ServiceError('NO_ANSWER', { message: end.reason })
    await pause(end.pauseMs ?? pauseMs * (0.5 + Math.random()), signal).catch(() => {})
    pauseMs = Math.min(10_000, 2 * pauseMs)
  }
}

/** The frames of a socket until it ends, fails, is silent, or the signal aborts; `end` gets the reason. */
async function* frames(
  socket: WebSocket,
  end: End,
  { signal, silenceMs = 25_000 }: StreamOptions
): AsyncGenerator<Frame> {
  const waiting: Frame[] = []
  let wake = () => {}
  const stop = (reason: string) => {
    end.reason ||= reason
    socket.close()
    wake()
  }
  const aborted = () => stop('aborted')
  const silent = () => stop(`silent for ${silenceMs} ms`)
  let timer = setTimeout(silent, silenceMs)
  signal?.addEventListener('abort', aborted)
  socket.onmessage = ({ data }) => {
    clearTimeout(timer)
    timer = setTimeout(silent, silenceMs)
    let frame: Frame | undefined
    try {
      frame = JSON.parse(String(data))
    } catch {}
    if (typeof frame?.type !== 'string') stop("a frame that is not the service's")
    else if (end.reason === '') waiting.push(frame)
    if (waiting.length > MOST_WAITING) stop('the callbacks are slower than the stream')
    wake()
  }
  socket.onclose = ({ code, reason }) => stop(`closed with ${code} ${reason}`)
  socket.onerror = () => stop('the connection failed')
  try {
    for (;;) {
      for (let frame = waiting.shift(); frame && !signal?.aborted; frame = waiting.shift()) yield frame
      if (end.reason !== '') return
      await new Promise<void>(resolve => {
        wake = resolve
      })
    }
  } finally {
    clearTimeout(timer)
    signal?.removeEventListener('abort', aborted)
    socket.close()
  }
}

/** Resolves after `ms`; rejects when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      return signal?.aborted ? reject(signal.reason) : resolve()
    }
    const timer = setTimeout(end, signal?.aborted ? 0 : ms)
    signal?.addEventListener('abort', end)
  })
}

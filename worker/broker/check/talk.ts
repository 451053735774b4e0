// A connection for the check: each dialect's way to a socket of the account, and calls that also resolve with a
// refusal.
import { unknowns } from '../dialects/next-unknowns.ts'
import type { Body } from '../dialects/reading.ts'
import type { Frame } from '../transport/streams.ts'
import type { Report } from './report.ts'

export interface CheckTarget {
  dialect: 'v3' | 'next'
  /** v3: the WebSocket address; next: the REST base. */
  url: string
  appIdHeader: string
  appId: string
  accountId: string
  token: string
}

export interface CheckReply {
  frame: Frame
  error: { code: string; subcode?: string; message: string; code_args?: unknown[] } | null
}

const TIMEOUT_MS = 20_000
const MAX_UPDATES = 2_000

export class Talk {
  /** Every frame that is no response to a call, and the responses of subscriptions. */
  readonly updates: { at: number; frame: Frame }[] = []
  readonly #socket: WebSocketLike
  readonly #waiting = new Map<number, (frame: Frame) => void>()
  #last = 0
  #listeners = new Set<() => void>()

  private constructor(socket: WebSocketLike) {
    this.#socket = socket
    socket.addEventListener('message', event => this.#take(String(event.data)))
  }

  /** Opens a socket at an address; rejects when it is refused. */
  static open(address: string): Promise<Talk> {
    const socket = new WebSocket(address)
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error('the socket did not open in time')), TIMEOUT_MS)
      socket.addEventListener('open', () => {
        clearTimeout(timer)
        resolve(new Talk(socket as unknown as WebSocketLike))
      })
      socket.addEventListener('error', () => {
        clearTimeout(timer)
        reject(new Error('the socket was refused'))
      })
    })
  }

  /** One call; resolves with its first response. Rejects when there is none in 20 s. */
  call(request: Body): Promise<CheckReply> {
    const reqId = ++this.#last
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(reqId)
        reject(new Error(`${Object.keys(request)[0]} got no response within ${TIMEOUT_MS / 1000} s`))
      }, TIMEOUT_MS)
      this.#waiting.set(reqId, frame => {
        clearTimeout(timer)
        resolve({ frame, error: (frame.error as CheckReply['error']) ?? null })
      })
      this.#socket.send(JSON.stringify({ ...request, req_id: reqId }))
    })
  }

  /** Waits for an update that fits, of those that have come and will; null after `withinMs`. */
  async until(fits: (frame: Frame) => boolean, withinMs: number): Promise<{ at: number; frame: Frame } | null> {
    const deadline = Date.now() + withinMs
    for (;;) {
      const found = this.updates.find(({ frame }) => fits(frame))
      if (found) return found
      const leftMs = deadline - Date.now()
      if (leftMs <= 0) return null
      await new Promise<void>(resolve => {
        const done = () => {
          clearTimeout(timer)
          this.#listeners.delete(done)
          resolve()
        }
        const timer = setTimeout(done, leftMs)
        this.#listeners.add(done)
      })
    }
  }

  close(): void {
    this.#socket.close()
  }

  #take(text: string): void {
    const frame = JSON.parse(text) as Frame
    const reqId = typeof frame.req_id === 'number' ? frame.req_id : 0
    const waiting = this.#waiting.get(reqId)
    this.#waiting.delete(reqId)
    waiting?.(frame)
    if (this.updates.length < MAX_UPDATES) this.updates.push({ at: Date.now(), frame })
    for (const listener of [...this.#listeners]) listener()
  }
}

interface WebSocketLike {
  send(text: string): void
  close(): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
}

/** The address of the account's socket, by REST, in the newer dialect; with the status where it is refused. */
export async function requestAddress(
  target: CheckTarget,
  report: Report
): Promise<{ status: number; address: string | null }> {
  const { status, body } = await rest(target, 'POST', `/accounts/${target.accountId}/otp`)
  const address = (body as { data?: { url?: unknown } } | null)?.data?.url
  if (typeof address !== 'string') return { status, address: null }
  report.hide(new URL(address).searchParams.get('otp') ?? undefined)
  return { status, address }
}

/** One REST call of the newer dialect. */
export async function rest(
  { url, appIdHeader, appId, token }: CheckTarget,
  method: 'GET' | 'POST',
  path: string
): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`${url}/trading/v1/options${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, [appIdHeader]: appId },
    redirect: 'error',
    signal: AbortSignal.timeout(unknowns.restTimeoutMs)
  })
  const text = await response.text()
  try {
    return { status: response.status, body: JSON.parse(text) }
  } catch {
    // No JSON: the status is what there is.
    return { status: response.status, body: null }
  }
}

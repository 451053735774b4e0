// A bare conversation with a broker of the first dialect: what was sent, what came, and waiting for it. Every
// response that is no error is checked with the broker's own schemas, where the shared folder has them.
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ValidateFunction } from 'ajv'
import draft04 from 'ajv-draft-04'
import { WebSocket } from 'ws'
import { stretched } from '../support/busy.ts'

// biome-ignore lint/suspicious/noExplicitAny: frames are read as the wire has them
export type SocketFrame = Record<string, any>

const WAIT_MS = 10_000

/** The folder of the broker's schemas, or null where this machine has none. */
export const schemaDir = findSchemas()

function findSchemas(): string | null {
  const shared = process.env.SHARED_DIR ?? resolve(import.meta.dirname, '../../../shared')
  const dir = join(shared, 'broker-api/v3')
  return existsSync(dir) ? dir : null
}

/** One of a call's files: send, receive or example. */
export function readSchema(call: string, file: 'send' | 'receive' | 'example'): SocketFrame {
  return JSON.parse(readFileSync(join(schemaDir as string, call, `${file}.json`), 'utf8'))
}

const ajv = new draft04.default({ strict: false, allErrors: true })
const checks = new Map<string, ValidateFunction>()

/** The broker's own check of a call's request or response. */
export function schemaCheck(call: string, file: 'send' | 'receive'): ValidateFunction {
  const key = `${call} ${file}`
  const check = checks.get(key) ?? ajv.compile(readSchema(call, file))
  checks.set(key, check)
  return check
}

/** The call whose response a frame is. */
function callOf(frame: SocketFrame): string {
  if (frame.msg_type === 'tick' && frame.echo_req.ticks_history === undefined) return 'ticks'
  const history = ['history', 'candles', 'ohlc', 'tick'].includes(frame.msg_type)
  return history ? 'ticks_history' : frame.msg_type
}

export class BrokerSocket {
  readonly frames: SocketFrame[] = []
  /** Frames that broke their schema, with what is wrong. */
  readonly broken: string[] = []
  closed = false
  #ws: WebSocket
  #nextId = 1
  #wake = new Set<() => void>()

  private constructor(ws: WebSocket) {
    this.#ws = ws
    ws.on('message', data => this.#take(String(data)))
    ws.on('error', () => {})
    ws.on('close', () => {
      this.closed = true
      this.#stir()
    })
  }

  /** Connects; rejects when the broker refuses. */
  static async open(url: string, query = 'app_id=1&l=EN'): Promise<BrokerSocket> {
    const ws = new WebSocket(`${url}?${query}`)
    const socket = new BrokerSocket(ws)
    await new Promise((done, fail) => {
      ws.once('open', done)
      ws.once('error', fail)
    })
    return socket
  }

  /** Connects and authorises with one token. */
  static async authorised(url: string, token: string, query?: string): Promise<BrokerSocket> {
    const socket = await BrokerSocket.open(url, query)
    const { error } = await socket.call({ authorize: token })
    if (error) throw new Error(`${error.code}: ${error.message}`)
    return socket
  }

  /** Sends a frame and does not wait. */
  send(request: SocketFrame | string): void {
    this.#ws.send(typeof request === 'string' ? request : JSON.stringify(request))
  }

  /** Sends a request and waits for its first response. */
  call(request: SocketFrame): Promise<SocketFrame> {
    const req_id = this.#nextId++
    this.send({ ...request, req_id })
    return this.until(frame => frame.req_id === req_id)
  }

  /** The first frame, from now on or before, that fits. */
  async until(fits: (frame: SocketFrame) => boolean): Promise<SocketFrame> {
    let found: SocketFrame | undefined
    await this.eventually(() => {
      found = this.frames.find(fits)
      return found !== undefined || this.closed
    })
    if (!found) throw new Error('The connection was closed before the frame came')
    return found
  }

  /** Waits until something holds, checked after every frame. */
  async eventually(holds: () => boolean): Promise<void> {
    const late = sleep(stretched(WAIT_MS), 'late', { ref: false })
    while (!holds()) {
      const woken = new Promise<string>(done => this.#wake.add(() => done('woken')))
      if ((await Promise.race([woken, late])) === 'late') {
        throw new Error(`Nothing of the kind within ${WAIT_MS} ms; last: ${JSON.stringify(this.frames.slice(-3))}`)
      }
    }
  }

  close(): void {
    this.#ws.terminate()
  }

  #take(text: string): void {
    const frame = JSON.parse(text) as SocketFrame
    this.frames.push(frame)
    if (schemaDir !== null && !frame.error) {
      const check = schemaCheck(callOf(frame), 'receive')
      if (!check(frame)) this.broken.push(`${ajv.errorsText(check.errors)} in ${text.slice(0, 300)}`)
    }
    this.#stir()
  }

  #stir(): void {
    const woken = [...this.#wake]
    this.#wake.clear()
    for (const wake of woken) wake()
  }
}

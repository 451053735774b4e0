// One socket of the stream: its messages, its subscriptions and its bounds.
import { randomBytes } from 'node:crypto'
import type { WebSocket } from 'ws'
import { readCursor, writeCursor } from '../../../db/events/cursor.ts'
import { type LogState, readLogState } from '../../../db/events/read.ts'
import { violations } from '../../../schemas/checks/validator.ts'
import type { Schema } from '../../../schemas/fields/fields.ts'
import type { Scope } from '../../../schemas/fields/scopes.ts'
import { fromClient, Grammar, HEARTBEAT_SECONDS, type Subscribe, streamLimits } from '../../../schemas/stream.ts'
import { Subscription } from './subscription.ts'
import type { Tail, TailOpen } from './tail.ts'

// Written and not yet taken by the socket: beyond it subscriptions wait.
const FULL_BYTES = 256 * 1024
const FIRST_SUBSCRIPTION_MS = 10_000
const STALLED_MS = 60_000

/** Whose socket it is. */
export interface Holder {
  keyId: string
  partnerId: string
  scopes: readonly Scope[]
  /** Of a ticket: the only trader, and what it may subscribe to. */
  ticket?: { traderExternalId: string; channels: readonly string[] }
}

type ErrorName =
  | 'VALIDATION_FAILED'
  | 'CURSOR_EXPIRED'
  | 'CONFLICT'
  | 'INSUFFICIENT_SCOPE'
  | 'LIMIT_REACHED'
  | 'UNAVAILABLE'

export class StreamSocket {
  readonly holder: Holder
  readonly #ws: WebSocket
  readonly #open: TailOpen
  readonly #tail: Tail
  readonly #subscriptions = new Map<string, Subscription>()
  /** Ids of subscriptions that are being made. */
  readonly #coming = new Set<string>()
  readonly #openedAt = performance.now()
  #beatAt = performance.now()
  #progressAt = performance.now()
  #waiting: (() => void)[] = []
  #subscribed = false
  #second = 0
  #messages = 0

  constructor(open: TailOpen, ws: WebSocket, { holder, tail }: { holder: Holder; tail: Tail }) {
    this.#open = open
    this.#ws = ws
    this.#tail = tail
    this.holder = holder
    ws.on('message', (data, isBinary) => this.#receive(data as Buffer, isBinary))
    ws.on('error', () => {})
    this.#say({
      type: 'hello',
      connectionId: randomBytes(8).toString('hex'),
      heartbeatSeconds: HEARTBEAT_SECONDS,
      limits: streamLimits
    })
  }

  get closed(): boolean {
    return this.#ws.readyState !== this.#ws.OPEN
  }

  /** Sends a frame; false when the socket has enough to take for now. */
  send(frame: string): boolean {
    if (this.closed) return false
    this.#ws.send(frame, () => this.#progress())
    return this.#ws.bufferedAmount < FULL_BYTES
  }

  drained(): Promise<void> {
    if (this.closed || this.#ws.bufferedAmount < FULL_BYTES) return Promise.resolve()
    return new Promise(resolve => this.#waiting.push(resolve))
  }

  /** Called about every second: heartbeats, and the ends of sockets that do nothing. */
  tick(now: number): void {
    if (this.closed) return
    if (!this.#subscribed && now - this.#openedAt > FIRST_SUBSCRIPTION_MS) {
      this.close(4408, 'no subscription within 10 s')
      return
    }
    if (this.#ws.bufferedAmount === 0) this.#progressAt = now
    else if (now - this.#progressAt > STALLED_MS) {
      this.close(4408, 'nothing was read for 60 s')
      // Whoever reads nothing does not read the close either.
      this.#ws.terminate()
      return
    }
    if (now - this.#beatAt < HEARTBEAT_SECONDS * 1000 - 500) return
    this.#beatAt = now
    // A socket that does not take what it has gets no more.
    if (this.#ws.bufferedAmount >= FULL_BYTES) return
    this.#say({
      type: 'heartbeat',
      at: new Date().toISOString(),
      subscriptions: [...this.#subscriptions].map(([id, { cursor }]) => ({ id, cursor })),
      ...(this.holder.ticket ? {} : { latest: this.#tail.state.latest.position })
    })
  }

  /** Tells that the service stops, and closes. */
  stop(reconnectAfterMs: number): void {
    this.#say({ type: 'closing', reason: 'the service restarts', reconnectAfterMs })
    this.close(1012, 'the service restarts')
  }

  /** Ends it at once; for who does not close in time. */
  terminate(): void {
    this.#ws.terminate()
  }

  close(code: number, reason: string): void {
    this.#ws.close(code, reason)
    this.ended()
  }

  /** The socket is gone: nothing is sent any more. */
  ended(): void {
    for (const subscription of this.#subscriptions.values()) subscription.end()
    this.#subscriptions.clear()
    this.#wake()
  }

  #progress(): void {
    this.#progressAt = performance.now()
    if (this.#waiting.length > 0 && (this.closed || this.#ws.bufferedAmount < FULL_BYTES / 2)) this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  #say(message: object): void {
    this.send(JSON.stringify(message))
  }

  #fail(id: string, error: ErrorName, message: string, state?: LogState): void {
    const kept = state && { oldest: this.#text(state.oldest), latest: this.#text(state.latest) }
    this.#say({ type: 'error', id, error, message, ...kept })
  }

  #text(point: LogState['latest']): string {
    return writeCursor(this.#open.pepper, this.holder.partnerId, point)
  }

  #receive(data: Buffer, isBinary: boolean): void {
    if (this.closed) return
    const second = Math.floor(performance.now() / 1000)
    if (second !== this.#second) this.#messages = 0
    this.#second = second
    this.#messages += 1
    if (this.#messages > streamLimits.messagesPerSecond) {
      this.close(4429, 'more than 20 messages in a second')
      return
    }
    const message = isBinary ? undefined : parsed(data)
    const [broken] = message === undefined ? [{ path: '', message: 'is not JSON' }] : violations(Grammar, message)
    if (broken) this.close(4400, `${broken.path} ${broken.message}`.trim().slice(0, 120))
    else this.#handle(message as { type: string; id: string })
  }

  #handle(message: { type: string; id: string }): void {
    const { type, id } = message
    const [wrong] = violations(fromClient[type] as Schema, message)
    if (wrong) this.#fail(id, 'VALIDATION_FAILED', `${wrong.path} ${wrong.message}`)
    else if (type === 'ping') this.#say({ type: 'pong', id })
    else if (type === 'unsubscribe') this.#unsubscribe(id)
    else if (this.#coming.has(id) || this.#subscriptions.has(id))
      this.#fail(id, 'CONFLICT', `The id ${id} is in use on this socket.`)
    else
      this.#subscribe(message as Subscribe).catch((error: unknown) => {
        this.#coming.delete(id)
        this.#open.log.warn({ err: error }, 'a subscription could not be made')
        this.#fail(id, 'UNAVAILABLE', 'The subscription cannot be made right now; try again shortly.')
      })
  }

  #unsubscribe(id: string): void {
    const subscription = this.#subscriptions.get(id)
    subscription?.end()
    if (!this.#subscriptions.delete(id)) this.#fail(id, 'VALIDATION_FAILED', `There is no subscription ${id}.`)
  }

  async #subscribe({ id, channel, after, types, traderExternalIds }: Subscribe): Promise<void> {
    const { ticket, partnerId, scopes } = this.holder
    if (ticket ? !ticket.channels.includes(channel) : !scopes.includes('events:read'))
      return this.#fail(id, 'INSUFFICIENT_SCOPE', `This socket may not subscribe to ${channel}.`)
    if (this.#subscriptions.size + this.#coming.size >= streamLimits.subscriptions)
      return this.#fail(id, 'LIMIT_REACHED', `A socket has at most ${streamLimits.subscriptions} subscriptions.`)
    if (ticket && traderExternalIds?.some(trader => trader !== ticket.traderExternalId))
      return this.#fail(id, 'INSUFFICIENT_SCOPE', 'The ticket is for one trader alone.')
    const point = after === undefined ? undefined : readCursor(this.#open.pepper, partnerId, after)
    if (after !== undefined && !point) return this.#fail(id, 'VALIDATION_FAILED', '/after is not a cursor of events')
    if (point) {
      this.#coming.add(id)
      const state = await readLogState(this.#open.db, partnerId)
      this.#coming.delete(id)
      const { epoch, oldest, latest } = state
      if (point.epoch !== epoch || point.position < oldest.position || point.position > latest.position)
        return this.#fail(id, 'CURSOR_EXPIRED', 'Events after this cursor are not kept any more.', state)
    }
    if (this.closed) return
    const subscription = new Subscription({
      id,
      partnerId,
      placed: ticket === undefined,
      types,
      traders: ticket ? [ticket.traderExternalId] : traderExternalIds,
      after: point,
      open: this.#open,
      tail: this.#tail,
      outlet: this,
      expired: state => {
        this.#subscriptions.delete(id)
        this.#fail(id, 'CURSOR_EXPIRED', 'Events after this cursor are not kept any more.', state)
      }
    })
    this.#subscriptions.set(id, subscription)
    this.#subscribed = true
    // From here on the subscription's position says what was sent: whatever is after it will be.
    this.#say({ type: 'subscribed', id, channel, cursor: subscription.cursor })
    subscription.start()
  }
}

function parsed(data: Buffer): unknown {
  try {
    return JSON.parse(data.toString('utf8'))
  } catch {
    return undefined
  }
}

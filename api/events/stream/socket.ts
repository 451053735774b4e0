// One socket of the stream: its messages, its subscriptions and its bounds.
import { randomBytes } from 'node:crypto'
import type { WebSocket } from 'ws'
import { type Point, readCursor, writeCursor, writeHiddenCursor } from '../../../db/events/cursor.ts'
import { type LogState, readLogState } from '../../../db/events/read.ts'
import { violations } from '../../../schemas/checks/validator.ts'
import type { Scope } from '../../../schemas/fields/scopes.ts'
import {
  type Channel,
  channelScopes,
  Grammar,
  HEARTBEAT_SECONDS,
  type Subscribe,
  type SubscribeTicks,
  schemaOf,
  streamLimits
} from '../../../schemas/stream.ts'
import { Subscription } from './subscription.ts'
import type { PartnerTail, TailServices } from './tail.ts'
import type { TickMember, TickOutlet, Ticks } from './ticks.ts'

// Written and not yet taken by the socket: beyond it subscriptions wait.
const FULL_BYTES = 256 * 1024
// Ticks are of no use when they are old: beyond this only the newest are sent, later.
const TICKS_FULL_BYTES = 16 * 1024
const FIRST_SUBSCRIPTION_MS = 10_000
const STALLED_MS = 60_000

/** The holder of a socket. */
export interface SocketHolder {
  keyId: string
  partnerId: string
  scopes: readonly Scope[]
  brokerDialect: string
  brokerAppId: string
  /** For a ticket: the only trader, and what the socket may subscribe to; `assets` null means any. */
  ticket?: {
    traderId: string
    traderExternalId: string
    channels: readonly string[]
    assets: readonly string[] | null
  }
}

interface TickSubscription {
  assets: ReadonlySet<string>
  /** Assets of which the client knows that the broker does not have them. */
  unknown: Set<string>
}

type ErrorName =
  | 'VALIDATION_FAILED'
  | 'CURSOR_EXPIRED'
  | 'CONFLICT'
  | 'INSUFFICIENT_SCOPE'
  | 'LIMIT_REACHED'
  | 'UNAVAILABLE'

export class StreamSocket implements TickOutlet {
  readonly holder: SocketHolder
  readonly #ws: WebSocket
  readonly #open: TailServices
  readonly #tail: PartnerTail
  readonly #subscriptions = new Map<string, Subscription>()
  readonly #tickSubscriptions = new Map<string, TickSubscription>()
  readonly #ticks: Ticks
  #tickMember: TickMember | undefined
  /** Subscriptions that are being opened, by id. Meanwhile one may be given up and its id used again. */
  readonly #coming = new Map<string, Subscribe>()
  readonly #openedAt = performance.now()
  #beatAt = performance.now()
  #progressAt = performance.now()
  #waiting: (() => void)[] = []
  #subscribed = false
  #second = 0
  #messages = 0

  constructor(
    services: TailServices,
    ws: WebSocket,
    { holder, tail, ticks }: { holder: SocketHolder; tail: PartnerTail; ticks: Ticks }
  ) {
    this.#open = services
    this.#ticks = ticks
    this.#ws = ws
    this.#tail = tail
    this.holder = holder
    ws.on('message', (data, isBinary) => this.#receive(data as Buffer, isBinary))
    ws.on('error', () => {})
    this.#sendMessage({
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
    this.#ws.send(frame, this.#sent)
    return this.#ws.bufferedAmount < FULL_BYTES
  }

  sendTicks(frame: Buffer): void {
    if (!this.closed) this.#ws.send(frame, { binary: false }, this.#sent)
  }

  get crowded(): boolean {
    return this.#ws.bufferedAmount >= TICKS_FULL_BYTES
  }

  unknownAsset(asset: string): void {
    for (const [id, { assets, unknown }] of this.#tickSubscriptions) {
      if (!assets.has(asset) || unknown.has(asset)) continue
      unknown.add(asset)
      this.#fail(id, 'VALIDATION_FAILED', `The broker has no ticks of ${asset}.`)
    }
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
      // A peer that reads nothing does not read the close either.
      this.#ws.terminate()
      return
    }
    if (now - this.#beatAt < HEARTBEAT_SECONDS * 1000 - 500) return
    this.#beatAt = now
    // A socket that does not take what it has gets no more.
    if (this.#ws.bufferedAmount >= FULL_BYTES) return
    this.#sendMessage({
      type: 'heartbeat',
      at: new Date().toISOString(),
      subscriptions: [...this.#subscriptions].map(([id, { cursor, resume }]) => ({ id, cursor, resume })),
      ...(this.holder.ticket ? {} : { latest: this.#tail.state.latest.position })
    })
  }

  /** Notifies the client that the service stops, and closes. */
  stop(reconnectAfterMs: number): void {
    this.#sendMessage({ type: 'closing', reason: 'the service restarts', reconnectAfterMs })
    this.close(1012, 'the service restarts')
  }

  /** Ends it at once, for a client that does not close in time. */
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
    this.#coming.clear()
    this.#tickSubscriptions.clear()
    this.#tickMember?.end()
    this.#tickMember = undefined
    this.#wake()
  }

  readonly #sent = (): void => {
    this.#progressAt = performance.now()
    if (!this.crowded) this.#tickMember?.drained()
    if (this.#waiting.length > 0 && (this.closed || this.#ws.bufferedAmount < FULL_BYTES / 2)) this.#wake()
  }

  #wake(): void {
    const waiting = this.#waiting
    this.#waiting = []
    for (const resolve of waiting) resolve()
  }

  #sendMessage(message: object): void {
    this.send(JSON.stringify(message))
  }

  #fail(id: string, error: ErrorName, message: string, state?: LogState): void {
    const kept = state && { oldest: this.#text(state.oldest), latest: this.#text(state.latest) }
    this.#sendMessage({ type: 'error', id, error, message, ...kept })
  }

  #text(point: Point): string {
    const { partnerId, ticket } = this.holder
    return (ticket ? writeHiddenCursor : writeCursor)(this.#open.pepper, partnerId, point)
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

  #handle(message: { type: string; id: string; channel?: unknown }): void {
    const { type, id } = message
    const schema = schemaOf(message)
    const [wrong] = schema ? violations(schema, message) : [{ path: '/channel', message: 'must be events or ticks' }]
    if (wrong) this.#fail(id, 'VALIDATION_FAILED', `${wrong.path} ${wrong.message}`)
    else if (type === 'ping') this.#sendMessage({ type: 'pong', id })
    else if (type === 'unsubscribe') this.#unsubscribe(id)
    else if (this.#coming.has(id) || this.#subscriptions.has(id) || this.#tickSubscriptions.has(id))
      this.#fail(id, 'CONFLICT', `The id ${id} is in use on this socket.`)
    else if (!this.#allows(message as Subscribe | SubscribeTicks)) return
    else if (message.channel === 'ticks') this.#subscribeTicks(message as SubscribeTicks)
    else void this.#subscribe(message as Subscribe)
  }

  #unsubscribe(id: string): void {
    const subscription = this.#subscriptions.get(id)
    subscription?.end()
    if (this.#tickSubscriptions.delete(id)) this.#wantTicks()
    else if (!this.#subscriptions.delete(id) && !this.#coming.delete(id))
      this.#fail(id, 'VALIDATION_FAILED', `There is no subscription ${id}.`)
  }

  /** Whether the socket may have one more subscription, to this channel. */
  #allows({ id, channel }: { id: string; channel: Channel }): boolean {
    const { ticket, scopes } = this.holder
    const count = this.#subscriptions.size + this.#tickSubscriptions.size + this.#coming.size
    if (ticket ? !ticket.channels.includes(channel) : !scopes.includes(channelScopes[channel]))
      this.#fail(id, 'INSUFFICIENT_SCOPE', `This socket may not subscribe to ${channel}.`)
    else if (count >= streamLimits.subscriptions)
      this.#fail(id, 'LIMIT_REACHED', `A socket has at most ${streamLimits.subscriptions} subscriptions.`)
    else return true
    return false
  }

  #subscribeTicks({ id, channel, assets }: SubscribeTicks): void {
    const { ticket } = this.holder
    const barred = ticket?.assets && assets.find(asset => !ticket.assets?.includes(asset))
    const tooMany = new Set([...this.#wantedAssets(), ...assets]).size > streamLimits.assets
    if (barred) this.#fail(id, 'INSUFFICIENT_SCOPE', `The ticket is not for ${barred}.`)
    else if (tooMany) this.#fail(id, 'LIMIT_REACHED', `A socket has at most ${streamLimits.assets} assets.`)
    else {
      this.#tickSubscriptions.set(id, { assets: new Set(assets), unknown: new Set() })
      this.#subscribed = true
      this.#sendMessage({ type: 'subscribed', id, channel })
      this.#wantTicks()
    }
  }

  #wantedAssets(): Set<string> {
    return new Set([...this.#tickSubscriptions.values()].flatMap(({ assets }) => [...assets]))
  }

  #wantTicks(): void {
    this.#tickMember ??= this.#ticks.join(this.holder, this)
    this.#tickMember.want(this.#wantedAssets())
  }

  #tooManyTraders(more: readonly string[]): boolean {
    const named = [...this.#subscriptions.values()].flatMap(({ traders }) => [...(traders ?? [])])
    const coming = [...this.#coming.values()].flatMap(({ traderExternalIds = [] }) => [...traderExternalIds])
    return new Set([...named, ...coming, ...more]).size > streamLimits.traders
  }

  async #subscribe(message: Subscribe): Promise<void> {
    const { id, after, traderExternalIds } = message
    const { ticket, partnerId } = this.holder
    if (ticket && traderExternalIds?.some(trader => trader !== ticket.traderExternalId))
      return this.#fail(id, 'INSUFFICIENT_SCOPE', 'The ticket is for one trader alone.')
    if (traderExternalIds && this.#tooManyTraders(traderExternalIds))
      return this.#fail(
        id,
        'LIMIT_REACHED',
        `The subscriptions of a socket name at most ${streamLimits.traders} traders.`
      )
    const point = after === undefined ? undefined : readCursor(this.#open.pepper, partnerId, after)
    if (after !== undefined && !point) return this.#fail(id, 'VALIDATION_FAILED', '/after is not a cursor of events')
    if (!point || this.#tail.covers(point)) return this.#begin(message, point)
    this.#coming.set(id, message)
    const state = await readLogState(this.#open.db, partnerId).catch((error: unknown) => {
      this.#open.log.warn({ err: error }, 'a subscription could not be made')
      return undefined
    })
    // Given up meanwhile, by an unsubscribe or with the socket.
    if (this.#coming.get(id) !== message) return
    this.#coming.delete(id)
    if (!state) return this.#fail(id, 'UNAVAILABLE', 'The subscription cannot be made right now; try again shortly.')
    const { epoch, oldest, latest } = state
    if (point.epoch !== epoch || point.position < oldest.position || point.position > latest.position)
      return this.#fail(id, 'CURSOR_EXPIRED', 'Events after this cursor are not kept any more.', state)
    this.#begin(message, point)
  }

  #begin({ id, channel, types, traderExternalIds, after: text }: Subscribe, point: Point | undefined): void {
    const { ticket, partnerId } = this.holder
    const subscription = new Subscription({
      id,
      partnerId,
      placed: ticket === undefined,
      types,
      traders: ticket ? [ticket.traderExternalId] : traderExternalIds,
      after: point && text !== undefined ? { point, text } : undefined,
      cursorOf: point => this.#text(point),
      services: this.#open,
      tail: this.#tail,
      outlet: this,
      expired: state => {
        this.#subscriptions.delete(id)
        this.#fail(id, 'CURSOR_EXPIRED', 'Events after this cursor are not kept any more.', state)
      }
    })
    this.#subscriptions.set(id, subscription)
    this.#subscribed = true
    // From here on the subscription sends everything after its position.
    this.#sendMessage({ type: 'subscribed', id, channel, cursor: subscription.cursor })
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

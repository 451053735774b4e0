// One WebSocket to the broker: numbers the calls, hands each response to its call, each update to its stream, and ends
// every call one way or another. Knows frames, but no call's meaning.
import type { Socket } from 'node:net'
import WebSocket from 'ws'
import { BrokerError } from '../broker-error.ts'
import { isAppRefused, readRefusal, refused } from '../dialects/errors.ts'
import { parseJson } from '../dialects/reading.ts'
import type { BrokerLog } from '../port.ts'
import { type CallOptions, Calls, disconnected, noResponse, type PendingCall, unsent } from './calls.ts'
import { ConnectionPace } from './connection-pace.ts'
import { type ForgetBudget, Forgetting } from './forgetting.ts'
import { breakOff, type OpenSocket, openSocket } from './opening.ts'
import type { Reachability } from './reachability.ts'
import { type Frame, type Stream, Streams, subscriptionOf } from './streams.ts'
import type { TakeOptions } from './waiting-calls.ts'

export type { CallOptions, Frame, Stream }

export interface ConnectionOptions {
  url: string
  connectTimeoutMs: number
  /** How often to ping the broker (30 s), and how long it may take to respond (5 s). */
  pingEveryMs?: number
  pongWithinMs?: number
  /** How many calls the broker takes on one connection in a second; without it, any number. */
  callsPerSecond?: number | undefined
  log: BrokerLog
  counters: FrameCounters
  /** The budget of the calls that end subscriptions; without one they are not limited. */
  forgetBudget?: ForgetBudget
  /** Notes what is sent, and whether anything arrives. */
  reachability?: Pick<Reachability, 'sent' | 'ended' | 'received' | 'unanswered'>
  /** Called once when the socket is gone, after every pending call has ended. */
  onClose: (cause: BrokerError) => void
}

/** What came in and could not be used; for metrics. */
export interface FrameCounters {
  /** Frames that are no JSON object. */
  invalid: number
  /** Responses without a waiting call, doubled ones, updates of forgotten streams. */
  stray: number
  /** Streams whose handler failed on a frame. */
  unreadable: number
}

const DEFAULT_PING_EVERY_MS = 30_000
const DEFAULT_PONG_WITHIN_MS = 5_000
const MAX_INVALID_FRAMES = 50
/** A frame that would queue behind this much would leave late, if at all. */
const MAX_UNSENT_BYTES = 256 * 1024

export class BrokerConnection {
  /** False once it was retired: calls under way end, new ones belong elsewhere. */
  usable = true
  /** False while the broker announces that it is about to go down: no purchase starts here. */
  buying = true
  /** The version of the token that it was opened with, where the account's tokens have versions. */
  tokenVersion: number | undefined
  readonly #socket: WebSocket
  readonly #wire: Socket
  readonly #options: ConnectionOptions
  readonly #calls = new Calls()
  readonly #streams = new Streams()
  readonly #forgetting: Forgetting
  readonly #pace: ConnectionPace | null
  #invalidFrames = 0
  #lastReqId = 0
  #receivedAt = performance.now()
  #pingTimer: NodeJS.Timeout | null = null
  #reason: BrokerError | null = null
  #closed = false
  #listening = false

  /** Opens a connection; rejects as `openSocket` does. */
  static open(options: ConnectionOptions): Promise<BrokerConnection> {
    return openSocket(options, open => new BrokerConnection(open, options))
  }

  private constructor({ socket, wire }: OpenSocket, options: ConnectionOptions) {
    this.#socket = socket
    this.#wire = wire
    this.#options = options
    const { log, forgetBudget, callsPerSecond } = options
    this.#pace = callsPerSecond === undefined ? null : new ConnectionPace(callsPerSecond)
    const budget = { take: () => this.#forgetTurn(forgetBudget), backOff: () => forgetBudget?.backOff() }
    const send = (forget: string) => this.call({ forget }, { responseKey: 'forget', timeoutMs: DEFAULT_PONG_WITHIN_MS })
    this.#forgetting = new Forgetting({ send, budget, log })
    socket.on('message', (data, isBinary) => this.#receive(data as Buffer, isBinary))
    // 'close' follows every error; the error only has the reason.
    socket.on('error', cause => this.#because(`socket: ${cause.message}`))
    socket.on('close', code => this.#end(code))
    const { pingEveryMs = DEFAULT_PING_EVERY_MS } = options
    this.#pingTimer = setInterval(() => this.#ping(), pingEveryMs)
  }

  /** Calls under way. */
  get pending(): number {
    return this.#calls.size
  }

  /** Whether a frame written now would leave. */
  get open(): boolean {
    return !this.#closed && this.#socket.readyState === WebSocket.OPEN
  }

  /**
   * Waits until one more call may leave without too many of them in a second; nothing where it may at once. The promise rejects
   * with BrokerError (ran 'no') when that is too late, or the connection is gone.
   */
  turn(options: TakeOptions = {}): Promise<void> | undefined {
    return this.#pace?.take(options)
  }

  /**
   * Sends one call and resolves with its response. Rejects with BrokerError: the broker's refusal, or NotConnected and
   * PermitExpired (nothing was sent), NoAnswer, Disconnected (in doubt when `mayRun`). Synchronous up to the write:
   * nothing comes between beforeSend and it.
   */
  call(request: Record<string, unknown>, options: CallOptions): Promise<Frame> {
    const reqId = ++this.#lastReqId
    const { mayRun = false, signal, stream = null, late = null } = options
    return new Promise((resolve, reject) => {
      const refusal = this.#unsendable(signal)
      if (refusal !== null) return reject(refusal)
      const text = JSON.stringify({ ...request, req_id: reqId })
      try {
        options.beforeSend?.()
      } catch (cause) {
        return reject(
          cause instanceof BrokerError ? cause : unsent('The permission to send ran out.', 'PermitExpired', cause)
        )
      }
      if (this.#socket.readyState !== WebSocket.OPEN) return reject(this.#gone())
      this.#socket.send(text)

      const call: PendingCall = { responseKey: options.responseKey, mayRun, stream, late, resolve, reject }
      const { reachability } = this.#options
      const sentAt = performance.now()
      const giveUp = () => {
        if (!signal?.aborted) reachability?.unanswered(options.timeoutMs, sentAt)
        this.#settle(reqId, noResponse(call))
      }
      reachability?.sent()
      this.#calls.add(reqId, call, { timeoutMs: options.timeoutMs, signal, giveUp })
      if (stream !== null) this.#streams.add(reqId, stream)
    })
  }

  /** Removes a stream that ended by itself. */
  drop(stream: Stream): void {
    this.#streams.drop(stream)
  }

  /** Streams that are not used any more and that the broker still counts as open. */
  get lingering(): number {
    return this.#forgetting.size
  }

  /** Removes a stream and ends it at the broker; resolves once it is ended there. */
  forget(stream: Stream): Promise<void> {
    // A stream whose first response is still on its way is forgotten when that comes and no call claims it.
    const subscriptionId = this.#streams.drop(stream)
    return subscriptionId === null ? Promise.resolve() : this.#forgetting.add(subscriptionId)
  }

  /** Lets calls under way end, then closes; with `listening`, only after that time, since a receipt may still come. */
  retire(withinMs: number, { listening = false } = {}): void {
    if (!this.usable) return
    this.usable = false
    this.#listening = listening
    if (this.#isDone) this.close()
    else setTimeout(() => this.close(), withinMs).unref()
  }

  /** Whether nothing that it was retired with can bring anything any more. */
  get #isDone(): boolean {
    return !this.usable && !this.#listening && this.#calls.size === 0
  }

  /** Closes; every pending call ends as Disconnected, and an order under way is not delivered after that. */
  close(): void {
    this.usable = false
    if (this.#closed) return
    if (this.#calls.mayRun) {
      this.reset('closed with an order under way')
      return
    }
    this.#socket.close(1000)
    // A peer that does not respond to the close frame is not waited for.
    setTimeout(() => this.#socket.terminate(), 1_000).unref()
    this.#end(1000)
  }

  /**
   * Breaks the connection off; every pending call ends as Disconnected. Bytes still buffered never arrive: a graceful
   * close would go on delivering them, minutes after every caller has timed out.
   */
  reset(cause: string): void {
    if (this.#closed) return
    this.#because(cause)
    const ending = this.#socket.readyState !== WebSocket.OPEN
    breakOff(this.#wire, { ending, afterwards: () => this.#socket.terminate() })
    this.#end(1006)
  }

  #forgetTurn(budget: ForgetBudget | undefined): Promise<void> | undefined {
    const granted = budget?.take()
    return granted === undefined ? this.turn() : granted.then(() => this.turn())
  }

  #unsendable(signal: AbortSignal | undefined): BrokerError | null {
    if (signal?.aborted) return unsent('The call was given up before it was sent.', 'Aborted')
    if (!this.open) return this.#gone()
    if (this.#calls.full) return unsent('Too many calls to the broker are under way.', 'TooManyPending')
    if (this.#socket.bufferedAmount > MAX_UNSENT_BYTES)
      return unsent('The broker takes no frames right now.', 'Congested')
    return null
  }

  #receive(data: Buffer, isBinary: boolean): void {
    if (this.#closed) return
    this.#receivedAt = performance.now()
    this.#options.reachability?.received()
    const frame = isBinary ? null : parse(data)
    try {
      if (frame === null) this.#invalid()
      else this.#route(frame, reqIdOf(frame))
    } catch (cause) {
      // No frame of a broker may end the process.
      this.reset(`a frame could not be used: ${(cause as Error).message}`)
    }
  }

  #route(frame: Frame, reqId: number | null): void {
    const call = this.#calls.respondedBy(frame, reqId)
    if (call) {
      this.#complete(reqId as number, call, frame)
      return
    }
    const subscriptionId = subscriptionOf(frame)
    const late = this.#calls.lateOf(frame, reqId)
    if (late !== null) {
      // A repetition names the stream that is in use.
      const known = subscriptionId === null || this.#streams.find(null, subscriptionId) !== null
      if (!known) void this.#forgetting.add(subscriptionId)
      this.#deliver(late, frame)
      return
    }
    const stream = this.#streams.find(reqId, subscriptionId)
    if (stream !== null) {
      if (subscriptionId !== null) this.#streams.name(stream, subscriptionId)
      this.#deliver(stream, frame)
    } else if (subscriptionId !== null) {
      this.#unclaimed(subscriptionId, frame)
    } else {
      this.#options.counters.stray += 1
      if (frame.error !== undefined && reqId === null) this.#complaint(frame.error)
    }
  }

  /** An error about the connection as a whole, most often sent right before it is closed. */
  #complaint(error: unknown): void {
    this.#reason = refused(readRefusal(error), false)
    this.#options.log.warn({ brokerCode: this.#reason.brokerCode }, 'the broker complained about a connection')
  }

  /** Why nothing can be sent any more; a call about to be sent also gets the refusal of its application. */
  #gone(): BrokerError {
    if (this.#reason !== null && isAppRefused(this.#reason.brokerCode)) return this.#reason
    return unsent('The connection to the broker is gone.', 'NotConnected')
  }

  #complete(reqId: number, call: PendingCall, frame: Frame): void {
    const { stream, mayRun, responseKey } = call
    this.#calls.noteEnded(reqId, call)
    const subscriptionId = stream === null ? null : subscriptionOf(frame)
    if (frame.error !== undefined) {
      const refusal = readRefusal(frame.error)
      // With a receipt or a stream beside it the frame contradicts itself: the call may have run, whatever the code.
      const contradicts = subscriptionId !== null || Object.keys(frame[responseKey] ?? {}).length > 0
      this.#settle(reqId, refused(mayRun && contradicts ? { ...refusal, code: 'BadFrame' } : refusal, mayRun))
    } else if (stream === null || subscriptionId === null) {
      this.#settle(reqId, frame)
    } else {
      const wanted = this.#streams.name(stream, subscriptionId)
      this.#settle(reqId, frame, { streams: true })
      if (!wanted) void this.#forgetting.add(subscriptionId)
      for (const early of this.#streams.release(subscriptionId)) this.#deliver(stream, early)
    }
    if (this.#streams.holding && !this.#calls.opensStream) this.#dropHeld()
    if (this.#isDone) this.close()
  }

  #settle(reqId: number, end: Frame | BrokerError, { streams = false } = {}): void {
    const call = this.#calls.take(reqId)
    if (!call) return
    this.#options.reachability?.ended()
    const { stream } = call
    // The stream gets the response first, so that an update right behind it finds everything in place.
    if (stream !== null && !(end instanceof BrokerError)) this.#deliver(stream, end)
    if (stream !== null && !streams) this.drop(stream)
    if (end instanceof BrokerError) call.reject(end)
    else call.resolve(end)
  }

  #deliver(stream: Stream, frame: Frame): void {
    try {
      if (!stream.receive(frame, this)) this.#options.counters.stray += 1
    } catch (cause) {
      this.#options.counters.unreadable += 1
      const messageType = typeof frame.msg_type === 'string' ? frame.msg_type.slice(0, 40) : 'none'
      this.#options.log.error({ err: cause, messageType }, 'a stream frame could not be used')
    }
  }

  /** An update of an unknown stream: it overtook the response that names the stream, or the stream is not used any more. */
  #unclaimed(subscriptionId: string, frame: Frame): void {
    const awaited = this.#calls.opensStream && !this.#forgetting.has(subscriptionId)
    if (awaited && this.#streams.hold(subscriptionId, frame)) return
    this.#options.counters.stray += 1
    void this.#forgetting.add(subscriptionId)
  }

  #dropHeld(): void {
    for (const subscriptionId of this.#streams.heldIds()) {
      this.#options.counters.stray += this.#streams.release(subscriptionId).length
      void this.#forgetting.add(subscriptionId)
    }
  }

  #invalid(): void {
    this.#options.counters.invalid += 1
    this.#invalidFrames += 1
    if (this.#invalidFrames === 1) this.#options.log.warn('the broker sent a frame that is not a JSON object')
    if (this.#invalidFrames < MAX_INVALID_FRAMES) return
    this.reset('too many unreadable frames')
  }

  /** Any frame since the ping counts as a pong; where no ping could be sent, any frame since the last one. */
  #ping(): void {
    if (!this.open) return
    const { pingEveryMs = DEFAULT_PING_EVERY_MS, pongWithinMs = DEFAULT_PONG_WITHIN_MS } = this.#options
    const requestedAt = performance.now()
    let since = requestedAt - pingEveryMs
    const beforeSend = () => {
      since = requestedAt
      this.#pace?.spend()
    }
    this.call({ ping: 1 }, { responseKey: 'ping', timeoutMs: pongWithinMs, beforeSend }).catch((error: BrokerError) => {
      if (this.#receivedAt < since) this.reset(`no pong: ${error.brokerCode}`)
    })
  }

  #because(cause: string): void {
    this.#reason ??= new BrokerError('BROKER_UPSTREAM', 'The connection to the broker broke.', {
      brokerCode: 'Disconnected',
      ran: 'no',
      cause
    })
  }

  #end(closeCode: number): void {
    if (this.#closed) return
    this.#closed = true
    this.usable = false
    if (this.#pingTimer !== null) clearInterval(this.#pingTimer)
    this.#because(`closed with ${closeCode}`)
    const reason = this.#reason!
    for (const [reqId, call] of this.#calls.all()) this.#settle(reqId, disconnected(call, reason))
    this.#pace?.close(this.#gone())
    this.#streams.clear()
    this.#forgetting.close()
    this.#options.onClose(reason)
  }
}

/** The number of the call that a frame belongs to: of its own, or in the request that it repeats. */
function reqIdOf({ req_id: own, echo_req: request }: Frame): number | null {
  const reqId = own ?? (request as { req_id?: unknown } | null | undefined)?.req_id
  return typeof reqId === 'number' ? reqId : null
}

/** An `error` of null means no error. */
function withoutError({ error: _, ...rest }: Frame): Frame {
  return rest
}

function parse(data: Buffer): Frame | null {
  try {
    const frame = parseJson(data.toString('utf8'))
    if (typeof frame !== 'object' || frame === null || Array.isArray(frame)) return null
    return (frame as Frame).error === null ? withoutError(frame as Frame) : (frame as Frame)
  } catch {
    // Counted and, the first time, logged by the caller.
    return null
  }
}

// A reconnecting connection to the broker for one account, or for the market data of an application: opened at its
// first use, shared by all callers, opened again when it broke. Every call passes its budget here.

import { setTimeout as delay } from 'node:timers/promises'
import { backOff } from '../../../db/platform/back-off.ts'
import { pauseAfter } from '../../platform/pauses.ts'
import { BrokerError, closed } from '../broker-error.ts'
import { isAppRefused, isOurFault, isRateLimit, wantsReauthorising } from '../dialects/errors.ts'
import { BadFrame } from '../dialects/reading.ts'
import type { BrokerLog } from '../port.ts'
import type { Budget } from './quota.ts'
import type { BrokerConnection, CallOptions, Frame, Stream } from './sockets.ts'

interface ReconnectingOptions {
  /** Opens a connection and authorises it; `onClose` is to be called when that one is gone. */
  open(onClose: (cause: BrokerError) => void): Promise<BrokerConnection>
  /** A connection is gone or retired: its streams bring nothing any more. */
  onDown(connection: BrokerConnection, cause: BrokerError): void
  budget: Budget
  classOf(call: string): string
  responseTimeoutMs: number
  log: BrokerLog
}

interface ReconnectingCall {
  /** The key of the response, where it is not the call's name. */
  responseKey?: string
  /** Buys and sells: first in the queue, in doubt without a response. */
  mayRun?: boolean
  /** Refused while the broker announces that it goes down. */
  purchase?: boolean
  timeoutMs?: number
  waitMs?: number
  beforeSend?: () => void
  signal?: AbortSignal
  stream?: Stream
  late?: Stream | undefined
}

type ReadOptions = Pick<ReconnectingCall, 'responseKey' | 'timeoutMs' | 'stream' | 'beforeSend'>

/** Pauses between attempts at a call that only reads. */
const READ_PAUSES = { firstMs: 250, mostMs: 4_000 }
/** Pauses between attempts to open the connection after failures in a row. */
const OPEN_PAUSES = { firstMs: 250, mostMs: 8_000 }

export class ReconnectingConnection {
  /** Monotonic ms of the last call. */
  usedAt = performance.now()
  readonly #options: ReconnectingOptions
  #current: BrokerConnection | null = null
  #opening: Promise<BrokerConnection> | null = null
  #closed: BrokerError | null = null
  #failures = 0
  #failure: BrokerError | null = null
  #openAgainAt = 0

  constructor(options: ReconnectingOptions) {
    this.#options = options
  }

  /** The connection, if there is one that takes calls. */
  get current(): BrokerConnection | null {
    return this.#current?.open ? this.#current : null
  }

  /** Whether a call or an opening is under way. */
  get busy(): boolean {
    return this.#opening !== null || (this.#current !== null && this.#current.pending > 0)
  }

  /**
   * The connection, opened if there is none; many callers share one opening. For a while after one that failed, longer
   * each time in a row, rejects at once with the same error.
   */
  connect(): Promise<BrokerConnection> {
    if (this.#closed !== null) return Promise.reject(this.#closed)
    const up = this.current
    if (up !== null) return Promise.resolve(up)
    const waitMs = this.#openAgainAt - performance.now()
    if (this.#failure !== null && waitMs > 0) return Promise.reject(repeated(this.#failure, waitMs))
    this.#opening ??= this.#open()
      .then(
        connection => {
          this.#failures = 0
          this.#failure = null
          return connection
        },
        (error: unknown) => {
          this.#failed(error)
          throw error
        }
      )
      .finally(() => {
        this.#opening = null
      })
    return this.#opening
  }

  /**
   * Makes one call, once, within its budget. `call` names it and is the key of its response. Rejects with BrokerError.
   */
  call(call: string, request: Record<string, unknown>, options: ReconnectingCall = {}): Promise<Frame> {
    return this.#callOnce(call, request, options)
  }

  /** Sends a call that only reads, and repeats it until it succeeds or the time is over. */
  async read(call: string, request: Record<string, unknown>, options: ReadOptions = {}): Promise<Frame> {
    const { timeoutMs = this.#options.responseTimeoutMs, ...rest } = options
    const deadline = performance.now() + timeoutMs
    for (let attempt = 0; ; attempt++) {
      const leftMs = Math.max(1, deadline - performance.now())
      try {
        return await this.call(call, request, { ...rest, waitMs: leftMs, timeoutMs: leftMs })
      } catch (error) {
        const pauseMs = backOff(attempt, READ_PAUSES) * (0.5 + Math.random() / 2)
        if (!passes(error) || this.#closed !== null || performance.now() + pauseMs >= deadline) throw error
        await delay(pauseMs)
      }
    }
  }

  /** Sends new calls elsewhere; those under way on the connection may still end. */
  retire(connection: BrokerConnection, cause: BrokerError, options: { listening?: boolean } = {}): void {
    if (this.#current === connection) this.#current = null
    const wasUsable = connection.usable
    connection.retire(this.#options.responseTimeoutMs, options)
    if (wasUsable) this.#options.onDown(connection, cause)
  }

  /**
   * After an error: if the broker says 'already subscribed', our timed-out subscribe succeeded; retire this connection.
   */
  leaveDoubled(error: unknown): void {
    const doubled = error instanceof BrokerError && error.brokerCode === 'AlreadySubscribed'
    if (doubled && this.current !== null) this.retire(this.current, error)
  }

  /** Whether at least half of the call's budget is left: enough for work that is not urgent. */
  plenty(call: string): boolean {
    return this.#options.budget.leftOf(this.#options.classOf(call)) >= 0.5
  }

  /** Closes the connection; the next call opens another. */
  hangUp(): void {
    const connection = this.#current
    this.#current = null
    connection?.close()
  }

  /** Closes for good. */
  close(): void {
    this.#closed = closed()
    this.hangUp()
  }

  /**
   * A token that is refused, missing or unreadable needs no pause before the next attempt: a usable one may be stored at any
   * time, and the next order must not fail because the previous one had no token. Nor does a broker that cannot be reached, for
   * which reachability.ts pauses.
   */
  #failed(error: unknown): void {
    if (!(error instanceof BrokerError) || isAppRefused(error.brokerCode)) return
    if (error.code === 'BROKER_DISCONNECTED' || error.brokerCode === 'TokenUnreadable') return
    if (error.retryMs !== undefined) return
    this.#failures += 1
    this.#failure = error
    this.#openAgainAt = performance.now() + pauseAfter(this.#failures, OPEN_PAUSES)
  }

  async #open(): Promise<BrokerConnection> {
    let opened: BrokerConnection | null = null
    let gone: BrokerError | null = null
    const connection = await this.#options.open(cause => {
      gone = cause
      if (opened === null) return
      if (this.#current === opened) this.#current = null
      this.#options.onDown(opened, cause)
    })
    opened = connection
    // Closed while it was being authorised, by us or by the other side.
    if (this.#closed !== null) connection.close()
    const cause = this.#closed ?? gone
    if (cause !== null) throw cause
    this.#current = connection
    return connection
  }

  async #callOnce(
    call: string,
    request: Record<string, unknown>,
    options: ReconnectingCall,
    anew = false
  ): Promise<Frame> {
    const { budget, responseTimeoutMs, log } = this.#options
    const { mayRun = false, waitMs, signal } = options
    const className = this.#options.classOf(call)
    const startedAt = performance.now()
    this.usedAt = startedAt
    const wait = budget.take(className, { urgent: mayRun, waitMs, signal })
    if (wait !== undefined) await wait
    let connection = this.current ?? (await this.connect())
    const leftMs = () => (waitMs === undefined ? undefined : Math.max(0, startedAt + waitMs - performance.now()))
    for (;;) {
      const turn = connection.turn({ urgent: mayRun, waitMs: leftMs(), signal })
      if (turn === undefined) break
      await turn
      // The connection may have been retired meanwhile.
      const waited = connection
      connection = this.current ?? (await this.connect())
      if (waited === connection) break
    }
    if (options.purchase === true && !connection.buying) throw goingDown()
    const { beforeSend, stream, late } = options
    const callOptions: CallOptions = {
      responseKey: options.responseKey ?? call,
      timeoutMs: options.timeoutMs ?? responseTimeoutMs,
      mayRun,
      beforeSend,
      signal,
      stream,
      late
    }
    try {
      const frame = await connection.call(request, callOptions)
      budget.succeeded(className)
      this.usedAt = performance.now()
      return frame
    } catch (error) {
      if (!(error instanceof BrokerError)) throw error
      if (error.rejected) error.tokenVersion = connection.tokenVersion
      if (isRateLimit(error)) budget.backOff(className)
      // A connection that lost an order's response is not trusted to resolve it, and is closed so that it cannot
      // deliver the order late, should it be buffered on the way.
      if (mayRun && error.brokerCode === 'NoAnswer') connection.reset('an order got no response')
      else if (wantsReauthorising(error)) {
        // Refused before it was processed, so a retry should not do it twice; if it does, the receipt shows that.
        this.retire(connection, error, { listening: late !== undefined })
        if (!anew) return await this.#callOnce(call, request, options, true)
      }
      // Usually a fault of ours or of our configuration; a caller's unusual symbol can cause it too.
      if (isOurFault(error)) log.warn({ call, err: error }, 'the broker does not accept our request')
      if (error.ran === 'unknown')
        log.warn({ call, brokerCode: error.brokerCode }, 'a call to the broker ended in doubt')
      throw error
    }
  }
}

/** Reads a response; one that is not what we rely on ends the call as BROKER_UPSTREAM, in doubt if it may have run. */
export function readResponse<T>(frame: Frame, read: (frame: Frame) => T, mayRun = false): T {
  try {
    return read(frame)
  } catch (cause) {
    if (!(cause instanceof BadFrame)) throw cause
    const ran = mayRun ? 'unknown' : 'no'
    throw new BrokerError('BROKER_UPSTREAM', cause.message, { brokerCode: 'BadFrame', ran, cause })
  }
}

const passing = new Set(['Disconnected', 'NotConnected', 'TooManyPending', 'Congested'])

/** Trouble that may be over in a moment. */
function passes(error: unknown): boolean {
  if (!(error instanceof BrokerError) || error.rejected) return false
  return passing.has(error.brokerCode) || isRateLimit(error)
}

function repeated({ code, message, brokerCode, cause }: BrokerError, retryMs: number): BrokerError {
  return new BrokerError(code, message, { brokerCode, ran: 'no', cause, retryMs })
}

function goingDown(): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', 'The broker is about to go down for maintenance.', {
    brokerCode: 'SiteUpdating',
    ran: 'no'
  })
}

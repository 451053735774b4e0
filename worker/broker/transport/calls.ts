// The calls under way on one connection: each waits for the frame that carries its number, until its time is over or it
// is given up. The connection decides how a call ends.
import { BrokerError } from '../broker-error.ts'
import type { Frame, Stream } from './streams.ts'

export interface CallOptions {
  /** The key under which the response comes; a frame without it is an update that overtook the response. */
  responseKey: string
  timeoutMs: number
  /** The call changes something at the broker: without a response it may have run. */
  mayRun?: boolean
  /** Runs right before the frame is written; if it throws, nothing was sent. */
  beforeSend?: () => void
  /** Ends the wait for the response. */
  signal?: AbortSignal
  /** Gets the response, before the call resolves, and every update after or before it. */
  stream?: Stream
  /** Gets a response that comes after the call has ended with a response or a refusal. */
  late?: Stream | undefined
}

/** A call that waits for its response. */
export interface PendingCall {
  responseKey: string
  mayRun: boolean
  stream: Stream | null
  late: Stream | null
  resolve(frame: Frame): void
  reject(error: BrokerError): void
}

const MAX_CALLS = 500
// What a broker sends late or twice follows within moments, and an account's purchases are made one after the other.
const MAX_ENDED = 5

export class Calls {
  readonly #waiting = new Map<number, { call: PendingCall; stopWaiting(): void }>()
  /** Calls that have ended, the latest ones last. */
  readonly #ended = new Map<number, Pick<PendingCall, 'responseKey' | 'late'>>()

  get size(): number {
    return this.#waiting.size
  }

  get full(): boolean {
    return this.#waiting.size >= MAX_CALLS
  }

  /** Whether one of them changes something at the broker. */
  get mayRun(): boolean {
    return this.#any(({ mayRun }) => mayRun)
  }

  /** Whether one of them opens a stream. */
  get opensStream(): boolean {
    return this.#any(({ stream }) => stream !== null)
  }

  /** Has a call wait; `giveUp` runs at its time-out or when its signal is aborted. */
  add(
    reqId: number,
    call: PendingCall,
    { timeoutMs, signal, giveUp }: Pick<CallOptions, 'timeoutMs' | 'signal'> & { giveUp(): void }
  ): void {
    let late: NodeJS.Immediate | undefined
    // A process that was held up runs its timers before it reads what has arrived meanwhile, which may include the response.
    const timer = setTimeout(() => {
      late = setImmediate(giveUp)
    }, timeoutMs)
    signal?.addEventListener('abort', giveUp, { once: true })
    const stopWaiting = () => {
      clearTimeout(timer)
      clearImmediate(late)
      signal?.removeEventListener('abort', giveUp)
    }
    this.#waiting.set(reqId, { call, stopWaiting })
  }

  /** The call that a frame responds to: an update of the call's stream may carry its number, but not its response. */
  respondedBy(frame: Frame, reqId: number | null): PendingCall | undefined {
    const call = reqId === null ? undefined : this.#waiting.get(reqId)?.call
    if (!call) return
    const { error, msg_type: named, [call.responseKey]: body } = frame
    // A first response may have no body under its name yet, for example that of a stream of later events.
    if (body !== undefined || named === call.responseKey) return call
    if (error === undefined) return
    // A purchase's stream has the purchase's number, and no schema requires an update's name: an error that does not name the purchase
    // may be the stream's, and then the receipt is still to come. `error` is the name of a call that was not recognised.
    const mayBeOfStream = call.mayRun && call.stream !== null && named !== 'error'
    return mayBeOfStream ? undefined : call
  }

  /** Remembers a call of which another response may come. */
  noteEnded(reqId: number, { responseKey, late }: PendingCall): void {
    if (late === null) return
    this.#ended.set(reqId, { responseKey, late })
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > MAX_ENDED && oldest !== undefined) this.#ended.delete(oldest)
  }

  /** What takes another response to a call that has ended; null for any other frame. */
  lateOf(frame: Frame, reqId: number | null): Stream | null {
    const ended = reqId === null ? undefined : this.#ended.get(reqId)
    return ended === undefined || frame.error !== undefined || frame[ended.responseKey] === undefined
      ? null
      : ended.late
  }

  /** Takes a call out, so that it can end; undefined when it has ended. */
  take(reqId: number): PendingCall | undefined {
    const found = this.#waiting.get(reqId)
    this.#waiting.delete(reqId)
    found?.stopWaiting()
    return found?.call
  }

  /** All waiting calls, with their numbers. */
  all(): [number, PendingCall][] {
    return [...this.#waiting].map(([reqId, { call }]) => [reqId, call])
  }

  #any(is: (call: PendingCall) => boolean): boolean {
    for (const { call } of this.#waiting.values()) if (is(call)) return true
    return false
  }
}

/** Nothing was sent. */
export function unsent(message: string, brokerCode: string, cause?: unknown): BrokerError {
  return new BrokerError('BROKER_UPSTREAM', message, { brokerCode, ran: 'no', cause })
}

/** No response came in time: in doubt, if the call may have run. */
export function noResponse({ mayRun }: PendingCall): BrokerError {
  const ran = mayRun ? 'unknown' : 'no'
  return new BrokerError('BROKER_UPSTREAM', 'The broker did not respond in time.', { brokerCode: 'NoAnswer', ran })
}

/** The connection broke before the response: in doubt, if the call may have run. */
export function disconnected({ mayRun }: PendingCall, cause: BrokerError): BrokerError {
  if (!mayRun) return cause
  return new BrokerError('BROKER_UPSTREAM', 'The connection to the broker broke before it responded.', {
    brokerCode: 'Disconnected',
    ran: 'unknown',
    cause
  })
}

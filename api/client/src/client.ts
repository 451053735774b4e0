// Calls of the service: typed by its description, and repeated where that is safe.
import { isTemporary, ServiceError } from './errors.ts'
import { consume, pause, type StreamOptions } from './stream.ts'
import type { Arguments, CallOptions, Entry, Method, PathOf, Result, Schemas } from './types.ts'

export interface ClientOptions {
  /** Where the service is, such as https://api.example.com */
  baseUrl: string
  /** A key of the partner. For servers alone: the client refuses it in a browser. */
  key?: string
  /** Where the stream is; `baseUrl` without it. */
  streamUrl?: string
  /** No repeat of a call begins later than this after it; 60,000 without it. */
  deadlineMs?: number
  /** Called after each attempt, for your log. */
  onAttempt?: (attempt: Attempt) => void
}

export interface Attempt {
  method: string
  path: string
  requestId: string
  ms: number
  error: ServiceError | undefined
  /** For its status and header fields, such as `Deprecation`. */
  response: Response | undefined
}

/** An order, with its id where you stored one before: without it, it is one intent for each call. */
type Intent<Order> = Omit<Order, 'clientOrderId'> & { clientOrderId?: string }

interface Call extends CallOptions {
  path?: Record<string, unknown>
  query?: Record<string, unknown>
  body?: unknown
}

type Sent = { url: string; headers: Headers; body: string | null; timeoutMs: number; signal: AbortSignal | undefined }

const PLACING = /^\/v1\/orders\/(binary|multiplier)$/
// The response of an order may be held back until its contract is over, 140 seconds at most.
const PLACING_MS = 150_000
const ATTEMPT_MS = 45_000

export class Client {
  readonly #options: ClientOptions

  constructor(options: ClientOptions) {
    if (options.key && 'document' in globalThis)
      throw new TypeError('A key must not be in a browser: let your server make tickets, and use openStream.')
    this.#options = { ...options, baseUrl: new URL(options.baseUrl).href.replace(/\/+$/, '') }
  }

  get<P extends PathOf<'get'>>(path: P, ...[input]: Arguments<'get', P>): Promise<Result<'get', P>> {
    return this.#call('get', path, input)
  }
  post<P extends PathOf<'post'>>(path: P, ...[input]: Arguments<'post', P>): Promise<Result<'post', P>> {
    return this.#call('post', path, input)
  }
  patch<P extends PathOf<'patch'>>(path: P, ...[input]: Arguments<'patch', P>): Promise<Result<'patch', P>> {
    return this.#call('patch', path, input)
  }
  delete<P extends PathOf<'delete'>>(path: P, ...[input]: Arguments<'delete', P>): Promise<Result<'delete', P>> {
    return this.#call('delete', path, input)
  }

  /** Places an order under one id, however often it has to be sent. Store the id before, to go on after a crash of yours. */
  placeBinary(order: Intent<Schemas['BinaryOrder']>, options?: CallOptions): Promise<Schemas['Order']> {
    return this.#place('/v1/orders/binary', order, options)
  }
  placeMultiplier(
    order: Intent<Schemas['MultiplierOrderRequest']>,
    options?: CallOptions
  ): Promise<Schemas['MultiplierOrder']> {
    return this.#place('/v1/orders/multiplier', order, options)
  }

  /**
   * The order as soon as it is CLOSED or FAILED, without polling; also over an outage. Throws DEADLINE when no repeat can begin
   * within `deadlineMs` (ten minutes).
   */
  async waitUntilSettled(
    orderId: string,
    { deadlineMs = 600_000, ...options }: CallOptions = {}
  ): Promise<Schemas['OrderEntry']> {
    const until = performance.now() + deadlineMs
    for (;;) {
      const began = performance.now()
      const left = Math.max(0, until - began)
      // A third of an attempt's time is left for the response, so that its time-out does not cut the wait off.
      const most = Math.floor((options.timeoutMs ?? ATTEMPT_MS) / 1500)
      const input = { path: { id: orderId }, query: { wait: Math.min(30, most, Math.ceil(left / 1000)) } }
      const order = await this.get('/v1/orders/{id}', { ...options, ...input, deadlineMs: left }).catch(cause => {
        if (!(cause instanceof ServiceError && isTemporary(cause, true))) throw cause
        throw new ServiceError('DEADLINE', { message: `${orderId} after ${deadlineMs} ms: ${cause.message}`, cause })
      })
      if (order.status === 'CLOSED' || order.status === 'FAILED') return order
      if (performance.now() >= until)
        throw new ServiceError('DEADLINE', { message: `${orderId} is ${order.status} after ${deadlineMs} ms` })
      // A response before the wait was over must not make this a tight loop of requests.
      await pause(Math.max(0, Math.min(until, began + 1000) - performance.now()), options.signal)
    }
  }

  /** The entries of a list, page after page, as far as you read; of events those that there are now. */
  async *list<P extends PathOf<'get'>>(path: P, ...[input]: Arguments<'get', P>): AsyncGenerator<Entry<P>, void> {
    let query = { ...(input as Call | undefined)?.query }
    for (;;) {
      const response = await this.#call<Record<string, unknown>>('get', path, { ...input, query })
      const { data, nextCursor, caughtUp, cursor, page = 1, limit = 0, total = 0 } = response
      yield* data as Entry<P>[]
      if (nextCursor) query = { ...query, cursor: nextCursor }
      else if (caughtUp === false) query = { ...query, after: cursor }
      else if (Number(page) * Number(limit) < Number(total)) query = { ...query, page: Number(page) + 1 }
      else return
    }
  }

  /** Hands over events and prices until `signal` aborts, over as many connections as it takes. */
  stream(options: StreamOptions): Promise<void> {
    const { baseUrl, streamUrl = baseUrl, key } = this.#options
    const { onEvent, signal } = options
    const check = (): Promise<unknown> =>
      onEvent ? this.get('/v1/events', { query: { after: 'now' }, signal }) : this.get('/v1/me', { signal })
    return consume({ ...options, url: streamUrl, headers: { authorization: `Bearer ${key}` }, check })
  }

  async #place<T>(path: string, intent: Intent<object>, options?: CallOptions): Promise<T> {
    const { clientOrderId = crypto.randomUUID() } = intent
    return this.#call<T>('post', path, { ...options, body: { ...intent, clientOrderId } }).catch((error: unknown) => {
      throw error instanceof ServiceError ? Object.assign(error, { clientOrderId }) : error
    })
  }

  async #call<T>(method: Method, path: string, call: Call = {}): Promise<T> {
    const { key, deadlineMs = 60_000, onAttempt } = this.#options
    const placing = PLACING.test(path)
    const write = method !== 'get' && !placing
    // Made before the first attempt: what cannot be sent is the caller's mistake, and no response that was lost.
    const headers = new Headers({
      ...(key ? { authorization: `Bearer ${key}` } : {}),
      ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(write ? { 'idempotency-key': call.idempotencyKey ?? crypto.randomUUID() } : {})
    })
    for (const [name, value] of Object.entries(call.headers ?? {})) headers.set(name, value)
    const sent = { url: this.#options.baseUrl + address(path, call), headers, body: JSON.stringify(call.body) ?? null }
    const timeoutMs = call.timeoutMs ?? (placing ? PLACING_MS : ATTEMPT_MS)
    const until = performance.now() + (call.deadlineMs ?? deadlineMs)
    for (let pauseMs = 200; ; pauseMs = Math.min(10_000, 2 * pauseMs)) {
      const attempt = { method: method.toUpperCase(), path, requestId: newRequestId(), ms: performance.now() }
      const { response, body, error } = await this.#attempt(attempt, { ...sent, timeoutMs, signal: call.signal })
      onAttempt?.({ ...attempt, ms: performance.now() - attempt.ms, response, error })
      if (!error) return body as T
      const waitMs = Math.max(error.facts.retryAfterMs ?? 0, pauseMs * (0.5 + Math.random()))
      if (!isTemporary(error, !write) || performance.now() + waitMs > until) throw error
      await pause(waitMs, call.signal)
    }
  }

  async #attempt(
    { method, path, requestId }: { method: string; path: string; requestId: string },
    { url, headers, body, timeoutMs, signal: caller }: Sent
  ): Promise<{ response: Response | undefined; body?: unknown; error?: ServiceError }> {
    headers.set('x-request-id', requestId)
    // Read below, which keeps it until the attempt ends: Node 20 collects one that AbortSignal.any alone refers to, and it never aborts.
    const timeout = AbortSignal.timeout(timeoutMs)
    const signal = AbortSignal.any(caller ? [timeout, caller] : [timeout])
    let response: Response | undefined
    try {
      response = await fetch(url, { method, redirect: 'manual', headers, body, signal })
      return { response, ...read(response, await response.text(), requestId) }
    } catch (cause) {
      if (caller?.aborted) throw caller.reason
      const message = `${method} ${path} got no response${timeout.aborted ? ` within ${timeoutMs} ms` : ''}`
      return { response, error: new ServiceError('NO_ANSWER', { message, requestId, cause }) }
    }
  }
}

/** A UUID of version 7, whose time the request log goes by. */
const newRequestId = (time = `0${Date.now().toString(16)}`): string =>
  `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`

function address(path: string, { path: params = {}, query = {} }: Call): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
  const given = Object.entries(query).filter(([, value]) => value !== undefined)
  const search = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)])).toString()
  return search ? `${filled}?${search}` : filled
}

/** Milliseconds to wait by a Retry-After: the service gives seconds, a proxy on the way may give a date. */
function pauseOf(retryAfter: string | null): number | undefined {
  const seconds = Number(retryAfter)
  const ms = Number.isNaN(seconds) ? Date.parse(retryAfter as string) - Date.now() : seconds * 1000
  return ms > 0 ? ms : undefined
}

function read({ status, ok, headers }: Response, text: string, requestId: string) {
  let body: Partial<Schemas['Error']> | undefined
  try {
    body = JSON.parse(text)
  } catch {}
  if (ok && body !== undefined) return { body }
  const retryAfterMs = pauseOf(headers.get('retry-after'))
  if (!ok && body?.error && body.requestId)
    return { error: new ServiceError(body.error, { message: '', ...body, retryAfterMs }) }
  // A proxy's own page. From 500 on: the service was not reached, or its response was lost; 408: the request came too slowly. JSON
  // that does not parse broke off: without a Content-Length the end of a connection ends a body.
  const message = `a response of status ${status} that is not the service's`
  const brokeOff = body === undefined && /^application\/json/i.test(headers.get('content-type') ?? '')
  const lost = brokeOff || status === 408 || status >= 500
  const code = status === 429 ? 'RATE_LIMITED' : lost ? 'NO_ANSWER' : 'UNEXPECTED'
  return { error: new ServiceError(code, { message, requestId, retryAfterMs }) }
}

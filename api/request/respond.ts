// Every response leaves here: the request id, the error envelope, the access line. Nothing else in api/ writes an error
// to the wire.
import type { Context, Next } from 'koa'
import { newRequestId } from '../../db/partners/request-ids.ts'
import type { RequestLog } from '../../db/partners/request-log.ts'
import type { UsageCounter } from '../../db/partners/usage.ts'
import type { Log } from '../../db/platform/log.ts'
import { countRequest, countUnderWay } from '../../db/platform/metrics.ts'
import { Overloaded } from '../../db/postgres/batch.ts'
import { wasNotAwaited } from '../../db/postgres/connection.ts'
import type { Config } from '../../schemas/config/config.ts'
import { ApiError, type ErrorCode } from '../../schemas/errors/errors.ts'
import { hasMuchToCome } from './body.ts'
import type { ByteAccounts } from './byte-accounts.ts'
import { traceOf } from './trace.ts'

/** A response that needs more than a body. */
export class Reply {
  readonly body: unknown
  readonly headers: Record<string, string>
  constructor(body: unknown, headers: Record<string, string>) {
    this.body = body
    this.headers = headers
  }
}

const REQUEST_ID = /^[A-Za-z0-9._-]{8,64}$/

/** The caller's own request id when it has the right form, else a new one. */
export function requestIdOf(header: string | string[] | undefined): string {
  return typeof header === 'string' && REQUEST_ID.test(header) ? header : newRequestId()
}

// SQLSTATE classes that describe the server's state, not our statement: connection (08), a transaction broken off
// because of others (40, deadlocks among them), resources (53, disk full among them), operator intervention (57), lock
// not available (55P03), a transaction ended for its idleness or its length (25P03, 25P04), read-only (25006), an unlogged table read during recovery (0A000: a proxy may lead to a standby a
// moment before it has been promoted; nothing else in our statements is unsupported).
const AWAY = /^(08|40|53|57)|^55P03$|^25P0[34]$|^25006$|^0A000$/
const NETWORK = new Set([
  'ECONNREFUSED',
  'SYNC_REPLICATION_CANCELED',
  'ECONNRESET',
  'ETIMEDOUT',
  'EPIPE',
  'ENOENT',
  'EHOSTUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN'
])

/** Whether an unexpected error shows a failed dependency rather than a fault of ours. */
export function isUnavailable(error: unknown): boolean {
  if (error instanceof Overloaded) return true
  if (!(error instanceof Error)) return false
  const { code } = error as { code?: unknown }
  if (typeof code === 'string') return AWAY.test(code) || NETWORK.has(code)
  // knex gives its pool time-out a name; pg gives a broken connection neither code nor class, and knex puts the
  // statement before the message.
  if (error.name === 'KnexTimeoutError' || error.name === 'TimeoutError') return true
  return /(^| - )(Connection terminated|timeout expired|Client has encountered a connection error|Client was closed|Query read timeout)/i.test(
    error.message
  )
}

/** Errors above 499 that are no fault of this service. */
const EXPECTED = new Set<ErrorCode>(['BROKER_UPSTREAM', 'TRADING_HALTED'])

/**
 * Whether an operator has to know of a failure. An UNAVAILABLE without a cause is our decision, and so is a lock that is not awaited: calls
 * of a trader who is being erased, for example, are to be repeated.
 */
function isFault({ status, code, cause }: ApiError): boolean {
  if (code === 'UNAVAILABLE') return cause !== undefined && !wasNotAwaited(cause)
  return status >= 500 && !EXPECTED.has(code)
}

/** Any thrown thing as the error the caller sees. */
function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (isUnavailable(error)) return new ApiError('UNAVAILABLE', undefined, { cause: error })
  return new ApiError('INTERNAL', undefined, { cause: error })
}

/** The address of a code's section in the reference. */
export const docsOf = (baseUrl: string, code: ErrorCode): string =>
  `${baseUrl}/docs#/section/errors/${code.toLowerCase()}`

/** The error envelope with the extras its code allows; `docs` is the address of the code's section in the reference. */
export function envelope(error: ApiError, { requestId, baseUrl }: { requestId: string; baseUrl: string }): object {
  const { details } = error.extras
  const counted = details ? { violations: details.length } : {}
  const docs = docsOf(baseUrl, error.code)
  return { error: error.code, message: error.message, requestId, docs, ...counted, ...error.extras }
}

/** Sets the response, as text where it is JSON; returns its length in bytes. */
export function setBody(ctx: Context, body: unknown): number {
  ctx.body = body
  // As Koa would do later; here the length is needed.
  if (typeof body === 'object' && body !== null && !Buffer.isBuffer(body)) ctx.body = JSON.stringify(body)
  return ctx.response.length ?? 0
}

/** Adds the response to the partner's account until its client has read it or is gone. */
function holdResponse(ctx: Context, bytes: ByteAccounts, partnerId: string): void {
  const { length } = ctx.response
  if (!length || ctx.res.destroyed) return
  const { release } = bytes.add(partnerId, length)
  // 'close' comes after 'finish', and alone where the response is never read; for a refused upgrade when its socket ends.
  ctx.res.once('close', release)
}

// Time for a client to read its response before bytes that it still sends reset the connection.
const LINGER_MS = 1000

/** Ends the connection shortly after the response and stops reading its request: Node would read an unwanted body to its end. */
function endUnread({ req }: Context): void {
  // Node's function that reads the rest of the request once the response is sent.
  Object.assign(req, { _dump() {} })
  const { socket } = req
  socket.destroySoon = () => {
    socket.end()
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref()
    socket.once('close', () => clearTimeout(timer))
  }
}

/** Outermost: gives the request its id, turns what is thrown into the envelope, counts it, logs one line. */
export function respond({
  log,
  usage,
  requests,
  bytes,
  config
}: {
  log: Log
  usage: UsageCounter
  requests: RequestLog
  bytes: ByteAccounts
  config: Pick<Config, 'baseUrl'>
}) {
  // The access line has these fields and no others, none of them a secret: searching it for secrets would cost seven
  // times as much as writing it.
  const access = log.child({}, { redact: { paths: [] } })
  return async (ctx: Context, next: Next): Promise<void> => {
    const startedAt = performance.now()
    const requestId = requestIdOf(ctx.request.headers['x-request-id'])
    ctx.state.requestId = requestId
    ctx.res.setHeader('X-Request-Id', requestId)
    ctx.state.trace = traceOf(ctx.request.headers.traceparent)
    countUnderWay(1)
    let failure: ApiError | undefined
    try {
      await next()
    } catch (error) {
      failure = toApiError(error)
      ctx.status = failure.status
      // Every 503 names when to repeat the request, as its description promises.
      ctx.set({ ...(failure.status === 503 ? { 'Retry-After': '1' } : {}), ...failure.headers })
      setBody(ctx, envelope(failure, { requestId, baseUrl: config.baseUrl }))
      if (hasMuchToCome(ctx)) {
        ctx.set('Connection', 'close')
        endUnread(ctx)
      }
    }
    countUnderWay(-1)
    const seconds = (performance.now() - startedAt) / 1000
    const operation = (ctx.state.operation as string | undefined) ?? 'none'
    const { partnerId, keyId, refusal } = ctx.state as { partnerId?: string; keyId?: string; refusal?: ErrorCode }
    // A surplus socket has no error, but is opened for its close code alone.
    const code = failure?.code ?? refusal
    countRequest({ operation, status: ctx.status, code: code ?? '', seconds })
    const ms = Math.round(seconds * 10_000) / 10
    if (partnerId) {
      holdResponse(ctx, bytes, partnerId)
      usage.count({ partnerId, keyId, status: ctx.status })
      const { usedKeyId, shownPath, trader } = ctx.state as { usedKeyId?: string; shownPath?: string; trader?: string }
      requests.note({
        partnerId,
        requestId,
        startedAt,
        keyId: usedKeyId ?? null,
        operation,
        method: ctx.method,
        path: shownPath ?? ctx.path,
        status: ctx.status,
        error: failure?.code ?? null,
        trader: trader ?? null,
        ms
      })
    }
    const line = {
      requestId,
      trace: ctx.state.trace as string,
      operation,
      partnerId,
      keyId,
      ip: ctx.ip,
      method: ctx.method,
      status: ctx.status,
      ms,
      ...(code ? { error: code } : {})
    }
    if (failure && isFault(failure)) log.error({ ...line, err: failure.cause ?? failure }, 'request failed')
    else access.info(line, 'request')
  }
}

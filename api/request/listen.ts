// The HTTP server under the application: its bounds on slow and oversized requests, and the error envelope for what
// Node refuses before there is a request (malformed HTTP, headers too large, too slow).
import { readFileSync } from 'node:fs'
import type { RequestListener, ServerOptions, ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type Koa from 'koa'
import { http } from '../../db/platform/http.ts'
import type { Log } from '../../db/platform/log.ts'
import { countRequest } from '../../db/platform/metrics.ts'
import { systemErrorText } from '../../db/postgres/system-errors.ts'
import { type Config, ConfigError } from '../../schemas/config/config.ts'
import { ApiError, type ErrorCode } from '../../schemas/errors/errors.ts'
import { envelope, requestIdOf } from './respond.ts'
import { PROTECTION } from './secure.ts'
import type { Stalls } from './stalls.ts'

/** How long a client may take; milliseconds. */
interface Patience {
  /** For the header fields, and for the whole request. */
  headersMs: number
  requestMs: number
  /** Without a byte in either direction, beside the longest wait for an order. */
  idleMs: number
  /** Between two checks of the connections. */
  checkMs: number
}

const usual: Patience = { headersMs: 10_000, requestMs: 30_000, idleMs: 60_000, checkMs: 5_000 }
// Longer than proxies in front keep an idle connection: the side that closes first must not be the one that is about to be sent a request.
const KEPT_MS = 65_000
const MAX_HEADER_BYTES = 16_384

/** A field Upgrade that names this protocol, among others or alone. */
const WEBSOCKET = /(^|,)\s*websocket\s*(,|$)/i

const TOO_SLOW = 'ERR_HTTP_REQUEST_TIMEOUT'

const codes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'HEADERS_TOO_LARGE',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'PAYLOAD_TOO_LARGE',
  [TOO_SLOW]: 'REQUEST_TIMEOUT'
}

/**
 * The server for an application, with TLS where the configuration has a certificate; it does not listen yet. Throws
 * ConfigError when the certificate or its key cannot be used.
 */
export function createListener(
  app: Koa,
  { config, log, stalls }: { config: Config; log: Log; stalls: Pick<Stalls, 'lostMs'> },
  patience = usual
) {
  const handler = app.callback()
  const options: ServerOptions = {
    connectionsCheckingInterval: patience.checkMs,
    keepAliveTimeout: KEPT_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
    // The application refuses a missing Host with the error envelope.
    requireHostHeader: false,
    // Clients that offer other protocols (HTTP/2: Java, curl) work without them: their request is an ordinary one.
    shouldUpgradeCallback: ({ headers }) => WEBSOCKET.test(headers.upgrade ?? '')
  }
  const server = config.tls ? createTls(config.tls, options, handler) : http.createServer(options, handler)
  // Node reads these at each check. Time in which this process did not run is not counted against the client.
  Object.defineProperties(server, {
    headersTimeout: { get: () => patience.headersMs + stalls.lostMs() },
    requestTimeout: { get: () => patience.requestMs + stalls.lostMs() }
  })
  server.maxHeadersCount = 100
  // A client that does not read its response is cut off; one that waits for its settlement receives nothing until then.
  server.timeout = config.orderTtlMs + config.settleWaitMs + patience.idleMs
  // Expectations but 100-continue are ignored, as RFC 9110 allows.
  server.on('checkExpectation', handler)

  // A connection that could not be accepted (no file descriptors left, for example) must not end the process.
  server.once('listening', () =>
    server.on('error', error => log.error({ err: error }, 'a connection was not accepted'))
  )

  const responses = new WeakMap<object, ServerResponse>()
  // One connection may report several errors; its end is arranged once.
  const ending = new WeakSet<object>()
  server.on('request', (request, response) => responses.set(request.socket, response))
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const response = responses.get(socket)
    const pending = response && !response.writableFinished
    if (!socket.writable || error.code === 'ECONNRESET') socket.destroy()
    // A client may open connections in advance and be about to use this one.
    else if (error.code === TOO_SLOW && socket.bytesRead === 0) endUnused(socket, KEPT_MS - patience.headersMs)
    // The malformed bytes follow a complete request, whose response the client reads next.
    else if (pending && response.req.complete) {
      if (!ending.has(socket)) endAfter(response, socket)
      ending.add(socket)
    } else if (pending && response.headersSent) socket.destroy()
    else refuse(socket, new ApiError(codes[error.code ?? ''] ?? 'MALFORMED_REQUEST'), { config, log })
  })
  return server
}

function createTls({ cert, key }: { cert: string; key: string }, options: ServerOptions, handler: RequestListener) {
  const read = (setting: string, file: string) => {
    try {
      return readFileSync(file)
    } catch (cause) {
      throw new ConfigError(`${setting}: ${systemErrorText(cause) ?? 'cannot be read'}`, { cause })
    }
  }
  const pair = { cert: read('TLS_CERT', cert), key: read('TLS_KEY', key) }
  try {
    return createTlsServer({ ...options, ...pair }, handler)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new ConfigError(`TLS_CERT and TLS_KEY are not a certificate and its key (${reason})`, { cause })
  }
}

/** Ends a connection that has received nothing, after the time for which idle connections are kept. */
function endUnused(socket: Socket, ms: number): void {
  const timer = setTimeout(() => socket.bytesRead === 0 && socket.destroy(), ms).unref()
  socket.once('close', () => clearTimeout(timer))
}

/** Ends a connection once the response under way is sent. */
function endAfter(response: ServerResponse, socket: Socket): void {
  if (!response.headersSent) response.setHeader('Connection', 'close')
  response.once('finish', () => socket.destroySoon())
}

function refuse(socket: Socket, error: ApiError, { config, log }: { config: Config; log: Log }): void {
  const requestId = requestIdOf(undefined)
  const body = JSON.stringify(envelope(error, { requestId, baseUrl: config.baseUrl }))
  const headers = {
    ...PROTECTION,
    'Cache-Control': 'no-store',
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': String(Buffer.byteLength(body)),
    'X-Request-Id': requestId,
    Connection: 'close'
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
  socket.write([`HTTP/1.1 ${error.status} ${http.STATUS_CODES[error.status]}`, ...lines, '', body].join('\r\n'))
  socket.destroySoon()
  countRequest({ operation: 'none', status: error.status, code: error.code, seconds: 0 })
  log.info({ requestId, status: error.status, error: error.code }, 'request')
}

// The HTTP server under the application: its bounds on slow and oversized requests, and the error envelope for what
// Node refuses before there is a request (malformed HTTP, headers too large, too slow).
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener, type ServerOptions, type ServerResponse, STATUS_CODES } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { Socket } from 'node:net'
import type Koa from 'koa'
import type { Log } from '../../db/platform/log.ts'
import { countRequest } from '../../db/platform/metrics.ts'
import { systemErrorText } from '../../db/postgres/system-errors.ts'
import { type Config, ConfigError } from '../../schemas/config/config.ts'
import { ApiError, type ErrorCode } from '../../schemas/errors/errors.ts'
import { envelope, requestIdOf } from './respond.ts'
import { PROTECTION } from './secure.ts'

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
const MAX_HEADER_BYTES = 16_384

/** A field Upgrade that names this protocol, among others or alone. */
const WEBSOCKET = /(^|,)\s*websocket\s*(,|$)/i

const codes: Record<string, ErrorCode> = {
  HPE_HEADER_OVERFLOW: 'HEADERS_TOO_LARGE',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'PAYLOAD_TOO_LARGE',
  ERR_HTTP_REQUEST_TIMEOUT: 'REQUEST_TIMEOUT'
}

/**
 * The server for an application, with TLS where the configuration has a certificate; it does not listen yet. Throws
 * ConfigError when the certificate or its key cannot be used.
 */
export function createListener(app: Koa, { config, log }: { config: Config; log: Log }, patience = usual) {
  const handler = app.callback()
  const options: ServerOptions = {
    headersTimeout: patience.headersMs,
    requestTimeout: patience.requestMs,
    connectionsCheckingInterval: patience.checkMs,
    keepAliveTimeout: 65_000,
    maxHeaderSize: MAX_HEADER_BYTES,
    // Refused by the application, with the envelope.
    requireHostHeader: false,
    // Other protocols are offered by clients that do without as well, HTTP/2 by Java's and by curl: their request is an ordinary one.
    shouldUpgradeCallback: ({ headers }) => WEBSOCKET.test(headers.upgrade ?? '')
  }
  const server = config.tls ? createTls(config.tls, options, handler) : createServer(options, handler)
  server.maxHeadersCount = 100
  // A client that does not read its response is cut off; one that waits for its settlement receives nothing until then.
  server.timeout = config.orderTtlMs + config.settleWaitMs + patience.idleMs
  // Expectations but 100-continue are ignored, as RFC 9110 allows.
  server.on('checkExpectation', handler)

  // A connection that could not be accepted, as when there are no file descriptors left, is no reason to end.
  server.once('listening', () =>
    server.on('error', error => log.error({ err: error }, 'a connection was not accepted'))
  )

  const responses = new WeakMap<object, ServerResponse>()
  server.on('request', (request, response) => responses.set(request.socket, response))
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const response = responses.get(socket)
    const inside = response?.headersSent && !response.writableFinished
    if (!socket.writable || inside || error.code === 'ECONNRESET') socket.destroy()
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
    throw new ConfigError(`TLS_CERT and TLS_KEY are no certificate with its key (${reason})`, { cause })
  }
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
  socket.write([`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status]}`, ...lines, '', body].join('\r\n'))
  socket.destroySoon()
  countRequest({ operation: 'none', status: error.status, code: error.code, seconds: 0 })
  log.info({ requestId, status: error.status, error: error.code }, 'request')
}

// The logger: JSON lines on stdout, pretty on a terminal. What could be a secret is cut out by name, so
// that a careless log line cannot leak it.
import pino, { type Logger, type LoggerOptions } from 'pino'

export type Log = Logger

const secrets = [
  'token',
  'key',
  'password',
  'secret',
  'authorization',
  'cookie',
  'sessionToken',
  'apiKey',
  'hash',
  'otp'
]

/** A logger for one process. */
export function openLog({ level, name }: { level: string; name: string }): Log {
  const settings: LoggerOptions = {
    level,
    base: { process: name, pid: process.pid },
    redact: { paths: secrets.flatMap(word => [word, `*.${word}`, `*.*.${word}`]), censor: '[redacted]' },
    serializers: { err: errorLine }
  }
  if (!process.stdout.isTTY) return pino(settings, openOutput())
  const options = { ignore: 'pid,process,hostname', messageFormat: '[{process}] {msg}' }
  return pino({ ...settings, transport: { target: 'pino-pretty', options } })
}

const RETRY_MS = 1000
/** Lines kept for a reader that does not read; those after them are lost. */
const MAX_KEPT_BYTES = 8 * 1024 * 1024
/** How long the end of the process waits for a reader that does not read. */
const LAST_LINES_MS = 1000

/**
 * Standard output. Where it cannot be written, as on a full disk or in a pipe that nobody reads, lines are lost and the process works
 * on: by itself the stream would end it with an unexpected error, keep all lines in memory, and at its exit try for ever to write them.
 */
function openOutput(): ReturnType<typeof pino.destination> {
  let exitBy = Number.POSITIVE_INFINITY
  const options = { maxLength: MAX_KEPT_BYTES, retryEAGAIN: () => performance.now() < exitBy }
  const output = pino.destination({ fd: process.stdout.fd, sync: false, ...options })
  const { write, flushSync } = output
  let failedAt: number | undefined
  output.on('error', () => {
    failedAt = performance.now()
  })
  output.on('write', () => {
    failedAt = undefined
  })
  // Each line tries those before it as well, which are kept: one a second.
  output.write = line => {
    if (failedAt !== undefined && performance.now() < failedAt + RETRY_MS) return false
    return write.call(output, line)
  }
  output.flushSync = () => {
    if (failedAt !== undefined) return
    exitBy = performance.now() + LAST_LINES_MS
    try {
      flushSync.call(output)
    } catch {
      // The pipe was full until then.
    }
  }
  return output
}

// Database errors carry the statement and its parameters in their fields: only name, message, code and
// stack are taken, and the parameters never.
function errorLine(error: unknown): object {
  if (!(error instanceof Error)) {
    // pg-boss emits some errors as plain objects.
    const { message } = (error ?? {}) as { message?: unknown }
    return { message: typeof message === 'string' ? message : String(error) }
  }
  const { code, detail, constraint } = error as { code?: unknown; detail?: unknown; constraint?: unknown }
  // knex puts the statement before ' - '; with bindings it could carry anything.
  const message =
    error.message.includes(' - ') && code !== undefined
      ? error.message.slice(error.message.lastIndexOf(' - ') + 3)
      : error.message
  return {
    type: error.name,
    message,
    stack: error.stack?.split('\n').slice(1).join('\n'),
    ...(code === undefined ? {} : { code }),
    ...(constraint === undefined ? {} : { constraint }),
    ...(detail === undefined ? {} : { detail: '[left out]' }),
    ...(error.cause === undefined ? {} : { cause: errorLine(error.cause) })
  }
}

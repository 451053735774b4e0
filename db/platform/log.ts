// The logger: JSON lines on stdout, pretty on a terminal. What could be a secret is cut out by name, so
// that a careless log line cannot leak it.
import pino, { type Logger } from 'pino'

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
  return pino({
    level,
    base: { process: name, pid: process.pid },
    redact: { paths: secrets.flatMap(word => [word, `*.${word}`, `*.*.${word}`]), censor: '[redacted]' },
    serializers: { err: errorLine },
    ...(process.stdout.isTTY
      ? {
          transport: {
            target: 'pino-pretty',
            options: { ignore: 'pid,process,hostname', messageFormat: '[{process}] {msg}' }
          }
        }
      : {})
  })
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

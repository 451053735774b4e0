// The request's body: JSON, UTF-8, of at most so many bytes as the operation's schema can need, read only after the caller
// is known. Its number of values is counted before it is parsed: parsing 1 MiB of empty objects takes longer than any
// request may hold up the others.
import { isUtf8 } from 'node:buffer'
import type { Context } from 'koa'
import { koaBody } from 'koa-body'
import { invalid } from '../../schemas/checks/validator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { MAX_BODY_BYTES, tooManyValues } from '../../schemas/fields/sizes.ts'

// One reader for each limit; there are as many limits as schemas at most.
const readers = new Map<number, ReturnType<typeof koaBody>>()

function readerOf(limit: number): ReturnType<typeof koaBody> {
  const known = readers.get(limit)
  if (known) return known
  const reader = koaBody({
    text: true,
    textTypes: ['application/json'],
    textLimit: limit,
    json: false,
    urlencoded: false,
    multipart: false,
    includeUnparsed: false,
    parsedMethods: ['POST', 'PUT', 'PATCH', 'DELETE'] as never[]
  })
  readers.set(limit, reader)
  return reader
}

/** Refuses a body that announces more than `limit` bytes, before a byte of it is read. Throws 413. */
export function checkLength(ctx: Context, limit = MAX_BODY_BYTES): void {
  if (Number(ctx.request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit)
}

function tooLarge(limit: number, cause?: unknown): ApiError {
  const message = `The body is larger than the ${limit} bytes this operation takes.`
  return new ApiError('PAYLOAD_TOO_LARGE', message, { cause, headers: { Connection: 'close' } })
}

/** The parsed body of at most `limit` bytes; undefined when there is none. Throws 413, 415, 400 MALFORMED_JSON or VALIDATION_FAILED. */
export async function readBody(ctx: Context, limit: number): Promise<unknown> {
  checkLength(ctx, limit)
  const { headers } = ctx.request
  const empty = headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0'
  if (empty) return undefined
  const type = ctx.request.type.toLowerCase()
  const charset = ctx.request.charset.toLowerCase()
  if (
    type !== 'application/json' ||
    (charset !== '' && charset !== 'utf-8' && charset !== 'utf8') ||
    headers['content-encoding'] !== undefined
  ) {
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE')
  }
  // Decoding replaces invalid UTF-8 by U+FFFD, which would make two traders' ids one: the bytes are checked as well.
  const chunks: Buffer[] = []
  const keep = (chunk: Buffer) => chunks.push(chunk)
  ctx.req.on('data', keep)
  try {
    // Starts reading before the first await, so both listeners get every chunk.
    await readerOf(limit)(ctx as never, async () => {})
  } catch (cause) {
    const { status } = cause as { status?: number }
    if (status === 413) throw tooLarge(limit, cause)
    // An aborted upload has no reader left; the code is for the log.
    throw new ApiError('MALFORMED_JSON', undefined, { cause })
  } finally {
    ctx.req.off('data', keep)
  }
  if (!isUtf8(Buffer.concat(chunks))) throw new ApiError('MALFORMED_JSON', 'The body is not UTF-8.')
  const { body } = ctx.request as { body?: string }
  // A chunked body may be without bytes.
  return body === undefined || body === '' ? undefined : parse(body)
}

/** The value of a JSON text. Throws MALFORMED_JSON, and VALIDATION_FAILED where it holds too many values. */
export function parse(text: string): unknown {
  const message = tooManyValues(text)
  if (message) throw invalid([{ path: '/body', message }])
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new ApiError('MALFORMED_JSON', undefined, { cause })
  }
  // It would become the prototype of what it is copied into.
  if (text.includes('__proto__') || text.includes('\\u')) refusePrototype(value)
  return value
}

function refusePrototype(value: unknown): void {
  const waiting = [value]
  while (waiting.length > 0) {
    const part = waiting.pop()
    if (part === null || typeof part !== 'object') continue
    if (Object.hasOwn(part, '__proto__')) throw new ApiError('MALFORMED_JSON')
    waiting.push(...Object.values(part))
  }
}

// The request's body: JSON, UTF-8, of at most so many bytes as the operation's schema can need, read only after the caller
// is known. Its values are counted as it comes: parsing 1 MiB of empty objects takes longer than any request may hold up
// the others, and reading it fills memory that the collection of garbage then has to walk.
import type { IncomingMessage } from 'node:http'
import type { Context } from 'koa'
import { invalid } from '../../schemas/checks/validator.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import { countValues, MAX_BODY_BYTES } from '../../schemas/fields/sizes.ts'

/** Larger bodies wait for the partner's pace. */
const LARGE_BYTES = 65_536
/** Smaller buffers are not worth freeing one by one. */
const OWN_BYTES = 4096

/** Refuses a body that announces more than `limit` bytes, before a byte of it is read. Throws 413. */
export function checkLength(ctx: Context, limit = MAX_BODY_BYTES): void {
  if (Number(ctx.request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit)
}

function tooLarge(limit: number): ApiError {
  const message = `The body is larger than the ${limit} bytes this operation takes.`
  return new ApiError('PAYLOAD_TOO_LARGE', message)
}

/** The bytes that a request's body has at most: as announced, as received once all of it has come, or `limit`. */
export function mostBytesOf(ctx: Context, limit: number): number {
  return ctx.request.length ?? (ctx.req.complete ? ctx.req.readableLength : limit)
}

/** Whether more of a request's body is to come than is worth reading for the sake of its connection. */
export function hasMuchToCome(ctx: Context): boolean {
  if (ctx.req.complete) return false
  return ctx.request.length === undefined
    ? ctx.request.headers['transfer-encoding'] !== undefined
    : ctx.request.length > LARGE_BYTES
}

/**
 * The bytes of a JSON body, at most `limit`; none when there is no body. Of a large one the rest is read once `mayGoOn` resolves.
 * Throws 413, 415, 400 MALFORMED_JSON, or VALIDATION_FAILED as soon as what has come holds too many values.
 */
export async function readBody(
  ctx: Context,
  limit: number,
  mayGoOn: () => Promise<void>
): Promise<Buffer<ArrayBuffer>> {
  checkLength(ctx, limit)
  const { headers } = ctx.request
  const empty = headers['transfer-encoding'] === undefined && (headers['content-length'] ?? '0') === '0'
  if (empty) return Buffer.alloc(0)
  const type = ctx.request.type.toLowerCase()
  const charset = ctx.request.charset.toLowerCase()
  if (
    type !== 'application/json' ||
    (charset !== '' && charset !== 'utf-8' && charset !== 'utf8') ||
    isEncoded(headers['content-encoding'])
  ) {
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE')
  }
  // A chunked body may be without bytes.
  return receive(ctx.req, limit, mayGoOn)
}

/** Whether a body is compressed. `identity`, which some clients and proxies write out, means that it is not. */
function isEncoded(encodings = ''): boolean {
  return encodings.split(',').some(each => !['', 'identity'].includes(each.trim().toLowerCase()))
}

// Replacing invalid UTF-8 by U+FFFD would make two traders' ids one. A byte order mark is left out.
const utf8 = new TextDecoder('utf-8', { fatal: true })

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw new ApiError('MALFORMED_JSON', 'The body is not UTF-8.', { cause })
  }
}

/**
 * All bytes of a request, at most `limit`, its values counted as they come. After the first LARGE_BYTES it stops reading until
 * `mayGoOn` resolves; what has not been read waits with the client. Throws PAYLOAD_TOO_LARGE, VALIDATION_FAILED, and
 * MALFORMED_JSON for an upload that breaks off.
 */
function receive(request: IncomingMessage, limit: number, mayGoOn: () => Promise<void>): Promise<Buffer<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer<ArrayBuffer>[] = []
    const tooMuchIn = countValues()
    let length = 0
    let ended = false
    const add = (chunk: Buffer<ArrayBuffer>) => {
      const wasSmall = length <= LARGE_BYTES
      length += chunk.length
      chunks.push(chunk)
      if (length > limit) return refuse(tooLarge(limit))
      const message = tooMuchIn(chunk)
      if (message) return refuse(invalid([{ path: '/body', message }]))
      if (wasSmall && length > LARGE_BYTES) pauseUntil(mayGoOn())
    }
    // Nobody is left to read it; the code is for the log.
    const breakOff = (cause?: Error) => refuse(new ApiError('MALFORMED_JSON', undefined, { cause }))
    const finish = () => {
      stop()
      const whole = Buffer.concat(chunks, length)
      for (const chunk of chunks) giveBack(chunk)
      resolve(whole)
    }
    function pauseUntil(allowed: Promise<void>): void {
      request.pause()
      allowed.then(() => !ended && request.resume(), refuse)
    }
    function refuse(error: ApiError): void {
      stop()
      request.pause()
      for (const chunk of chunks) giveBack(chunk)
      reject(error)
    }
    function stop(): void {
      ended = true
      request.off('data', add).off('end', finish).off('error', breakOff).off('close', breakOff)
    }
    request.on('data', add).on('end', finish).on('error', breakOff).on('close', breakOff)
    if (request.destroyed) breakOff()
  })
}

/**
 * Frees the memory of bytes that are not read any more; the buffer is empty afterwards. Left to the garbage collector they stay
 * until its next run, dozens of MB while large bodies arrive, since to V8 each buffer is a small object.
 */
export function giveBack(bytes: Buffer<ArrayBuffer>): void {
  // Small ones share theirs with others.
  if (bytes.length >= OWN_BYTES && bytes.length === bytes.buffer.byteLength) bytes.buffer.transfer(0)
}

/** The value of a JSON text in UTF-8. Throws MALFORMED_JSON. */
export function parse(bytes: Uint8Array): unknown {
  const text = decode(bytes)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    throw new ApiError('MALFORMED_JSON', undefined, { cause })
  }
  // The key __proto__ would become the prototype of the object that it is copied into.
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

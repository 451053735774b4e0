// The request's body: JSON, UTF-8, at most 1 MiB, read only after the caller is known.
import { isUtf8 } from 'node:buffer'
import type { Context } from 'koa'
import { koaBody } from 'koa-body'
import { ApiError } from '../schemas/errors.ts'

const MAX_BYTES = 1024 * 1024

// Refuses a property called __proto__ as well, which would become the prototype of what it is copied into.
const read = koaBody({
  json: true,
  jsonLimit: MAX_BYTES,
  jsonStrict: false,
  text: false,
  urlencoded: false,
  multipart: false,
  includeUnparsed: false,
  parsedMethods: ['POST', 'PUT', 'PATCH', 'DELETE'] as never[]
})

/** Refuses a body that announces more than the limit, before a byte of it is read. Throws 413. */
export function checkLength(ctx: Context): void {
  if (Number(ctx.request.headers['content-length'] ?? 0) > MAX_BYTES)
    throw new ApiError('PAYLOAD_TOO_LARGE', undefined, { headers: { Connection: 'close' } })
}

/** The parsed body; undefined when there is none. Throws 413, 415 or 400 MALFORMED_JSON. */
export async function readBody(ctx: Context): Promise<unknown> {
  checkLength(ctx)
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
  // Decoding puts U+FFFD for what is not UTF-8, which would make two traders' ids one: the bytes are looked at as well.
  const chunks: Buffer[] = []
  const keep = (chunk: Buffer) => chunks.push(chunk)
  ctx.req.on('data', keep)
  try {
    // Begins to read before it waits for anything, so both hear every chunk.
    await read(ctx as never, async () => {})
  } catch (cause) {
    const { status } = cause as { status?: number }
    if (status === 413) throw new ApiError('PAYLOAD_TOO_LARGE', undefined, { cause, headers: { Connection: 'close' } })
    // An aborted upload has no reader left; the code is for the log.
    throw new ApiError('MALFORMED_JSON', undefined, { cause })
  } finally {
    ctx.req.off('data', keep)
  }
  if (!isUtf8(Buffer.concat(chunks))) throw new ApiError('MALFORMED_JSON', 'The body is not UTF-8.')
  const { body } = ctx.request as { body?: unknown }
  // What a chunked body without bytes is read as.
  return body === '' && chunks.length === 0 ? undefined : body
}

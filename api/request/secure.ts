// HTTPS is required where BASE_URL has that scheme: a request that arrived in clear text is refused before anything
// else, and every response carries the headers that keep it from being framed, sniffed or kept.
import type { Context, Next } from 'koa'
import type { Config } from '../../schemas/config/config.ts'
import { ApiError } from '../../schemas/errors/errors.ts'

const ONE_YEAR_SECONDS = 31_536_000

/** The header fields of every response. */
export const PROTECTION = {
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY'
}
const protection = Object.entries(PROTECTION)

/** Throws HTTPS_REQUIRED; our own listener's TLS counts, or a trusted proxy's X-Forwarded-Proto. */
export function secure({ baseUrl }: Config) {
  const required = baseUrl.startsWith('https://')
  return async (ctx: Context, next: Next): Promise<void> => {
    // Straight to Node's response: Koa's way costs several times as much, and every response has these.
    for (const [name, value] of protection) ctx.res.setHeader(name, value)
    const hosts = hostsOf(ctx.req.rawHeaders)
    // With several Host fields, Node takes the first and a proxy in front perhaps another.
    if (hosts.length > 1 || (hosts.length === 0 && ctx.req.httpVersion === '1.1') || !hosts.every(isHost))
      throw new ApiError('MALFORMED_REQUEST', 'Send one Host header, with one name or address and perhaps a port.')
    if (ctx.path.startsWith('/v1/')) ctx.res.setHeader('Cache-Control', 'no-store')
    if (required) {
      if (!isSecure(ctx))
        throw new ApiError('HTTPS_REQUIRED', `Use ${baseUrl}: keys and tokens must not travel in clear text.`)
      ctx.set('Strict-Transport-Security', `max-age=${ONE_YEAR_SECONDS}; includeSubDomains`)
    }
    await next()
  }
}

function hostsOf(rawHeaders: string[]): string[] {
  const hosts: string[] = []
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts.push(rawHeaders[index + 1] as string)
  }
  return hosts
}

// RFC 9110, §7.2: an address in brackets or a name, and perhaps a port. A name might contain a comma; none that is in use does, and
// what joins the fields of a request into one puts commas between their values.
const HOST = /^(?:\[[\w.~!$&'()*+;=:%-]+\]|(?:[\w.~!$&'()*+;=-]|%[\da-f]{2})*)(?::\d*)?$/i
const isHost = (value: string): boolean => HOST.test(value)

// Koa takes the first of several values, which may be the client's own: each must be https.
function isSecure(ctx: Context): boolean {
  if (!ctx.secure) return false
  const forwarded = ctx.app.proxy ? ctx.get('X-Forwarded-Proto') : ''
  return forwarded === '' || forwarded.split(',').every(scheme => scheme.trim() === 'https')
}

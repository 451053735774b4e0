// Deployed sites, at /sites/<tenantSlug>/: static public files from the database, outside /v1. They share an address
// with the API, so they get no script, no form, no frame and nothing from other hosts.
import type { Context, Middleware, Next } from 'koa'
import { findSiteFiles, siteOf } from '../../db/community/templates.ts'
import { batch } from '../../db/postgres/batch.ts'
import { ApiError } from '../../schemas/errors/errors.ts'
import type { ApiServices } from '../operation.ts'
import { isKnown } from '../request/conditional.ts'

const SITE = /^\/sites\/((?:test~)?[a-z0-9][a-z0-9-]{1,30}[a-z0-9])(?:\/([A-Za-z0-9._-]{0,100}))?$/

/** Beside the header fields of every response (request/secure.ts). */
const PROTECTION = {
  'Content-Security-Policy':
    "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), payment=()',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  // A new deployment is seen within a minute; until then, and on a 304, no body travels.
  'Cache-Control': 'public, max-age=60'
}

/** Serves /sites/…; leaves every other path to the next middleware. Throws NOT_FOUND and METHOD_NOT_ALLOWED. */
export function sites({ db }: Pick<ApiServices, 'db'>): Middleware {
  const find = batch((request: { tenantSlug: string; path: string }[]) => findSiteFiles(db, request), { max: 50 })

  return async (ctx: Context, next: Next) => {
    if (ctx.path !== '/sites' && !ctx.path.startsWith('/sites/')) return next()
    ctx.state.operation = 'site'
    const [, tenantSlug, path] = SITE.exec(ctx.path) ?? []
    if (!tenantSlug) throw new ApiError('NOT_FOUND', 'There is no such site.')
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
      throw new ApiError('METHOD_NOT_ALLOWED', 'This path takes GET, HEAD.', { headers: { Allow: 'GET, HEAD' } })
    }
    const file = await find({ tenantSlug, path: path || 'index.html' })
    if (!file) throw new ApiError('NOT_FOUND', 'There is no such page.')
    ctx.set(PROTECTION)
    if (siteOf(tenantSlug).test) ctx.set({ 'Test-Mode': 'true', 'X-Robots-Tag': 'noindex' })
    if (path === undefined) {
      // Without the trailing slash the page's relative links would lead to wrong paths.
      ctx.status = 301
      ctx.set('Location', `/sites/${tenantSlug}/`)
      ctx.body = ''
      return
    }
    ctx.status = 200
    ctx.set('ETag', file.etag)
    ctx.type = file.contentType
    if (isKnown(ctx.get('If-None-Match'), file.etag)) ctx.status = 304
    else ctx.body = file.body
  }
}

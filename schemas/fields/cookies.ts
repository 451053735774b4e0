// Cookies that carry sessions: how they are written, how they are read, and whether a request that brings
// one comes from the same site.
import type { Config } from '../config/config.ts'

/** The partner's session. */
export const PARTNER_COOKIE = 'service_session'
/** A trader's session. */
export const TRADER_COOKIE = 'trader_session'

type CookieConfig = Pick<Config, 'baseUrl' | 'sessionCookieDomain'>

function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost') || hostname === '[::1]' || /^127\./.test(hostname)
}

/**
 * The value of Set-Cookie for a session; without a token, the one that removes it. Secure is left off only
 * when the service is reached over plain HTTP on the machine itself.
 */
export function setCookie(
  name: string,
  session: { token: string; expiresAt: Date } | undefined,
  { baseUrl, sessionCookieDomain }: CookieConfig
): string {
  const { protocol, hostname } = new URL(baseUrl)
  return [
    `${name}=${session?.token ?? ''}`,
    'Path=/',
    `Expires=${(session?.expiresAt ?? new Date(0)).toUTCString()}`,
    ...(sessionCookieDomain ? [`Domain=${sessionCookieDomain.replace(/^\./, '')}`] : []),
    'HttpOnly',
    ...(protocol === 'http:' && isLoopback(hostname) ? [] : ['Secure']),
    'SameSite=Lax'
  ].join('; ')
}

/** The value of a cookie in a Cookie header; the first one of two with the same name. */
export function readCookie(header: string | undefined, name: string): string | undefined {
  for (const part of header?.split(';') ?? []) {
    const at = part.indexOf('=')
    if (at > 0 && part.slice(0, at).trim() === name) return part.slice(at + 1).trim() || undefined
  }
  return undefined
}

/**
 * Whether a request's headers show that a page of another site sent it. Without either header it was no browser. The
 * own site is the requested host, the host of BASE_URL, and the domain the cookie is shared with.
 */
export function isCrossSite(
  request: { origin: string | undefined; fetchSite: string | undefined; hostname: string },
  { baseUrl, sessionCookieDomain }: CookieConfig
): boolean {
  if (request.fetchSite !== undefined && !['same-origin', 'same-site', 'none'].includes(request.fetchSite)) return true
  if (request.origin === undefined) return false
  const origin = URL.parse(request.origin)
  const base = new URL(baseUrl)
  // 'null' is the origin of a page that hides where it comes from.
  if (!origin || !['http:', 'https:'].includes(origin.protocol)) return true
  if (base.protocol === 'https:' && origin.protocol !== 'https:') return true
  const domain = sessionCookieDomain?.replace(/^\./, '').toLowerCase()
  const own = [request.hostname.toLowerCase(), base.hostname, ...(domain ? [domain] : [])]
  return !own.includes(origin.hostname) && !(domain && origin.hostname.endsWith(`.${domain}`))
}

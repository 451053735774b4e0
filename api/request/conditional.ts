// Conditional requests: whether the caller has a file already.

/**
 * Whether an If-None-Match names the file; a proxy that compresses makes its tag a weak one. Koa's own check gives way to a no-cache
 * of the caller's, which fetch() adds to every conditional request.
 */
export function isKnown(ifNoneMatch: string, etag: string): boolean {
  return ifNoneMatch.split(',').some(known => ['*', etag, `W/${etag}`].includes(known.trim()))
}

import type { IncomingMessage } from 'node:http'

const ROOT = 'http://localhost/'

/** The address that a request names, on a host of no meaning; the root for one that is none, as `//` is. */
export function addressOf({ url }: Pick<IncomingMessage, 'url'>): URL {
  return URL.parse(url ?? '/', ROOT) ?? new URL(ROOT)
}

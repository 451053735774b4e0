// Which URLs a webhook may have. Names are judged again at each connection, by the addresses they have then.
import { isIP } from 'node:net'
import { isPublicAddress } from './public-address.ts'

/** What is wrong with a webhook's URL, in words that follow its name; undefined for a good one. */
export function urlFault(text: string, allowPrivate: boolean): string | undefined {
  const url = URL.parse(text)
  if (!url) return 'is not a URL'
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:')) return 'must begin with https://'
  if (url.username !== '' || url.password !== '') return 'must not carry a user name or password'
  if (url.hash !== '') return 'must not have a fragment'
  if (allowPrivate) return undefined
  // The URL parser has written every form of an address (octal, hexadecimal, short) in its usual one.
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
  if (isIP(host) !== 0 && !isPublicAddress(host)) return 'must have a public address'
  if (host === 'localhost' || host.endsWith('.localhost')) return 'must have a public address'
  return undefined
}

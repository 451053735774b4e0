// Webhooks: whether a request was signed with your secret (Standard Webhooks), by WebCrypto.
import type { Schemas } from './types.ts'

/** A request that failed verification; `message` is the reason. Respond with a 400. */
export class WebhookRefused extends Error {
  override readonly name = 'WebhookRefused'
}

const TOLERANCE_SECONDS = 300
const bytesOf = (base64: string) => Uint8Array.from(atob(base64), character => character.charCodeAt(0))

/**
 * The event of a webhook's request. `body` is the text as it arrived; `secrets` are those of the endpoint, two of them while
 * you rotate. Throws WebhookRefused for a wrong signature, or a timestamp more than five minutes off.
 */
export async function verifyWebhook(
  body: string,
  headers: Headers | Record<string, string | string[] | undefined>,
  ...secrets: string[]
): Promise<Schemas['Event']> {
  // Names in any case: a proxy may write them as Webhook-Id. Headers also of a package that brings its own class.
  const pairs = Symbol.iterator in headers ? [...(headers as Headers)] : Object.entries(headers)
  const fields = new Map(pairs.map(([name, value]) => [name.toLowerCase(), String(value ?? '')]))
  const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map(name => fields.get(`webhook-${name}`))
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp || Number.NaN)) <= TOLERANCE_SECONDS))
    throw new WebhookRefused('The webhook-timestamp is missing, or more than five minutes off.')
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`)
  const given = [...String(signature).matchAll(/\bv1,([A-Za-z0-9+/]{43}=)/g)].map(each => bytesOf(each[1] as string))
  for (const secret of secrets) {
    const raw = bytesOf(secret.replace(/^whsec_/, ''))
    const key = await crypto.subtle.importKey('raw', raw, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
    // Compares in constant time.
    for (const each of given) if (await crypto.subtle.verify('HMAC', key, each, signed)) return JSON.parse(body)
  }
  throw new WebhookRefused('No webhook-signature is that of this body under the given secrets.')
}

// Standard Webhooks: secrets, and the signature of a request. With node:crypto, since the package `standardwebhooks`, with which tests
// verify, takes 25 times as long.
import { createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'

const SECRET_BYTES = 32
const PREFIX = 'whsec_'

/** A new secret: `whsec_` and 32 random bytes in base64. */
export const newWebhookSecret = (): string => PREFIX + randomBytes(SECRET_BYTES).toString('base64')

/** The key of a secret's text; made once, since making one costs more than a signature. Throws on a text that is no secret. */
export function signingKey(secret: string): KeyObject {
  if (!secret.startsWith(PREFIX)) throw new Error('A webhook secret begins with whsec_.')
  return createSecretKey(secret.slice(PREFIX.length), 'base64')
}

/**
 * The three headers of a request: its id, the instant in seconds since the epoch, and a signature with each key, the newest key
 * first.
 */
export function signedHeaders(
  keys: readonly KeyObject[],
  { id, body, atMs }: { id: string; body: string; atMs: number }
): { 'webhook-id': string; 'webhook-timestamp': string; 'webhook-signature': string } {
  const timestamp = String(Math.floor(atMs / 1000))
  const signatures = keys.map(
    key => `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`
  )
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures.join(' ') }
}

// The keys that sign the requests to an endpoint.
import type { KeyObject } from 'node:crypto'
import type { Vault } from '../../db/platform/crypto.ts'
import { secretContext } from '../../db/webhooks/endpoints.ts'
import { signingKey } from '../../db/webhooks/sign.ts'

interface SealedKeys {
  secret_key_id: string
  secret_sealed: Buffer
  old_key_id: string | null
  old_sealed: Buffer | null
  old_ms: number | null
}

/** The newest key first, and until when each signs (ms, monotonic). Throws when a secret cannot be decrypted. */
export function keysOf(
  vault: Vault,
  webhookId: string,
  { secret_key_id, secret_sealed, old_key_id, old_sealed, old_ms }: SealedKeys,
  now: number
): { key: KeyObject; until: number }[] {
  const open = (keyId: string, sealed: Buffer) => signingKey(vault.open({ keyId, sealed }, secretContext(webhookId)))
  const keys = [{ key: open(secret_key_id, secret_sealed), until: Number.POSITIVE_INFINITY }]
  if (old_key_id && old_sealed && old_ms !== null && old_ms > 0)
    keys.push({ key: open(old_key_id, old_sealed), until: now + old_ms })
  return keys
}

// What is known of keys from their last requests, so that an order, or GET /v1/me, costs no read before the statement that does
// its work. Nothing is decided on it alone: that statement stores and returns nothing unless all of it still holds
// (db/orders/storing.ts, db/partners/keys.ts), and every other end of such a request is sent only after the key was read again
// (proof.ts).
import type { KeyCaller } from '../../db/partners/keys.ts'

// An entry takes 2 kB at most: 8 MB for as many keys as are in use at a time.
const MAX_KEYS = 4000
const MAX_AGE_MS = 60_000

/** A key as it came with a request: its hash, not its secret. */
interface PresentedKey {
  lookup: string
  hash: Buffer
}

export interface KnownKeys {
  /** What the key's last read returned, unless that is too old. Only a request with the same secret gets it. */
  recall(key: PresentedKey): KeyCaller | undefined
  /** Keeps what was read of a key that is good. */
  remember(key: PresentedKey, caller: KeyCaller): void
  forget(key: PresentedKey): void
}

/** The same bytes in memory of their own: a buffer that the driver read keeps 8 kB of its pool from being freed. */
const alone = (bytes: Buffer): Buffer => {
  const copy = Buffer.allocUnsafeSlow(bytes.length)
  bytes.copy(copy)
  return copy
}

const nameOf = ({ lookup, hash }: PresentedKey) => `${lookup} ${hash.toString('base64')}`

/** The known keys of one process. */
export function openKnownKeys({ maxKeys = MAX_KEYS, maxAgeMs = MAX_AGE_MS } = {}): KnownKeys {
  // In the order of their expiry, as all live equally long.
  const known = new Map<string, { caller: KeyCaller; until: number }>()

  function dropOld(): void {
    const now = performance.now()
    for (const [name, { until }] of known) {
      if (until > now && known.size <= maxKeys) break
      known.delete(name)
    }
  }

  return {
    recall(key) {
      const found = known.get(nameOf(key))
      return found && found.until > performance.now() ? found.caller : undefined
    },
    remember(key, caller) {
      const name = nameOf(key)
      known.delete(name)
      known.set(name, { caller: { ...caller, hash: alone(caller.hash) }, until: performance.now() + maxAgeMs })
      dropOld()
    },
    forget: key => void known.delete(nameOf(key))
  }
}

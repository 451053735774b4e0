// The Idempotency-Keys of the requests that run in this process (idempotency.ts takes and frees them).
import { type HeldKey, holdOnToKeys, LEASE_SECONDS } from '../../db/platform/idempotency.ts'
import type { Log } from '../../db/platform/log.ts'
import type { Db } from '../../db/postgres/connection.ts'

// Four renewals per lease: a key survives one or two that are late.
const HOLD_ON_MS = (LEASE_SECONDS * 1000) / 4
// Keys in one statement.
const HELD_AT_ONCE = 500

/** The keys of the requests that run in this process. */
export interface HeldKeys {
  /** Holds on to a key until the returned function is called. */
  hold(held: HeldKey): () => void
  close(): void
}

/** Renews the leases of keys whose requests run in this process, however long they run; the leases of a process that died expire. */
export function openHeldKeys({ db, log }: { db: Db; log: Log }): HeldKeys {
  const running = new Set<HeldKey>()
  let writing = false

  async function holdOn(): Promise<void> {
    const all = [...running]
    for (let from = 0; from < all.length; from += HELD_AT_ONCE)
      await holdOnToKeys(db, all.slice(from, from + HELD_AT_ONCE))
  }

  const timer = setInterval(() => {
    if (writing || running.size === 0) return
    writing = true
    holdOn()
      .catch((error: unknown) => log.warn({ err: error }, 'idempotency keys could not be held on to'))
      .finally(() => {
        writing = false
      })
  }, HOLD_ON_MS)
  timer.unref()
  return {
    hold(held) {
      running.add(held)
      return () => void running.delete(held)
    },
    close: () => clearInterval(timer)
  }
}
